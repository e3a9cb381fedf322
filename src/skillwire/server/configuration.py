"""The server's configuration file: where it listens, authentication, access, rate limits, and what runs.

The file is TOML and the operator's own. An unknown key is an error with its place, because a misspelt ``audience``
would open what should be closed. The reader collects every problem: a server raises the first one, and
:func:`examine_configuration` returns all. Secrets are never in the file: it names the file or the environment variable
that holds them.
"""

from __future__ import annotations

import base64
import os
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote_plus

from skillwire import limits
from skillwire.errors import (
    DecodeError,
    SkillwireError,
    SourceLocation,
    StorageError,
    UsageError,
    ValidationError,
    did_you_mean,
)
from skillwire.model.access import EVERY_SKILL, OPERATOR, TASKS
from skillwire.model.execution import ExecutionSettings, RunSettings
from skillwire.model.package import is_grant
from skillwire.protocols.skill_discovery.settings import LanSettings, read_discovery
from skillwire.server.configuration_keys import TABLES
from skillwire.server.quotas import RateLimit
from skillwire.trust.guarded_toml import load_toml, toml_place
from skillwire.web.assets import PLAIN, Branding, read_logo

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from skillwire.server.auth.access_token import AccessClaims

#: Where MCP is served.
MCP_PATH: Final = "/mcp"
_SECRET_BYTES: Final = 4096
_GROUP: Final = "group:"


@dataclass(frozen=True, slots=True)
class McpSettings:
    """The table ``[mcp]``; ``pins`` names the skills that are tools of their own, ``require`` is who may connect."""

    serve: bool = True
    require: str = ""
    pins: tuple[str, ...] = ()


class BridgeSettings(NamedTuple):
    """The table ``[bridges]``: the version of each document of another ecosystem; None turns it off."""

    ai_catalog: str | None = None
    agent_card: str | None = None


class ConsoleRoles(NamedTuple):
    """The table ``[console]``: the rights of people who sign in at the issuer."""

    operators: frozenset[str] = frozenset()
    task_workers: frozenset[str] = frozenset()

    def scopes_of(self, subject: str, groups: Collection[str]) -> frozenset[str]:
        """Return the scopes of a person."""
        names = {f"{_GROUP}{group}" for group in groups}
        if not subject.startswith(_GROUP):  # a subject that looks like a group is none
            names.add(subject)
        roles = ((OPERATOR, self.operators), (TASKS, self.task_workers))
        return frozenset(scope for scope, people in roles if not people.isdisjoint(names))


@dataclass(frozen=True, slots=True)
class OAuth2Settings:
    """The table ``[oauth2]``."""

    issuer: str
    audience: str
    jwks_url: str | None = None
    introspection_url: str | None = None
    client_id: str | None = None
    client_secret_env: str | None = None
    client_secret_file: str | None = None
    authorization_url: str | None = None
    token_url: str | None = None
    sign_in: str = ""
    allow_untyped: bool = False
    scopes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


SCOPE_PREFIX: Final = "skill:"


@dataclass(frozen=True, slots=True)
class Grants:
    """The table ``[grants]``: subject, client or scope of the issuer → names of skills, ``*`` for all.

    A scope ``skill:NAME`` opens the skill of this name too, ``skill:*`` all of them **[ours]**; a package of a registry
    is opened by ``skill:NAMESPACE/NAME`` alone, since each namespace may have one of the name.
    """

    subjects: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    clients: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    scopes: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, claims: AccessClaims) -> frozenset[str]:
        """Return the skills that are open to a caller with a token with these claims."""
        rows = [(self.subjects, claims.subject), (self.clients, claims.client_id)]
        rows += [(self.scopes, scope) for scope in claims.scopes]
        return skills_of(claims.scopes).union(*(table.get(name, ()) for table, name in rows if name is not None))

    def scopes_for(self, skill: str) -> list[str]:
        """Return the scopes that open the skill of this name, ours first."""
        configured = (scope for scope, skills in self.scopes.items() if skill in skills or EVERY_SKILL in skills)
        return [f"{SCOPE_PREFIX}{skill}", *sorted(configured)]


