"""Checks of the machine: Python, the parts that are installed, certificate authorities, the clock of the files."""

from __future__ import annotations

import importlib
import platform
import sys
from typing import TYPE_CHECKING, Final

from skillwire.adapters.files.directories import state_directory
from skillwire.resolver.checkup import Diagnosis
from skillwire.resolver.lock import LOCK_NAME
from skillwire.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.adapters.checkup.surroundings import Surroundings

_OLDEST: Final = (3, 11)
_SLACK: Final = 120.0  # seconds; file systems on a network keep the time of another machine

#: What a part is for → the modules that it needs. The commands that install need none of them.
_PARTS: Final = {
    "check, build": ("msgspec", "yaml"),
    "serve": ("starlette", "uvicorn", "httptools", "watchfiles", "structlog", "prometheus_client", "brotli"),
    "the pages of serve": ("jinja2", "markdown_it", "nh3"),
}


def check_python(_: Surroundings) -> Iterator[Diagnosis]:
    """Look at the interpreter and at our own version."""
    system = f"{platform.python_implementation()} on {platform.system()} {platform.machine()}"
    running = f"Python {platform.python_version()}, {system}"
    if sys.version_info >= _OLDEST:
        yield Diagnosis("ok", running)
    else:
        oldest = ".".join(map(str, _OLDEST))
        yield Diagnosis("problem", running, f"skillwire needs {oldest} or newer.", "Install it for a newer Python.")
    yield Diagnosis("ok", f"skillwire {VERSION}")


def check_parts(_: Surroundings) -> Iterator[Diagnosis]:
    """Import every package that a command would need, to find one that is missing or damaged."""
    for purpose, modules in _PARTS.items():
        broken = [(name, why) for name in modules if (why := _import_error(name))]
        if not broken:
            yield Diagnosis("ok", f"{purpose}: {', '.join(modules)}")
        for name, why in broken:
            fix = "Install skillwire anew, with its dependencies, such as with pip install --force-reinstall skillwire."
            yield Diagnosis("problem", f"{purpose}: {name} cannot be imported", f"{why}.", fix)


def _import_error(name: str) -> str:
    try:
        importlib.import_module(name)
    except Exception as error:  # noqa: BLE001  # a damaged package may raise anything, which is what is reported
        return f"{type(error).__name__}: {error}"
    return ""


def check_authorities(_: Surroundings) -> Iterator[Diagnosis]:
    """Look for the certificate authorities that https is verified with."""
    import ssl  # noqa: PLC0415  # costs milliseconds, here only

    from skillwire.adapters.http.tls import client_context  # noqa: PLC0415  # as above

    known = client_context().cert_store_stats()["x509_ca"]
    folder = ssl.get_default_verify_paths().capath  # read when a certificate is met, so it is not counted above
    if known or folder:
        counted = f"{known} certificate authorities" if known else f"certificate authorities in {folder}"
        yield Diagnosis("ok", f"{counted}, {ssl.OPENSSL_VERSION}")
    else:
        why = "No https server can be verified, so none is connected to."
        fix = "Install the system's package ca-certificates, or set SSL_CERT_FILE."
        yield Diagnosis("problem", "no certificate authorities are installed", why, fix)


def check_file_times(surroundings: Surroundings) -> Iterator[Diagnosis]:
    """Look for files of ours from the future: this clock, or the one that wrote them, was wrong."""
    files = [surroundings.root / LOCK_NAME, *sorted(state_directory().glob("*.json"))]
    ahead = [path for path in files if path.is_file() and path.stat().st_mtime > surroundings.now + _SLACK]
    for path in ahead:
        seconds = path.stat().st_mtime - surroundings.now
        why = "This clock is behind, or the one that wrote the file was ahead; what is cached looks newer than it is."
        yield Diagnosis(
            "warning", f"{path} is from {seconds:,.0f} s in the future", why, "Set the clock, then touch it."
        )
    if not ahead:
        yield Diagnosis("ok", "no file of ours is from the future")
