"""The arguments of bubblewrap: every mount, namespace and switch of a sandbox, in one place.

An ordinary user starts one bubblewrap, which makes a user namespace for itself. Root starts two. The outer one only
shows: a mount namespace with the same few paths, so that an ordinary uid can reach an interpreter or a cache that
lies in a folder of root's. Within it ``setpriv`` becomes a uid that nobody else has, gives up every capability, and
starts the inner one, which is the same as an ordinary user's. Both have a process namespace: bubblewrap without
capabilities could not kill what has another uid, but the kernel kills all in a namespace when its first process ends.
So nothing inside is root, neither by its own number nor by the kernel's, and limits that count by uid count one
sandbox.

The inner bubblewrap reads its arguments from a descriptor: the paths of this machine in them stand on no command line
that the skill could read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skillwire.adapters.sandbox.bounds import Bounds
    from skillwire.adapters.sandbox.interpreter import Interpreter

SKILL: Final = "/skill"
SKILLS: Final = "/skills"
BLOBS: Final = "/blobs"
WORK: Final = "/work"
OUTPUT: Final = f"{WORK}/.output"
RUNNER: Final = "/run/skillwire/runner.py"
PROXY: Final = "/run/skillwire/proxy.sock"
AUTHORITIES: Final = "/etc/ssl/certs/ca-certificates.crt"
INNER_ID: Final = 1000  # the same on every machine

_OWN_FILES: Final = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120  # text, as all arguments are
_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_STREAMS: Final = (
    ("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1"), ("stderr", "/proc/self/fd/2"),
)  # fmt: skip


class Mount(NamedTuple):
    """A file or folder of this machine, by its real path, and where it stands inside, read-only."""

    source: str
    place: str


class Written(NamedTuple):
    """A file that is made in the sandbox of what a descriptor holds, and where it stands inside, read-only."""

    descriptor: int
    place: str


def own_mounts(interpreter: Interpreter) -> list[Mount]:
    """Return what every sandbox shows: the interpreter, our runner, and the few files that libraries look for."""
    own = [Mount(f"{_OWN_FILES}/etc/{name}", f"/etc/{name}") for name in ("passwd", "group", "hosts", "nsswitch.conf")]
    runner = Mount(f"{_OWN_FILES}/runner.py", RUNNER)
    return [*(Mount(path, path) for path in interpreter.shown), *own, runner]


def inner_arguments(
    interpreter: Interpreter,
    mounts: Sequence[Mount],
    bounds: Bounds,
    *,
    filter_descriptor: int,
    written: Sequence[Written] = (),
) -> list[str]:
    """Return the arguments of the bubblewrap that the skill runs in, without the command.

    Args:
        interpreter: what is shown of this machine.
        mounts: all of them, :func:`own_mounts` included.
        bounds: of the files that the skill makes.
        filter_descriptor: where the program of :mod:`skillwire.adapters.sandbox.seccomp` is read.
        written: files that lie nowhere on this machine.
    """
    return [
        *("--unshare-user", "--disable-userns", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        *("--unshare-cgroup-try", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"),
        *("--cap-drop", "ALL"),
        *("--uid", str(INNER_ID), "--gid", str(INNER_ID), "--hostname", "skill"),
        *("--seccomp", str(filter_descriptor)),
        *_shown(mounts),
        *("--perms", "0755", "--dir", BLOBS, "--perms", "0755", "--dir", SKILLS, "--perms", "0755", "--dir", SKILL),
        *(word for one in written for word in ("--perms", "0444", "--file", str(one.descriptor), one.place)),
        *(word for path, target in interpreter.links for word in ("--symlink", target, path)),
        *(word for path in interpreter.hidden for word in ("--tmpfs", path, "--remount-ro", path)),
        *("--proc", "/proc"),
        *_devices(),
        *("--perms", "0700", "--size", str(bounds.shared_bytes), "--tmpfs", "/dev/shm"),  # noqa: S108  # inside
        *("--perms", "0700", "--size", str(bounds.work_bytes), "--tmpfs", WORK),
        *("--perms", "0700", "--dir", OUTPUT),
        *("--perms", "0700", "--dir", f"{WORK}/.tmp", "--symlink", f"{WORK}/.tmp", "/tmp"),  # noqa: S108  # inside
        *("--remount-ro", "/", "--chdir", WORK),
    ]


def outer_arguments(
    interpreter: Interpreter, mounts: Sequence[Mount], programs: Iterable[str], *, setpriv: str, uid: int
) -> list[str]:
    """Return the arguments of root's bubblewrap, up to and without the command that ``uid`` starts in it.

    Args:
        interpreter: as for the inner one.
        mounts: those of the inner one; here each stands at its own path.
        programs: files and folders that the inner bubblewrap and setpriv need.
        setpriv: the program file.
        uid: what the inner one runs as.
    """
    sources = [Mount(path, path) for path in sorted({*(mount.source for mount in mounts), *programs})]
    return [
        *_shown(sources),
        *(word for path, target in interpreter.links for word in ("--symlink", target, path)),
        *_devices(),
        *("--perms", "0755", "--dir", "/tmp"),  # noqa: S108  # where the inner bubblewrap builds
        *("--bind", "/proc", "/proc", "--remount-ro", "/", "--unshare-pid", "--die-with-parent", "--"),
        *(setpriv, f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"),
        *("--no-new-privs", "--"),
    ]


def _shown(mounts: Iterable[Mount]) -> list[str]:
    """Return the arguments for ``mounts``, each parent made first: bubblewrap alone would make some for root only."""
    arguments: list[str] = []
    made = {"/"}
    for mount in sorted(mounts, key=lambda mount: mount.place):
        for parent in _parents(mount.place):
            if parent not in made:
                arguments += ["--perms", "0755", "--dir", parent]
                made.add(parent)
        arguments += ["--ro-bind", mount.source, mount.place]
        made.add(mount.place)
    return arguments


def _parents(path: str) -> list[str]:
    steps = path.split("/")[1:-1]
    return ["/" + "/".join(steps[: count + 1]) for count in range(len(steps))]


def _devices() -> list[str]:
    """Return the arguments for a folder of devices that hold nothing and lead nowhere."""
    return [
        *("--perms", "0755", "--dir", "/dev"),
        *(word for name in _DEVICES for word in ("--dev-bind", f"/dev/{name}", f"/dev/{name}")),
        *(word for name, target in _STREAMS for word in ("--symlink", target, f"/dev/{name}")),
    ]
