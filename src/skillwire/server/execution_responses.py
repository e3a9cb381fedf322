"""Responses about executions: bodies, header fields, errors, and the stream of server-sent events.

An error has one of the protocol's seven codes, and :data:`ROWS` lists those with an HTTP status of their own. An
internal failure is reported as a failure and no more; the log has the rest. Spec: SSP §8.1, §8.2, §8.3.

A response holds one piece of a large output at a time, however slow its reader is: an output too large for the ledger
is read from its file while it is sent. Encoding and hashing large outputs happens in a thread. The stream sends an
event for each change until the execution has ended; it is an extension.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import structlog
from starlette.types import Receive, Send

from skillwire import limits
from skillwire.errors import SkillwireError, StorageError, UsageError, one_line
from skillwire.executions.view import encode_execution, frame_of, tag_of, tag_of_digest
from skillwire.model.execution import Execution, ExecutionStatus
from skillwire.protocols.agent_skills.messages import OPEN_FIELDS
from skillwire.protocols.skill_sharing.errors import ERRORS, code_for, details_of, error_body
from skillwire.protocols.skill_sharing.messages import RetryAdvice
from skillwire.server.execution_service import ExecutionService
from skillwire.server.http import encode_fields
from skillwire.server.problems import STORAGE_PAUSE, Problem
from skillwire.server.responses import run_while_connected

_MS: Final = 1000
_ATTEMPTS: Final = 3


class Row(NamedTuple):
    """The status and the protocol's code of an error; ``reason`` goes into its details."""

    status: int
    code: str
    reason: str = ""


#: Code → row. An error without a row here has the first status of the protocol's row.
ROWS: Final[dict[str, Row]] = {
    "LIMIT_SIZE": Row(413, "VALIDATION_ERROR"),
    "MEDIA_TYPE": Row(415, "VALIDATION_ERROR"),
    "TOO_MANY_EXECUTIONS": Row(429, "ENDPOINT_UNREACHABLE", "too_many_executions"),
    "PAGE_REFUSED": Row(403, "PERMISSION_DENIED", "page_refused"),
    "DATABASE": Row(503, "ENDPOINT_UNREACHABLE", "storage"),
    "STORAGE": Row(503, "ENDPOINT_UNREACHABLE", "storage"),
}


def problem_for(error: SkillwireError) -> Problem:
    """Return the response that reports an error."""
    if isinstance(error, StorageError):
        structlog.get_logger("skillwire.executions").error("the ledger failed", error=one_line(error))
        again = {"retry_after": int(STORAGE_PAUSE)}
        error = StorageError(error.code, "The server cannot keep or read executions at the moment", details=again)
    code = code_for(error)
    first = 400 if isinstance(error, UsageError) else ERRORS[code].statuses[0]
    row, pause = ROWS.get(error.code, Row(first, code)), error.details.get("retry_after")
    advice, fields = None, {}
    if isinstance(pause, int):
        advice = RetryAdvice(suggested_delay_ms=pause * _MS, max_attempts=_ATTEMPTS)
        fields = {"Retry-After": str(pause)}
    details = details_of(error, row.code)
    if row.reason:
        details = {**(details or {}), "reason": row.reason}
    written = msgspec.json.encode(error_body(row.code, error.message, details, advice))
    return Problem(row.status, row.code, error.message, fields=fields, written=written)


_FIELDS: Final = {"Content-Type": "application/json", "Cache-Control": "no-store", "Vary": "Accept, Prefer"}
#: Seconds until it is worth asking again, by how long an execution has taken: young ones end soon.
_PAUSES: Final = ((10.0, 1), (60.0, 2), (600.0, 5), (float("inf"), 15))


def answer_fields(execution: Execution, tag: str, size: int, now: float) -> dict[str, str]:
    """Return the header fields of an answer with a body of this tag and size, about an execution ``now``."""
    fields = {**_FIELDS, "ETag": tag, "Content-Length": str(size)}
    if not execution.status.is_final:
        age = now - execution.created
        fields["Retry-After"] = str(next(pause for until, pause in _PAUSES if age < until))
    return fields


#: Bytes of an output that are encoded and hashed at once on the event loop, in a fraction of a millisecond.
_AT_ONCE: Final = 64 * 1024


