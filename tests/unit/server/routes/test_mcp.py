"""Answers at ``/mcp``: whole however large, bounded together, and not held for those who do not read them."""

import asyncio
import base64
import contextlib
import json

import httpx2
import pytest
import structlog
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR
from tests.support.mcp_host import MODES, published
from tests.support.opened import open_tokens
from tests.support.publishing import Asgi, write_skill
from tests.unit.bridges.mcp.conftest import MAIN, MANIFEST

from skillwire import limits
from skillwire.errors import UsageError
from skillwire.protocols.skills_rpc.messages import RunResult
from skillwire.server.request_bodies import CROWDED
from skillwire.server.routes.mcp import McpCaller

PLAIN = {
    "Host": "skills.example.com",
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}
PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()


@pytest.fixture
def tokens(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    return open_tokens()


@pytest.fixture
async def application_door(tmp_path, tokens):  # noqa: ARG001  # made first, so that the state folder is the test's
    async with published(tmp_path) as application:
        yield application


@contextlib.asynccontextmanager
async def connected(application_door, fields=None, mode="auto"):
    """Speak MCP with an application, without a network."""
    transport = httpx2.ASGITransport(application_door, client=("192.0.2.7", 1234))
    async with (
        httpx2.AsyncClient(transport=transport, headers=fields or {}) as http,
        Client(streamable_http_client("http://skills.example.com/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


async def names(client):
    return [one.name for one in (await client.list_resources()).resources][1:]


@pytest.mark.parametrize("mode", MODES)
async def test_each_request_is_answered_to_whom_it_shows(application_door, tokens, mode):
    secret = tokens.issue("caller", skills=["omega-plan"]).secret
    async with (
        connected(application_door, mode=mode) as stranger,
        connected(application_door, {"X-API-Key": secret}, mode) as member,
    ):
        for _ in range(2):
            assert await names(stranger) == ["open-notes"]
            assert await names(member) == ["omega-plan", "open-notes"]
        found = await member.call_tool("find_skills", {"query": "omega plan"})
        assert found.structured_content["skills"][0]["name"] == "omega-plan"
        assert (await stranger.call_tool("describe_skill", {"name": "omega-plan"})).is_error


async def test_wrong_credentials_are_refused_before_anything_is_answered(application_door):
    client = Asgi(application_door)
    answer = await client.request("/mcp", {**PLAIN, "X-API-Key": "skw_wrong"}, method="POST", body=PING)
    assert answer.status == 401
    assert answer.fields["www-authenticate"]
    assert answer.json()["error"]["code"] == "AUTH_REQUIRED"


async def test_credentials_that_ended_end_the_conversation(application_door, tokens):
    made = tokens.issue("caller", skills=["omega-plan"])
    async with connected(application_door, {"X-API-Key": made.secret}) as member:
        assert await names(member) == ["omega-plan", "open-notes"]
        tokens.revoke(made.token.token_id)
        with pytest.raises(MCPError, match="error response"):
            await member.list_tools(cache_mode="bypass")


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("skills.example.com", None, 200),
        ("127.0.0.1:8000", "http://localhost:6274", 200),
        ("localhost:8000", "http://127.0.0.1:3000", 200),
        ("[::1]:8000", "http://[::1]:3000", 200),
        ("skills.example.com", "https://app.example.com", 200),
        ("skills.example.com", "https://skills.example.com", 200),
        ("evil.example", "http://evil.example", 403),  # a name that leads here now
        ("skills.example.com", "http://localhost:3000", 403),
        ("127.0.0.1:8000", "https://evil.example", 403),
        ("127.0.0.1:8000", "null", 403),
        ("127.0.0.1:8000", "http://localhost.evil.example", 403),
        ("127.0.0.1:8000", "http://localhost:1@evil.example", 403),
        ("skills.example.com", "http://skills.example.com", 403),
    ],
)
async def test_only_pages_that_are_known_may_speak(tmp_path, tokens, host, origin, status):  # noqa: ARG001  # state
    configuration = '[rpc]\norigins = ["https://app.example.com"]\n'
    async with published(tmp_path, configuration, base_url="https://skills.example.com") as application:
        fields = {**PLAIN, "Host": host, **({"Origin": origin} if origin else {})}
        answer = await Asgi(application).request("/mcp", fields, method="POST", body=PING)
        asked = await Asgi(application).request("/mcp", fields, method="OPTIONS")
    assert answer.status == status
    if status == 403:
        assert answer.json()["error"]["code"] == "PAGE_REFUSED"
        assert asked.status == 403
    else:
        assert asked.status == 204
        assert answer.fields.get("access-control-allow-origin") == origin


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PUT"])
async def test_nothing_but_post_is_answered(application_door, method):
    answer = await Asgi(application_door).request("/mcp", PLAIN, method=method)
    assert (answer.status, answer.fields["allow"]) == (405, "POST, OPTIONS")


async def test_what_is_too_large_or_no_json_is_refused(application_door):
    client = Asgi(application_door)
    assert (await client.request("/mcp", PLAIN, method="POST", body=b"x" * 1_100_000)).status == 413
    for body in (b"", b"{", b"[]", b'{"jsonrpc":"2.0"}', b'"\xff"', b"[" * 100_000):
        assert (await client.request("/mcp", PLAIN, method="POST", body=body)).status == 400


async def test_what_is_refused_is_told_in_our_words(application_door):
    """The SDK's client shows the error of such an answer, and nothing of another one."""
    client = Asgi(application_door)
    for fields, body, status, code, told in (
        ({}, b"x" * 1_100_000, 413, -32600, "hand a larger file in with POST /blobs"),
        ({}, b"[7]", 400, -32600, "a message is a JSON object"),
        ({"MCP-Protocol-Version": "1999-01-01"}, PING, 400, -32022, "'1999-01-01' is not known; this server knows"),
    ):
        answer = await client.request("/mcp", {**PLAIN, **fields}, method="POST", body=body)
        error = answer.json()["error"]
        assert (answer.status, answer.json()["id"], error["code"], told in error["message"]) == (
            status,
            None,
            code,
            True,
        )


async def test_batch_is_answered_message_by_message(application_door):
    read = {"jsonrpc": "2.0", "id": "b", "method": "resources/read", "params": {"uri": "skill://index.json"}}
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    batch = [json.loads(PING), note, read, {**read, "id": "c"}, {**read, "id": "d", "params": {}}]
    answer = await Asgi(application_door).request("/mcp", PLAIN, method="POST", body=json.dumps(batch).encode())
    one, two, three, four = answer.json()
    assert (answer.status, one) == (200, {"jsonrpc": "2.0", "id": 1, "result": {}})
    for found, number in ((two, "b"), (three, "c")):
        index = json.loads(found["result"]["contents"][0]["text"])
        assert (found["id"], [skill["name"] for skill in index["skills"]]) == (number, ["open-notes"])
    assert (four["id"], four["error"]["code"]) == ("d", -32602)
    notes = await Asgi(application_door).request("/mcp", PLAIN, method="POST", body=json.dumps([note]).encode())
    assert (notes.status, notes.body) == (202, b"")
    assert held(application_door) == (0, {})


async def test_batch_counts_as_many_requests_as_it_has_messages(tmp_path, tokens):  # noqa: ARG001  # state
    body = json.dumps([json.loads(PING)] * 3).encode()
    limit = "[rate_limit]\nanonymous_per_minute = 1\nanonymous_burst = 4\n"
    async with published(tmp_path, limit) as application:
        first, second = [await Asgi(application).request("/mcp", PLAIN, method="POST", body=body) for _ in range(2)]
    assert (first.status, len(first.json()), first.fields["ratelimit-remaining"]) == (200, 3, "1")
    assert (second.status, second.json()["error"]["data"]["code"]) == (429, "TOO_MANY_REQUESTS")


async def test_batch_with_a_refused_call_has_the_answers_of_the_others(tmp_path, tokens, monkeypatch):
    fields = {**PLAIN, "X-API-Key": tokens.issue("caller", skills=["open-notes"]).secret}
    write_skill(tmp_path / "skills", "staff-guide", {"skill.toml": 'access = "restricted"\n'})
    read = {"name": "read_skill_file", "arguments": {"name": "staff-guide", "path": "SKILL.md"}}
    refused = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": read}
    async with published(tmp_path) as application:
        monkeypatch.setattr(application.services.authentication, "step_up", lambda *_: CROWDED)
        several, alone = [
            await Asgi(application).request("/mcp", fields, method="POST", body=json.dumps(batch).encode())
            for batch in ([json.loads(PING), refused], [refused])
        ]
    assert [(one["id"], one["result"].get("isError")) for one in several.json()] == [(1, None), (2, True)]
    assert (several.status, alone.status) == (200, CROWDED.status)


@pytest.mark.parametrize("size", [530_000, 3_000_000])
@pytest.mark.parametrize("mode", MODES)
async def test_large_result_reaches_the_client_of_the_sdk(tmp_path, tokens, monkeypatch, mode, size):  # noqa: ARG001  # state
    async def call(*_):
        return RunResult(status="completed", run_id="exec-1", output={"text": "x" * size})

    monkeypatch.setattr(McpCaller, "call", call)
    write_skill(tmp_path / "skills", "double", {"skill.toml": MANIFEST, "main.py": MAIN})
    async with published(tmp_path) as application, connected(application, mode=mode) as client:
        called = await client.call_tool("call_skill", {"name": "double", "arguments": {"number": 1}})
    assert not called.is_error
    assert len(called.structured_content["output"]["text"]) == size


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", ""])
async def test_large_result_reaches_a_client_of_text_alone(tmp_path, tokens, monkeypatch, version):  # noqa: ARG001  # state
    async def follow(*_):
        return RunResult(status="completed", run_id="exec-1", output="x" * 300_000)

    monkeypatch.setattr(McpCaller, "follow", follow)
    params = {"name": "execution_status", "arguments": {"execution_id": "exec-1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    fields = {**PLAIN, **({"MCP-Protocol-Version": version} if version else {})}
    async with published(tmp_path) as application:
        result = (await Asgi(application).request("/mcp", fields, method="POST", body=body)).json()["result"]
    assert "structuredContent" not in result
    assert json.loads(result["content"][0]["text"])["output"] == "x" * 300_000


@pytest.mark.parametrize("is_notified", [True, False])
@pytest.mark.parametrize("mode", MODES)
async def test_result_that_no_event_of_a_stream_carries_is_read_by_status(
    tmp_path,
    tokens,  # noqa: ARG001  # state
    monkeypatch,
    mode,
    is_notified,
):
    begun, report = asyncio.Event(), ServerSession.report_progress

    async def note(*args, **more):
        await report(*args, **more)
        begun.set()

    async def call(*_):
        await begun.wait()
        return RunResult(status="completed", run_id="exec-1", output={"text": "x" * 1_200_000})

    async def follow(*_):
        return await call()

    async def listen(*_):
        pass

    monkeypatch.setattr(ServerSession, "report_progress", note)
    monkeypatch.setattr(McpCaller, "call", call)
    monkeypatch.setattr(McpCaller, "follow", follow)
    monkeypatch.setattr(limits, "MCP_PROGRESS_SECONDS", 0.001)
    if not is_notified:
        monkeypatch.setattr(limits, "MCP_PING_SECONDS", 0.001)
    write_skill(tmp_path / "skills", "double", {"skill.toml": MANIFEST, "main.py": MAIN})
    arguments = {"name": "double", "arguments": {"number": 1}}
    async with published(tmp_path) as application, connected(application, mode=mode) as client:
        called = await client.call_tool("call_skill", arguments, progress_callback=listen if is_notified else None)
        monkeypatch.setattr(limits, "MCP_PROGRESS_SECONDS", 60)
        monkeypatch.setattr(limits, "MCP_PING_SECONDS", 60)
        read = await client.call_tool("execution_status", {"execution_id": "exec-1"}, progress_callback=listen)
    assert (called.is_error, called.structured_content["status"]) == (False, "completed")
    assert "execution_status with execution_id 'exec-1'" in called.structured_content["summary"]
    assert len(read.structured_content["output"]["text"]) == 1_200_000


async def test_it_can_be_switched_off(tmp_path, tokens):  # noqa: ARG001  # state
    async with published(tmp_path, "[mcp]\nserve = false\n") as application:
        assert (await Asgi(application).request("/mcp", PLAIN, method="POST", body=PING)).status == 404


async def test_without_the_extra_there_is_no_door_and_pins_are_an_error(tmp_path, tokens, monkeypatch):  # noqa: ARG001  # state
    monkeypatch.setattr("skillwire.bridges.mcp.find_spec", lambda _: None)
    async with published(tmp_path) as application:
        assert (await Asgi(application).request("/mcp", PLAIN, method="POST", body=PING)).status == 404
    with pytest.raises(UsageError, match="MCP_MISSING"):
        async with published(tmp_path, '[mcp]\npin = ["open-notes"]\n'):
            pass


async def test_operator_is_told_what_clients_will_miss(tmp_path, tokens):  # noqa: ARG001  # state
    write_skill(tmp_path / "skills", "many", {f"notes/{number}.txt": "x" for number in range(512)})
    with structlog.testing.capture_logs() as logs:
        async with published(tmp_path) as application:
            assert (await Asgi(application).request("/mcp", PLAIN, method="POST", body=PING)).status == 200
    told = {line["event"]: line for line in logs}
    assert "513 files" in told["a skill is left out of lists and resources"]["reason"]


@pytest.mark.parametrize("kind", ["", "text/plain", "application/xml"])
async def test_what_is_not_json_by_its_type_is_refused_before_the_sdk_sees_it(application_door, kind):
    fields = {**PLAIN, "Content-Type": kind}
    answer = await Asgi(application_door).request("/mcp", fields, method="POST", body=PING)
    assert (answer.status, answer.json()["error"]["code"]) == (415, "MEDIA_TYPE")


TABLE = bytes(range(256)) * 20
TEXT = 'Line "one"\\\n\U0001f98a' * 900
CROWDED_HELD = 1000


@pytest.fixture
async def application(tmp_path, tokens, monkeypatch):  # noqa: ARG001  # made first
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
    answers = application.services.executions.answers
    return answers._held, dict(answers._of)


@pytest.mark.parametrize("path", ["large-notes/table.bin", "large-notes/long.txt"])
async def test_what_has_no_room_is_told_so_before_it_is_read(application, monkeypatch, path):
    answers = application.services.executions.answers
    monkeypatch.setattr(answers, "_bounds", answers._bounds._replace(held=CROWDED_HELD, of_address=CROWDED_HELD))
    monkeypatch.setattr(limits, "EXECUTION_SMALL_BODY_BYTES", 500)
    blobs = application.catalog.blobs
    async with connected(application) as client:
        with monkeypatch.context() as without_bytes:
            without_bytes.setattr(blobs, "read", None)
            with pytest.raises(MCPError) as caught:
                await client.read_resource(f"skill://{path}")
        assert caught.value.error.code == INTERNAL_ERROR
        assert caught.value.error.data == {"code": "ENDPOINT_UNREACHABLE", "retry_after": 1}
        (small,) = (await client.read_resource("skill://open-notes/SKILL.md")).contents
    assert "open-notes" in small.text
    assert held(application) == (0, {})


async def test_what_the_sdk_writes_is_counted_too(application, monkeypatch):
    answers = application.services.executions.answers
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
