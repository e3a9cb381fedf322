"""Clients of MCP that no one here wrote find, verify, read and call skills of ours, over HTTP and as a process.

FastMCP's client and the inspector from npm speak the Skills extension; Microsoft's Agent Framework reads the index.
"""

import hashlib
import json
from typing import Any

import agent_framework
import fastmcp
import pytest
from fastmcp.client.transports import StdioTransport
from fastmcp.skills.client import SkillsClientExtension
from mcp.client.client import Client
from tests.interop.hosting import Serve
from tests.interop.peers import environment, find_peer, run, skillwire
from tests.interop.skill_samples import EXAMPLES, copy_examples
from tests.support.mcp_host import read_bytes

NAMES = sorted(folder.name for folder in EXAMPLES.iterdir())
CALL = {"start": "2026-11-20", "days": 3}
OUTPUT = {"start": "2026-11-20", "end": "2026-11-25", "working_days": 3, "calendar_days": 5, "holidays_skipped": []}
#: The source tells everybody the same.
ANYBODY: Any = None
CONFIGURATION = '[mcp]\npin = ["working-days"]\n[rpc]\nexecute_skill = true\n'


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    """Give the URL of a server of the example skills that runs them."""
    place = tmp_path_factory.mktemp("mcp")
    copy_examples(place / "skills")
    (place / "server.toml").write_text(CONFIGURATION)
    with Serve(place / "skills", place / "host", "--grant-all", "--config", place / "server.toml") as server:
        yield f"{server.url}/mcp"


@pytest.fixture(params=["http", "stdio"])
def transport(request, tmp_path):
    """Give each way to reach the skills, as FastMCP's client names it."""
    if request.param == "http":
        return request.getfixturevalue("endpoint")
    command, *arguments = skillwire("mcp", EXAMPLES, "--execute", "--grant-all", "--pin", "working-days")
    return StdioTransport(command, arguments, env=environment(tmp_path), log_file=tmp_path / "log")


async def test_fastmcp_verifies_every_file_and_calls(transport):
    async with fastmcp.Client(transport, extensions=[SkillsClientExtension()]) as client:
        skills = await client.list_skills()
        assert [skill.frontmatter.name for skill in skills] == NAMES
        for skill in skills:
            assert await client.get_skill(skill.uri) == skill
            for resource in skill.resources:
                data = await read_bytes(client, resource.uri)
                assert (len(data), f"sha256:{hashlib.sha256(data).hexdigest()}") == (resource.size, resource.digest)
        assert "working-days" in {tool.name for tool in await client.list_tools()}
        found = await client.call_tool("find_skills", {"query": "count working days"})
        assert found.structured_content["skills"][0]["name"] == "working-days"
        called = await client.call_tool("call_skill", {"name": "working-days", "arguments": CALL})
        assert called.structured_content["output"] == OUTPUT


@pytest.mark.filterwarnings("ignore:.*MCPSkillsSource is experimental")
async def test_agent_framework_discovers_skills_and_reads_their_files(endpoint):
    async with Client(endpoint) as client:
        skills = await agent_framework.MCPSkillsSource(client).get_skills(ANYBODY)
        assert [skill.frontmatter.name for skill in skills] == NAMES
        (profile,) = [skill for skill in skills if skill.frontmatter.name == "csv-profile"]
        assert await profile.get_content() == (EXAMPLES / "csv-profile" / "SKILL.md").read_text()
        path = next(path for path in (EXAMPLES / "csv-profile" / "references").iterdir())
        resource = await profile.get_resource(f"references/{path.name}")
        assert resource is not None
        assert await resource.read() == path.read_text()
        assert await profile.get_resource("references/nothing.md") is None
        assert await profile.get_resource("../working-days/SKILL.md") is None


@pytest.fixture
def inspect(tmp_path):
    """Run the command line of the inspector with a method; return what it printed, read as JSON."""

    def inspect(target, method, *arguments):
        command = [*find_peer("inspector"), "--cli", *target, "--format", "json", "-q", "--method", method, *arguments]
        return [
            json.loads(line)
            for line in run(command, cwd=tmp_path, home=tmp_path / "home").splitlines()
            if line[:1] == "{"
        ]

    return inspect


@pytest.mark.deep
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector_lists_and_calls_the_tools(endpoint, inspect, era):
    target = (endpoint, "--transport", "http", "--protocol-era", era)
    (listed,) = inspect(target, "tools/list", "--strict")  # which fails when a schema is not one for every model
    assert [tool["name"] for tool in listed["result"]["tools"]][-1] == "working-days"
    (called,) = inspect(target, "tools/call", "--tool-name", "working-days", "--tool-args-json", json.dumps(CALL))
    assert called["result"]["structuredContent"]["output"] == OUTPUT


@pytest.mark.deep
def test_inspector_finds_every_skill_conforming_and_every_digest_right(endpoint, inspect):
    reports = inspect(
        (endpoint, "--transport", "http", "--protocol-era", "modern"), "skills/list", "--verify", "--require-digests"
    )
    assert sorted(report["name"] for report in reports) == NAMES
    assert {(report["outcome"], report["ok"]) for report in reports} == {("verified", True)}


@pytest.mark.deep
def test_inspector_starts_skillwire_mcp(inspect, tmp_path):
    (tmp_path / "home").mkdir()
    target = (*skillwire("mcp", EXAMPLES), "-e", f"SKILLWIRE_HOME={tmp_path / 'home'}")
    (read,) = inspect(target, "resources/read", "--uri", "skill://index.json")
    index = json.loads(read["result"]["contents"][0]["text"])
    assert [skill["name"] for skill in index["skills"]] == NAMES