class AnswerBody:
    """The body of an answer: bytes, and then those of a file, and then bytes again."""

    __slots__ = ("_file", "_head", "_tail", "size", "tag")

    def __init__(self, head: bytes, file: Path | None = None, tail: bytes = b"") -> None:
        self._head = head
        self._file = file
        self._tail = tail
        if file is None:
            self.size, self.tag = len(head), tag_of(head)
            return
        digest, self.size = hashlib.sha256(), 0
        for piece in self._pieces():
            digest.update(piece)
            self.size += len(piece)
        self.tag = tag_of_digest(digest)

    async def send(self, send: Send) -> None:
        """Send each piece when the client has taken the one before. Raises StorageError when the file has changed."""
        pieces, sent = self._pieces(), 0
        while sent < self.size:
            piece = next(pieces, b"") if self._file is None else await asyncio.to_thread(next, pieces, b"")
            sent += len(piece)
            if not piece or sent > self.size:
                raise StorageError("STORAGE", "an output is not what it was")
            await send({"type": "http.response.body", "body": piece, "more_body": sent < self.size})

    def _pieces(self) -> Iterator[bytes]:
        for start in range(0, len(self._head), limits.SERVER_PIECE_BYTES):
            yield self._head[start : start + limits.SERVER_PIECE_BYTES]
        if self._file is None:
            return
        with self._file.open("rb", buffering=0) as file:
            while piece := file.read(limits.SERVER_PIECE_BYTES):
                yield piece
        yield self._tail


async def make_body(service: ExecutionService, execution: Execution) -> AnswerBody:
    """Return the body of a response about ``execution``, with its output when it has completed."""
    if execution.status is not ExecutionStatus.COMPLETED:
        return AnswerBody(encode_execution(execution))
    if execution.output_blob is not None:
        file = await service.ledger.output_file(execution)
        found = None if file is None else await asyncio.to_thread(_large, execution, file)
        return found or AnswerBody(encode_execution(execution))
    output = await service.ledger.output(execution)
    if output is None or len(output) <= _AT_ONCE:
        return AnswerBody(encode_execution(execution, output))
    return await asyncio.to_thread(lambda: AnswerBody(encode_execution(execution, output)))


def _large(execution: Execution, path: Path) -> AnswerBody | None:
    """Return the body with the output in a file; None when that is lost, or not what was written."""
    head, tail = frame_of(execution)
    with suppress(OSError), path.open("rb") as file:
        if f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}" == execution.output_blob:
            return AnswerBody(head, path, tail)
    return None


async def small_output_of(service: ExecutionService, execution: Execution) -> bytes | None:
    """Return what an execution gave, unless it is too large to be sent unasked: None."""
    if execution.output_blob is not None:
        return None
    output = await service.ledger.output(execution)
    return output if output is None or len(output) <= limits.WEBHOOK_BYTES else None


_STREAM_FIELDS: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
#: Seconds after which a line that means nothing shows that the stream lives.
_HEARTBEAT: Final = 15.0
_CROWDED: Final = Problem(
    503, "ENDPOINT_UNREACHABLE", "too many follow executions already", fields={"Retry-After": "5"}
)


async def stream(service: ExecutionService, execution: Execution, caller: str, receive: Receive, send: Send) -> None:
    """Send ``execution`` and each of its changes to ``caller``, until it has ended or the client has gone."""
    if not service.places.has_capacity(caller):
        await _CROWDED.send(send)
        return
    headers = encode_fields(_STREAM_FIELDS, OPEN_FIELDS)
    with service.places.occupy(caller):
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await run_while_connected(asyncio.create_task(_send_changes(service, execution, send)), receive)


async def _send_changes(service: ExecutionService, execution: Execution, send: Send) -> None:
    loop = asyncio.get_running_loop()
    end, shown = loop.time() + max(0.0, execution.deadline - service.clock().wall) + _HEARTBEAT, ""
    with service.changes.follow(execution.execution_id) as following:
        while True:
            now = await service.ledger.find(execution.execution_id) or execution
            body = encode_execution(now, await small_output_of(service, now))
            tag = tag_of(body)
            piece = b": \n\n" if tag == shown else b"event: status\nid: %s\ndata: %s\n\n" % (tag.encode(), body)
            shown = tag
            is_last = now.status.is_final or loop.time() > end or service.changes.is_closed
            await send({"type": "http.response.body", "body": piece, "more_body": not is_last})
            if is_last:
                return
            await following.wait(_HEARTBEAT)