def skills_of(scopes: Collection[str]) -> frozenset[str]:
    """Return the names of the skills that scopes of the form ``skill:NAME`` open."""
    names = (scope.removeprefix(SCOPE_PREFIX) for scope in scopes if scope.startswith(SCOPE_PREFIX))
    return frozenset(name for name in names if is_grant(name))


@dataclass(frozen=True, slots=True)
class ServerConfiguration:
    """The whole file. ``source`` is its path, for errors; ``oauth2`` and ``discovery`` are None without a table.

    ``serve`` has the options of ``skillwire serve`` that the file sets, by the names of its parameters.
    ``logo`` is the path of the picture that :func:`load_configuration` reads into ``site``. ``limits_registry`` is
    whether requests without credentials are limited on a registry, as far as the file does not.
    """

    offer: str = "api_key"
    oauth2: OAuth2Settings | None = None
    grants: Grants = field(default_factory=Grants)
    principal_limit: RateLimit = field(default_factory=lambda: RateLimit(600, 100))
    anonymous_limit: RateLimit | None = None
    limits_registry: bool = True
    executions: ExecutionSettings = field(default_factory=ExecutionSettings)
    runs: RunSettings = field(default_factory=RunSettings)
    mcp: McpSettings = field(default_factory=McpSettings)
    bridges: BridgeSettings = field(default_factory=BridgeSettings)
    discovery: LanSettings | None = None
    trusted_proxies: tuple[str, ...] = ()
    site: Branding = PLAIN
    logo: str = ""
    console: ConsoleRoles = field(default_factory=ConsoleRoles)
    source: str = "server.toml"
    serve: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def read_configuration(data: bytes, source: str) -> ServerConfiguration:
    """Return the configuration in the TOML ``data``; ``source`` is its path, for errors.

    Raises:
        DecodeError: ``LIMIT_SIZE``, ``ENCODING``, ``TOML_...``.
        UsageError: ``SERVER_CONFIGURATION`` with the place.
        ValidationError: ``DISCOVERY_CONFIGURATION`` with the place, in the table of that name.
    """
    configuration, problems = _examine(data, source)
    if problems:
        raise problems[0]
    return configuration


def _examine(data: bytes, source: str) -> tuple[ServerConfiguration, list[SkillwireError]]:
    """Return the configuration, without the keys that have a problem, and the problems."""
    document = _Document(load_toml(data, source=source), data.decode("utf-8"), source, [])
    document.check_names()
    offer = document.values("auth").get("offer", "api_key")
    oauth2 = None
    if "oauth2" in document.content:
        known = len(document.problems)
        found = document.values("oauth2")
        for key in ("issuer", "audience"):
            if key not in document.content["oauth2"]:
                document.refuse(("oauth2",), f"[oauth2] has no {key}", f"Write {key}: {TABLES['oauth2'][key].meaning}.")
        secret_keys = [key for key in ("client_secret_env", "client_secret_file") if key in found]
        if len(secret_keys) != ("client_id" in found):
            fix = "Write client_id and one of client_secret_env and client_secret_file, or none of the three."
            document.refuse(("oauth2", *secret_keys[:1]), "client_id and where its secret is belong together", fix)
        if "sign_in" in found and "client_id" not in found:
            document.refuse(("oauth2", "sign_in"), "sign_in needs client_id", "Write client_id and its secret.")
        if len(document.problems) == known:
            oauth2 = OAuth2Settings(**found)
    if document.problems:
        pass  # what is absent may be what has a problem
    elif offer == "oauth2" and (oauth2 is None or oauth2.authorization_url is None or oauth2.token_url is None):
        missing = 'offer = "oauth2" needs issuer, audience, authorization_url and token_url in [oauth2]'
        document.refuse(("auth", "offer"), missing, "Write them, as descriptors must name them, or offer api_key.")
    rates, site = document.values("rate_limit"), document.values("site")
    configuration = ServerConfiguration(
        offer,
        oauth2,
        Grants(**document.values("grants")),
        RateLimit(rates.get("principal_per_minute", 600), rates.get("principal_burst", 100)),
        # Requests for public content are not limited, unless the file sets a limit.
        RateLimit(rates.get("anonymous_per_minute", 300), rates.get("anonymous_burst", 100))
        if rates.keys() & {"anonymous_per_minute", "anonymous_burst"} and rates.get("anonymous_per_minute", 1)
        else None,
        rates.keys().isdisjoint({"anonymous_per_minute", "anonymous_burst"}),
        ExecutionSettings(**document.values("executions")),
        RunSettings(**document.values("rpc")),
        McpSettings(**document.values("mcp")),
        BridgeSettings(**document.values("bridges")),
        document.discovery(),
        document.values("http").get("trusted_proxies", ()),
        Branding(**{name: value for name, value in site.items() if name != "logo"}),
        site.get("logo", ""),
        ConsoleRoles(**document.values("console")),
        source,
        MappingProxyType(document.values("serve")),
    )
    return configuration, document.problems


