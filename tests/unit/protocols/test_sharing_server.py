"""What we answer for Skill Sharing: every skill described, none twice, none to whom it is hidden."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.catalogs import make_skill
from tests.unit.protocols.sharing_samples import DESCRIPTOR

from skillwire.errors import NotFoundError, UsageError
from skillwire.folder.publish import PreparedSkill, prepare
from skillwire.model.access import ANONYMOUS, Access, Principal
from skillwire.model.catalog import Catalog
from skillwire.model.digest import Digest
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing import WELL_KNOWN, descriptor_path
from skillwire.protocols.skill_sharing.codec import decode_descriptor, decode_index
from skillwire.protocols.skill_sharing.errors import encode_error
from skillwire.protocols.skill_sharing.judge import lint_sharing
from skillwire.protocols.skill_sharing.messages import AuthConfig, AuthType, CapabilityType, SkillDescriptor
from skillwire.protocols.skill_sharing.server import Sharing
from skillwire.protocols.skill_sharing.validation import validate
from skillwire.trust.address import AddressPolicy

BASE = "https://skills.example.com"
URL = BASE + WELL_KNOWN
API_KEY = AuthConfig(type=AuthType.API_KEY, header="X-API-Key")
SKILLS = st.dictionaries(
    st.from_regex(r"[a-z]{1,8}", fullmatch=True),
    st.tuples(st.sampled_from(sorted(CapabilityType)), st.sampled_from(sorted(Access))),
    max_size=12,
)
PRINCIPALS = st.one_of(st.none(), st.frozensets(st.from_regex(r"[a-z]{1,8}", fullmatch=True), max_size=6))


def catalog_of(drawn):
    return Catalog.of(make_skill(name, capability_type=kind, access=access) for name, (kind, access) in drawn.items())


@pytest.mark.spec("SSP-filter", "SSP-access-in-discovery")
@given(SKILLS, st.one_of(st.none(), st.sampled_from(sorted(CapabilityType))), PRINCIPALS)
def test_index_holds_what_the_audience_may_see_of_the_type_that_was_asked_for(drawn, wanted, granted):
    principal = ANONYMOUS if granted is None else Principal("someone", granted)
    sharing = Sharing(catalog_of(drawn).visible_to(principal).skills, "example-corp", BASE)
    index = decode_index(sharing.index(wanted), URL)
    expected = {
        f"acme/{name}"
        for name, (kind, access) in drawn.items()
        if (access != "private" or name in principal.grants) and wanted in {None, kind}
    }
    assert set(index.entries) == expected
    assert not index.findings
    assert decode_index(sharing.listing(wanted), URL).entries == index.entries


@pytest.mark.spec("SSP-access-in-discovery")
@pytest.mark.parametrize(
    ("access", "granted", "listed", "usable"),
    [
        ("public", None, True, True),
        ("public", False, True, True),
        ("public", True, True, True),
        ("restricted", None, True, False),
        ("restricted", False, True, False),
        ("restricted", True, True, True),
        ("private", None, False, False),
        ("private", False, False, False),
        ("private", True, True, True),
    ],
)
def test_who_sees_and_who_uses(access, granted, listed, usable):
    catalog = Catalog.of([make_skill("one", access=Access(access))])
    principal = ANONYMOUS if granted is None else Principal("someone", frozenset({"one"} if granted else ()))
    assert ("one" in catalog.visible_to(principal).skills) is listed
    assert ("one" in catalog.usable_by(principal).skills) is usable


def test_grant_of_everything():
    catalog = Catalog.of([make_skill("one", access=Access.PRIVATE)])
    assert catalog.usable_by(Principal("admin", frozenset({"*"}))) is catalog


class TestDescriptors:
    def described(self, tmp_path, files, name="demo", auth=API_KEY):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Does it.\n---\n# Do\n")
        for path, text in files.items():
            (folder / path).write_text(text)
        prepared = prepare(folder, "example-corp", judges=[lint_sharing])
        assert isinstance(prepared, PreparedSkill)
        skill = prepared.skill
        return skill, Sharing({name: skill}, "example-corp", BASE, auth).describe(name)

    @pytest.mark.spec("SSP-every-skill")
    def test_instruction_is_knowledge_and_its_artifact_the_endpoint(self, tmp_path):
        skill, described = self.described(tmp_path, {})
        document = msgspec.to_builtins(described)
        assert validate(document).valid
        assert document["endpoint"] == {
            "url": f"{BASE}/.well-known/agent-skills/sha256/{skill.artifact.digest.hex}.md",
            "method": "GET",
        }
        assert (document["capability_type"], document["auth"], document["access"]) == (
            "knowledge",
            {"type": "none"},
            "public",
        )
        assert (document["id"], document["inputs"]) == ("example-corp/demo", [])
        assert document["output"]["content_type"] == "text/markdown"
        self.read_back(described)

    def test_action_is_invoked_here(self, tmp_path):
        toml = """
access = "restricted"
[runtime]
language = "python"
entrypoint = "main.py"
[inputs.days]
type = "integer"
description = "How many."
default = 7
[endpoint]
timeout_ms = 5000
[endpoint.retry]
max_attempts = 2
"""
        _, described = self.described(tmp_path, {"skill.toml": toml, "main.py": "def main(args): ...\n"})
        document = msgspec.to_builtins(described)
        assert validate(document).valid
        assert document["endpoint"] == {
            "url": f"{BASE}/skills/demo/executions",
            "method": "POST",
            "content_type": "application/json",
            "status_url": BASE + "/executions/{execution_id}",
            "result_url": BASE + "/executions/{execution_id}/result",
            "timeout_ms": 5000,
            "retry": {"max_attempts": 2, "backoff_ms": 0},
        }
        days = {"name": "days", "type": "integer", "description": "How many.", "required": False, "default": 7}
        assert document["inputs"] == [days]
        assert (document["auth"], document["access"]) == ({"type": "api_key", "header": "X-API-Key"}, "restricted")
        self.read_back(described)

    def read_back(self, described):
        text = msgspec.json.encode(described)
        policy = AddressPolicy().naming(parse_url(BASE))
        assert decode_descriptor(text, f"{BASE}{descriptor_path('demo')}", addresses=policy) == described

    def test_descriptor_of_the_folder_is_served_as_it_is(self, tmp_path):
        skill, described = self.described(tmp_path, {"descriptor.json": json.dumps(DESCRIPTOR)})
        assert isinstance(described, Digest)
        assert described == skill.sharing.descriptor
        (entry,) = decode_index(Sharing({"demo": skill}, "example-corp", BASE).index(), URL).entries.values()
        assert (entry.id, entry.name, entry.version) == tuple(DESCRIPTOR[key] for key in ("id", "name", "version"))

    @pytest.mark.parametrize("name", ["absent", "../x", ""])
    def test_unknown_one_is_not_found(self, name):
        with pytest.raises(NotFoundError):
            Sharing({}, "p", BASE).describe(name)

    def test_types_of_messages_are_all_given(self, tmp_path):
        _, described = self.described(tmp_path, {})
        assert isinstance(described, SkillDescriptor)


@pytest.mark.parametrize("wanted", ["", "API", "exec", "api,task", "\x00"])
def test_type_that_is_none_is_refused(wanted):
    with pytest.raises(UsageError) as caught:
        Sharing({}, "p", BASE).index(wanted)
    assert caught.value.code == "CAPABILITY_TYPE"
    (violation,) = json.loads(encode_error(caught.value)[1])["error"]["details"]
    assert violation["expected"] == ["plugin", "api", "knowledge", "task"]
