"""The strict archive reader: bytes to a plan in memory, and the plan to a folder.

:func:`read_archive` detects the format, reads it (:mod:`.tar` inside :mod:`.gzip`, or :mod:`.zip`) into entries, and
:mod:`.plan` turns the entries into files. :func:`unpack` writes a plan only after the whole archive was read and
accepted. See ``docs/topics/archives.md``.
"""

from skillwire.trust.archive.plan import ArchivePlan, plan_files
from skillwire.trust.archive.read import ArchiveFormat, read_archive
from skillwire.trust.archive.unpack import unpack

__all__ = ["ArchiveFormat", "ArchivePlan", "plan_files", "read_archive", "unpack"]
