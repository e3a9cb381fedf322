"""What a run hands out: files that its code wrote, as blobs of whoever called.

They come out of the sandbox behind the report, in one stream: the report lists names and sizes, the bytes follow. All
of it is the skill's word about itself, and a skill can forge it. So names are judged like every other path of a
stranger, sizes are bounded, kinds are guessed here from the names, and what does not add up is refused as a whole.

The kind follows from the ending alone. It says what a file claims to be; whoever serves one must not have a browser
believe it.
"""

from __future__ import annotations

import mimetypes
from typing import TYPE_CHECKING, BinaryIO, Final

from skillwire.errors import ConflictError, DecodeError, SkillwireError, TrustError
from skillwire.model.execution import Failure, OutputBlob
from skillwire.model.run_blob import check_kind
from skillwire.trust.paths import check_path, collision_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.adapters.sandbox.bounds import Bounds
    from skillwire.ports import BlobWriting, RunBlobs

_PIECE: Final = 256 * 1024
_UNKNOWN: Final = "application/octet-stream"
_ROW: Final = 2
#: The endings that Python itself knows, whatever the machine says.
_ENDINGS: Final = mimetypes.MimeTypes(filenames=())


def read_rows(listed: object, size: int, bounds: Bounds) -> list[tuple[str, int]]:
    """Return the names and sizes that a report lists.

    Args:
        listed: what it says, of which nothing was checked.
        size: how many bytes came behind it.
        bounds: of the run.

    Raises:
        TrustError: ``PATH_...`` for a name that is none, ``PATH_COLLISION`` for two that some system takes for one.
        DecodeError: ``LIMIT_ENTRIES``, ``LIMIT_SIZE`` when it does not add up.
    """
    if not isinstance(listed, list) or len(listed) > bounds.blobs:
        raise DecodeError("LIMIT_ENTRIES", f"it lists no files, or more than {bounds.blobs}")
    rows: list[tuple[str, int]] = []
    for row in listed:
        if not isinstance(row, list) or len(row) != _ROW or not isinstance(row[0], str) or type(row[1]) is not int:
            raise DecodeError("LIMIT_ENTRIES", "it lists what is no file")
        if row[1] < 0:
            raise DecodeError("LIMIT_SIZE", "it lists a file of less than nothing")
        rows.append((check_path(row[0]), row[1]))
    if len({collision_key(name) for name, _ in rows}) < len(rows):
        raise TrustError("PATH_COLLISION", "two of its files have one name")
    if sum(length for _, length in rows) != size:
        raise DecodeError("LIMIT_SIZE", "its files changed while they were read")
    return rows


def kind_of(name: str) -> str:
    """Return the media type that the ending of a file's name stands for."""
    try:
        kind, encoding = _ENDINGS.guess_type(f"file:///{name}")
        return _UNKNOWN if kind is None or encoding is not None else check_kind(kind)
    except (ValueError, SkillwireError):
        return _UNKNOWN


def keep_files(
    blobs: RunBlobs, owner: str, rows: Sequence[tuple[str, int]], files: BinaryIO, now: float
) -> tuple[OutputBlob, ...] | Failure:
    """Keep files as blobs of ``owner``; return them, or why none of them is kept.

    Args:
        blobs: where they are kept.
        owner: whose they become.
        rows: of :func:`read_rows`.
        files: their bytes, one file's after the other's; closed here.
        now: seconds since the epoch.

    Raises:
        StorageError: ``STORAGE``, ``DATABASE``.
    """
    writings: list[BlobWriting] = []
    try:
        files.seek(0)
        for _, size in rows:
            writings.append(blobs.begin())
            _copy(files, writings[-1], size)
        kinds = [kind_of(name) for name, _ in rows]
        kept = blobs.keep(owner, list(zip(writings, kinds, strict=True)), now)
        return tuple(
            OutputBlob(str(blob.digest), blob.kind, blob.size, name) for blob, (name, _) in zip(kept, rows, strict=True)
        )
    except (ConflictError, DecodeError) as error:
        message = f"what the skill handed out cannot be kept: {error.message}"
        return Failure("limit", message, details=dict(error.details))
    finally:
        files.close()
        for writing in writings:
            writing.close()


def _copy(files: BinaryIO, writing: BlobWriting, size: int) -> None:
    while size:
        piece = files.read(min(_PIECE, size))
        if not piece:
            raise DecodeError("LIMIT_SIZE", "a file is shorter than it was")
        writing.write(piece)
        size -= len(piece)
