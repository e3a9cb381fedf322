"""Descriptions and files of skills: what a folder says, what its audience may know, and nothing from outside of it."""

import base64
import json
import re
from typing import Any

import msgspec
import pytest
from tests.support.catalogs import make_catalog, make_skill
from tests.support.rpc import call_rpc, publish

from skillwire import limits
from skillwire.errors import NotFoundError, SourceLocation, StorageError, TrustError, UsageError, ValidationError
from skillwire.folder.load import check_folder
from skillwire.model.access import ANONYMOUS, Principal
from skillwire.model.digest import Digest
from skillwire.model.skill import Identifiers, SkillFile
from skillwire.protocols.skills_rpc import server as module
from skillwire.protocols.skills_rpc.codec import Call, decode, decode_params, params_type
from skillwire.protocols.skills_rpc.errors import ERRORS
from skillwire.protocols.skills_rpc.messages import METHODS, ListSkills, RunResult
from skillwire.protocols.skills_rpc.server import (
    GUIDE,
    SkillIndex,
    SkillsRpc,
    decode_list_cursor,
    dotted_name,
    encode_list_cursor,
    list_entry,
    load_guide,
    namespace_of,
)

PICTURE = b"\x89PNG\r\n\x1a\n\x00\xff\xfe"
TOML = """
name = "salesforce.leads.sync"
version = "1.2.0"
description = "Syncs leads."
kind = "action"
namespace = "salesforce"
tags = ["crm"]
[runtime]
language = "python"
entrypoint = "code/main.py"
[inputs.env]
type = "string"
description = "Which Salesforce env"
required = true
[permissions]
network = ["https://*.salesforce.com"]
"""


@pytest.fixture(scope="module")
def published():
    return publish(
        leads_sync={
            "skill.toml": TOML,
            "code/main.py": "def main(args): ...\n",
            "resources/schema.json": '{"type": "object"}',
            "assets/logo.png": PICTURE,
            "resources/üml äut.md": "ü\r\n\u2603",
            "empty.txt": "",
        },
        plain={},
        opened={"skill.toml": 'access = "restricted"\n[inputs.a]\ntype = "blob"\ndescription = "A file"\n'},
        hidden={"skill.toml": 'access = "private"\nname = "acme.secret"\n', "notes.md": "secret"},
    )


@pytest.fixture(scope="module")
def rpc(published):
    return published.rpc()


def describe(rpc, name, **params):
    return call_rpc(rpc, "describe_skill", name=name, **params)["skill"]


def read(rpc, name, path, **params):
    return call_rpc(rpc, "read_skill_file", name=name, path=path, **params)


@pytest.mark.spec("SKP-manifest", "SKP-describe")
def test_the_manifest_is_the_parsed_skill_toml(rpc):
    described = describe(rpc, "salesforce.leads.sync", detail="manifest")
    assert {key: value for key, value in described.items() if key not in {"artifact_type", "digest"}} == {
        "manifest": {
            "name": "salesforce.leads.sync",
            "version": "1.2.0",
            "description": "Syncs leads.",
            "kind": "action",
            "namespace": "salesforce",
            "tags": ["crm"],
            "runtime": {"language": "python", "entrypoint": "code/main.py"},
            "inputs": {"env": {"type": "string", "description": "Which Salesforce env", "required": True}},
            "permissions": {"network": ["https://*.salesforce.com"]},
        }
    }


@pytest.mark.spec("SKP-manifest-defaults")
def test_a_folder_without_a_skill_toml_has_the_defaults_in_the_same_shape(rpc):
    assert describe(rpc, "acme.plain", detail="manifest")["manifest"] == {
        "name": "acme.plain",
        "version": "0.1.0",
        "description": "Does plain.",
        "kind": "instruction",
        "namespace": "acme",
        "tags": [],
    }


