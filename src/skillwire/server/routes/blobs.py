"""Blobs over HTTP as they are, beside ``create_blob`` and ``read_blob``: streamed, never whole in memory **[ours]**.

::

    POST  /blobs       the body becomes a blob of its Content-Type; 201 with blob_id and size_bytes
    GET   /blobs/ID    its bytes; a part with Range

A blob is its owner's; to everybody else it is not there. What was handed in is given back under our origin, so a
browser is told to save it and to run nothing of it. Pages of other origins hand in and fetch nothing without a
credential; they may ask first, since a preflight shows none. Spec: specs §4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from skillwire.errors import SkillwireError, StorageError, one_line
from skillwire.protocols.agent_skills.messages import CONTENT_FIELDS, OPEN_FIELDS
from skillwire.protocols.skills_rpc.codec import encode_created
from skillwire.protocols.skills_rpc.errors import fix_of
from skillwire.server.http import Part, encode_fields, matching_tag, requested_part
from skillwire.server.openapi import COUNT, JSON, PART, TEXT, closed, in_parts, problem
from skillwire.server.origins import PAGE_REFUSED
from skillwire.server.problems import Problem, ProblemError, unsatisfiable
from skillwire.server.responses import json_response, send_pieces
from skillwire.server.routing import Answer, Operation, Route
from skillwire.server.rpc_methods import GONE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.types import ASGIApp, Receive

    from skillwire.server.context import RequestContext
    from skillwire.server.origins import Origins
    from skillwire.server.run_blobs import OpenBlob
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
_REFUSED: Final = Problem(403, PAGE_REFUSED, "blobs are not for pages of this origin unless they say who they are")
_KEPT: Final = {
    "Accept-Ranges": "bytes",
    "Cache-Control": "no-store",
    "Content-Disposition": "attachment",
    **OPEN_FIELDS,
    **CONTENT_FIELDS,
}


_CREATE: Final = Operation(
    "Keep a blob, for a run",
    {
        "201": Answer(
            "It is kept.", {JSON: closed({"blob_id": TEXT, "size_bytes": COUNT})}, ("Location", "Cache-Control")
        ),
        "403": problem("As above, or nothing is executed here that could read a blob: `PERMISSION_DENIED`."),
        "413": problem("It is larger than the operator allows: `LIMIT_SIZE`."),
        "415": problem("It has no media type: `BLOB_KIND`."),
        "429": problem("As above, or there is no space for it: `BLOB_ROOM`.", "Retry-After"),
    },
    body={"*/*": {}},
)
_READ: Final = Operation(
    "A blob, to its owner",
    {**in_parts("*/*"), "404": problem("The caller has no such blob, or not any more: `BLOB_NOT_FOUND`.")},
    ("blob", *PART),
)


class GoneError(Exception):
    """Whoever sent a blob has gone before it was whole."""


class BlobRoutes:
    """Answers ``/blobs`` and ``/blobs/ID``.

    Args:
        runs: keeps blobs.
        origins: of pages that may use them without a credential.
    """

    def __init__(self, runs: Runs, origins: Origins) -> None:
        self._runs = runs
        self._origins = origins

    def routes(self) -> Sequence[Route]:
        """Return both rows."""
        return [
            Route(BLOBS_PATH, self.create, "rpc", methods=("POST",), loads=False, describes=_CREATE),
            Route(f"{BLOBS_PATH}/{{blob}}", self.read, "rpc", loads=False, describes=_READ),
        ]

    async def create(self, context: RequestContext) -> ASGIApp | None:
        """Answer at ``/blobs``."""
        self._check_page(context)
        kind = context.fields(b"content-type").get(b"content-type", "")
        try:
            created = await self._runs.blobs.receive(context.owner, kind, _pieces(context.receive))
        except GoneError:
            context.send.status = GONE
            return None
        except SkillwireError as error:
            return _problem(error)
        location = f"{context.scope.get('root_path', '')}{BLOBS_PATH}/{created.blob_id}"
        return json_response(encode_created(created), 201, Location=location)

    async def read(self, context: RequestContext) -> ASGIApp | None:
        """Answer at ``/blobs/ID``."""
        self._check_page(context)
        try:
            blob = await self._runs.blobs.open(context.owner, context.parameters["blob"])
        except SkillwireError as error:
            return _problem(error)
        with blob:
            return await _send(blob, context)

    def _check_page(self, context: RequestContext) -> None:
        if context.principal is None and not self._origins.let_in(context.scope):
            raise ProblemError(_REFUSED)


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    """Yield the body as it comes.

    Raises:
        GoneError: its sender has gone before the end.
    """
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return


async def _send(blob: OpenBlob, context: RequestContext) -> ASGIApp | None:
    asked = context.fields(b"if-none-match", b"range", b"if-range")
    tag = f'"{blob.blob_id.partition(":")[2]}"'
    own = {"ETag": tag}
    if matching_tag(asked.get(b"if-none-match", ""), (tag,)):
        await context.send({"type": "http.response.start", "status": 304, "headers": encode_fields(own, _KEPT)})
        await context.send({"type": "http.response.body", "body": b""})
        return None
    part = None
    if context.method == "GET" and asked.get(b"if-range", tag) == tag:
        part = requested_part(asked.get(b"range", ""), blob.size)
    if part is not None and part.start == part.stop:
        return unsatisfiable(blob.size)
    if part is not None:
        own["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{blob.size}"
    status, part = (200, Part(0, blob.size)) if part is None else (206, part)
    own |= {"Content-Type": blob.kind, "Content-Length": str(part.stop - part.start)}
    await context.send({"type": "http.response.start", "status": status, "headers": encode_fields(own, _KEPT)})
    if context.method == "GET":
        await send_pieces(blob.pieces(part.start, part.stop), part.stop - part.start, context.send)
    else:
        await context.send({"type": "http.response.body", "body": b""})
    return None


def _problem(error: SkillwireError) -> Problem:
    """Return the answer that tells an error."""
    if isinstance(error, StorageError):
        structlog.get_logger("skillwire.rpc").error("a blob cannot be kept or read", error=one_line(error))
        return Problem(503, error.code, "blobs cannot be kept or read at the moment")
    pause = error.details.get("retry_after")
    fields = {"Retry-After": str(pause)} if isinstance(pause, int) else {}
    fix = fix_of(error)
    details = {"fix": fix} if fix else {}
    return Problem(_STATUSES.get(error.code, 400), error.code, error.message, details, fields)
