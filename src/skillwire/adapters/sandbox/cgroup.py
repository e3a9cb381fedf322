"""A control group for one sandbox, where the system lets us make one: there the kernel itself counts what all use.

It counts what :mod:`~skillwire.adapters.sandbox.watch` cannot see, such as what sockets hold, and it counts at once.
A group is made beside our own when the folder that holds ours was *delegated* to us: systemd does so for a service with
``Delegate=yes`` and ``DelegateSubgroup=server``. Anywhere else, and with version 1 of control groups, there is none,
and the watch alone counts.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skillwire.adapters.sandbox.bounds import Bounds

_TREE: Final = Path("/sys/fs/cgroup")
_DELEGATED: Final = ("user.delegate", "trusted.delegate")
_NEEDED: Final = frozenset({"memory", "pids"})
_OWN_PROCESSES: Final = 40  # the runner's and the forwarder's; the kernel's limit of processes holds before


class ControlGroup:
    """The group of one sandbox. Its processes are added before they run anything of a skill.

    Args:
        folder: made, and ours.
    """

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
        with contextlib.suppress(OSError):  # the kernel is still about it; an empty group costs nothing
            self._folder.rmdir()


def make_group(bounds: Bounds, *, tree: Path = _TREE, own: Path = Path("/proc/self/cgroup")) -> ControlGroup | None:
    """Return a new group that holds to ``bounds``, None where none can be made.

    Args:
        bounds: of the sandbox. Files in its work folder are memory, too.
        tree: where control groups are mounted.
        own: says which is ours.
    """
    try:
        parent = _delegated(tree, own)
        if parent is None:
            return None
        folder = parent / f"skill-{os.urandom(8).hex()}"
        folder.mkdir()
    except OSError:
        return None
    memory = bounds.memory_bytes + bounds.work_bytes + bounds.shared_bytes
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
    switched = set((parent / "cgroup.subtree_control").read_text().split())
    if not switched >= _NEEDED:
        (parent / "cgroup.subtree_control").write_text("+memory +pids", encoding="ascii")
    return parent


def _is_delegated(folder: Path) -> bool:
    """Whether systemd, or whoever owns the tree, has left ``folder`` to us."""
    if os.geteuid():
        return folder.stat().st_uid == os.geteuid()
    for name in _DELEGATED:
        with contextlib.suppress(OSError):  # it has no such mark
            if os.getxattr(folder, name) == b"1":
                return True
    return False
