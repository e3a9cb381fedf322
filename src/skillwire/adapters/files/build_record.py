"""What the last run found in each skill folder, so that the next one reads only what changed.

A record says: the folder that looked like *this signature* held *this skill*. It lies in the cache folder, one
file for each place that is published to, and is worth nothing elsewhere. It is ignored when it cannot be read,
comes from another version of skillwire or another zlib (either may write other bytes), or was made in another
context, such as for another publisher. Losing it costs time only.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from skillwire.adapters.files.atomic import write_atomically
from skillwire.adapters.files.directories import cache_directory
from skillwire.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FORMAT: Final = 8


class FolderRecord(NamedTuple):
    """A folder's signature (:func:`~skillwire.adapters.files.signature.sign_folder`) and what it held then.

    ``packed`` is a skill as :func:`~skillwire.adapters.files.skill_rows.pack_skill` writes it.
    """

    signature: str
    packed: bytes


class BuildRecord:
    """The record of one place.

    Args:
        place: what is published to: a site's folder, or a server's blob folder. Absolute.
        context: what else the outcome depends on; a record of another context is ignored.
    """

    def __init__(self, place: Path, *context: str) -> None:
        name = hashlib.blake2b(str(place).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
        self.path = cache_directory() / "builds" / name
        self._stamp = [_FORMAT, VERSION, zlib.ZLIB_RUNTIME_VERSION, *context]

    def read(self) -> dict[str, FolderRecord]:
        """Return what is recorded, by the folder's absolute path; nothing when that cannot be used."""
        try:
            content = self.path.read_bytes()
            stamp, rows = msgspec.msgpack.decode(content, type=tuple[list[Any], dict[str, tuple[str, bytes]]])
        except (OSError, msgspec.MsgspecError, UnicodeError):  # absent or damaged: everything is read again
            return {}
        return {folder: FolderRecord(*row) for folder, row in rows.items()} if stamp == self._stamp else {}

    def write(self, records: Mapping[str, FolderRecord]) -> None:
        """Keep ``records`` in place of the last ones.

        Raises:
            StorageError: ``STORAGE``.
        """
        try:
            content = msgspec.msgpack.encode((self._stamp, records))
        except UnicodeEncodeError:  # a folder whose path is not UTF-8: nothing is recorded, everything read again
            return
        write_atomically(self.path, content, mode=0o600)

    def forget(self) -> None:
        """Remove the record."""
        self.path.unlink(missing_ok=True)
