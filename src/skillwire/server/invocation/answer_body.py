"""The bodies of answers about executions, with what these gave, in pieces.

However slow its readers are, an answer holds one piece of a large output for each: an output that is too large for the
ledger is read from its file while it is sent, and one that is in the ledger is bounded by that. What takes a while to
encode, or to hash, is done in a thread.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import StorageError
from skillwire.invocation.view import encode_execution, frame_of, tag_of, tag_of_digest
from skillwire.model.execution import ExecutionStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.types import Send

    from skillwire.model.execution import Execution
    from skillwire.server.invocation.desk import Desk

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
        """Send it, each piece when the client has taken the one before.

        Raises:
            StorageError: ``STORAGE`` when the file is not any more what it was; the server cuts the connection.
        """
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


async def make_body(desk: Desk, execution: Execution) -> AnswerBody:
    """Return the body of an answer that tells of ``execution``, with what it gave if it has completed."""
    if execution.status is not ExecutionStatus.COMPLETED:
        return AnswerBody(encode_execution(execution))
    if execution.output_blob is not None:
        file = await desk.output_file(execution)
        found = None if file is None else await asyncio.to_thread(_large, execution, file)
        return found or AnswerBody(encode_execution(execution))
    output = await desk.output_of(execution)
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


async def small_output_of(desk: Desk, execution: Execution) -> bytes | None:
    """Return what an execution gave, unless it is too large to be sent unasked: None."""
    if execution.output_blob is not None:
        return None
    output = await desk.output_of(execution)
    return output if output is None or len(output) <= limits.WEBHOOK_BYTES else None
