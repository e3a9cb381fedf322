"""The relay of ``skillwire mcp --server``: no message of a host ends it."""

import asyncio
import json

from tests.support.eventually import PATIENCE

from skillwire.client.mcp_relay import RelayClient

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
