"""A session of JSON-RPC on standard input and output, apart from the process around it."""

import asyncio
import json

from skillwire import limits
from skillwire.model.execution import Outcome


def line(method, request_id=1, **params):
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode()


async def test_no_more_is_taken_than_is_answered_at_a_time(talk, executor, monkeypatch):
    monkeypatch.setattr(limits, "RPC_STDIO_AT_ONCE", 2)
    running, most = 0, 0

    async def run(_):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return Outcome({"n": 1})

    executor.script = run
    told = await talk(*(line("execute_skill", number, name="acme.count.words") for number in range(6)))
    assert (len(told), most) == (6, 2)
