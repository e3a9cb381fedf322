"""The strict archive reader: bytes to a plan in memory, and the plan to a folder.

:func:`read_archive` detects the format, which must be the stated one, reads it (:mod:`.tar` inside :mod:`.gzip`, or
:mod:`.zip`) into entries, and :mod:`.plan` turns the entries into files. :func:`unpack` writes a plan only after the
whole archive was read and accepted. See ``docs/topics/archives.md``.
"""

from __future__ import annotations

from typing import Literal

from skillwire import limits
from skillwire.errors import TrustError
from skillwire.trust.archive.gzip import MAGIC as GZIP_MAGIC
from skillwire.trust.archive.gzip import read_gzip
from skillwire.trust.archive.plan import ArchivePlan, malformed, plan_entries, plan_files
from skillwire.trust.archive.tar import read_tar
from skillwire.trust.archive.unpack import unpack

__all__ = ["ArchiveFormat", "ArchivePlan", "is_archive", "plan_files", "read_archive", "unpack"]

ArchiveFormat = Literal["tar.gz", "zip"]
_ZIP_MAGIC = b"PK\x03\x04"


def is_archive(content: bytes) -> bool:
    """Return whether bytes begin as an archive does that :func:`read_archive` reads."""
    return content.startswith((GZIP_MAGIC, _ZIP_MAGIC))


def read_archive(
    content: bytes, *, expected_format: ArchiveFormat | None = None, unwraps: bool = False, inside: str = ""
) -> ArchivePlan:
    """Return the files of a whole archive as views of one buffer, with all rules checked and nothing written.

    ``expected_format`` is the stated one, where no response has been checked against it; ``unwraps`` and ``inside`` are
    as of :func:`~.plan.plan_entries`. Raises DecodeError (it cannot
    be read), ValidationError (``NO_SKILL_MD``), TrustError (other ``ARCHIVE_...``, ``PATH_...`` or ``LINK_...`` codes).
    Spec: ASD Archive Structure, Archive Safety. Trust: ``content`` is hostile; :mod:`skillwire.limits` bounds memory
    and time.
    """
    if len(content) > limits.ARCHIVE_BYTES:
        raise TrustError("ARCHIVE_SIZE", f"the archive has {len(content):,} bytes, at most {limits.ARCHIVE_BYTES:,}")
    if not is_archive(content):
        raise malformed("the file is neither a .tar.gz nor a .zip archive")
    found: ArchiveFormat = "tar.gz" if content.startswith(GZIP_MAGIC) else "zip"
    if expected_format is not None and found != expected_format:
        raise TrustError("ARCHIVE_FORMAT_MISMATCH", f"the archive is called {expected_format}, its bytes are {found}")
    if found == "tar.gz":
        return plan_entries(read_tar(read_gzip(content)), unwraps=unwraps, inside=inside)
    from skillwire.trust.archive.zip import read_zip  # noqa: PLC0415  # most archives are the other kind

    return plan_entries(read_zip(content), unwraps=unwraps, inside=inside)
