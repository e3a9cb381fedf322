"""Descriptions and files of skills: what a folder says, what its audience may know, and nothing from outside of it."""

import base64
import json

import pytest
from tests.support.rpc import call_rpc, publish

from skillwire import limits
from skillwire.errors import NotFoundError, StorageError, TrustError, ValidationError
from skillwire.model.access import ANONYMOUS, Principal
from skillwire.model.skill import SkillFile
from skillwire.protocols.skills_rpc.index import SkillIndex
from skillwire.protocols.skills_rpc.server import SkillsRpc

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
    assert describe(rpc, "salesforce.leads.sync", detail="manifest") == {
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
    assert caught.value.fix == 'Ask for it with "encoding": "base64".'


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
