"""MCP over HTTP: ``/mcp`` checks what HTTP asks, and hands messages to the bridge.

The SDK takes a second to import, so the first request imports it, off the event loop. Each request is authenticated by
itself: there are no sessions. The SDK writes a response three times, on the event loop: as a model, as text and as
bytes. So the server writes a large value itself, gives the SDK a mark in its place, and sends the value in place of the
mark. A stream whose first event is the answer is sent as JSON, because clients bound an event, the official SDK by
1 MiB. The size of all responses together is bounded. Trust: callers are untrusted, and may read slowly.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from importlib import import_module
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException

from skillwire import limits
from skillwire.bridges.mcp import has_sdk, require_sdk
from skillwire.bridges.mcp.host import INVALID_REQUEST, answer_in, encode_error
from skillwire.errors import DecodeError, SkillwireError
from skillwire.protocols.agent_skills.messages import IDENTITY_FIELDS, JSON
from skillwire.server.components import Protocol
from skillwire.server.configuration import MCP_PATH
from skillwire.server.http import PAGE_REFUSED, Origins, encode_fields
from skillwire.server.mcp_backend import McpCaller, log_left_out, make_mcp_backend, missing_pins
from skillwire.server.openapi import TEXT, problem, reference
from skillwire.server.problems import Problem, ProblemError
from skillwire.server.request_bodies import CROWDED
from skillwire.server.responses import in_pieces, send_pieces
from skillwire.server.revision import has_failed
from skillwire.server.routes.system import resource_route
from skillwire.server.routing import Answer, Operation, Route
from skillwire.server.rpc_methods import hold_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from skillwire.bridges.mcp.server import HttpEndpoint
    from skillwire.server.components import Services
    from skillwire.server.revision import Revision
    from skillwire.server.routing import RequestContext
    from skillwire.server.rpc_methods import ByteQuota

_MCP_TOO_LARGE: Final = Problem(500, "LIMIT_SIZE", f"the answer has more than {limits.RPC_ANSWER_BYTES:,} bytes")


class McpAnswer:
    """The response to one request: sends what the SDK writes, within ``room``."""

    def __init__(
        self,
        room: ByteQuota,
        send: Send,
        step_up: Callable[[str], Problem | None],
        count_further: Callable[[int], None],
    ) -> None:
        self._send = send
        self._attached: dict[bytes, bytes] = {}
        self._start: Message | None = None
        self._is_over = False
        self._step_up = step_up
        self._count_further = count_further
        self._has_several = False
        self._refusal: Problem | None = None
        #: Takes so many bytes of room, or gives some back.
        self.reserve = room.reserve

    def attach(self, value: bytes) -> str:
        """Return a mark that the SDK writes in place of ``value``, JSON whose bytes are reserved."""
        mark = f"skillwire-{token_hex(16)}"
        self._attached[f'"{mark}"'.encode()] = value
        return mark

    def begin_batch(self, messages: int) -> None:
        """Count each message of a batch as a request. Raises ProblemError (429)."""
        if messages > 1:
            self._has_several = True
            self._count_further(messages - 1)

    def ask_for_scope(self, skill: str) -> None:
        """Send the scope that opens ``skill`` in place of what the SDK writes, if there is one."""
        if not self._has_several:  # the other messages of a batch have answers
            self._refusal = self._step_up(skill)

    async def send(self, message: Message) -> None:
        """Send a message of the SDK, with the attached values. The head waits for the first part of the body."""
        if self._is_over:
            return
        if message["type"] != "http.response.body":
            self._start = message
            return
        body, is_last = message.get("body", b""), not message.get("more_body", False)
        if self._start is not None:
            if self._refusal is not None:
                await self._replace(self._refusal)
                return
            if (answer := answer_in(body)) is not None:
                body, is_last, self._is_over = answer, True, True
                self._start = _as_json(self._start, len(answer))
        try:
            self.reserve(len(body))
        except SkillwireError as refusal:
            await self._replace(_MCP_TOO_LARGE if isinstance(refusal, DecodeError) else CROWDED)
            return
        await self._write(body, is_last=is_last)

    async def _write(self, body: bytes, *, is_last: bool) -> None:
        """Send a part of the body, whose bytes are reserved until then, and the head before the first one."""
        try:
            parts = [body]
            for mark, value in self._attached.items():
                before, found, after = parts[-1].partition(mark)
                if found:
                    parts[-1:] = [before, value, after]
            size = sum(map(len, parts))
            if self._start is not None:
                more = size - len(body)
                fields = [
                    (key, b"%d" % (int(value) + more) if key == b"content-length" else value)
                    for key, value in self._start["headers"]
                ]
                start, self._start = {**self._start, "headers": fields}, None
                await self._send(start)
            if size <= limits.SERVER_PIECE_BYTES:
                await self._send({"type": "http.response.body", "body": b"".join(parts), "more_body": not is_last})
            elif not await send_pieces(in_pieces(parts), size, self._send, is_last=is_last):
                self._is_over = True
        finally:
            self.reserve(-len(body))

    async def _replace(self, problem: Problem) -> None:
        """Answer with ``problem``; a stream that has begun is cut."""
        self._is_over = True
        if self._start is not None:
            await problem.send(self._send)


def _as_json(start: Message, size: int) -> Message:
    """Return the head of a stream as the head of a JSON answer."""
    kept = [field for field in start["headers"] if field[0] not in {b"content-type", b"x-accel-buffering"}]
    return {**start, "headers": [*kept, *encode_fields({"Content-Type": JSON, "Content-Length": str(size)})]}


_ALLOWED: Final = "POST, OPTIONS"
#: The star stands for every field but Authorization; some that the protocol has carry the names of inputs.
_FIELDS: Final = f"*, {IDENTITY_FIELDS}, Content-Type"
_NO_JSON: Final = Problem(415, "MEDIA_TYPE", "the body has to be application/json, and say so in Content-Type")
_REFUSED: Final = Problem(403, PAGE_REFUSED, "pages of this origin may not speak with this server")


_MESSAGE: Final = {
    "type": "object",
    "properties": {"jsonrpc": {"const": "2.0"}},
    "required": ["jsonrpc"],
    "description": "A message of JSON-RPC 2.0, as the Model Context Protocol has it.",
}
_REFUSAL: Final = {JSON: {"anyOf": [_MESSAGE, reference("schemas", "Problem")]}}
_OPERATION: Final = Operation(
    "A message of the Model Context Protocol",
    {
        "200": Answer("Its answer, or a stream of it.", {JSON: _MESSAGE, "text/event-stream": TEXT}),
        "202": Answer("Nothing: only notifications came."),
        "400": Answer("The message is not known.", _REFUSAL),
        "401": "AuthRequired",
        "403": problem("It comes from a page of another site: `PAGE_REFUSED`; or a scope is missing, which is named."),
        "404": Answer("There is no such method; or nothing at this path.", _REFUSAL),
        "406": Answer("`Accept` has not both media types of the answer.", _REFUSAL),
        "413": Answer(f"It has more than {limits.EXECUTION_REQUEST_BYTES:,} bytes.", _REFUSAL),
        "415": problem("The body is not JSON by its media type: `MEDIA_TYPE`."),
    },
    body={JSON: _MESSAGE},
)


class Mcp(Protocol):
    """The Model Context Protocol: ``/mcp``, if the operator has not turned it off and the extra is installed."""

    name = "MCP"

    def routes(self, services: Services) -> Sequence[Route]:
        """Return the row of ``/mcp``. Raises UsageError (``MCP_MISSING``) when skills are pinned."""
        settings = services.configuration.mcp
        if settings.serve and settings.pins:
            require_sdk()
        is_there = settings.serve and has_sdk()
        route = McpRoute(services)
        if is_there:
            services.catalog.follows.append(missing_pins(settings.pins).log)
            services.close.append(route.close)
        return [
            Route(
                MCP_PATH,
                route.answer if is_there else None,
                "mcp",
                methods=(),
                authenticates=False,
                loads=False,
                describes={"post": _OPERATION},
            ),
            resource_route(services, MCP_PATH, is_served=is_there),
        ]


class McpRoute:
    """Answers at ``/mcp``."""

    def __init__(self, services: Services) -> None:
        self._pins = services.configuration.mcp.pins
        self._is_closed = services.configuration.mcp.require == "authenticated"
        self._authentication = services.authentication
        self._origins = Origins(services.configuration.runs.origins, services.base_url)
        self._backend = make_mcp_backend(services)
        self._bodies = services.executions.bodies
        self._answers = services.executions.answers
        self._endpoint: asyncio.Task[HttpEndpoint] | None = None

    async def answer(self, context: RequestContext) -> ASGIApp | None:
        """Answer a request."""
        if not self._origins.let_in(context.scope):
            raise ProblemError(_REFUSED)
        asked = context.fields(b"origin", b"content-type")
        origin = asked.get(b"origin", "")
        if context.method != "POST":
            await context.authenticate()
            if context.method != "OPTIONS":
                raise HTTPException(405, headers={"Allow": _ALLOWED})
            return partial(_answer_preflight, origin)
        async with _readable(), self._bodies.reading(context.scope, context.receive) as body:
            await context.authenticate(body.data)
            if self._is_closed and context.principal is None:
                raise self._authentication.required("Authentication is required to connect by MCP", context.scope)
            if asked.get(b"content-type", "").partition(";")[0].strip().lower() != JSON:
                raise ProblemError(_NO_JSON)
            view = await context.load()
            if self._endpoint is None or has_failed(self._endpoint):
                self._endpoint = asyncio.create_task(self._make(context.revision))
            endpoint = await asyncio.shield(self._endpoint)
            with hold_bytes(self._answers, context.scope) as quota:
                step_up = partial(self._authentication.step_up, context.principal, context.scope)
                send = _opened(context.send, origin) if origin else context.send
                answer = McpAnswer(quota, send, step_up, context.count_further)
                caller = McpCaller(view, context.revision, context.owner, self._backend, answer)
                await endpoint.answer(caller, context.scope, body.data, context.receive, answer.send)
        return None

    async def close(self) -> None:
        """End what is under way."""
        if self._endpoint is not None:
            (endpoint,) = await asyncio.gather(self._endpoint, return_exceptions=True)
            if not isinstance(endpoint, BaseException):
                await endpoint.close()

    async def _make(self, revision: Revision) -> HttpEndpoint:
        bridge = await asyncio.to_thread(import_module, "skillwire.bridges.mcp.server")
        await asyncio.to_thread(log_left_out, revision)
        endpoint: HttpEndpoint = bridge.HttpEndpoint(bridge.make_server(pins=self._pins))
        return endpoint


@asynccontextmanager
async def _readable() -> AsyncIterator[None]:
    """Write the refusal of a message that is too large, or comes too often, as one of JSON-RPC, which clients show."""
    try:
        yield
    except ProblemError as refusal:
        problem = refusal.problem
        if problem.status not in {HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.TOO_MANY_REQUESTS}:
            raise
        message = problem.message
        if problem.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            most = limits.EXECUTION_REQUEST_BYTES
            message = (
                f"a message has at most {most:,} bytes; hand a larger file in with POST /blobs, and give its blob_id"
            )
        written = encode_error(INVALID_REQUEST, message, {"code": problem.code, **problem.details})
        raise ProblemError(replace(problem, written=written)) from None


def _opened(send: Send, origin: str) -> Send:
    """Return a sender that lets pages of ``origin`` read the response, and no other pages."""

    async def opened(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = encode_fields({"Access-Control-Allow-Origin": origin, "Vary": "Origin"})
            others = [field for field in message["headers"] if field[0] != b"access-control-allow-origin"]
            message = {**message, "headers": [*others, *own]}
        await send(message)

    return opened


async def _answer_preflight(origin: str, _scope: Scope, _receive: Receive, send: Send) -> None:
    own = {
        "Allow": _ALLOWED,
        "Access-Control-Allow-Methods": _ALLOWED,
        "Access-Control-Allow-Headers": _FIELDS,
        "Access-Control-Max-Age": "600",
        "Vary": "Origin",
    }
    opened = {"Access-Control-Allow-Origin": origin} if origin else {}
    await send({"type": "http.response.start", "status": 204, "headers": encode_fields(own, opened)})
    await send({"type": "http.response.body", "body": b""})
