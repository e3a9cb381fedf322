"""The Skills Protocol over HTTP: JSON-RPC at ``/rpc``, and blobs as they are at ``/blobs`` **[ours]**.

What reaches JSON-RPC is answered in its terms, errors too, with 200; notifications alone, which have no answer, with
204. What fails before (a body that is too large or not JSON by its media type; credentials that are not good; requests
that come too often) is answered as everywhere else on this server. A batch counts as many requests as it holds. A
client that disconnects while something is executed is not waited for; the run goes on.

``POST /blobs`` keeps the body as a blob of its Content-Type, ``GET /blobs/ID`` returns it, or a part of it, to its
owner, and ``DELETE /blobs/ID`` removes it; other callers get a 404. Blobs are streamed, never whole in memory. They are
served under our origin, so browsers are instructed to save them and to run nothing. Pages of other origins need a
credential. Spec: JSON-RPC 2.0; specs §4. The statuses are ours.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final

import msgspec
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from skillwire import limits
from skillwire.bridges.listings import RPC_BINDING
from skillwire.errors import SkillwireError, StorageError, one_line
from skillwire.protocols.agent_skills.messages import CONTENT_FIELDS, OPEN_FIELDS
from skillwire.protocols.skills_rpc.errors import ERRORS, fix_of
from skillwire.protocols.skills_rpc.messages import METHODS
from skillwire.server.components import Interface, Protocol, Services
from skillwire.server.http import PAGE_REFUSED, Origins, encode_fields
from skillwire.server.openapi import COUNT, JSON, PART, TEXT, closed, in_parts, listed, problem
from skillwire.server.problems import Preflight, Problem, ProblemError, storage_problem
from skillwire.server.responses import find_part, in_pieces, json_response, no_content, run_while_connected, send_pieces
from skillwire.server.routing import Answer, Operation, RequestContext, Route
from skillwire.server.rpc_methods import (
    GONE,
    ByteQuota,
    RpcCaller,
    RpcDispatcher,
    calls_of,
    is_lasting,
)
from skillwire.server.runs import Runs

BLOBS_PATH: Final = "/blobs"
#: Our code → status. All other errors are the client's, or, as far as they are none, a failure of the server.
_STATUSES: Final = {
    "PERMISSION_DENIED": 403,
    "BLOB_NOT_FOUND": 404,
    "LIMIT_SIZE": 413,
    "BLOB_KIND": 415,
    "BLOB_ROOM": 429,
}
_PAGE_REFUSED: Final = Problem(403, PAGE_REFUSED, "blobs are not for pages of this origin without a credential")
_KEPT: Final = encode_fields(
    {"Accept-Ranges": "bytes", "Cache-Control": "no-store", "Content-Disposition": "attachment"},
    OPEN_FIELDS,
    CONTENT_FIELDS,
)


_CREATE_BLOB: Final = Operation(
    "Upload a blob",
    {
        "201": Answer(
            "It is kept.", {JSON: closed({"blob_id": TEXT, "size_bytes": COUNT})}, ("Location", "Cache-Control")
        ),
        "403": problem(
            "The caller is not permitted, or nothing is executed here that could read a blob: `PERMISSION_DENIED`."
        ),
        "413": problem("It is larger than the operator allows: `LIMIT_SIZE`."),
        "415": problem("It has no media type: `BLOB_KIND`."),
        "429": problem("Requests come too often, or the blob does not fit: `BLOB_ROOM`.", "Retry-After"),
    },
    body={"*/*": {}},
)
_READ_BLOB: Final = Operation(
    "A blob of the caller",
    {**in_parts("*/*"), "404": problem("The caller has no such blob, or not any more: `BLOB_NOT_FOUND`.")},
    ("blob", *PART),
)


_REMOVE_BLOB: Final = Operation(
    "Remove a blob",
    {
        "204": Answer("It is gone; a run that has not read it yet fails.", {}, ("Cache-Control",)),
        "404": problem("The caller has no such blob, or not any more: `BLOB_NOT_FOUND`."),
    },
    ("blob",),
)


class BlobRoutes:
    """Answers ``/blobs`` and ``/blobs/ID``."""

    def __init__(self, runs: Runs, origins: Origins) -> None:
        self._runs = runs
        self._origins = origins

    def routes(self) -> Sequence[Route]:
        """Return both rows."""
        return [
            Route(BLOBS_PATH, self.create, "rpc", methods=("POST",), loads=False, describes=_CREATE_BLOB),
            Route(
                f"{BLOBS_PATH}/{{blob}}",
                self.read,
                "rpc",
                methods=("GET", "HEAD", "DELETE"),
                loads=False,
                describes={"get": _READ_BLOB, "delete": _REMOVE_BLOB},
            ),
        ]

    async def create(self, context: RequestContext) -> ASGIApp | None:
        """Answer at ``/blobs``."""
        self._check_page(context)
        kind = context.fields(b"content-type").get(b"content-type", "")
        try:
            body = Request(context.scope, context.receive).stream()
            created = await self._runs.blobs.receive(context.owner, kind, body)
        except ClientDisconnect:
            context.send.status = GONE
            return None
        except SkillwireError as error:
            return _blob_problem(error)
        location = f"{context.root}{BLOBS_PATH}/{created.blob_id}"
        return json_response(msgspec.json.encode(created), 201, Location=location)

    async def read(self, context: RequestContext) -> ASGIApp | None:
        """Answer at ``/blobs/ID``."""
        self._check_page(context)
        try:
            if context.method == "DELETE":
                await self._runs.blobs.remove(context.owner, context.parameters["blob"])
                return no_content
            blob = await self._runs.blobs.open(context.owner, context.parameters["blob"])
        except SkillwireError as error:
            return _blob_problem(error)
        with blob:
            send, tag = context.send, f'"{blob.blob_id.partition(":")[2]}"'
            found = await find_part(context.scope, send, tag, blob.size, media_type=blob.kind, kept=_KEPT)
            if found is not None:
                part, start = found
                await send(start)
                await send_pieces(blob.pieces(part.start, part.stop), part.stop - part.start, send)
            return None

    def _check_page(self, context: RequestContext) -> None:
        if context.principal is None and not self._origins.let_in(context.scope):
            raise ProblemError(_PAGE_REFUSED)


def _blob_problem(error: SkillwireError) -> Problem:
    if isinstance(error, StorageError):
        structlog.get_logger("skillwire.rpc").error("a blob cannot be kept or read", error=one_line(error))
        return storage_problem(error)
    pause = error.details.get("retry_after")
    fields = {"Retry-After": str(pause)} if isinstance(pause, int) else {}
    fix = fix_of(error)
    details = {"fix": fix} if fix else {}
    return Problem(_STATUSES.get(error.code, 400), error.code, error.message, details, fields)


RPC_PATH: Final = "/rpc"
_ALLOWED: Final = ("POST", "OPTIONS")
_JSON: Final = re.compile(r"application/(?:(?:[a-z0-9.+-]+\+)?json|json-?rpc|jsonrequest)\s*(?:;.*)?", re.IGNORECASE)
_CHARSET: Final = re.compile(r";\s*charset\s*=\s*\"?([\w.:-]+)", re.ASCII | re.IGNORECASE)


class SkillsRpcProtocol(Protocol):
    """The Skills Protocol: ``/rpc``, and its blobs as they are."""

    name = "Skills Protocol"

    def routes(self, services: Services) -> Sequence[Route]:
        """Return the rows of JSON-RPC and of blobs."""
        origins = Origins(services.configuration.runs.origins, services.base_url)
        rpc = RpcRoute(RpcDispatcher(services.executions.runs), services, origins)
        row = Route(
            RPC_PATH, rpc.answer, "rpc", methods=(), authenticates=False, loads=False, describes={"post": _operation()}
        )
        row.path_regex = re.compile(f"{RPC_PATH}/?")  # some clients add a slash to each base URL
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
    """Return the description of ``/rpc``: OpenAPI has no methods behind one path, so each is one alternative body."""
    request = {
        "oneOf": [
            closed({"jsonrpc": {"const": "2.0"}, "method": {"const": method}}, {"id": _ID, "params": kind})
            for method, kind in METHODS.items()
        ]
    }
    batch = {**listed(request), "maxItems": int(limits.RPC_BATCH), "minItems": 1}
    return Operation(
        "One JSON-RPC request, or a batch",
        {
            "200": Answer(
                "What JSON-RPC answers, errors too.", {JSON: {"anyOf": [_ANSWER, listed(_ANSWER)]}}, ("Cache-Control",)
            ),
            "204": Answer("Nothing: only notifications came.", {}, ("Cache-Control",)),
            "413": problem(f"The request has more than {limits.RPC_REQUEST_BYTES:,} bytes: `LIMIT_SIZE`."),
            "415": problem("The body is compressed, or not JSON in UTF-8: `MEDIA_TYPE`."),
        },
        body={JSON: {"anyOf": [request, batch]}},
    )


class RpcRoute:
    """Answers ``/rpc``; ``origins`` are those of pages that may have something done without a credential."""

    def __init__(self, dispatcher: RpcDispatcher, services: Services, origins: Origins) -> None:
        self._dispatcher = dispatcher
        self._skills = services.skills
        self._bodies = services.executions.answers
        self._origins = origins

    async def answer(self, context: RequestContext) -> ASGIApp | None:
        """Answer one HTTP request."""
        if context.method != "POST":
            await context.authenticate()
            if context.method == "OPTIONS":
                return Preflight(_ALLOWED)
            details = {"method": context.method[:20], "methods": list(METHODS)}
            message = "this resource answers POST with a request of JSON-RPC 2.0"
            return Problem(405, "METHOD_NOT_ALLOWED", message, details, {"Allow": ", ".join(_ALLOWED)})
        async with self._bodies.reading(context.scope, context.receive) as body:
            await context.authenticate(body.data)
            _check_type(context)
            request = await self._dispatcher.decode(body.data)
            if (further := len(calls_of(request)) - 1) > 0:
                context.count_further(further)
            view = await context.load()
            skills = await self._skills.of(view, context.revision)
            is_known = context.principal is not None or self._origins.let_in(context.scope)
            caller = RpcCaller(context.owner, skills, is_stray_page=not is_known)
            answering = self._dispatcher.answer(request, caller, ByteQuota(body))
            if is_lasting(request):
                task = await run_while_connected(asyncio.create_task(answering), context.receive)
                if task.cancelled():
                    context.send.status = GONE
                else:
                    await _response(task.result())(context.scope, context.receive, context.send)
            else:
                await _response(await answering)(context.scope, context.receive, context.send)
        return None


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
    """Refuse a body that is not JSON (415); a browser sends other types without a preflight."""
    given = context.fields(b"content-type").get(b"content-type", "")
    if not _JSON.fullmatch(given):
        found = f"the body is {ascii(given)[:60]}" if given else "the body has no Content-Type"
        raise ProblemError(Problem(415, "MEDIA_TYPE", f"{found}, and only application/json is read"))
    charset = _CHARSET.search(given)
    if charset is not None and charset[1].lower() not in {"utf-8", "utf8", "us-ascii"}:
        raise ProblemError(Problem(415, "MEDIA_TYPE", f"the charset is {charset[1][:60]}, and only UTF-8 is read"))
