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

from skillwire.errors import SkillwireError, StorageError
from skillwire.protocols.agent_skills.messages import CONTENT_FIELDS, OPEN_FIELDS
from skillwire.protocols.skills_rpc.codec import encode_created
from skillwire.protocols.skills_rpc.errors import fix_of
from skillwire.server.auth.authentication import ProblemError
from skillwire.server.http import Part, encode_fields, matching_tag, read_fields, requested_part
from skillwire.server.origins import PAGE_REFUSED
from skillwire.server.problems import READ, Problem, answer_preflight, method_not_allowed, unsatisfiable
from skillwire.server.responses import send_pieces
from skillwire.server.rpc_methods import GONE, owner_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive

    from skillwire.protocols.skills_rpc.messages import CreatedBlob
    from skillwire.server.auth.authentication import AuthResult
    from skillwire.server.context import RequestContext
    from skillwire.server.metrics import Route
    from skillwire.server.origins import Origins
    from skillwire.server.run_blobs import OpenBlob
    from skillwire.server.runs import Runs


BLOBS_PATH: Final = "/blobs"
_CREATE: Final = "POST, OPTIONS"
_READ: Final = "GET, HEAD, OPTIONS"
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

    async def create(self, visit: RequestContext) -> Route:
        """Answer at ``/blobs``."""
        asker = await visit.identify()
        if visit.method == "OPTIONS":
            await answer_preflight(_CREATE, visit.send)
        elif visit.method != "POST":
            await method_not_allowed(visit.method, _CREATE).send(visit.send)
        else:
            self._check_page(asker, visit)
            kind = read_fields(visit.scope["headers"], b"content-type").get(b"content-type", "")
            owner, content = owner_of(asker, visit.scope), _pieces(visit.receive)
            try:
                await _tell(await self._runs.blobs.receive(owner, kind, content), visit)
            except GoneError:
                visit.send.status = GONE
            except SkillwireError as error:
                await _problem(error).send(visit.send)
        return "rpc"

    async def read(self, visit: RequestContext) -> Route:
        """Answer at ``/blobs/ID``."""
        asker = await visit.identify()
        if visit.method == "OPTIONS":
            await answer_preflight(_READ, visit.send)
        elif visit.method not in READ:
            await method_not_allowed(visit.method, _READ).send(visit.send)
        else:
            self._check_page(asker, visit)
            blob_id = visit.path.removeprefix(f"{BLOBS_PATH}/")
            try:
                blob = await self._runs.blobs.open(owner_of(asker, visit.scope), blob_id)
            except SkillwireError as error:
                await _problem(error).send(visit.send, head=visit.method == "HEAD")
            else:
                with blob:
                    await _send(blob, visit)
        return "rpc"

    def _check_page(self, asker: AuthResult, visit: RequestContext) -> None:
        if asker.principal is None and not self._origins.let_in(visit.scope):
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


async def _tell(created: CreatedBlob, visit: RequestContext) -> None:
    body = encode_created(created)
    own = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Location": f"{visit.scope.get('root_path', '')}{BLOBS_PATH}/{created.blob_id}",
        "Cache-Control": "no-store",
    }
    await visit.send({"type": "http.response.start", "status": 201, "headers": encode_fields(own, OPEN_FIELDS)})
    await visit.send({"type": "http.response.body", "body": body})


async def _send(blob: OpenBlob, visit: RequestContext) -> None:
    asked = read_fields(visit.scope["headers"], b"if-none-match", b"range", b"if-range")
    tag = f'"{blob.blob_id.partition(":")[2]}"'
    own = {"ETag": tag}
    if matching_tag(asked.get(b"if-none-match", ""), (tag,)):
        await visit.send({"type": "http.response.start", "status": 304, "headers": encode_fields(own, _KEPT)})
        await visit.send({"type": "http.response.body", "body": b""})
        return
    part = None
    if visit.method == "GET" and asked.get(b"if-range", tag) == tag:
        part = requested_part(asked.get(b"range", ""), blob.size)
    if part is not None and part.start == part.stop:
        await unsatisfiable(blob.size).send(visit.send)
        return
    if part is not None:
        own["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{blob.size}"
    status, part = (200, Part(0, blob.size)) if part is None else (206, part)
    own |= {"Content-Type": blob.kind, "Content-Length": str(part.stop - part.start)}
    await visit.send({"type": "http.response.start", "status": status, "headers": encode_fields(own, _KEPT)})
    if visit.method == "GET":
        await send_pieces(blob.pieces(part.start, part.stop), part.stop - part.start, visit.send)
    else:
        await visit.send({"type": "http.response.body", "body": b""})


def _problem(error: SkillwireError) -> Problem:
    """Return the answer that tells an error."""
    if isinstance(error, StorageError):
        structlog.get_logger("skillwire.rpc").error("a blob cannot be kept or read", error=str(error))
        return Problem(503, error.code, "blobs cannot be kept or read at the moment")
    pause = error.details.get("retry_after")
    fields = {"Retry-After": str(pause)} if isinstance(pause, int) else {}
    fix = fix_of(error)
    details = {"fix": fix} if fix else {}
    return Problem(_STATUSES.get(error.code, 400), error.code, error.message, details, fields)