@pytest.mark.spec("SKP-manifest-defaults")
def test_what_a_skill_toml_does_not_say_has_its_default_beside_what_it_says(rpc):
    manifest = describe(rpc, "acme.opened", detail="manifest")["manifest"]
    assert list(manifest)[:6] == ["name", "version", "description", "kind", "namespace", "tags"]
    assert (manifest["name"], manifest["kind"], manifest["access"]) == ("acme.opened", "instruction", "restricted")


def test_dates_of_toml_are_told_as_text():
    files = {"skill.toml": 'output = {content_type = "a/b", since = 2026-01-02, at = 2026-01-02T03:04:05Z}'}
    output = describe(publish(dated=files).rpc(), "acme.dated")["manifest"]["output"]
    assert output == {"content_type": "a/b", "since": "2026-01-02", "at": "2026-01-02T03:04:05Z"}


@pytest.mark.spec("SKP-describe")
def test_detail_says_how_much_is_told_and_summary_is_the_default(rpc):
    summary = describe(rpc, "acme.plain")
    assert summary == describe(rpc, "acme.plain", detail="summary")
    assert summary["skill_md_frontmatter"] == {"name": "plain", "description": "Does plain."}
    assert "skill_md_content" not in summary
    full = describe(rpc, "acme.plain", detail="full")
    assert full["skill_md_content"] == "---\nname: plain\ndescription: Does plain.\n---\nDo it.\n"
    assert full == {**summary, "skill_md_content": full["skill_md_content"]}


@pytest.mark.spec("SKP-describe-version")
def test_the_latest_version_is_described_and_another_one_is_not_there(rpc):
    for version in (None, "latest", "1.2.0"):
        assert describe(rpc, "salesforce.leads.sync", version=version)["manifest"]["version"] == "1.2.0"
        assert "content" in read(rpc, "salesforce.leads.sync", "SKILL.md", version=version)
    for version in ("1.2", "1.2.1", "", "LATEST", "x" * 1000):
        for method, more in (("describe_skill", {}), ("read_skill_file", {"path": "SKILL.md"})):
            with pytest.raises(NotFoundError) as caught:
                call_rpc(rpc, method, name="salesforce.leads.sync", version=version, **more)
            assert caught.value.code == "SKILL_NOT_FOUND"
            assert "1.2.0" in (caught.value.fix or "")
            assert len(caught.value.message) < 200


@pytest.mark.parametrize("name", ["acme.none", "", "plain", "ACME.plain", "acme.plain.", "acme.plain/../x", "x" * 5000])
def test_a_name_that_is_not_there_is_told_shortly(rpc, name):
    for method, more in (("describe_skill", {}), ("read_skill_file", {"path": "SKILL.md"})):
        with pytest.raises(NotFoundError) as caught:
            call_rpc(rpc, method, name=name, **more)
        assert caught.value.code == "SKILL_NOT_FOUND"
        assert len(caught.value.message) < 200


def test_who_asks_by_the_name_of_another_protocol_is_told_the_name_here(rpc, published):
    with pytest.raises(NotFoundError) as caught:
        describe(rpc, "leads-sync")
    assert caught.value.fix == "Its name here is salesforce.leads.sync."
    with pytest.raises(NotFoundError) as caught:  # and not of one that it may not know of
        describe(published.rpc(ANONYMOUS), "hidden")
    assert "acme.secret" not in (caught.value.fix or "")


@pytest.mark.spec("SKP-read")
@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("code/main.py", "def main(args): ...\n"),
        ("resources/schema.json", '{"type": "object"}'),
        ("resources/üml äut.md", "ü\r\n\u2603"),
        ("empty.txt", ""),
        ("skill.toml", TOML),
    ],
)
def test_any_file_is_read_as_it_is(rpc, path, content):
    assert read(rpc, "salesforce.leads.sync", path) == {"content": content}
    encoded = read(rpc, "salesforce.leads.sync", path, encoding="base64")
    assert encoded == {"content": base64.b64encode(content.encode()).decode(), "encoding": "base64"}