class _Document(NamedTuple):
    """The file: its tables, its text and its path, and the problems found so far."""

    content: dict[str, Any]
    text: str
    source: str
    problems: list[SkillwireError]

    def refuse(self, path: tuple[str, ...], message: str, fix: str | None = None) -> None:
        place = toml_place(self.text, path, self.source)
        self.problems.append(UsageError("SERVER_CONFIGURATION", message, place=place, fix=fix))

    def check_names(self) -> None:
        """Report unknown tables and keys, and remove them."""
        for table, content in list(self.content.items()):
            if table not in TABLES:
                self.refuse((table,), f"unknown table {ascii(table)[:60]}", _known(table, TABLES))
            elif not isinstance(content, dict):
                self.refuse((table,), f"{table} must be a table", f"Write [{table}] and its keys below.")
                del self.content[table]
            else:
                # The keys of discovery have tables below them, and are read as a whole.
                unknown = [key for key in content if key not in TABLES[table]] if table != "discovery" else ()
                for key in unknown:
                    self.refuse((table, key), f"unknown key {ascii(key)[:60]}", _known(key, TABLES[table]))
                    del content[key]

    def values(self, table: str) -> dict[str, Any]:
        """Return the values that a table sets, by the names of the settings."""
        found = {}
        for key, value in self.content.get(table, {}).items():
            row = TABLES[table][key]
            try:
                found[row.setting or key] = row.read(value)
            except ValidationError as error:
                self.refuse((table, key), f"{key} is no URL: {error.message}", error.fix)
            except ValueError as error:
                self.refuse((table, key), f"{key} {error}")
        return found

    def discovery(self) -> LanSettings | None:
        """Return the table ``[discovery]`` with those below it; relative paths begin at the folder of the file."""
        if "discovery" not in self.content:
            return None
        return read_discovery(
            self.content["discovery"],
            self.source,
            place=lambda path: toml_place(self.text, ("discovery", *path), self.source),
            folder=os.path.dirname(self.source),  # noqa: PTH120  # a text, no access
            problems=self.problems,
        )


def _known(name: str, names: Mapping[str, object]) -> str:
    return did_you_mean(name, names, n=1) or f"Known are {', '.join(names)}."


class Credentials(NamedTuple):
    """This server's own credentials at the issuer; texts made of them leave the secret out."""

    client_id: str
    client_secret: str

    def __repr__(self) -> str:
        return f"Credentials({self.client_id!r}, ...)"

    def header(self) -> str:
        """Return the value of ``Authorization``. Spec: RFC 6749 §2.3.1."""
        userinfo = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}"
        return "Basic " + base64.b64encode(userinfo.encode()).decode("ascii")


