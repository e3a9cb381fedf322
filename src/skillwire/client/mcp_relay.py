"""``skillwire mcp --server``: an MCP endpoint for hosts that start programs, with the credentials stored here.

Each message of the host becomes a POST, and responses become lines. Messages are relayed concurrently; a cancelled one
closes its connection, which the endpoint sees. The HTTP header fields come from the message: since 2026-07-28 it states
its version, before that the handshake did. Requests of the endpoint to its client are not relayed; our endpoint makes
none. Spec: MCP Transports "stdio", "Streamable HTTP". Trust: responses are hostile; they are read as bounded JSON and
encoded again, so that each is one line.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from skillwire import limits
from skillwire.client.api import AsyncClient
from skillwire.errors import DecodeError, FetchError, SkillwireError, SourceLocation, ValidationError
from skillwire.model.url import parse_url
from skillwire.trust.guarded_json import load_json, server_message
from skillwire.wire.exchange import HttpRequest, HttpResponse

Message = dict[str, Any]

_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_SESSION: Final = "mcp-session-id"
_VERSION: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_PRINTABLE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?", re.ASCII)
#: Method → the parameter that ``Mcp-Name`` repeats.
_NAMES: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_EVENT_END: Final = re.compile(rb"\r?\n\r?\n")
_INTERNAL: Final = -32603
_INVALID: Final = -32600
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_encode: Final = msgspec.json.Encoder().encode


class Relay:
    """One conversation with ``endpoint``: the version that was settled, and the session if there is one."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._version = ""
        self._session = ""

    def request(self, message: Message, authorization: str | None) -> HttpRequest:
        """Return the request that a message of the host becomes."""
        fields = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        method, params = message.get("method"), _mapping(message.get("params"))
        version = _mapping(params.get("_meta")).get(_VERSION_KEY) or self._version
        if isinstance(version, str) and _VERSION.fullmatch(version) and method != "initialize":
            fields["MCP-Protocol-Version"] = version
        if isinstance(method, str) and _PRINTABLE.fullmatch(method):
            fields["Mcp-Method"] = method
            if isinstance(name := params.get(_NAMES.get(method, "")), str):
                if _PRINTABLE.fullmatch(name) and not name.startswith("=?base64?"):
                    fields["Mcp-Name"] = name
                else:
                    fields["Mcp-Name"] = f"=?base64?{base64.b64encode(name.encode()).decode('ascii')}?="
        if self._session:
            fields["Mcp-Session-Id"] = self._session
        if authorization is not None:
            fields["Authorization"] = authorization
        seconds = limits.MCP_WAIT_SECONDS + limits.HTTP_REQUEST_SECONDS
        body, most = _encode(message), limits.RPC_ANSWER_BYTES
        return HttpRequest(self.endpoint, "POST", fields, body, max_bytes=most, timeout=seconds)

    def lines(self, message: Message, response: HttpResponse) -> list[bytes]:
        """Return the host's lines for the response to ``message``.

        Raises FetchError (``AUTH_REQUIRED``, ``PERMISSION_DENIED``, ``HTTP_STATUS``), DecodeError or ValidationError
        for anything but an MCP response.
        """
        messages = list(_messages(response)) if response.body else []
        if "id" in message:  # an error for a request that the endpoint could not read
            messages = [{**one, "id": message["id"]} if one.get("id", 0) is None else one for one in messages]
        if not messages and "id" in message:
            place, origin = SourceLocation(response.url), parse_url(response.url).origin
            if response.status == _UNAUTHORIZED:
                fix = f"Run skillwire auth login {origin}, or give --token."
                reason = server_message(response.body) or "the endpoint wants to know who asks"
                raise FetchError("AUTH_REQUIRED", reason, place=place, fix=fix)
            if response.status == _FORBIDDEN:
                reason = server_message(response.body) or "the endpoint refuses this credential"
                raise FetchError("PERMISSION_DENIED", reason, place=place)
            fix = "Check the address; the endpoint of a server is usually /mcp."
            raise FetchError("HTTP_STATUS", f"the endpoint answered {response.status}", place=place, fix=fix)
        if message.get("method") == "initialize":
            self._session = response.headers.get(_SESSION, "")
            for one in messages:
                self._version = str(_mapping(one.get("result")).get("protocolVersion", ""))
        return [_encode(one) for one in messages]


def error_line(message: Message, error: SkillwireError) -> bytes | None:
    """Return the host's line for a message that could not be relayed; None for a notification."""
    if "id" not in message or "method" not in message:
        return None
    return _error_line(id_of(message["id"]), _INTERNAL, error)


