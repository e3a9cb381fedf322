"""What the two formats have in common: an entry, the reading of its name, and the first bounds."""

from __future__ import annotations

from typing import Literal, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError, TrustError
from skillwire.trust.paths import check_path, show


class Entry(NamedTuple):
    """One member of an archive, its name checked, its link not yet followed.

    Args:
        path: as :func:`skillwire.trust.paths.check_path` returns it; empty for the root folder itself.
        content: of a file; a view of bytes that the archive's reader holds.
        target: of a link, as it stands in the archive.
    """

    kind: Literal["file", "folder", "symlink", "hardlink"]
    path: str
    content: bytes | memoryview = b""
    executable: bool = False
    target: bytes = b""


def entry_path(name: bytes, *, folder: bool) -> str:
    """Return the path of an entry: one leading ``./``, and the final ``/`` of a folder, are no part of it.

    Raises:
        TrustError: the codes of :func:`skillwire.trust.paths.check_path`.
    """
    if folder and name in {b".", b"./"}:
        return ""
    name = name.removeprefix(b"./")
    if folder and len(name) > 1:
        name = name.removesuffix(b"/")
    return check_path(name)


def plausible_size(archive_size: int) -> int:
    """Return how many bytes an archive of ``archive_size`` bytes may inflate to without being a bomb."""
    return max(limits.ARCHIVE_RATIO_FLOOR_BYTES, limits.ARCHIVE_RATIO * archive_size)


def check_file_size(size: int, name: str | bytes) -> None:
    """Refuse a file that says it is larger than a file may be, before anything is made for it.

    Raises:
        TrustError: ``ARCHIVE_FILE_SIZE``.
    """
    if size > limits.ARCHIVE_FILE_BYTES:
        raise TrustError("ARCHIVE_FILE_SIZE", f"{show(name)} has {size} bytes, at most {limits.ARCHIVE_FILE_BYTES}")


def malformed(message: str) -> DecodeError:
    """Return the error for an archive that is damaged or contradicts itself."""
    return DecodeError("ARCHIVE_MALFORMED", message)
