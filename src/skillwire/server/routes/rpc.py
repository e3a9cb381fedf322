"""JSON-RPC over HTTP: ``POST /rpc``.

What reaches JSON-RPC is answered in its terms, errors too, with 200; notifications alone, which have no answer, with
204. What fails before (a body that is too large or not JSON by its media type; credentials that are not good; requests
that come too often) is answered as everywhere else on this server. A batch counts as many requests as it holds.

A client that disconnects while something is executed is not waited for; the run goes on. Spec: JSON-RPC 2.0; specs §4.
The statuses are ours.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.bridges.agent_card import RPC_BINDING
from skillwire.protocols.skills_rpc.errors import ERRORS
from skillwire.protocols.skills_rpc.messages import METHODS
from skillwire.server.auth.authentication import AuthResult
from skillwire.server.components import Interface, Protocol
from skillwire.server.execution_responses import until_disconnected
from skillwire.server.openapi import JSON, TEXT, closed, listed, problem
from skillwire.server.origins import Origins
from skillwire.server.problems import Preflight, Problem, ProblemError
from skillwire.server.responses import in_pieces, json_response, no_content, send_pieces
from skillwire.server.routes.blobs import BlobRoutes
from skillwire.server.routing import Answer, Operation, Route
from skillwire.server.rpc_methods import (
    GONE,
    ByteQuota,
    Methods,
    RpcCaller,
    RpcDispatcher,
    calls_of,
    is_lasting,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from skillwire.server.components import Services
    from skillwire.server.context import RequestContext
    from skillwire.server.rpc_methods import Request

RPC_PATH: Final = "/rpc"
_ALLOWED: Final = ("POST", "OPTIONS")
_JSON: Final = re.compile(r"application/(?:(?:[a-z0-9.+-]+\+)?json|json-?rpc|jsonrequest)\s*(?:;.*)?", re.IGNORECASE)


class SkillsRpcProtocol(Protocol):
    """The Skills Protocol: ``/rpc``, and its blobs as they are."""

    name = "Skills Protocol"

    def routes(self, services: Services) -> Sequence[Route]:
        """Return the rows of JSON-RPC and of blobs."""
        origins = Origins(services.configuration.runs.origins, services.base_url)
        rpc = RpcRoute(RpcDispatcher(Methods(services.executions.runs)), services, origins)
        row = Route(
            RPC_PATH, rpc.answer, "rpc", methods=(), authenticates=False, loads=False, describes={"post": _operation()}
        )
        return [row, *BlobRoutes(services.executions.runs, origins).routes()]

    def announce(self, services: Services) -> Sequence[Interface]:
        """Return where skills are executed, if they are."""
        return (Interface(RPC_PATH, RPC_BINDING),) if services.configuration.runs.execute_skill else ()


_ID: Final = {"type": ["string", "number", "null"]}
_ERROR: Final = closed(
    {
        "code": {"type": "integer", "description": "; ".join(f"{code}: {text}" for code, text in ERRORS.items())},
        "message": TEXT,
    },
    {"data": {"type": "object", "description": "Our code, what to do, whether to try again, the place."}},
)
_ANSWER: Final = {
    "type": "object",
    "properties": {"jsonrpc": {"const": "2.0"}, "id": _ID, "result": {}, "error": _ERROR},
    "required": ["jsonrpc", "id"],
    "additionalProperties": False,
    "oneOf": [{"required": ["result"]}, {"required": ["error"]}],
}


def _operation() -> Operation:
    """Return what ``/rpc`` takes and answers.

    OpenAPI has no word for methods behind one path, so the request is described as what it may be: for each method its
    name and its parameters, which are those of the protocol's own list.
    """
    request = {
        "oneOf": [
            closed({"jsonrpc": {"const": "2.0"}, "method": {"const": method}}, {"id": _ID, "params": kind})
            for method, kind in METHODS.items()
        ]
    }
    batch = {**listed(request), "maxItems": int(limits.RPC_BATCH), "minItems": 1}
    return Operation(
        "Call a method, or several",
        {
            "200": Answer(
                "What JSON-RPC answers, errors too.", {JSON: {"anyOf": [_ANSWER, listed(_ANSWER)]}}, ("Cache-Control",)
            ),
            "204": Answer("Nothing: only notifications came.", {}, ("Cache-Control",)),
            "413": problem(f"The request has more than {limits.RPC_REQUEST_BYTES:,} bytes: `LIMIT_SIZE`."),
            "415": problem("The body is not JSON by its media type: `MEDIA_TYPE`."),
        },
        body={JSON: {"anyOf": [request, batch]}},
    )


class RpcRoute:
    """Answers ``/rpc``; ``origins`` are those of pages that may have something done without a credential."""

    def __init__(self, dispatcher: RpcDispatcher, services: Services, origins: Origins) -> None:
        self._dispatcher = dispatcher
        self._skills = services.skills
        self._authentication = services.authentication
        self._bodies = services.executions.answers
        self._origins = origins

    async def answer(self, context: RequestContext) -> ASGIApp | None:
        """Answer one HTTP request."""
        if context.method != "POST":
            await context.authenticate()
            return Preflight(_ALLOWED) if context.method == "OPTIONS" else _other_method(context.method)
        async with self._bodies.reading(context.scope, context.receive) as body:
            await context.authenticate(body.data)
            _check_type(context)
            request = await self._dispatcher.decode(body.data)
            self._count(request, context)
            answering = self._dispatcher.answer(request, await self._caller(context), ByteQuota(body))
            if is_lasting(request):
                await _send_unless_gone(answering, context)
            else:
                await _response(await answering)(context.scope, context.receive, context.send)
        return None

    def _count(self, request: Request, context: RequestContext) -> None:
        further = len(calls_of(request)) - 1
        if further > 0:
            principal = context.principal
            context.send.caller = AuthResult(principal, {})  # a refusal says itself what is left
            fields = self._authentication.count_further(principal, context.scope, further)
            context.send.caller = AuthResult(principal, fields)

    async def _caller(self, context: RequestContext) -> RpcCaller:
        view = await context.load()
        skills = await self._skills.of(view, context.revision)
        is_known = context.principal is not None or self._origins.let_in(context.scope)
        return RpcCaller(context.owner, skills, is_stray_page=not is_known)


async def _send_unless_gone(answering: Coroutine[None, None, bytes | None], context: RequestContext) -> None:
    making, gone = asyncio.create_task(answering), asyncio.create_task(until_disconnected(context.receive))
    try:
        await asyncio.wait({making, gone}, return_when=asyncio.FIRST_COMPLETED)
        if making.done():
            await _response(making.result())(context.scope, context.receive, context.send)
        else:
            context.send.status = GONE
    finally:
        making.cancel()
        gone.cancel()
        await asyncio.gather(making, gone, return_exceptions=True)


def _response(answer: bytes | None) -> ASGIApp:
    if answer is None:
        return no_content
    if len(answer) <= limits.SERVER_PIECE_BYTES:
        return json_response(answer)

    async def respond(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [*json_response(b"").fields, (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send_pieces(in_pieces([answer]), len(answer), send)

    return respond


def _check_type(context: RequestContext) -> None:
    """Look at the media type of a body; a browser sends others without asking us first.

    Raises:
        ProblemError: it is not JSON (415).
    """
    given = context.fields(b"content-type").get(b"content-type", "")
    if not _JSON.fullmatch(given):
        told = f"the body is {ascii(given)[:60]}" if given else "the body has no Content-Type"
        raise ProblemError(Problem(415, "MEDIA_TYPE", f"{told}, and only application/json is read"))


def _other_method(method: str) -> Problem:
    details = {"method": method[:20], "methods": list(METHODS)}
    message = "this resource answers POST with a request of JSON-RPC 2.0"
    return Problem(405, "METHOD_NOT_ALLOWED", message, details, {"Allow": ", ".join(_ALLOWED)})