@pytest.mark.spec("SKP-read-base64")
def test_a_file_that_is_no_text_is_read_in_base64_alone(rpc):
    told = read(rpc, "salesforce.leads.sync", "assets/logo.png", encoding="base64")
    assert base64.b64decode(told["content"]) == PICTURE
    with pytest.raises(ValidationError) as caught:
        read(rpc, "salesforce.leads.sync", "assets/logo.png")
    assert caught.value.code == "ENCODING"
    assert caught.value.fix == 'Request it with "encoding": "base64".'


@pytest.mark.spec("SKP-read-missing")
@pytest.mark.parametrize("path", ["none.md", "skill.md", "code", "code/main.pyc", "SKILL.md/x", "resources/schema"])
def test_a_file_that_is_not_there_is_not_found(rpc, path):
    with pytest.raises(NotFoundError) as caught:
        read(rpc, "salesforce.leads.sync", path)
    assert caught.value.code == "FILE_NOT_FOUND"


@pytest.mark.spec("SKP-read-bounded")
def test_a_file_that_is_too_large_for_an_answer_is_told_where_it_is_downloaded(published):
    skill = published.catalog.skills["plain"]
    large = SkillFile("data.csv", limits.RPC_FILE_BYTES + 1, skill.files[0].digest)
    rpc = SkillsRpc(SkillIndex({"plain": skill._replace(files=(*skill.files, large))}), {"plain"}, lambda _: b"")
    with pytest.raises(ValidationError) as caught:
        read(rpc, "acme.plain", "data.csv")
    assert caught.value.code == "LIMIT_SIZE"
    assert "GET /.well-known/agent-skills/plain/data.csv" in (caught.value.fix or "")


def test_bytes_that_are_lost_are_a_fault_of_the_server(published):
    rpc = SkillsRpc(SkillIndex(published.catalog.skills), published.catalog.skills, lambda _: None)
    for method, more in (("describe_skill", {}), ("read_skill_file", {"path": "SKILL.md"})):
        with pytest.raises(StorageError):
            call_rpc(rpc, method, name="acme.plain", **more)


@pytest.mark.spec("SKP-access")
def test_what_is_hidden_is_not_there_and_its_cursor_tells_nothing(published):
    stranger = published.rpc(ANONYMOUS)
    listed = call_rpc(stranger, "list_skills", detail="summary", namespace="acme")
    assert [skill["name"] for skill in listed["skills"]] == ["acme.opened", "acme.plain"]
    errors = []
    for name in ("acme.secret", "acme.secrex"):
        for method, more in (("describe_skill", {}), ("read_skill_file", {"path": "notes.md"})):
            with pytest.raises(NotFoundError) as caught:
                call_rpc(stranger, method, name=name, **more)
            errors.append((method, caught.value.message.replace("secrex", "secret"), caught.value.fix))
    assert errors[:2] == errors[2:]
    friend = published.rpc(Principal("friend", frozenset({"hidden"})))
    assert read(friend, "acme.secret", "notes.md") == {"content": "secret"}


@pytest.mark.spec("SKP-access")
def test_what_may_be_known_and_not_used_is_described_by_the_catalog_and_not_read(published):
    stranger = published.rpc(ANONYMOUS)
    told = describe(stranger, "acme.opened")
    assert told == {
        "manifest": {
            "name": "acme.opened",
            "version": "0.1.0",
            "description": "Does opened.",
            "kind": "instruction",
            "namespace": "acme",
            "tags": [],
            "access": "restricted",
            "inputs": {"a": {"type": "string", "description": "A file", "required": False}},
        },
        "skill_md_frontmatter": {"name": "opened", "description": "Does opened."},
    }
    assert describe(stranger, "acme.opened", detail="manifest") == {"manifest": told["manifest"]}
    for method, more in (("describe_skill", {"detail": "full"}), ("read_skill_file", {"path": "SKILL.md"})):
        with pytest.raises(TrustError) as caught:
            call_rpc(stranger, method, name="acme.opened", **more)
        assert caught.value.code == "PERMISSION_DENIED"
    with pytest.raises(TrustError) as caught:  # which files there are is not told, either
        read(stranger, "acme.opened", "none.md")
    assert caught.value.code == "PERMISSION_DENIED"
    friend = published.rpc(Principal("friend", frozenset({"opened"})))
    assert describe(friend, "acme.opened")["manifest"]["inputs"]["a"]["type"] == "blob"
    assert "Do it." in read(friend, "acme.opened", "SKILL.md")["content"]


