"""How much one execution may use of the machine, and how that is measured and enforced.

The kernel limits each process by itself. The use of all together is read many times a second from the sandbox's own
``/proc``. Shared memory is divided among its processes; a large shared mapping is charged to each as a whole, which may
stop a skill early, never late. Where systemd delegates a control group to this service (``Delegate=yes`` and
``DelegateSubgroup=server``), each sandbox gets a group beside ours, in which the kernel counts everything at once, also
what sockets hold. Elsewhere, and with version 1 of control groups, only the measurement counts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from skillwire import limits

#: A bound that an execution met; ``details.limit`` of its failure.
Limit = Literal[
    "seconds", "cpu_seconds", "memory_bytes", "address_bytes", "processes", "open_files", "file_bytes", "work_bytes",
    "files", "output_bytes", "log_bytes", "blobs", "blob_bytes",
]  # fmt: skip

_OUTPUT_BYTES: dict[Limit, str] = {
    "seconds": "{} s of time",
    "cpu_seconds": "{} s of processor time",
    "memory_bytes": "{} bytes of memory",
    "address_bytes": "{} bytes of addresses",
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


class ResourceLimits(NamedTuple):
    """The bounds of one execution; :mod:`skillwire.limits` has their reasons. ``seconds`` is the wall clock."""

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
        """How many bytes a report may have beside the output: names of files above all."""
        return _FRAME_BYTES + self.blobs * _ROW_BYTES

    def say(self, limit: Limit) -> str:
        """Return what ``limit`` allows, for people."""
        value = getattr(self, limit)
        return _OUTPUT_BYTES[limit].format(f"{value:g}" if isinstance(value, float) else f"{int(value):,}")


_TICKS: Final = os.sysconf("SC_CLK_TCK")
_KIB: Final = 1024
_MAPPED_BY_LIBRARIES: Final = 64 * _KIB * _KIB  # read-only parts of programs and libraries, which cost no memory
_READ: Final = 4096


class Usage(NamedTuple):
    """The use of a sandbox: bytes, seconds of processor time, processes and threads, files and folders."""

    memory: int
    cpu: float
    processes: int
    files: int

    def exceeds(self, bounds: ResourceLimits) -> Limit | None:
        """Return the bound that is passed, if one is."""
        rows: tuple[tuple[Limit, bool], ...] = (
            ("memory_bytes", self.memory > bounds.memory_bytes),
            ("cpu_seconds", self.cpu > bounds.cpu_seconds),
            ("files", self.files > bounds.files),
            ("processes", self.processes > bounds.processes + _OWN_PROCESSES),
        )
        return next((limit for limit, is_passed in rows if is_passed), None)


_OWN_PROCESSES: Final = 40  # the runner's, and the forwarder's with its threads; the kernel counts before we do


def measure_usage(first: int, work: str, memory_bytes: int) -> Usage | None:
    """Return the usage of the sandbox with the first process ``first``; None when it has ended.

    ``work`` is its work folder inside. Beyond ``memory_bytes``, memory is measured more precisely.
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
            own = status[b"VmData"] + status[b"VmStk"] + status[b"VmExe"] + status[b"VmLib"]
            shared += max(status[b"RssShmem"], status[b"VmSize"] - own - _MAPPED_BY_LIBRARIES)
            fields = _read(f"{root}/proc/{number}/stat").rpartition(b")")[2].split()
            ticks += sum(map(int, fields[11:15]))  # its own, and those of its children that have ended
            tasks += int(fields[17])
    if private + shared > memory_bytes:  # only then is it worth the time to divide what is shared
        private = min(private, sum(_divided(f"{root}/proc/{number}/smaps_rollup") for number in numbers))
    return Usage(private + shared, ticks / _TICKS, tasks, space.f_files - space.f_ffree)


def _divided(path: str) -> int:
    """Return the private memory of one process, what it shares divided by those that share it."""
    try:
        return dict(_rows(path))[b"Pss_Anon"]
    except (OSError, KeyError):  # it has ended; or the kernel has no such row, and nothing is divided
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


_TREE: Final = Path("/sys/fs/cgroup")
_DELEGATED: Final = ("user.delegate", "trusted.delegate")
_NEEDED: Final = frozenset({"memory", "pids"})


class ControlGroup:
    """The group of one sandbox. Its processes are added before they run anything of a skill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, process: int) -> bool:
        """Move ``process`` into the group, with all that it starts from now on; return whether that was possible."""
        try:
            (self._folder / "cgroup.procs").write_text(str(process), encoding="ascii")
        except OSError:  # its old group is not ours to take it from: the watch alone counts it
            return False
        return True

    def has_run_out_of_memory(self) -> bool:
        """Whether the kernel has killed processes of the group because of its memory."""
        try:
            rows = (self._folder / "memory.events").read_text(encoding="ascii").splitlines()
        except OSError:  # it is gone
            return False
        return any(row.split() != ["oom_kill", "0"] for row in rows if row.startswith("oom_kill "))

    def remove(self) -> None:
        """Remove the group, which has no process left."""
        with suppress(OSError):  # the kernel still uses it; an empty group costs nothing
            self._folder.rmdir()


def make_group(
    bounds: ResourceLimits, *, tree: Path = _TREE, own: Path = Path("/proc/self/cgroup")
) -> ControlGroup | None:
    """Return a new group that holds to ``bounds``, None where none can be made.

    Control groups are mounted at ``tree``; the file ``own`` names ours.
    """
    try:
        parent = _delegated(tree, own)
        if parent is None:
            return None
        folder = parent / f"skill-{os.urandom(8).hex()}"
        folder.mkdir()
    except OSError:
        return None
    memory = bounds.memory_bytes + bounds.work_bytes + bounds.shared_bytes  # files in the work folder are memory, too
    settings = {
        "memory.max": memory,
        "memory.swap.max": 0,
        "memory.oom.group": 1,
        "pids.max": bounds.processes + _OWN_PROCESSES,
    }
    try:
        for name, value in settings.items():
            if name != "memory.swap.max" or (folder / name).exists():  # a kernel without swap has no such file
                (folder / name).write_text(str(int(value)), encoding="ascii")
    except OSError:
        ControlGroup(folder).remove()
        return None
    return ControlGroup(folder)


def _delegated(tree: Path, own: Path) -> Path | None:
    """Return the folder beside our own group in which groups may be made; its controllers are switched on."""
    rows = own.read_text(encoding="utf-8").splitlines()
    path = next((row[3:] for row in rows if row.startswith("0::")), None)
    if path is None or path == "/":
        return None
    parent = (tree / path.lstrip("/")).parent
    if not _is_delegated(parent) or not set((parent / "cgroup.controllers").read_text().split()) >= _NEEDED:
        return None
    if not set((parent / "cgroup.subtree_control").read_text().split()) >= _NEEDED:
        (parent / "cgroup.subtree_control").write_text("+memory +pids", encoding="ascii")
    return parent


def _is_delegated(folder: Path) -> bool:
    """Whether ``folder`` was delegated to us, by systemd or another manager."""
    if os.geteuid():
        return folder.stat().st_uid == os.geteuid()
    for name in _DELEGATED:
        with suppress(OSError):  # it has no such mark
            if os.getxattr(folder, name) == b"1":
                return True
    return False
