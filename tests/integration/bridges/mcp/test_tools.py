"""The tools: what a model finds, reads and calls, and what it is told when that fails."""

import asyncio
import json

import pytest
from mcp.shared.exceptions import MCPError
from tests.support.mcp_host import MODES, text_of
from tests.unit.bridges.mcp.conftest import MEMBER

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
        arguments = {"number": 1, "seconds": 0.5}
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
        for _ in range(200):
            await asyncio.sleep(0.02)
            if begun := [one for one in (await searched(host)) if one.attempt]:
                break
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        for _ in range(200):
            found = await ledger.find(begun[0].execution_id)
            if found.status.is_final:
                break
            await asyncio.sleep(0.02)
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