@pytest.mark.spec("SKP-guide")
def test_the_guide_is_there_by_its_name_and_in_no_list(rpc):
    told = describe(rpc, "skills.protocol.guide", detail="full")
    assert (told["manifest"]["name"], told["manifest"]["version"]) == ("skills.protocol.guide", "0.1.0")
    assert told["manifest"]["kind"] == "instruction"
    content = call_rpc(rpc, "load_skills_protocol_guide")["content"]
    assert content == told["skill_md_content"] == read(rpc, "skills.protocol.guide", "SKILL.md")["content"]
    assert "skills.protocol.guide" not in json.dumps(call_rpc(rpc, "list_skills"))
    with pytest.raises(NotFoundError):
        describe(rpc, "skills.protocol.guide", version="0.2.0")
    with pytest.raises(NotFoundError):
        read(rpc, "skills.protocol.guide", "server.py")


@pytest.mark.spec("SKP-guide")
def test_a_published_guide_takes_its_place_for_those_who_may_use_it():
    own = publish(own_guide={"skill.toml": 'name = "skills.protocol.guide"\nversion = "9.0.0"\naccess = "restricted"'})
    everyone = own.rpc()
    assert "own-guide" in call_rpc(everyone, "load_skills_protocol_guide")["content"]
    assert describe(everyone, "skills.protocol.guide")["manifest"]["version"] == "9.0.0"
    stranger = own.rpc(ANONYMOUS)
    assert "skills-protocol-guide" in call_rpc(stranger, "load_skills_protocol_guide")["content"]


def named(dotted, namespace="", **more):
    """Return a skill of a dotted name; the name in the catalog says nothing about it."""
    skill = make_skill(f"s-{dotted[::-1].replace('.', '-')}", **more)
    return skill._replace(identifiers=Identifiers("a/b", "c", dotted, namespace))


def index_of(*dotted):
    return SkillIndex(make_catalog(*map(named, dotted)).skills)


def page(index, **asked):
    return json.loads(index.page(ListSkills(**asked)))


def names(found):
    return [skill["name"] for skill in found["skills"]]


def walk(index, **asked):
    found, cursor = [], None
    while True:
        told = page(index, cursor=cursor, **asked)
        assert len(told["skills"]) <= asked.get("limit", 50)
        found += names(told)
        cursor = told["next_cursor"]
        if cursor is None:
            return found


@pytest.mark.spec("SKP-list", "SKP-list-order")
def test_a_list_has_name_and_version_in_the_order_of_the_names():
    index = index_of("salesforce.leads.sync", "gdrive.files.read", "salesforce.contacts.export")
    assert page(index) == {
        "skills": [
            {"name": "gdrive.files.read", "version": "1.0.0"},
            {"name": "salesforce.contacts.export", "version": "1.0.0"},
            {"name": "salesforce.leads.sync", "version": "1.0.0"},
        ],
        "next_cursor": None,
    }


@pytest.mark.spec("SKP-list")
def test_a_summary_says_also_description_namespace_and_kind():
    skill = named("salesforce.leads.sync", "salesforce", kind="action")._replace(description='Says "ü".')
    told = page(SkillIndex(make_catalog(skill).skills), detail="summary")
    assert told["skills"] == [
        {
            "name": "salesforce.leads.sync",
            "version": "1.0.0",
            "description": 'Says "ü".',
            "namespace": "salesforce",
            "kind": "action",
        }
    ]


