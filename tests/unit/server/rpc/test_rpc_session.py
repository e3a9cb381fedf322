"""A session of JSON-RPC on standard input and output, apart from the process around it."""

import asyncio
import json

import pytest
from tests.support.eventually import PATIENCE

from skillwire.errors import StorageError
from skillwire.model.execution import Outcome
from skillwire.server.rpc_methods import RpcCaller, RpcDispatcher, SkillListCache
from skillwire.server.stdio import StdioSession


def line(method, request_id=1, **params):
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode()


async def test_each_line_is_answered_with_a_line(talk):
    told = await talk(line("list_skills", "a"), b"", b" \r", line("list_skills", "b"), b"[" + line("nope") + b"]\r")
    assert [answer["id"] for answer in told[:2]] == ["a", "b"]
    assert told[2][0]["error"]["code"] == -32601
    assert len(told) == 3


async def test_a_line_that_is_none_is_told_so_and_the_next_is_answered(talk):
    told = await talk(None, b"nonsense", line("list_skills", 3), b'{"jsonrpc":"2.0","method":"list_skills"}')
    assert [answer["id"] for answer in told] == [None, None, 3]
    assert [answer["error"]["code"] for answer in told[:2]] == [-32600, -32700]


async def test_a_list_does_not_wait_for_a_run_and_the_end_waits_for_both(talk, executor):
    listed = asyncio.Event()

    async def run(_):
        await listed.wait()
        return Outcome({"n": 1})

    executor.script = run
    told = await talk(line("execute_skill", 1, name="acme.count.words"), line("list_skills", 2), on_answer=listed.set)
    assert [answer["id"] for answer in told] == [2, 1]
    assert told[1]["result"]["status"] == "completed"


async def test_it_ends_when_nobody_reads_its_answers(rpc, executor):
    application = rpc.caller.application
    skills, revision = SkillListCache(application.catalog.blobs), application.catalog.current

    async def caller():
        return RpcCaller("principal local", await skills.of(revision.public_view, revision))

    async def endless():
        yield line("execute_skill", 1, name="acme.count.words")
        yield line("list_skills", 2)
        await asyncio.Event().wait()

    async def write(_):
        raise failure

    executor.script = lambda _: asyncio.sleep(60)
    session = StdioSession(RpcDispatcher(application.services.executions.runs), caller, write)
    failure: OSError = BrokenPipeError()
    async with asyncio.timeout(PATIENCE):
        await session.run(endless())
    failure = OSError(28, "No space left on device")
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(StorageError, match="No space left"):
            await session.run(endless())
