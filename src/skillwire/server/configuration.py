"""The server's configuration file: authentication, access, rate limits, and what runs.

The file is TOML and the operator's own. :data:`TABLES` is the one list of its keys: the reader, the reference and a
test walk it. An unknown key is an error with its place, because a misspelt ``audience`` would open what should be
closed. A reader returns the value of a key, or raises ValueError with the end of the sentence "KEY must ...". Secrets
are never in the file: it names the file or the environment variable that holds them.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import secrets
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn
from urllib.parse import quote_plus

from skillwire import limits
from skillwire.errors import DecodeError, SourceLocation, StorageError, UsageError, ValidationError
from skillwire.model.access import EVERY_SKILL, OPERATOR, TASKS
from skillwire.model.branding import PLAIN, Branding, check_contact, read_logo
from skillwire.model.execution import AllowedCallers, ExecutionSettings, RunSettings
from skillwire.model.package import is_grant
from skillwire.model.skill import is_skill_name
from skillwire.model.url import parse_url
from skillwire.protocols.skill_discovery.settings import LanSettings, flag, integer, read_discovery, text
from skillwire.resolver.settings import choice_of
from skillwire.server.auth.rate_limit import RateLimit
from skillwire.trust.address import AddressPolicy
from skillwire.trust.guarded_toml import load_toml, toml_place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from skillwire.server.auth.access_token import AccessClaims

_COUNT_MAX: Final = 1_000_000
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
_SIZE_MAX: Final = 2**40
_SECRET_BYTES: Final = 4096
_LINE_LENGTH: Final = 80
_FEATURED: Final = 12
_GROUP: Final = "group:"
OFFERS: Final = ("api_key", "oauth2", "custom")


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


def _url(value: object) -> str:
    parse_url(url := text(value))
    return url  # as written: an issuer is compared letter by letter


_count: Final = integer(1, _COUNT_MAX)


def _count_from_none(value: object) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else _count(value)


def _days(value: object) -> float:
    return float(_count(value) * _DAY)


def _size(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _SIZE_MAX:
        return value
    raise ValueError(f"must be a number of bytes from 1 to {_SIZE_MAX}")


def _callers(value: object) -> AllowedCallers:
    if isinstance(value, bool) or value == "authenticated":
        return value
    raise ValueError('must be true, false or "authenticated"')


def _addresses(value: object) -> tuple[str, ...]:
    entries = tuple(map(text, value if isinstance(value, list) else [value]))
    try:
        AddressPolicy(allow=entries)
    except UsageError as error:
        raise ValueError(f"must list hosts and networks: {error.message}") from error
    return entries


def _text_table(value: object) -> Mapping[str, str]:
    if isinstance(value, dict):
        return MappingProxyType({text(name): text(meaning) for name, meaning in value.items()})
    raise ValueError("must be a table of scope and meaning")


def _skill_table(value: object) -> Mapping[str, frozenset[str]]:
    if not isinstance(value, dict) or not all(isinstance(skills, list) for skills in value.values()):
        raise ValueError("must be a table of name and list of skills")
    if not all(isinstance(one, str) and is_grant(one) for skills in value.values() for one in skills):
        raise ValueError("must list names of skills, NAMESPACE/NAME of packages, or *")
    return MappingProxyType({text(name): frozenset(skills) for name, skills in value.items()})


def _pins(value: object) -> tuple[str, ...]:
    if isinstance(value, list) and len(value) <= limits.MCP_PINS and all(map(is_skill_name, value)):
        return tuple(value)
    raise ValueError(f"must be a list of names of skills, of at most {limits.MCP_PINS}")


def _origins(value: object) -> tuple[str, ...]:
    if isinstance(value, list) and all(parse_url(text(one)).target == "/" for one in value):
        return tuple(value)
    raise ValueError("must be a list of origins, such as https://app.example.com")


def _networks(value: object) -> tuple[str, ...]:
    networks = tuple(map(text, value if isinstance(value, list) else [value]))
    try:
        return tuple(str(ipaddress.ip_network(one)) for one in networks)
    except ValueError as error:
        raise ValueError(f"must list addresses and networks: {error}") from error


def _line(value: object) -> str:
    if isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= _LINE_LENGTH:
        return value.strip()
    raise ValueError(f"must be a text of one line, of 1 to {_LINE_LENGTH} characters")


def _markdown(value: object) -> str:
    if isinstance(value, str) and 0 < len(value) <= limits.PAGE_INTRO:
        return value
    raise ValueError(f"must be a text of 1 to {limits.PAGE_INTRO:,} characters")


def _featured(value: object) -> tuple[str, ...]:
    names = value if isinstance(value, list) and len(value) <= _FEATURED else [None]
    if all(isinstance(one, str) and is_grant(one) for one in names):
        return tuple(names)
    raise ValueError(f"must be a list of at most {_FEATURED} names of skills, or NAMESPACE/NAME of packages")


def _people(value: object) -> frozenset[str]:
    if isinstance(value, list) and all(isinstance(one, str) and one for one in value):
        return frozenset(value)
    raise ValueError('must be a list of subjects, and of groups such as "group:support"')


class Key(NamedTuple):
    """A key of the file: how its value is read, its meaning, and its setting where that has another name."""

    read: Callable[[object], Any]
    meaning: str
    setting: str = ""


#: The tables and keys of the file.
TABLES: Final[dict[str, dict[str, Key]]] = {
    "http": {
        "trusted_proxies": Key(
            _networks,
            "list of addresses and networks of proxies whose `X-Forwarded-For`, `X-Forwarded-Proto` and `Host` are "
            "believed; none by default",
        )
    },
    "auth": {
        "offer": Key(
            choice_of(*OFFERS),
            "what descriptors tell callers to use: `api_key`, `oauth2` or `custom` (signed requests)",
        )
    },
    "oauth2": {
        "issuer": Key(_url, "URL of the authorization server, exactly as its tokens write it"),
        "audience": Key(text, "what tokens must be for: the identifier of this server at the issuer"),
        "jwks_url": Key(_url, "URL of the issuer's keys; found in its metadata when absent"),
        "introspection_url": Key(_url, "URL to ask about opaque tokens; found in the issuer's metadata when absent"),
        "client_id": Key(text, "this server's own name at the issuer; opaque tokens are refused without it"),
        "client_secret_env": Key(text, "environment variable that holds this server's secret at the issuer"),
        "client_secret_file": Key(text, "file that holds it; only its owner may be able to read it"),
        "authorization_url": Key(_url, "for descriptors: where people log in"),
        "token_url": Key(_url, "for descriptors: where tokens come from"),
        "sign_in": Key(
            choice_of("anyone", "linked"),
            "people sign in to the console, and on a registry to their accounts, at the issuer, with OpenID Connect: "
            "`anyone`, who on a registry makes an account at first, or those that are `linked` to an account, or named "
            "in `[console]` or `[grants]`; needs `client_id`, and at the issuer the redirect URL "
            "`BASE/account/sign-in/answer`",
        ),
        "allow_untyped": Key(
            flag,
            "accept JWTs whose `typ` is absent or `JWT`, as older issuers make them, and so ID tokens for the "
            "same audience; `false` by default",
        ),
        "scopes": Key(_text_table, "for descriptors: a table of scope → what it means"),
    },
    "grants": {
        "subjects": Key(_skill_table, "a table of subject (`sub`) → list of skills, `*` for all"),
        "clients": Key(_skill_table, "a table of client (`client_id`) → list of skills"),
        "scopes": Key(_skill_table, "a table of scope → list of skills; `skill:NAME` and `skill:*` need no row"),
    },
    "rate_limit": {
        "principal_per_minute": Key(_count, "requests a minute of one who authenticated; 600 by default"),
        "principal_burst": Key(_count, "requests at once after a pause; 100 by default"),
        "anonymous_per_minute": Key(
            _count_from_none, "requests a minute from one address, 0 for no limit; 6,000 by default on a registry"
        ),
        "anonymous_burst": Key(
            _count, "requests of one address at once after a pause; 3,000 by default on a registry, else 100"
        ),
    },
    "executions": {
        "concurrency": Key(
            _count_from_none,
            "executions that run at once in this process; `0` leaves them to `skillwire worker`; 8 by default",
        ),
        "per_caller": Key(_count, "executions of one caller that run at once; 8 by default"),
        "per_skill": Key(_count, "executions of one skill that run at once; 16 by default"),
        "waiting": Key(_count, "executions of one caller that wait or run before it gets a 429; 10000 by default"),
        "longest_seconds": Key(
            _count, "what an execution may take, whatever its publisher and its caller say; 3600 by default", "longest"
        ),
        "longest_task_seconds": Key(
            _count, "the same of a task for a person; 604800, a week, by default", "longest_task"
        ),
        "lease_seconds": Key(
            _count, "how long a worker may be silent before what it runs is taken for lost; 30 by default", "lease"
        ),
        "keep_outputs_days": Key(
            _days, "how long the output of an execution is kept after its end; 7 by default", "keep_outputs"
        ),
        "keep_executions_days": Key(
            _days, "how long an execution is kept after its end; 30 by default", "keep_executions"
        ),
        "grant_all": Key(
            flag, "run every skill that is published here as it is, without `skillwire grant`; `false` by default"
        ),
        "secrets_file": Key(
            text,
            "file with secrets that skills may name, which win over the environment; a relative path begins at "
            "the folder of this file, and only its owner may read it",
        ),
        "allow": Key(_addresses, "list of hosts and networks beyond the public internet that skills may reach"),
        "allow_callbacks": Key(_addresses, "the same for the callback addresses of callers; nothing by default"),
    },
    "rpc": {
        "execute_skill": Key(
            _callers,
            "execute granted skills by JSON-RPC and MCP: for every caller with `true`, for authenticated callers with "
            '`"authenticated"`; `false` by default',
        ),
        "run_code": Key(
            _callers,
            "run code of callers in the sandbox, without network and secrets: for every caller with `true`, for "
            'authenticated callers with `"authenticated"`; `false` by default',
        ),
        "blob_bytes": Key(_size, "how large one blob may be; 33554432, 32 MiB, by default"),
        "blobs_per_owner": Key(
            _size, "how many bytes all blobs of one caller may have; 268435456, 256 MiB, by default"
        ),
        "blob_hours": Key(
            lambda value: _count(value) * _HOUR,
            "how long a blob is kept after its last use; 24 by default",
            "blob_seconds",
        ),
        "origins": Key(
            _origins,
            "list of origins whose pages may call skills, by Skill Sharing too, hand in and fetch blobs, and "
            "speak with `/mcp` in a browser, beside this site and this machine; none by default",
        ),
    },
    "mcp": {
        "serve": Key(flag, "answer at `/mcp`, where the extra `mcp` is installed; `true` by default"),
        "require": Key(
            choice_of("authenticated"),
            "`authenticated` answers requests to `/mcp` without credentials with 401, so that clients log in; by "
            "default they get what is public",
        ),
        "pin": Key(_pins, "list of skills that are tools of their own, with their inputs; none by default", "pins"),
    },
    "bridges": {
        "ai_catalog": Key(
            choice_of("1.0"),
            "version of the AI Catalog to answer with, `1.0`: its catalog and `POST /search`; off by default",
        ),
        "agent_card": Key(
            choice_of("1.0"), "version of A2A whose agent card lists what runs here, `1.0`; off by default"
        ),
    },
    "site": {
        "title": Key(_line, "title of the pages, instead of `skillwire` and of the host"),
        "intro": Key(_markdown, "Markdown above the list of skills; HTML in it is shown as text"),
        "logo": Key(text, f"picture before the title: PNG, JPEG, WebP or SVG, at most {limits.LOGO_BYTES // 1024} KiB"),
        "contact": Key(lambda value: check_contact(text(value)), "email address or URL, at the foot of each page"),
        "featured": Key(_featured, f"list of at most {_FEATURED} names of public skills, shown above the list"),
    },
    "console": {
        "operators": Key(
            _people,
            "list of people who see and cancel every execution, and work the inbox: each a subject (`sub`) of the "
            "issuer, or `group:NAME`, of its claims `groups` and `roles`",
        ),
        "task_workers": Key(_people, "list of people who work the inbox, in the same form"),
    },
    "discovery": {},  # its keys are of Skill Discovery, which reads them and has a page of its own
}


def read_configuration(data: bytes, source: str) -> ServerConfiguration:
    """Return the configuration in the TOML ``data``; ``source`` is its path, for errors.

    Raises:
        DecodeError: ``LIMIT_SIZE``, ``ENCODING``, ``TOML_...``.
        UsageError: ``SERVER_CONFIGURATION`` with the place.
        ValidationError: ``DISCOVERY_CONFIGURATION`` with the place, in the table of that name.
    """
    document = _Document(load_toml(data, source=source), data.decode("utf-8"), source)
    document.check_names()
    offer = document.values("auth").get("offer", "api_key")
    oauth2 = None
    if "oauth2" in document.content:
        found = document.values("oauth2")
        for key in ("issuer", "audience"):
            if key not in found:
                document.refuse(("oauth2",), f"[oauth2] has no {key}", f"Write {key}: {TABLES['oauth2'][key].meaning}.")
        secret_keys = [key for key in ("client_secret_env", "client_secret_file") if key in found]
        if len(secret_keys) != ("client_id" in found):
            fix = "Write client_id and one of client_secret_env and client_secret_file, or none of the three."
            document.refuse(("oauth2", *secret_keys[:1]), "client_id and where its secret is belong together", fix)
        if "sign_in" in found and "client_id" not in found:
            document.refuse(("oauth2", "sign_in"), "sign_in needs client_id", "Write client_id and its secret.")
        oauth2 = OAuth2Settings(**found)
    if offer == "oauth2" and (oauth2 is None or oauth2.authorization_url is None or oauth2.token_url is None):
        missing = 'offer = "oauth2" needs issuer, audience, authorization_url and token_url in [oauth2]'
        document.refuse(("auth", "offer"), missing, "Write them, as descriptors must name them, or offer api_key.")
    rates, site = document.values("rate_limit"), document.values("site")
    return ServerConfiguration(
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
    )


class _Document(NamedTuple):
    """The file: its tables, its text and its path."""

    content: dict[str, Any]
    text: str
    source: str

    def refuse(self, path: tuple[str, ...], message: str, fix: str | None = None) -> NoReturn:
        raise UsageError("SERVER_CONFIGURATION", message, place=toml_place(self.text, path, self.source), fix=fix)

    def check_names(self) -> None:
        for table, content in self.content.items():
            if table not in TABLES:
                self.refuse((table,), f"unknown table {ascii(table)[:60]}", _known(table, TABLES))
            if not isinstance(content, dict):
                self.refuse((table,), f"{table} must be a table", f"Write [{table}] and its keys below.")
            for key in content if table != "discovery" else ():  # which has tables below it, and is read as a whole
                if key not in TABLES[table]:
                    self.refuse((table, key), f"unknown key {ascii(key)[:60]}", _known(key, TABLES[table]))

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
        )


def _known(name: str, names: Mapping[str, object]) -> str:
    close = get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]}?" if close else f"Known are {', '.join(names)}."


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
    configuration = read_configuration(_read(path, limits.TOML_BYTES), str(path))
    executions = replace(configuration.executions, queue=os.path.abspath(path))  # noqa: PTH100  # a link keeps its name
    if executions.secrets_file is not None:
        executions = replace(executions, secrets_file=str(path.parent / executions.secrets_file))
    site = configuration.site
    if configuration.logo:
        try:
            site = site._replace(logo=read_logo(_read(path.parent / configuration.logo, limits.LOGO_BYTES)))
        except StorageError as error:
            message = f"the logo {configuration.logo} cannot be read: {error.message}"
            fix = "Correct site.logo, or the file."
            raise StorageError("SERVER_CONFIGURATION", message, place=SourceLocation(str(path)), fix=fix) from error
    return replace(configuration, executions=executions, site=site)


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
