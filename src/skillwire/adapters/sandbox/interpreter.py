"""What of this machine a sandbox shows: a Python interpreter with its standard library, and nothing else.

The interpreter is the one that runs this program, without its virtual environment. Shown are its program file, its
standard library, the folders of shared libraries that this process has mapped (so they are those that it needs), the
dynamic loader and its cache, time zones, and, where a network is granted, the certificate authorities. All keep their
own paths. Not shown are installed packages, other programs, a shell, ``/etc``, and every home.
"""

from __future__ import annotations

import os
import ssl
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    """What is shown.

    Args:
        executable: the program file.
        library: the folder of the standard library.
        shown: real paths of files and folders, none within another.
        links: path → target of symbolic links above them, such as ``/lib`` → ``usr/lib``.
        hidden: folders within ``shown`` that are shown empty: installed packages.
    """

    executable: str
    library: str
    shown: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    hidden: tuple[str, ...]


@cache
def find_interpreter() -> Interpreter:
    """Return what is shown of this machine."""
    executable = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    library = os.path.realpath(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
    platform = os.path.realpath(sysconfig.get_path("platstdlib", vars={"platbase": sys.base_exec_prefix}))
    links = tuple((path, os.readlink(path)) for path in _SYSTEM_LIBRARIES if os.path.islink(path))  # noqa: PTH115, PTH114  # text, as the arguments are
    wanted = {executable, library, platform, *_mapped_folders(), *_loaders(), *filter(os.path.exists, _OPTIONAL)}
    if os.path.isdir("/lib64"):  # noqa: PTH112  # the loader's path is compiled into every program
        wanted.add(os.path.realpath("/lib64"))
    shown = _outermost(map(_store, wanted))
    return Interpreter(executable, library, shown, links, _packages(shown))


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


def _loaders() -> set[str]:
    """Return the dynamic loader's files; a link keeps its name, below the real path of its folder."""
    found = [path for pattern in _LOADERS for path in Path("/").glob(pattern[1:])]
    return {os.path.join(os.path.realpath(path.parent), path.name) for path in found}  # noqa: PTH118  # text


def _store(path: str) -> str:
    return next((store for store in _STORES if _is_within(path, store)), path)


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Return ``paths`` without those within another one."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not any(_is_within(path, other) for other in kept):
            kept.append(path)
    return tuple(kept)


def _packages(shown: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders of installed packages that lie within ``shown``."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    found = [
        f"{folder}{below}/{name}" for folder in shown for below in ("", f"/{version}", "/python3") for name in _PACKAGES
    ]
    return tuple(path for path in found if os.path.isdir(path))  # noqa: PTH112  # text


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
