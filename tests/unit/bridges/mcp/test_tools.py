"""The tools: what a model finds, reads and calls, and what it is told when that fails."""

import asyncio
import base64

import pytest
import structlog
from mcp.shared.exceptions import MCPError
from tests.support.mcp_host import EXECUTES, MODES, hosting, text_of
from tests.support.publishing import write_skill
from tests.unit.bridges.mcp.conftest import MEMBER, PNG, write_skills

from skillwire import limits
from skillwire.server.routes.mcp import McpCaller

OURS = ["find_skills", "describe_skill", "read_skill_file", "call_skill", "execution_status", "create_blob"]


async def call(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    return result.is_error, result.structured_content if result.structured_content is not None else text_of(result)


def names(found):
    is_error, facts = found
    assert not is_error
    return [skill["name"] for skill in facts["skills"]]


@pytest.mark.parametrize("mode", MODES)
async def test_tools_say_what_they_take(host, mode):
    async with host.client(mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == OURS
    for tool in tools.values():
        assert tool.input_schema["type"] == "object"
        assert all("description" in one for one in tool.input_schema["properties"].values())
        assert tool.annotations.read_only_hint is (tool.name not in {"call_skill", "create_blob"})


async def test_everybody_finds_public_skills_and_knows_of_restricted_ones(host):
    async with host.client() as client:
        assert names(await call(client, "find_skills", query="take notes")) == ["open-notes"]
        assert names(await call(client, "find_skills")) == ["double", "open-notes", "staff-guide"]
        assert names(await call(client, "find_skills", query="omega plan")) == []
        found, *_ = (await call(client, "find_skills", query="guides the staff"))[1]["skills"]
        assert (found["name"], found["access"], found["callable"]) == ("staff-guide", "restricted", False)


async def test_member_finds_what_was_opened_to_it(host):
    async with host.client(MEMBER) as client:
        assert names(await call(client, "find_skills", query="omega plan")) == ["omega-plan"]
        assert names(await call(client, "find_skills", limit=2)) == ["double", "omega-plan"]
        assert names(await call(client, "find_skills", query="plans notes")) == ["open-notes", "omega-plan"]


async def test_skill_is_described_with_files_and_inputs(host):
    async with host.client() as client:
        _, notes = await call(client, "describe_skill", name="open-notes")
        assert {"path": "docs/deep/guide.md", "size": 8} in notes["files"]
        assert notes["frontmatter"]["name"] == "open-notes"
        assert notes["callable"] is False
        _, double = await call(client, "describe_skill", name="double")
        assert double["input_schema"] == {
            "type": "object",
            "properties": {
                "number": {"type": "number", "description": "What is doubled."},
                "seconds": {"type": "number", "default": 0},
            },
            "additionalProperties": False,
            "required": ["number"],
        }
        _, guide = await call(client, "describe_skill", name="staff-guide")
        assert guide.keys() == {"name", "version", "description", "callable", "uri", "access"}


async def test_files_are_read_as_text_image_or_resource(host):
    async with host.client() as client:
        text = await client.call_tool("read_skill_file", {"name": "open-notes"})
        assert text.content[0].text.startswith("---\nname: open-notes\n")
        (image,) = (await client.call_tool("read_skill_file", {"name": "open-notes", "path": "logo.png"})).content
        assert (image.type, base64.b64decode(image.data)) == ("image", PNG)
        (other,) = (await client.call_tool("read_skill_file", {"name": "open-notes", "path": "latin.txt"})).content
        assert (other.type, base64.b64decode(other.resource.blob)) == ("resource", b"caf\xe9")


async def test_long_text_is_read_on(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    long = "".join(f"{number}\n" for number in range(20_000))
    large = "".join(f"{number}\n" for number in range(200_000))
    write_skill(tmp_path / "skills", "long", {"long.txt": long, "large.txt": large})
    async with hosting(tmp_path / "skills", tmp_path) as host, host.client() as client:
        first = await client.call_tool("read_skill_file", {"name": "long", "path": "long.txt"})
        assert first.content[1].text == f"[{len(long) - 65536:,} characters follow: read on with offset 65536]"
        (rest,) = (
            await client.call_tool("read_skill_file", {"name": "long", "path": "long.txt", "offset": 65536})
        ).content
        assert first.content[0].text + rest.text == long
        is_error, told = await call(client, "read_skill_file", name="long", path="large.txt")
        assert is_error
        assert "Read the resource skill://long/large.txt" in told


WRONG = (
    ("find_skills", {"query": "x", "limit": 0}, "VALIDATION_ERROR: the arguments do not fit"),
    ("find_skills", {"query": "x" * 5000}, "QUERY: "),
    ("describe_skill", {"nme": "double"}, "unknown field `nme`"),
    ("call_skill", {"name": "double", "inputs": {}}, "`inputs`\nIt takes name, arguments, wait_seconds."),
    ("describe_skill", {"name": "omega-plan"}, "SKILL_NOT_FOUND: there is no skill 'omega-plan'\nfind_skills says"),
    ("read_skill_file", {"name": "staff-guide"}, "PERMISSION_DENIED: staff-guide is there, and not open"),
    ("read_skill_file", {"name": "open-notes", "path": "../double/main.py"}, "FILE_NOT_FOUND: "),
    ("call_skill", {"name": "open-notes"}, "Read its SKILL.md with read_skill_file"),
    ("call_skill", {"name": "double"}, "/inputs/number is required"),
    ("call_skill", {"name": "double", "arguments": {"number": "x"}}, "must be of type number"),
    ("call_skill", {"name": "double", "arguments": []}, "VALIDATION_ERROR: the arguments do not fit"),
    ("execution_status", {"execution_id": "exec-0"}, "RUN_NOT_FOUND: "),
)


async def test_what_is_wrong_is_told_to_the_model(host):
    async with host.client() as client:
        for tool, arguments, told in WRONG:
            is_error, answer = await call(client, tool, **arguments)
            assert is_error
            assert told in answer


async def test_unknown_tool_is_an_error_of_the_protocol(host):
    async with host.client() as client:
        with pytest.raises(MCPError, match="there is no tool 'double'"):
            await client.call_tool("double", {})


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [
        ("[executions]\ngrant_all = true\n", "this server does not execute skills"),
        ("[rpc]\nexecute_skill = true\n", "the operator has not granted that double runs"),
        ('[rpc]\nexecute_skill = "authenticated"\n[executions]\ngrant_all = true\n', "for authenticated callers only"),
        (EXECUTES, None),
    ],
)
async def test_a_skill_that_a_call_would_not_run_is_listed_as_not_callable_with_the_reason(
    tmp_path, monkeypatch, configuration, reason
):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    write_skills(tmp_path / "skills")
    with structlog.testing.capture_logs() as log:
        async with hosting(tmp_path / "skills", tmp_path, configuration) as host, host.client() as client:
            _, found = await call(client, "find_skills", query="doubles a number")
            _, described = await call(client, "describe_skill", name="double")
    for facts in (found["skills"][0], described):
        assert facts["callable"] is (reason is None)
        assert facts.get("reason", "").endswith(reason or "")
        assert ("reason" in facts) is (reason is not None)
    assert not [one for one in log if "refused:" in one["event"]]


async def test_nothing_is_called_where_the_operator_has_not_said_so(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    write_skills(tmp_path / "skills")
    async with (
        hosting(tmp_path / "skills", tmp_path, "[executions]\ngrant_all = true\n") as host,
        host.client() as client,
    ):
        is_error, told = await call(client, "call_skill", name="double", arguments={"number": 1})
        assert is_error
        assert "PERMISSION_DENIED" in told
        assert "execute_skill = true below [rpc]" in told
    async with hosting(tmp_path / "skills", tmp_path, "[rpc]\nexecute_skill = true\n") as host, host.client() as client:
        is_error, told = await call(client, "call_skill", name="double", arguments={"number": 1})
        assert (is_error, "skillwire grant" in told) == (True, True)


@pytest.mark.parametrize("mode", MODES)
async def test_client_that_asks_is_notified_of_progress(host, monkeypatch, mode):
    told, enough = [], asyncio.Event()

    async def find(*_):
        await enough.wait()
        return ()

    async def listen(progress, _, message):
        told.append((progress, message))
        if len(told) == 2:
            enough.set()

    monkeypatch.setattr(McpCaller, "find", find)
    monkeypatch.setattr(limits, "MCP_PROGRESS_SECONDS", 0)
    async with host.client(mode=mode) as client:
        found = await client.call_tool("find_skills", {"query": "x"}, progress_callback=listen)
    assert found.structured_content == {"skills": []}
    assert [progress for progress, _ in told] == sorted({progress for progress, _ in told})
    assert told[0] == (1, "running for 0 s")


def test_a_tool_waits_for_less_time_than_clients_give_it():
    assert limits.MCP_WAIT_SECONDS < limits.EXECUTION_WAIT_SECONDS
