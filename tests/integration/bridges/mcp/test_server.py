"""The server over both transports: tools, the Skills extension and the relay, with skills that run."""

import asyncio
import base64
import json

import pytest
from mcp.shared.exceptions import MCPError
from tests.support.eventually import PATIENCE, eventually_async
from tests.support.mcp_host import MODES, hosting, list_skills, read_bytes, text_of
from tests.support.publishing import write_skill
from tests.unit.bridges.mcp.conftest import MEMBER

from skillwire.client.mcp_relay import RelayClient
from skillwire.model.access import Principal
from skillwire.model.execution import ExecutionQuery

OURS = ["find_skills", "describe_skill", "read_skill_file", "call_skill", "execution_status", "create_blob"]


async def call(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    return result.is_error, result.structured_content if result.structured_content is not None else text_of(result)


@pytest.mark.parametrize("mode", MODES)
async def test_call_gives_the_output_or_why_it_failed(host, mode):
    async with host.client(mode=mode) as client:
        is_error, run = await call(client, "call_skill", name="double", arguments={"number": 21})
        assert (is_error, run["status"], run["output"]) == (False, "completed", {"double": 42})
        is_error, run = await call(client, "call_skill", name="double", arguments={"number": -1})
        assert (is_error, run["status"], run["error"]["type"]) == (True, "failed", "exception")
        assert "it is negative" in json.dumps(run)


async def test_long_call_is_followed_by_its_owner_alone(host):
    async with host.client() as client, host.client(MEMBER) as other:
        arguments = {"number": 1, "seconds": 2}
        is_error, begun = await call(client, "call_skill", name="double", arguments=arguments, wait_seconds=0)
        assert (is_error, begun["status"]) == (False, "running")
        assert begun["run_id"] in begun["summary"]
        assert (await call(other, "execution_status", execution_id=begun["run_id"]))[0]
        _, run = await call(client, "execution_status", execution_id=begun["run_id"], wait_seconds=30)
        assert run["output"] == {"double": 2}


async def test_cancelled_call_ends_the_run(host):
    async with host.client() as client:
        calling = asyncio.create_task(call(client, "call_skill", name="double", arguments={"number": 1, "seconds": 40}))
        ledger = host.parts.executions.service.ledger
        (begun,) = await eventually_async(lambda: searched(host), lambda found: found and found[0].attempt)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        found = await eventually_async(lambda: ledger.find(begun.execution_id), lambda found: found.status.is_final)
    assert found.failure.reason == "cancelled"


async def searched(host):
    return (await host.parts.executions.service.ledger.search(ExecutionQuery())).executions


async def test_pinned_skills_are_tools_of_those_who_may_use_them(host):
    pins = ("double", "open-notes", "omega-plan", "nothing", "double")
    async with host.client(pins=pins) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == [*OURS, "double", "open-notes"]
        assert tools["double"].input_schema["required"] == ["number"]
        assert tools["open-notes"].input_schema["properties"] == {}
        assert (await call(client, "double", number=4))[1]["output"] == {"double": 8}
        assert "unknown" not in (await call(client, "open-notes"))[1]
        assert (await call(client, "double", nmber=4))[0]
        with pytest.raises(MCPError):
            await client.call_tool("omega-plan", {})
    async with host.client(Principal("m", frozenset({"omega-plan"})), pins=pins) as client:
        assert [tool.name for tool in (await client.list_tools()).tools][len(OURS) :] == [
            "double",
            "open-notes",
            "omega-plan",
        ]


@pytest.mark.parametrize("mode", MODES)
async def test_what_was_handed_in_is_read_by_a_skill_whose_files_are_linked_and_read(shout, mode):
    async with shout.client(mode=mode) as client, shout.client(MEMBER, mode=mode) as other:
        kept = (await client.call_tool("create_blob", {"content": "caf\u00e9"})).structured_content
        assert kept["size_bytes"] == 5
        assert await read_bytes(client, kept["blob_id"]) == "caf\u00e9".encode()
        arguments = {"name": "shout", "arguments": {"sheet": kept["blob_id"]}, "wait_seconds": 40}
        result = await client.call_tool("call_skill", arguments)
        assert not result.is_error, result
        (left,) = result.structured_content["output_blobs"]
        (link,) = result.content[1:]
        assert (link.type, link.uri, link.name, link.size) == ("resource_link", left["blob_id"], "loud.txt", 5)
        read = await client.read_resource(link.uri)
        assert (read.contents[0].text, read.contents[0].mime_type) == ("CAF\u00c9", "text/plain")
        assert (read.ttl_ms, read.cache_scope) in [(0, "private"), (None, None)]
        with pytest.raises(MCPError, match="you have no blob"):
            await other.read_resource(link.uri)


async def test_pages_hold_every_skill_once(tmp_path):
    names = [f"skill-{number:03}" for number in range(103)]
    for name in names:
        write_skill(tmp_path / "skills", name)
    async with hosting(tmp_path / "skills", tmp_path) as host, host.client() as client:
        found, cursor = [], None
        while True:
            page = await list_skills(client, cursor)
            found += [skill.frontmatter.name for skill in page.skills]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == names
        resources, cursor = [], None
        while True:
            page = await client.list_resources(cursor=cursor)
            resources += [resource.name for resource in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert resources == ["index.json", *names]
        for wrong in ("x", "###", "é", base64.urlsafe_b64encode(b"No Name").decode()):
            with pytest.raises(MCPError, match="cursor"):
                await list_skills(client, wrong)


#: Nothing listens there.
ENDPOINT = "http://127.0.0.1:1/mcp"
BAD = (
    b'{"method":"notifications/cancelled","params":{"requestId":{}}}',
    b'{"method":"notifications/cancelled","params":[1]}',
    b'{"id":{},"method":"ping"}',
    b'{"id":[1],"method":{}}',
    b'{"id":99999999999999999999,"method":"ping"}',
    b'{"id":1,"method":"tools/call","params":{"name":{}}}',
    b'{"id":1,"method":"initialize","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":{}}}}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"",
    None,
    b"\xff",
)


async def test_bad_messages_do_not_end_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    told: list[bytes] = []

    async def lines():
        for line in (*BAD, b'{"jsonrpc":"2.0","id":"last","method":"ping"}'):
            yield line

    async with asyncio.timeout(PATIENCE), RelayClient() as client:
        await client.relay(ENDPOINT, lines(), told.append)
    answers = [json.loads(line) for line in told]
    assert [one["error"]["code"] for one in answers if one["id"] == "last"] == [-32603]
    assert [one["error"]["code"] for one in answers].count(-32600) == 4


async def test_failure_of_ours_is_told_and_does_not_end_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    told: list[bytes] = []

    async def lines():
        for number in (1, 2):
            yield b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number

    async with asyncio.timeout(PATIENCE), RelayClient() as client:
        monkeypatch.setattr(client._runner, "run", lambda _: 1 / 0)
        await client.relay(ENDPOINT, lines(), told.append)
    assert sorted(json.loads(line)["id"] for line in told) == [1, 2]
