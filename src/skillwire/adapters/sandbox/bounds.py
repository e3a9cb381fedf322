"""How much one execution may use of the machine."""

from __future__ import annotations

from typing import Literal, NamedTuple

from skillwire import limits

#: A bound that an execution met; ``details.limit`` of its failure.
Limit = Literal[
    "seconds", "cpu_seconds", "memory_bytes", "processes", "open_files", "file_bytes", "work_bytes", "files",
    "output_bytes", "log_bytes", "blobs", "blob_bytes",
]  # fmt: skip

_SAID: dict[Limit, str] = {
    "seconds": "{} s of time",
    "cpu_seconds": "{} s of processor time",
    "memory_bytes": "{} bytes of memory",
    "processes": "{} processes and threads",
    "open_files": "{} open files in one process",
    "file_bytes": "{} bytes in one file",
    "work_bytes": "{} bytes in all its files",
    "files": "{} files and folders",
    "output_bytes": "{} bytes of output",
    "log_bytes": "{} printed bytes",
    "blobs": "{} files handed out",
    "blob_bytes": "{} bytes in all files handed out",
}


_FRAME_BYTES = 64
_ROW_BYTES = 6 * limits.ARCHIVE_PATH_BYTES  # each of them escaped


class Bounds(NamedTuple):
    """The bounds of one execution; their reasons stand in :mod:`skillwire.limits`. ``seconds`` is the wall clock."""

    seconds: float
    cpu_seconds: int = limits.SANDBOX_CPU_SECONDS
    memory_bytes: int = limits.SANDBOX_MEMORY_BYTES
    address_bytes: int = limits.SANDBOX_ADDRESS_BYTES
    processes: int = limits.SANDBOX_PROCESSES
    open_files: int = limits.SANDBOX_OPEN_FILES
    file_bytes: int = limits.SANDBOX_FILE_BYTES
    work_bytes: int = limits.SANDBOX_WORK_BYTES
    shared_bytes: int = limits.SANDBOX_SHARED_BYTES
    files: int = limits.SANDBOX_FILES
    output_bytes: int = limits.SANDBOX_OUTPUT_BYTES
    log_bytes: int = limits.SANDBOX_LOG_BYTES
    blobs: int = limits.RUN_OUTPUT_BLOBS
    blob_bytes: int = limits.RUN_OUTPUT_BYTES
    log_shown_bytes: int = limits.SANDBOX_LOG_SHOWN_BYTES

    @property
    def frame_bytes(self) -> int:
        """How many bytes a report may have beside the output in it: names of files above all."""
        return _FRAME_BYTES + self.blobs * _ROW_BYTES

    def say(self, limit: Limit) -> str:
        """Return what ``limit`` allows, for people."""
        value = getattr(self, limit)
        return _SAID[limit].format(f"{value:g}" if isinstance(value, float) else f"{int(value):,}")
