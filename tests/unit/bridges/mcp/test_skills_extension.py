"""The Skills extension: entries that hold, for whoever may have the skills."""

import hashlib
import os

import pytest
import yaml
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from tests.support.mcp_host import MODES, get_skill, hosting, list_skills, read_bytes, read_directory
from tests.support.publishing import write_skill
from tests.unit.bridges.mcp.conftest import MEMBER

from skillwire.bridges.mcp.server import EXTENSION

OPEN = "skill://open-notes"


async def test_server_declares_the_extension_and_resources(host):
    async with host.client() as client:
        assert client.server_capabilities.extensions == {EXTENSION: {"directoryRead": True}}
        assert client.server_capabilities.resources is not None


@pytest.mark.parametrize("mode", MODES)
async def test_every_file_of_every_entry_is_read_as_the_entry_says(host, mode):
    async with host.client(mode=mode) as client:
        listed = await list_skills(client)
        assert [skill.frontmatter.name for skill in listed.skills] == ["double", "open-notes"]
        assert (listed.next_cursor, listed.cache_scope) == (None, "public")
        for skill in listed.skills:
            assert await get_skill(client, skill.uri) == skill
            assert isinstance(skill.resources, list)
            for resource in skill.resources:
                data = await read_bytes(client, resource.uri)
                assert len(data) == resource.size
                assert f"sha256:{hashlib.sha256(data).hexdigest()}" == resource.digest
                if resource.uri == skill.uri:
                    assert yaml.safe_load(data.split(b"---")[1]) == skill.frontmatter.root


async def test_skills_are_those_that_the_caller_may_use(host):
    async with host.client(MEMBER) as client:
        listed = await list_skills(client)
        assert [skill.frontmatter.name for skill in listed.skills] == [
            "double",
            "omega-plan",
            "open-notes",
            "staff-guide",
        ]
        assert listed.cache_scope == "private"
        assert (await get_skill(client, "skill://omega-plan/SKILL.md")).frontmatter.name == "omega-plan"


NO_SKILLS = (
    "skill://omega-plan/SKILL.md",
    "skill://staff-guide/SKILL.md",
    "skill://nothing/SKILL.md",
    f"{OPEN}/docs/deep/guide.md",
    OPEN,
    "skill://index.json",
    "https://example.com/SKILL.md",
    "",
)


async def test_what_is_no_skill_for_the_caller_is_an_error_that_says_the_uri(host):
    async with host.client() as client:
        for uri in NO_SKILLS:
            with pytest.raises(MCPError) as caught:
                await get_skill(client, uri)
            assert (caught.value.error.code, caught.value.error.data) == (INVALID_PARAMS, {"uri": uri})


async def test_skill_with_more_than_hosts_take_is_left_out_and_the_reason_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    write_skill(tmp_path / "skills", "many", {f"notes/{number}.txt": "x" for number in range(512)})
    write_skill(tmp_path / "skills", "most", {f"notes/{number}.txt": "x" for number in range(511)})
    write_skill(tmp_path / "skills", "large", {"data.bin": os.urandom(16 * 1024 * 1024)})
    async with hosting(tmp_path / "skills", tmp_path) as host, host.client() as client:
        assert [skill.frontmatter.name for skill in (await list_skills(client)).skills] == ["most"]
        assert [one.name for one in (await client.list_resources()).resources] == ["index.json", "most"]
        assert '"many"' not in (await client.read_resource("skill://index.json")).contents[0].text
        for name, reason in (("many", "513 files"), ("large", "bytes")):
            with pytest.raises(MCPError, match=reason):
                await get_skill(client, f"skill://{name}/SKILL.md")
            with pytest.raises(MCPError):
                await client.read_resource(f"skill://{name}/SKILL.md")
        assert (await client.call_tool("read_skill_file", {"name": "many"})).is_error is False


async def test_folders_are_read_one_level_at_a_time(host):
    async with host.client() as client:
        root = await read_directory(client, OPEN)
        assert [(one["name"], one["mimeType"]) for one in root] == [
            ("open-notes", "text/markdown"),
            ("docs", "inode/directory"),
            ("latin.txt", "text/plain"),
            ("logo.png", "image/png"),
        ]
        assert root[1]["uri"] == f"{OPEN}/docs"
        docs = await read_directory(client, f"{OPEN}/docs")
        assert [one["uri"] for one in docs] == [f"{OPEN}/docs/a%20b%23.txt", f"{OPEN}/docs/deep"]
        assert (await client.read_resource(docs[0]["uri"])).contents[0].text == "odd"
        (guide,) = await read_directory(client, docs[1]["uri"])
        assert (guide["uri"], guide["size"]) == (f"{OPEN}/docs/deep/guide.md", 8)


async def test_what_is_no_folder_of_the_caller_is_an_error(host):
    async with host.client() as client:
        for uri in (f"{OPEN}/SKILL.md", f"{OPEN}/nothing", "skill://omega-plan", "skill://", "file:///etc"):
            with pytest.raises(MCPError) as caught:
                await read_directory(client, uri)
            assert caught.value.error.code == INVALID_PARAMS
