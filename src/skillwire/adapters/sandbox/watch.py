"""What the processes of one sandbox use together, as the kernel tells it from outside.

The kernel bounds each process by itself. What all of them use is looked at many times a second through the sandbox's
own ``/proc``, which lists its processes and no others. What a process shares with its parent since it was forked is
charged to each by its part. A large shared mapping is charged to each process by its whole size, because its pages may
stay where no process shows them: who shares much memory so may be stopped early, nobody late.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skillwire.adapters.sandbox.bounds import Bounds, Limit

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_KIB: Final = 1024
_MAPPED_BY_LIBRARIES: Final = 64 * _KIB * _KIB  # read-only parts of programs and libraries, which are nobody's memory
_READ: Final = 4096


class Usage(NamedTuple):
    """What is used: bytes, seconds of processor time, processes and threads, files and folders."""

    memory: int
    cpu: float
    processes: int
    files: int

    def exceeds(self, bounds: Bounds) -> Limit | None:
        """Return the bound that is passed, if one is."""
        if self.memory > bounds.memory_bytes:
            return "memory_bytes"
        if self.cpu > bounds.cpu_seconds:
            return "cpu_seconds"
        if self.files > bounds.files:
            return "files"
        return "processes" if self.processes > bounds.processes + _OURS else None


_OURS: Final = 40  # the runner's, and the forwarder's with its threads; the kernel counts before we do


def measure(first: int, work: str, memory_bytes: int) -> Usage | None:
    """Return what the sandbox uses whose first process is ``first``; None when it has ended.

    Args:
        first: its number outside.
        work: the path of its work folder inside.
        memory_bytes: what may be used; more is measured more precisely.
    """
    root = f"/proc/{first}/root"
    try:
        numbers = [name for name in os.listdir(f"{root}/proc") if name.isdigit()]  # noqa: PTH208  # 20 times a second
        space = os.statvfs(f"{root}{work}")
    except OSError:  # the process has ended, or is not in its own root yet
        return None
    private, shared, ticks, tasks = 0, 0, 0, 0
    for number in numbers:
        with suppress(OSError, ValueError, IndexError, KeyError):  # it ends while it is read
            status = dict(_rows(f"{root}/proc/{number}/status"))
            private += status[b"RssAnon"]
            shared += _shared(status)
            fields = _read(f"{root}/proc/{number}/stat").rpartition(b")")[2].split()
            ticks += sum(map(int, fields[11:15]))  # its own, and those of its children that have ended
            tasks += int(fields[17])
    if private + shared > memory_bytes:  # only then is it worth the time to divide what is shared
        private = min(private, sum(_divided(f"{root}/proc/{number}/smaps_rollup") for number in numbers))
    return Usage(private + shared, ticks / _TICKS, tasks, space.f_files - space.f_ffree)


def _shared(status: Mapping[bytes, int]) -> int:
    private = status[b"VmData"] + status[b"VmStk"] + status[b"VmExe"] + status[b"VmLib"]
    return max(status[b"RssShmem"], status[b"VmSize"] - private - _MAPPED_BY_LIBRARIES)


def _divided(path: str) -> int:
    """Return the private memory of one process, what it shares divided by those that share it."""
    try:
        return dict(_rows(path))[b"Pss_Anon"]
    except (OSError, KeyError):  # it has ended; or a kernel that does not tell, where nothing is divided
        return 0 if not os.path.exists(path) else sys.maxsize  # noqa: PTH110  # text


def _rows(path: str) -> Iterator[tuple[bytes, int]]:
    for line in _read(path).splitlines():
        name, _, value = line.partition(b":")
        if value.endswith(b" kB"):
            yield name, int(value[:-3]) * _KIB


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _READ)
    finally:
        os.close(descriptor)