def test_a_namespace_that_the_skill_does_not_say_is_the_first_part_of_its_name():
    assert namespace_of(named("a.b.c")) == "a"
    assert namespace_of(named("a.b.c", "a.b")) == "a.b"
    without = make_skill("pdf-forms", publisher="Ex-Corp")._replace(identifiers=None)
    assert dotted_name(without) == "ex.corp.pdf.forms"
    assert list_entry(without).namespace == "ex"


@pytest.mark.spec("SKP-list-namespace")
@pytest.mark.parametrize(
    ("namespace", "found"),
    [
        (None, ["a", "a.b", "a.b.c", "a.bb", "a0.x", "ab.c", "b"]),
        ("", ["a", "a.b", "a.b.c", "a.bb", "a0.x", "ab.c", "b"]),
        ("a", ["a.b", "a.b.c", "a.bb"]),
        ("a.b", ["a.b.c"]),
        ("a.b.c", []),
        ("ab", ["ab.c"]),
        ("A", []),
        ("a.", []),
        ("zzz", []),
        ("a/../..", []),
    ],
)
def test_a_namespace_holds_the_names_below_it(namespace, found):
    index = index_of("b", "a", "a.b", "a.bb", "a.b.c", "ab.c", "a0.x")
    assert names(page(index, namespace=namespace)) == found
    assert walk(index, namespace=namespace, limit=1) == found


@pytest.mark.spec("SKP-list-pages")
def test_a_larger_limit_than_a_page_gives_a_whole_page():
    index = index_of(*(f"a.s{number}" for number in range(501)))
    first = page(index, limit=100_000)
    assert len(first["skills"]) == limits.RPC_PAGE
    assert len(page(index, limit=501, cursor=first["next_cursor"])["skills"]) == 1


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 8, 500])
def test_pages_follow_each_other_with_each_skill_once(limit):
    every = [f"a.x{number}" for number in range(7)]
    index = index_of(*every)
    assert walk(index, limit=limit) == every
    first = page(index, limit=limit)
    assert (first["next_cursor"] is None) == (limit >= 7)


@pytest.mark.spec("SKP-list-pages")
def test_a_page_has_50_skills_unless_said():
    index = index_of(*(f"a.x{number}" for number in range(60)))
    assert len(page(index)["skills"]) == 50
    assert len(walk(index)) == 60


def test_an_empty_index_has_an_empty_page():
    assert page(SkillIndex({})) == {"skills": [], "next_cursor": None}
    assert page(SkillIndex({}), detail="summary", namespace="a", limit=1) == {"skills": [], "next_cursor": None}
    assert len(SkillIndex({})) == 0
    assert SkillIndex({}).find("a") is None


@pytest.mark.spec("SKP-access")
def test_an_index_within_another_tells_its_own_skills_alone_and_the_same_of_them():
    catalog = make_catalog(*(named(f"a.x{number}") for number in range(9)))
    whole = SkillIndex(catalog.skills)
    for chosen in ([], [0], [8], [0, 8], [2, 3, 4], [1, 3, 4, 5, 8], list(range(9))):
        part = {name: skill for name, skill in catalog.skills.items() if int(name[2]) in chosen}
        narrow = SkillIndex(part, whole)
        assert len(narrow) == len(chosen)
        assert walk(narrow, limit=2) == [f"a.x{number}" for number in chosen]
        assert narrow.page(ListSkills(detail="summary")) == SkillIndex(part).page(ListSkills(detail="summary"))
        for number in range(9):
            assert (narrow.find(f"a.x{number}") is not None) == (number in chosen)
    assert whole.find("a.x") is None
    assert dotted_name(whole.find("a.x3") or make_skill("none")) == "a.x3"


@pytest.mark.spec("SKP-cursor")
def test_a_cursor_goes_on_behind_its_name_when_skills_come_and_go():
    cursor = page(index_of("a.b", "a.c", "a.d"), limit=2)["next_cursor"]
    assert names(page(index_of("a.b", "a.c", "a.d"), cursor=cursor)) == ["a.d"]
    assert names(page(index_of("a.a", "a.bb", "a.d", "a.e"), cursor=cursor)) == ["a.d", "a.e"]
    assert names(page(index_of("a.a"), cursor=cursor)) == []


