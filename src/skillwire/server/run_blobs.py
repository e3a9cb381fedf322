"""Uploads and downloads of run blobs, in pieces, so that none is held in memory; and which callers may run anything.

Spec: specs §4.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import codecs
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from skillwire import limits
from skillwire.adapters.files.atomic import storage_errors
from skillwire.errors import ConflictError, DecodeError, TrustError, ValidationError
from skillwire.model.execution import blob_not_found, check_kind, digest_of
from skillwire.protocols.skills_rpc.messages import BlobContent, CreatedBlob
from skillwire.server.quotas import ConcurrencyLimit

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping

    from skillwire.model.execution import AllowedCallers, RunBlob, RunSettings
    from skillwire.ports import RunBlobs
    from skillwire.protocols.skills_rpc.messages import CreateBlob, ReadBlob


#: Setting → the option of a command that serves over standard input.
_OPTIONS: Final = {"execute_skill": "--execute", "run_code": "--run-code"}


def check_allowed(owner: str, openings: Mapping[str, AllowedCallers], what: str, *, is_local: bool = False) -> None:
    """Check that one of the settings, by their names in ``[rpc]``, opens ``what`` to ``owner``.

    Raises TrustError (``PERMISSION_DENIED``, or ``AUTH_REQUIRED`` where authenticated callers may).
    """
    if not any(openings.values()):
        fix = _local_fix(openings) if is_local else _fix(openings)
        raise TrustError("PERMISSION_DENIED", f"this server does not {what}", fix=fix)
    if True not in openings.values() and owner.startswith("address "):
        raise TrustError("AUTH_REQUIRED", f"this server does {what}, for those who say who they are")


def _fix(names: Iterable[str]) -> str:
    written = " or ".join(f"{name} = true" for name in names)
    return f"Whoever runs the server: write {written} below [rpc] in its configuration."


def _local_fix(names: Iterable[str]) -> str:
    return f"Start this command with {' or '.join(_OPTIONS[name] for name in names)}."


_PIECE: Final = 256 * 1024
#: The bytes in UTF-8 that begin no character, and how many of them a cut leaves at most.
_CONTINUED: Final = range(0x80, 0xC0)
_LEFT: Final = 3


class OpenBlob:
    """A blob that is being read; it stays readable until it is closed, also when it expires meanwhile."""

    def __init__(self, blob: RunBlob, descriptor: int) -> None:
        self.blob_id = blob.blob_id
        self.kind = blob.kind
        self.size = blob.size
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        """Begin to read."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of it."""
        os.close(self._descriptor)

    async def read(self, position: int, length: int) -> bytes:
        """Return at most ``length`` bytes from ``position``; fewer only at the end."""
        return await asyncio.to_thread(os.pread, self._descriptor, length, position)

    async def pieces(self, begin: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes from ``begin`` until before ``end``, some at a time."""
        position, last = begin, self.size if end is None else min(end, self.size)
        while position < last:
            piece = await self.read(position, min(_PIECE, last - position))
            if not piece:
                raise EOFError("a blob is shorter than it was")
            position += len(piece)
            yield piece


class BlobUploads:
    """What callers do with their blobs."""

    def __init__(self, blobs: RunBlobs, settings: RunSettings, clock: Callable[[], float]) -> None:
        self._blobs = blobs
        self._settings = settings
        self._clock = clock
        self._places = ConcurrencyLimit(lambda: (limits.BLOB_UPLOADS, limits.BLOB_UPLOADS_OWNER))

    async def create(self, owner: str, params: CreateBlob) -> CreatedBlob:
        """Keep what a request holds."""
        content = _decoded(params)

        async def whole() -> AsyncIterator[bytes]:
            yield content

        return await self.receive(owner, params.kind, whole())

    async def receive(self, owner: str, kind: str, content: AsyncIterable[bytes]) -> CreatedBlob:
        """Store a stream as a blob of ``owner``. Raises TrustError, ValidationError, DecodeError, ConflictError."""
        readers = {"execute_skill": self._settings.execute_skill, "run_code": self._settings.run_code}
        check_allowed(owner, readers, "keep blobs", is_local=self._settings.is_local)
        check_kind(kind)
        pieces = _in_pieces(content)
        first = await anext(pieces, b"")  # an upload takes a place only when it is large
        with self._place(owner):
            (blob,) = await self._blobs.store(owner, [(_with_first(first, pieces), kind)], self._clock())
        return CreatedBlob(blob.blob_id, blob.size)

    @contextmanager
    def _place(self, owner: str) -> Iterator[None]:
        """Take one of the places of those that send a blob."""
        if not self._places.has_room(owner):
            raise ConflictError("BLOB_ROOM", "too many blobs are being sent at once", details={"retry_after": 1})
        with self._places.taking(owner):
            yield

    async def open(self, owner: str, blob_id: str) -> OpenBlob:
        """Return a blob of ``owner`` to read; the caller closes it. Raises NotFoundError (``BLOB_NOT_FOUND``)."""
        digest = digest_of(blob_id)
        blob = await self._blobs.find(owner, digest, self._clock())
        path = await self._blobs.file_of(digest) if blob is not None else None
        if blob is None or path is None:
            raise blob_not_found(blob_id)
        with storage_errors(path):
            return OpenBlob(blob, os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))

    async def read(self, owner: str, params: ReadBlob) -> BlobContent:
        """Return a part of a blob. Raises NotFoundError, DecodeError (``ENCODING``) for bytes asked for as text."""
        with await self.open(owner, params.blob_id) as blob:
            usual = limits.RPC_FILE_BYTES if params.mode == "full" else limits.BLOB_SAMPLE_BYTES
            length = min(params.max_bytes or usual, limits.RPC_FILE_BYTES, blob.size)
            position = blob.size - length if params.mode == "sample_tail" else 0
            data = await blob.read(position, length)
            is_cut = len(data) < blob.size
            if params.encoding == "base64":
                content = base64.b64encode(data).decode()
            else:
                content = _text(data, begins_within=position > 0, ends_within=position + len(data) < blob.size)
            return BlobContent(content, blob.size, is_cut, params.encoding, blob.kind)


async def _with_first(first: bytes, rest: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for piece in rest:
        yield piece


async def _in_pieces(content: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield what comes, little ones together: each is handed to a thread."""
    gathered, enough = bytearray(), int(limits.EXECUTION_SMALL_BODY_BYTES)
    async for piece in content:
        gathered += piece
        if len(gathered) > enough:
            yield bytes(gathered)
            gathered.clear()
            enough = _PIECE
    if gathered:
        yield bytes(gathered)


def _decoded(params: CreateBlob) -> bytes:
    try:
        if params.encoding == "base64":
            return base64.b64decode(params.content, validate=True)
        return params.content.encode()
    except (binascii.Error, ValueError) as error:
        message = f"content is not {'base64' if params.encoding == 'base64' else 'Unicode text'}"
        raise ValidationError("VALIDATION_ERROR", message) from error


def _text(data: bytes, *, begins_within: bool, ends_within: bool) -> str:
    """Return ``data`` as text without characters that the cuts split. Raises DecodeError (``ENCODING``)."""
    if begins_within:
        left = data[:_LEFT]
        data = data[next((at for at, byte in enumerate(left) if byte not in _CONTINUED), len(left)) :]
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=not ends_within)
    except UnicodeDecodeError as error:
        fix = 'Ask for it with encoding = "base64".'
        raise DecodeError("ENCODING", "the blob is not UTF-8 text", fix=fix) from error
