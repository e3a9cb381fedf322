"""Archives on their way to a registry: bodies in unnamed files, and uploads that resume.

``ACCOUNT/SIZE-HEX`` holds the first bytes of an upload, whose name is its size and the SHA-256 that it is to have. So
its length is how far it came, the account that asks for the same bytes again gets the same upload, and nothing else is
stored. What arrived is not synced: after a power cut, the digest of the whole tells. An upload expires some time after
its last byte. A ticket for a single file may stand for an account. Trust: accounts, tickets and numbers are of fixed
forms, so they are safe as names of files.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import AsyncIterable, Callable
from pathlib import Path
from typing import Final

from skillwire import limits
from skillwire.adapters.files.atomic import make_folder, storage_errors, write_all
from skillwire.errors import ConflictError, NotFoundError, UsageError, ValidationError
from skillwire.model.digest import Digest
from skillwire.model.package import UPLOAD, Upload, is_account, upload_number

_OPEN: Final = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class FileUploads:
    """Fills :class:`skillwire.ports.UploadStore`; ``clock`` is seconds since the epoch."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock

    async def begin(self, account: str, size: int, digest: Digest) -> Upload:
        check_size(size)
        return await asyncio.to_thread(self._begin, account, upload_number(size, digest))

    def _begin(self, account: str, number: str) -> Upload:
        folder = self._folder / account
        with storage_errors(folder):
            make_folder(folder, mode=0o700)
            self._expire(folder)
            others = sum(one.name != number for one in folder.iterdir())
            check_capacity(account, others, self._total())
            os.close(os.open(folder / number, _OPEN | os.O_CREAT, 0o600))
        return self._find(account, number)

    def _total(self) -> int:
        held = 0
        for path in self._folder.glob("*/*"):
            with contextlib.suppress(FileNotFoundError):  # another request was here
                held += path.stat().st_size
        return held

    async def find(self, account: str, number: str) -> Upload:
        return await asyncio.to_thread(self._find, account, number)

    def _find(self, account: str, number: str) -> Upload:
        with contextlib.suppress(FileNotFoundError):
            if UPLOAD.fullmatch(number):
                state = (self._folder / account / number).stat()
                expires = state.st_mtime + limits.REGISTRY_UPLOAD_SECONDS
                if expires > self._clock():
                    return make_upload(number, state.st_size, expires)
        raise upload_not_found(number)

    async def append(self, account: str, number: str, offset: int, pieces: AsyncIterable[bytes]) -> Upload:
        upload = await self.find(account, number)
        path = self._folder / account / number
        with storage_errors(path):
            check_capacity(account, 0, await asyncio.to_thread(self._total))
            handle = os.open(path, _OPEN)
            try:
                size = _lock_at(handle, offset)
                async for piece in pieces:
                    size += len(piece)
                    check_end(upload, size)
                    await asyncio.to_thread(write_all, handle, piece)
            finally:
                os.close(handle)
        return await self.find(account, number)

    async def read(self, account: str, number: str) -> bytes:
        return await asyncio.to_thread(self._read, account, number)

    def _read(self, account: str, number: str) -> bytes:
        upload = self._find(account, number)
        check_complete(upload)
        content = b""
        with storage_errors(path := self._folder / account / number), contextlib.suppress(FileNotFoundError):
            content = path.read_bytes()
        if not content:  # another request has removed it
            raise upload_not_found(number)
        if (digest := Digest.of(content)) != upload.digest:
            path.unlink(missing_ok=True)
            raise digest_mismatch(digest)
        return content

    async def remove(self, account: str, number: str) -> None:
        await self.find(account, number)
        with storage_errors(path := self._folder / account / number):
            await asyncio.to_thread(path.unlink, missing_ok=True)
            if not is_account(account):  # a ticket, for one file: nothing else begins in its folder
                with contextlib.suppress(OSError):
                    path.parent.rmdir()

    async def expire(self) -> None:
        def expire() -> None:
            with storage_errors(self._folder):
                for folder in self._folder.iterdir() if self._folder.is_dir() else ():
                    self._expire(folder)
                    if folder.stat().st_mtime + limits.REGISTRY_UPLOAD_SECONDS <= self._clock():
                        with contextlib.suppress(OSError):  # it is not empty
                            folder.rmdir()

        await asyncio.to_thread(expire)

    def _expire(self, folder: Path) -> None:
        for path in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another request was here
                if path.stat().st_mtime + limits.REGISTRY_UPLOAD_SECONDS <= self._clock():
                    path.unlink()


