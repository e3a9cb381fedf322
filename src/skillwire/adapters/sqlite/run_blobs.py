"""Blobs of those who have skills executed: rows say whose they are, files named by their digest hold the bytes.

The bytes are on the disk, and the file has its name, before the row is committed. A file is removed in the transaction
that removes the last row of its digest. So a row has its file, whatever is killed in between; what a crash leaves is at
worst a file without a row, and a sweep removes that when it is old enough to be nobody's who still writes.

What is expired is not there, whether it was swept or not. A run holds its blobs by nothing but their expiry, which is
moved behind its deadline in the transaction that accepts it. The kind of a blob is what its owner said first: whoever
hands the same bytes in again, as code does that writes a file, takes nothing from what the first one relies on.
"""

from __future__ import annotations

import tempfile
import time
from typing import TYPE_CHECKING, BinaryIO, Final

from skillwire import limits
from skillwire.adapters.files.atomic import make_folder, storage_errors
from skillwire.adapters.files.blobs import NEW, FileBlobWriting
from skillwire.errors import ConflictError
from skillwire.model.digest import Digest
from skillwire.model.execution import PREFIX, RunBlob, blob_not_found

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path
    from sqlite3 import Connection

    from skillwire.adapters.sqlite.database import Database
    from skillwire.executions.accept import RunSettings
    from skillwire.ports import BlobWriting

_SWEPT_AT_ONCE: Final = 500
#: Seconds after which a file that is no blob is left over: none is written for so long.
_LEFT_SECONDS: Final = 3600.0
#: Seconds between two looks for what is left over.
_TIDY_SECONDS: Final = 3600.0
#: What a row counts as.
_COUNTED: Final = f"max(size, {int(limits.BLOB_LEAST_BYTES)})"
_KEEP: Final = (
    "INSERT INTO run_blobs VALUES (?, ?, ?, ?, ?) ON CONFLICT (owner, digest) DO UPDATE"
    " SET kind = iif(expires > ?, kind, excluded.kind), expires = max(expires, excluded.expires)"
    " RETURNING kind, expires"
)
_HOLD: Final = "UPDATE run_blobs SET expires = max(expires, ?) WHERE owner = ? AND digest = ? AND expires > ?"