def unread_line(error: SkillwireError) -> bytes:
    """Return how the host learns that what it wrote is no message. Spec: JSON-RPC 2.0 §5."""
    return _error_line(None, _INVALID, error)


def _error_line(request_id: str | int | None, code: int, error: SkillwireError) -> bytes:
    text = f"{error.code}: {error.message}" + (f". {error.fix}" if error.fix else "")
    return _encode({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}})


def read_message(line: bytes | None) -> Message | None:
    """Return a message of the host; None for a blank line. A None line was too long.

    Raises DecodeError or ValidationError.
    """
    if line is None:
        raise DecodeError("LIMIT_SIZE", f"a message has at most {limits.RPC_REQUEST_BYTES:,} bytes")
    if not line.strip():
        return None
    try:
        message = load_json(line, max_bytes=limits.RPC_REQUEST_BYTES, source="standard input")
    except RecursionError:
        raise DecodeError("JSON_DEPTH", "a message nests too deeply") from None
    if not isinstance(message, dict):
        raise ValidationError("RPC_REQUEST", "a message of MCP is an object")
    return message


def id_of(value: object) -> str | int | None:
    """Return what a message names as the id of a request, if it can be one."""
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def cancelled_id(message: Message) -> str | int | None:
    """Return the id of the request that a message takes back; None for every other message."""
    if message.get("method") != "notifications/cancelled":
        return None
    return id_of(_mapping(message.get("params")).get("requestId"))


def _messages(response: HttpResponse) -> Iterator[Message]:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        documents = [data for event in _EVENT_END.split(response.body) if (data := _data(event))]
    else:
        documents = [response.body] if kind == "application/json" else []
    for document in documents:
        read = load_json(document, max_bytes=limits.RPC_ANSWER_BYTES, source=response.url)
        if not isinstance(read, dict):
            raise ValidationError("RPC_ANSWER", "a message of MCP is an object", place=SourceLocation(response.url))
        if "jsonrpc" in read:  # an error of HTTP may be JSON, too
            yield read


def _data(event: bytes) -> bytes:
    """Return the data of an event, of one or several lines. Spec: HTML "Server-sent events"."""
    lines = (line.rstrip(b"\r") for line in event.split(b"\n"))
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


_AT_ONCE: Final = 32  # messages relayed concurrently


class RelayClient(AsyncClient):
    """A client that relays messages to an endpoint."""

    async def relay(self, endpoint: str, lines: AsyncIterator[bytes | None], write: Callable[[bytes], object]) -> None:
        """Relay each line to ``endpoint`` until the input ends, and ``write`` the answers."""
        relay, places = Relay(endpoint), asyncio.Semaphore(_AT_ONCE)
        tasks: dict[Any, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            async for line in lines:
                try:
                    message = read_message(line)
                except SkillwireError as error:
                    write(unread_line(error))
                    continue
                if message is None:
                    continue
                if (cancelled := cancelled_id(message)) is not None:
                    if (task := tasks.get(cancelled)) is not None:
                        task.cancel()
                    continue
                await places.acquire()
                task = group.create_task(self._relay_one(relay, message, write))
                task.add_done_callback(lambda _: places.release())
                if message.get("method") == "initialize":
                    await asyncio.wait([task])  # later messages state the negotiated version
                if (key := id_of(message.get("id"))) is not None:
                    tasks[key] = task
                    task.add_done_callback(lambda _, key=key: tasks.pop(key, None))  # type: ignore[misc]  # the key of now

    async def _relay_one(self, relay: Relay, message: Message, write: Callable[[bytes], object]) -> None:
        try:
            response = await self._runner.run(
                self._session.fetch_named(relay.endpoint, partial(relay.request, message))
            )
            lines: list[bytes | None] = [*relay.lines(message, response)]
        except SkillwireError as error:
            self._session.explain(error)
            lines = [error_line(message, error)]
        except Exception as error:  # noqa: BLE001  # one message must not end the others
            lines = [error_line(message, SkillwireError("INTERNAL", f"the relay failed: {type(error).__name__}"))]
        for line in lines:
            if line is not None:
                write(line)


async def run_relay(
    endpoint: str, token: str | None, lines: AsyncIterator[bytes | None], write: Callable[[bytes], object]
) -> None:
    """Relay ``lines`` to ``endpoint``, with ``token`` or the stored credential, and ``write`` the answers."""
    async with RelayClient() as client:
        if token is not None:
            client.set_token(endpoint, token)
        await client.relay(endpoint, lines, write)
