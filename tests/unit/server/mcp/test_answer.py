"""Answers at ``/mcp``: whole however large, bounded together, and not held for those who do not read them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR
from tests.support.mcp_host import MODES
from tests.support.publishing import Asgi, write_skill
from tests.unit.server.mcp.test_door import PLAIN, connected, published, tokens  # noqa: F401  # a fixture

from skillwire import limits

TABLE = bytes(range(256)) * 20
TEXT = 'Line "one"\\\n\U0001f98a' * 900
CROWDED_HELD = 1000


@pytest.fixture
async def application(tmp_path, tokens, monkeypatch):  # noqa: ARG001, F811  # made first
    monkeypatch.setattr(limits, "SERVER_PIECE_BYTES", 1000)
    write_skill(tmp_path / "skills", "large-notes", {"table.bin": TABLE, "long.txt": TEXT})
    async with published(tmp_path) as application:
        yield application


def read_body(uri):
    call = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri}}
    return json.dumps(call).encode()


@pytest.mark.parametrize("mode", MODES)
async def test_what_is_large_arrives_whole(application, mode):
    async with connected(application, mode=mode) as client:
        (table,) = (await client.read_resource("skill://large-notes/table.bin")).contents
        (text,) = (await client.read_resource("skill://large-notes/long.txt")).contents
        (index,) = (await client.read_resource("skill://index.json")).contents
    assert base64.b64decode(table.blob) == TABLE
    assert text.text == TEXT
    assert [one["name"] for one in json.loads(index.text)["skills"]] == ["large-notes", "open-notes"]
    assert held(application) == (0, {})


def held(application):
    answers = application._executions.answers
    return answers._held, dict(answers._of)


@pytest.mark.parametrize("path", ["large-notes/table.bin", "large-notes/long.txt"])
async def test_what_has_no_room_is_told_so_before_it_is_read(application, monkeypatch, path):
    answers = application._executions.answers
    monkeypatch.setattr(answers, "_bounds", answers._bounds._replace(held=CROWDED_HELD, of_address=CROWDED_HELD))
    monkeypatch.setattr(limits, "EXECUTION_SMALL_BODY_BYTES", 500)
    shelves = application._doors._at["/mcp"]._shelves
    async with connected(application) as client:
        with monkeypatch.context() as without_bytes:
            without_bytes.setattr(shelves.blobs, "read", None)
            with pytest.raises(MCPError) as caught:
                await client.read_resource(f"skill://{path}")
        assert caught.value.error.code == INTERNAL_ERROR
        assert caught.value.error.data == {"code": "ENDPOINT_UNREACHABLE", "retry_after": 1}
        (small,) = (await client.read_resource("skill://open-notes/SKILL.md")).contents
    assert "open-notes" in small.text
    assert held(application) == (0, {})


async def test_what_the_sdk_writes_is_counted_too(application, monkeypatch):
    answers = application._executions.answers
    monkeypatch.setattr(answers, "_bounds", answers._bounds._replace(held=600, of_address=600))
    monkeypatch.setattr(limits, "EXECUTION_SMALL_BODY_BYTES", 500)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    answer = await Asgi(application).request("/mcp", PLAIN, method="POST", body=body)
    assert (answer.status, answer.fields["retry-after"]) == (503, "1")
    assert held(application) == (0, {})


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_who_does_not_read_holds_neither_room_nor_connection(application, monkeypatch, version):
    monkeypatch.setattr(limits, "SERVER_REQUEST_SECONDS", 0.1)
    monkeypatch.setattr(limits, "EXECUTION_SMALL_BODY_BYTES", 500)
    asked: list[bool] = []
    sent, most = [], []

    async def receive():
        if not asked:
            asked.append(True)
            return {"type": "http.request", "body": read_body("skill://large-notes/table.bin"), "more_body": False}
        return await asyncio.Event().wait()

    async def send(message):
        sent.append(message)
        most.append(held(application)[0])
        if len(sent) > 2:
            await asyncio.Event().wait()

    scope = Asgi(application).scope("/mcp", {**PLAIN, "MCP-Protocol-Version": version}, method="POST")
    async with asyncio.timeout(10):
        with contextlib.suppress(TimeoutError):
            await application(scope, receive, send)
    assert len(sent) == 3
    assert sent[-1]["more_body"]
    assert max(most) > len(TABLE)
    assert held(application) == (0, {})