@pytest.mark.spec("SKP-cursor")
@pytest.mark.parametrize("namespace", [None, "a", "a.b"])
@pytest.mark.parametrize("last", ["a", "a.b.c", "a.b.c0", "x" * 128])
def test_a_cursor_says_its_name_in_its_namespace_alone(namespace, last):
    cursor = encode_list_cursor(namespace, last)
    assert cursor.replace("-", "").replace("_", "").isalnum()
    assert decode_list_cursor(cursor, namespace) == last
    for other in {None, "a", "a.b", "b"} - {namespace}:
        with pytest.raises(UsageError) as caught:
            decode_list_cursor(cursor, other)
        assert caught.value.code == "CURSOR"


@pytest.mark.spec("SKP-cursor")
@pytest.mark.parametrize(
    "cursor", ["", "a", "!", "A" * 5000, "L2E=", " L2E", "L2E\n", "L2F", "////", "_w", "é", "\x00", "0", "bm8tc2xhc2g"]
)
def test_what_is_no_cursor_is_refused(cursor):
    with pytest.raises(UsageError) as caught:
        decode_list_cursor(cursor, None)
    assert caught.value.code == "CURSOR"
    assert caught.value.place == SourceLocation("/params/cursor")


def test_a_cursor_that_somebody_made_up_leads_nowhere_else():
    index = index_of("a.b", "b.c")
    assert names(page(index, namespace="b", cursor=encode_list_cursor("b", "a.a"))) == ["b.c"]
    assert names(page(index, namespace="a", cursor=encode_list_cursor("a", "zzz"))) == []


TEXT = load_guide().text


@pytest.mark.spec("SKP-guide")
def test_the_guide_passes_the_strict_rules_without_a_finding(tmp_path):
    guide = load_guide()
    folder = tmp_path / guide.skill.name
    folder.mkdir()
    for file in guide.skill.files:
        (folder / file.path).write_bytes(guide.contents[file.digest])
    examination = check_folder(folder, level="strict")
    assert examination.folder is not None
    assert examination.findings == ()
    assert dotted_name(guide.skill) == GUIDE
    assert (guide.skill.version, guide.skill.kind) == ("0.1.0", "instruction")


def test_a_file_that_the_guide_does_not_have_is_not_read():
    assert Digest.of(b"elsewhere") not in load_guide().contents
    assert module.load_guide() is load_guide()


def test_every_method_and_parameter_and_code_is_explained():
    for method, kind in METHODS.items():
        if method != "load_skills_protocol_guide":  # whoever reads this has called it
            assert f"`{method}`" in TEXT
        for field in msgspec.structs.fields(kind):
            assert re.search(rf"\b{field.encode_name}\b", TEXT), field.encode_name
    for number in ERRORS:
        assert str(number) in TEXT
    for name in RunResult.__struct_fields__:
        assert f"| `{name}` |" in TEXT


def test_the_requests_that_it_shows_are_good_ones():
    shown = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    assert len(shown) >= 2
    for text in shown:
        call = decode(text.encode())
        assert isinstance(call, Call)
        decode_params(call.params, params_type(call.method))


def test_the_code_that_it_shows_does_what_it_says(tmp_path, monkeypatch):
    (shown,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "ab12").write_text("one\nthe longest\ntwo\n")
    monkeypatch.setenv("SKILLS_BLOBS", str(tmp_path))
    found: dict[str, Any] = {}
    exec(shown, found)  # noqa: S102  # a sample of ours
    assert found["main"]({"file": "blob:ab12"}) == "the longest\n"


def test_the_bounds_that_it_says_are_ours():
    assert "1 to 500 skills; 50 unless" in TEXT
    assert ListSkills().limit == 50


def test_it_fits_into_the_context_of_a_model():
    assert len(TEXT) < 12_000
