"""The strict archive reader: bytes to a plan in memory, and the plan to a folder.

:func:`read_archive` looks at the first bytes, reads the one format they announce (:mod:`.tar` inside
:mod:`.gzip_member`, or :mod:`.zip`) into entries, and :mod:`.plan` turns the entries into files. Nothing is
written before the whole archive has been read and found good; then :func:`unpack` writes the plan aside
and renames it into place. See ``docs/topics/archives.md``.
"""

from skillwire.trust.archive.plan import ArchivePlan, plan_files
from skillwire.trust.archive.read import ArchiveFormat, read_archive
from skillwire.trust.archive.unpack import unpack

__all__ = ["ArchiveFormat", "ArchivePlan", "plan_files", "read_archive", "unpack"]