class SqliteRunBlobs:
    """Fills :class:`skillwire.ports.RunBlobs`.

    Args:
        database: where the rows are.
        folder: where the files are.
        settings: the operator's.
        in_all: bytes of all blobs of all owners.
    """

    def __init__(
        self, database: Database, folder: Path, settings: RunSettings, *, in_all: int = limits.BLOBS_BYTES
    ) -> None:
        self._database = database
        self._folder = folder
        self._settings = settings
        self._in_all = in_all
        self._tidied = float("-inf")

    def begin(self) -> FileBlobWriting:
        """Begin a blob."""
        return FileBlobWriting(self._folder, self._settings.blob_bytes)

    def keep(self, owner: str, blobs: Sequence[tuple[BlobWriting, str]], now: float) -> list[RunBlob]:
        """Keep what was written: all of it, or none."""
        for writing, _ in blobs:
            writing.finish()
        with self._database.writing() as connection:
            kept = [self._keep(connection, owner, writing, kind, now) for writing, kind in blobs]
            self._check_room(connection, owner, now)
            for writing, _ in blobs:
                writing.move(self._place(writing.digest))
        return kept

    def _keep(self, connection: Connection, owner: str, writing: BlobWriting, kind: str, now: float) -> RunBlob:
        expires = now + self._settings.blob_seconds
        row = (owner, str(writing.digest), kind, writing.size, expires, now)
        kind, expires = connection.execute(_KEEP, row).fetchone()
        return RunBlob(writing.digest, kind, writing.size, expires)

    def _check_room(self, connection: Connection, owner: str, now: float) -> None:
        """Refuse when there is too much, by what the transaction sees.

        Raises:
            ConflictError: ``BLOB_ROOM``.
        """
        query = f"SELECT coalesce(sum({_COUNTED}), 0) FROM run_blobs WHERE owner = ? AND expires > ?"  # noqa: S608  # constants
        if connection.execute(query, (owner, now)).fetchone()[0] > self._settings.blobs_per_owner:
            message = f"your blobs have more than {self._settings.blobs_per_owner:,} bytes together"
            raise ConflictError("BLOB_ROOM", message, details={"limit": "blobs_per_owner"})
        query = f"SELECT coalesce(sum({_COUNTED}), 0) FROM run_blobs"  # noqa: S608  # constants
        if connection.execute(query).fetchone()[0] > self._in_all:
            raise ConflictError("BLOB_ROOM", "the blobs of all callers are as many as there may be")

    def find(self, owner: str, digest: Digest, now: float) -> RunBlob | None:
        """Return a blob of ``owner``. It is renewed when half of its time is over, so not each use is a write."""
        query = "SELECT kind, size, expires FROM run_blobs WHERE owner = ? AND digest = ? AND expires > ?"
        with self._database.reading() as connection:
            row = connection.execute(query, (owner, str(digest), now)).fetchone()
        if row is None:
            return None
        blob = RunBlob(digest, *row)
        if blob.expires - now < self._settings.blob_seconds / 2:
            expires = now + self._settings.blob_seconds
            with self._database.writing() as connection:
                connection.execute(_HOLD, (expires, owner, str(digest), now))
            blob = blob._replace(expires=expires)
        return blob

    def hold(self, owner: str, digests: Collection[Digest], now: float, until: float) -> None:
        """Keep blobs until then at least; that is a use of them."""
        expires = max(until, now + self._settings.blob_seconds)
        with self._database.writing() as connection:
            for digest in digests:
                if connection.execute(_HOLD, (expires, owner, str(digest), now)).rowcount == 0:
                    raise blob_not_found(PREFIX + digest.hex)

    def path(self, digest: Digest) -> Path | None:
        """Return the file that holds the bytes."""
        path = self._place(digest)
        return path if path.is_file() else None

    def spool(self) -> BinaryIO:
        """Return a file without a name, on the same disk."""
        with storage_errors(self._folder):
            make_folder(self._folder, mode=0o700)
            return tempfile.TemporaryFile(dir=self._folder, buffering=0)

    def sweep(self, now: float) -> int:
        """Forget what has expired, some of it at a time."""
        query = "SELECT owner, digest FROM run_blobs WHERE expires <= ? ORDER BY expires LIMIT ?"
        with self._database.reading() as connection:  # nothing to do is the rule, and needs no lock
            is_any = connection.execute(query, (now, 1)).fetchone() is not None
        number = 0
        if is_any:
            with self._database.writing() as connection:
                rows = connection.execute(query, (now, _SWEPT_AT_ONCE)).fetchall()
                connection.executemany("DELETE FROM run_blobs WHERE owner = ? AND digest = ?", rows)
                for digest in {digest for _, digest in rows}:
                    self._remove_unowned(connection, Digest(digest))
                number = len(rows)
        if not 0 <= now - self._tidied < _TIDY_SECONDS:  # a clock may be set back
            self._tidied = now
            self._tidy()
        return number

    def _remove_unowned(self, connection: Connection, digest: Digest) -> None:
        if not _is_owned(connection, digest):
            self._place(digest).unlink(missing_ok=True)

    def _tidy(self) -> None:
        """Remove what killed processes left: files half written, and files without a row."""
        with storage_errors(self._folder):
            for path in self._folder.glob(f"{NEW}*"):
                if _is_left(path):
                    path.unlink(missing_ok=True)
            for path in self._folder.glob("[0-9a-f][0-9a-f]/*"):
                digest = Digest(f"sha256:{path.parent.name}{path.name}")
                with self._database.reading() as connection:  # nearly all have one, and nobody waits for the look
                    is_owned = _is_owned(connection, digest)
                if not is_owned and _is_left(path):
                    with self._database.writing() as connection:
                        self._remove_unowned(connection, digest)

    def _place(self, digest: Digest) -> Path:
        return self._folder / digest.hex[:2] / digest.hex[2:]


def _is_owned(connection: Connection, digest: Digest) -> bool:
    query = "SELECT 1 FROM run_blobs WHERE digest = ? LIMIT 1"
    return connection.execute(query, (str(digest),)).fetchone() is not None


def _is_left(path: Path) -> bool:
    try:
        return path.lstat().st_mtime <= time.time() - _LEFT_SECONDS
    except FileNotFoundError:  # another process was here
        return False