def check_size(size: int) -> None:
    """Check the size of a new upload. Raises UsageError (``UPLOAD_SIZE``)."""
    if not 1 <= size <= limits.ARCHIVE_BYTES:
        raise UsageError("UPLOAD_SIZE", f"an upload of {size:,} bytes; it has 1 to {limits.ARCHIVE_BYTES:,}")


def check_capacity(account: str, others: int, held: int) -> None:
    """Check the other uploads of an account, and the bytes of all accounts. Raises ConflictError (``UPLOADS_FULL``)."""
    if held >= limits.REGISTRY_UPLOADS_BYTES:
        raise ConflictError("UPLOADS_FULL", f"the registry holds {held:,} bytes of unfinished uploads")
    if others >= limits.REGISTRY_UPLOADS:
        raise ConflictError("UPLOADS_FULL", f"{account} has {others} unfinished uploads, as many as it may")


def make_upload(number: str, held: int, expires: float) -> Upload:
    """Return the upload of this number, a match of :data:`UPLOAD`, with ``held`` bytes so far."""
    size, _, digest = number.partition("-")
    return Upload(number, int(size), Digest(f"sha256:{digest}"), held, expires)


def check_end(upload: Upload, size: int) -> None:
    """Check that an upload of this size is no longer than it may. Raises UsageError (``UPLOAD_SIZE``)."""
    if size > upload.size:
        raise UsageError("UPLOAD_SIZE", f"more than the {upload.size:,} bytes of the upload came")


def check_complete(upload: Upload) -> None:
    """Check that all bytes of an upload are there. Raises ConflictError (``UPLOAD_OFFSET``)."""
    if upload.offset != upload.size:
        message = f"{upload.offset:,} of {upload.size:,} bytes are here"
        raise ConflictError("UPLOAD_OFFSET", message, details={"offset": upload.offset})


def check_offset(size: int, offset: int) -> None:
    """Check that bytes go on where an upload of this size ends. Raises ConflictError (``UPLOAD_OFFSET``)."""
    if offset != size:
        message = f"{size:,} bytes are here, and the request begins at {offset:,}"
        raise ConflictError("UPLOAD_OFFSET", message, details={"offset": size})


def upload_not_found(number: str) -> NotFoundError:
    """Return the error for an upload that is not there."""
    return NotFoundError("UPLOAD_NOT_FOUND", f"there is no upload {ascii(number)[:90]}, or it has expired")


def digest_mismatch(digest: Digest) -> ValidationError:
    """Return the error for the bytes of an upload that have this digest, and not the announced one."""
    return ValidationError("DIGEST_MISMATCH", f"the upload has the digest {digest}")


class Spool(tempfile.SpooledTemporaryFile[bytes]):
    """A file that makes its folder when it goes to the disk: the usual archive stays in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(int(limits.REGISTRY_ROW_BYTES), dir=str(folder))
        self._folder = folder

    def rollover(self) -> None:
        make_folder(self._folder, mode=0o700)
        super().rollover()


def _lock_at(handle: int, offset: int) -> int:
    """Lock an upload while the handle is open; return its length. Raises ConflictError unless that is ``offset``."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConflictError("UPLOAD_OFFSET", "another request writes this upload") from error
    size = os.fstat(handle).st_size
    check_offset(size, offset)
    return size