def load_configuration(path: Path) -> ServerConfiguration:
    """Return the configuration in a file; the file's path names the queue of its executions.

    Raises StorageError (``STORAGE``), and what :func:`read_configuration` raises.
    """
    configuration, problems = examine_configuration(path)
    if problems:
        raise problems[0]
    return configuration


def examine_configuration(path: Path) -> tuple[ServerConfiguration, list[SkillwireError]]:
    """Return the configuration in a file, without the keys that have a problem, and every problem.

    Raises StorageError (``STORAGE``) or DecodeError for a file that cannot be read as TOML.
    """
    configuration, problems = _examine(_read(path, limits.TOML_BYTES), str(path))
    executions = replace(configuration.executions, queue=os.path.abspath(path))  # noqa: PTH100  # a link keeps its name
    if executions.secrets_file is not None:
        executions = replace(executions, secrets_file=str(path.parent / executions.secrets_file))
    site, serve = configuration.site, dict(configuration.serve)
    if "folders" in serve:
        serve["folders"] = tuple(str(path.parent / folder) for folder in serve["folders"])
    if configuration.logo:
        try:
            site = site._replace(logo=read_logo(_read(path.parent / configuration.logo, limits.LOGO_BYTES)))
        except SkillwireError as error:
            message = f"the logo {configuration.logo} cannot be read: {error.message}"
            fix = "Correct site.logo, or the file."
            place = SourceLocation(str(path))
            problems.append(StorageError("SERVER_CONFIGURATION", message, place=place, fix=fix))
    return replace(configuration, executions=executions, site=site, serve=serve), problems


def load_credentials(configuration: ServerConfiguration, environment: Mapping[str, str]) -> Credentials | None:
    """Return this server's credentials at the issuer; None when the configuration names none.

    Raises UsageError (``SERVER_CONFIGURATION``) without a secret, StorageError for a file that others may read.
    """
    settings = configuration.oauth2
    if settings is None or settings.client_id is None:
        return None
    if settings.client_secret_file is not None:
        path = Path(configuration.source).parent / settings.client_secret_file
        where, data = str(path), _read(path, _SECRET_BYTES, is_secret=True)
        try:
            secret = data.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise UsageError("SERVER_CONFIGURATION", "the secret is not text", place=SourceLocation(where)) from None
    else:
        where = settings.client_secret_env or ""
        secret = environment.get(where, "")
        if not secret:
            message, fix = f"the variable {where} is not set", f"Set {where} to the secret that the issuer gave."
            place = SourceLocation(configuration.source or where)
            raise UsageError("SERVER_CONFIGURATION", message, place=place, fix=fix)
    if not secret or not secret.isprintable():
        raise UsageError("SERVER_CONFIGURATION", "there is no secret of one line", place=SourceLocation(where))
    return Credentials(settings.client_id, secret)


def _read(path: Path, max_bytes: int, *, is_secret: bool = False) -> bytes:
    place = SourceLocation(str(path))
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise StorageError("STORAGE", f"{error.strerror or error}", place=place) from error
    if is_secret and os.name == "posix" and mode & 0o077:
        fix = f"Take that away: chmod 600 {path}"
        raise StorageError("SERVER_CONFIGURATION", "others may read the secret", place=place, fix=fix)
    if len(data) > max_bytes:
        raise DecodeError("LIMIT_SIZE", f"more than {max_bytes} bytes", place=place)
    return data


def use_local_defaults(configuration: ServerConfiguration) -> ServerConfiguration:
    """Return the configuration for one process: its executions have a queue of their own, and end with it.

    With ``concurrency = 0`` they stay in the common queue, for ``skillwire worker``.
    """
    runs = replace(configuration.runs, is_local=True)
    executions = configuration.executions
    if executions.concurrency:
        executions = replace(executions, queue=f"process {os.getpid()} {secrets.token_hex(8)}")
    return replace(configuration, runs=runs, executions=executions)
