"""What an operator may set about MCP: the table ``[mcp]`` of the configuration file.

The table ``[bridges]`` of the server's configuration.

How each value of the server's configuration file is read: it is returned, or ValueError says what it must be.

What is no URL is a ValidationError, with its own advice.

The server's configuration file: who may authenticate, how, what that opens, how often anyone may ask; what runs.

It is TOML and the operator's own. Still an unknown key is an error with its place, never passed over: a misspelt
``audience`` would open what should be closed. :data:`TABLES` is the one list of what can be set; the documentation
and a test walk it. Secrets do not be in the file; it says where they are.

The configuration and the secret that it points to, read from the disk and the environment.
"""

from __future__ import annotations

import base64
import os
import secrets
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn
from urllib.parse import quote_plus

from skillwire import limits
from skillwire.adapters.files.atomic import storage_errors
from skillwire.errors import DecodeError, SourceLocation, StorageError, UsageError, ValidationError
from skillwire.executions.accept import ExecutionSettings, RunSettings
from skillwire.model.access import EVERY_SKILL
from skillwire.model.skill import is_skill_name
from skillwire.model.url import parse_url
from skillwire.protocols.skill_discovery.settings import read_discovery
from skillwire.server.auth.grants import Grants
from skillwire.server.auth.rate_limit import RateLimit
from skillwire.trust.address import AddressPolicy
from skillwire.trust.guarded_toml import load_toml, toml_place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillwire.executions.accept import AllowedCallers
    from skillwire.protocols.skill_discovery.settings import LanSettings


@dataclass(frozen=True, slots=True)
class McpSettings:
    """The table ``[mcp]``.

    Args:
        serve: whether ``/mcp`` answers, where the extra is installed.
        pins: the names of the skills that are tools of their own.
    """

    serve: bool = True
    pins: tuple[str, ...] = ()


class BridgeSettings(NamedTuple):
    """Which neighbours are answered, each in which version of its text; None where none is.

    Args:
        ai_catalog: ``/.well-known/ai-catalog.json`` and ``POST /search``.
        agent_card: ``/.well-known/agent-card.json``.
    """

    ai_catalog: str | None = None
    agent_card: str | None = None


_RATE_MAX: Final = 1_000_000
_TEXT_LENGTH: Final = 2048
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
_SIZE_MAX: Final = 2**40


def read_text(value: object) -> str:
    """Return a text of one line."""
    if isinstance(value, str) and 0 < len(value) <= _TEXT_LENGTH and value.isprintable():
        return value
    raise ValueError("must be a text of one line")


def read_url(value: object) -> str:
    """Return a URL, as it is written."""
    text = read_text(value)
    parse_url(text)
    return text  # as written: an issuer is compared letter by letter


def read_flag(value: object) -> bool:
    """Return true or false."""
    if isinstance(value, bool):
        return value
    raise ValueError("must be true or false")


def _read_scopes(value: object) -> AllowedCallers:
    if isinstance(value, bool) or value == "authenticated":
        return value
    raise ValueError('must be true, false or "authenticated"')


def read_count(value: object) -> int:
    """Return a whole number from 1."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _RATE_MAX:
        return value
    raise ValueError(f"must be a whole number from 1 to {_RATE_MAX}")


def _count_from_none(value: object) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else read_count(value)


def _hours(value: object) -> float:
    return read_count(value) * _HOUR


def _size(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _SIZE_MAX:
        return value
    raise ValueError(f"must be a number of bytes from 1 to {_SIZE_MAX}")


def _days(value: object) -> float:
    return read_count(value) * _DAY


def _addresses(value: object) -> tuple[str, ...]:
    entries = tuple(map(read_text, value if isinstance(value, list) else [value]))
    try:
        AddressPolicy(allow=entries)
    except UsageError as error:
        raise ValueError(f"must list hosts and networks: {error.message}") from error
    return entries


def choice_of(*allowed: str) -> Callable[[object], str]:
    """Return what reads one of these texts."""

    def read(value: object) -> str:
        if value in allowed:
            return str(value)
        raise ValueError(f"must be one of {', '.join(allowed)}")

    return read


def read_text_table(value: object) -> Mapping[str, str]:
    """Return a table of texts."""
    if isinstance(value, dict):
        return MappingProxyType({read_text(name): read_text(meaning) for name, meaning in value.items()})
    raise ValueError("must be a table of scope and meaning")


def read_skill_table(value: object) -> Mapping[str, frozenset[str]]:
    """Return a table of lists of skills."""
    if not isinstance(value, dict) or not all(isinstance(skills, list) for skills in value.values()):
        raise ValueError("must be a table of name and list of skills")
    return MappingProxyType({read_text(name): frozenset(map(_skill, skills)) for name, skills in value.items()})


def _pins(value: object) -> tuple[str, ...]:
    if isinstance(value, list) and len(value) <= limits.MCP_PINS and all(map(is_skill_name, value)):
        return tuple(value)
    raise ValueError(f"must be a list of names of skills, of at most {limits.MCP_PINS}")


def _origins(value: object) -> tuple[str, ...]:
    if isinstance(value, list) and all(parse_url(read_text(one)).target == "/" for one in value):
        return tuple(value)
    raise ValueError("must be a list of origins, such as https://app.example.com")


def _skill(value: object) -> str:
    if isinstance(value, str) and (value == EVERY_SKILL or is_skill_name(value)):
        return value
    raise ValueError("must list names of skills, or *")


#: Key of ``[executions]`` → the setting, and how it is read.
EXECUTIONS: Final[dict[str, tuple[str, Callable[[object], Any]]]] = {
    "concurrency": ("concurrency", _count_from_none),
    "per_caller": ("per_caller", read_count),
    "per_skill": ("per_skill", read_count),
    "waiting": ("waiting", read_count),
    "longest_seconds": ("longest", read_count),
    "longest_task_seconds": ("longest_task", read_count),
    "lease_seconds": ("lease", read_count),
    "keep_outputs_days": ("keep_outputs", _days),
    "keep_executions_days": ("keep_executions", _days),
    "grant_all": ("grant_all", read_flag),
    "secrets_file": ("secrets_file", read_text),
    "allow": ("allow", _addresses),
    "allow_callbacks": ("allow_callbacks", _addresses),
}
#: Key of ``[rpc]`` → the same.
RPC: Final[dict[str, tuple[str, Callable[[object], Any]]]] = {
    "execute_skill": ("execute_skill", _read_scopes),
    "run_code": ("run_code", _read_scopes),
    "blob_bytes": ("blob_bytes", _size),
    "blobs_per_owner": ("blobs_per_owner", _size),
    "blob_hours": ("blob_seconds", _hours),
    "origins": ("origins", _origins),
}
#: Key of ``[mcp]`` → the same.
MCP: Final[dict[str, tuple[str, Callable[[object], Any]]]] = {
    "serve": ("serve", read_flag),
    "pin": ("pins", _pins),
}


#: The tables and keys of the file → their meaning.
TABLES: Final[dict[str, dict[str, str]]] = {
    "auth": {"offer": "what descriptors tell callers to use: `api_key`, `oauth2` or `custom` (signed requests)"},
    "oauth2": {
        "issuer": "URL of the authorization server, exactly as its tokens write it",
        "audience": "what tokens must be for: the identifier of this server at the issuer",
        "jwks_url": "URL of the issuer's keys; found in its metadata when absent",
        "introspection_url": "URL to ask about opaque tokens; found in the issuer's metadata when absent",
        "client_id": "this server's own name at the issuer; opaque tokens are refused without it",
        "client_secret_env": "environment variable that holds this server's secret at the issuer",
        "client_secret_file": "file that holds it; only its owner may be able to read it",
        "authorization_url": "for descriptors: where people log in",
        "token_url": "for descriptors: where tokens come from",
        "allow_untyped": (
            "accept JWTs whose `typ` is absent or `JWT`, as older issuers make them, and so ID tokens for the same "
            "audience; `false` by default"
        ),
        "scopes": "for descriptors: a table of scope → what it means",
    },
    "grants": {
        "subjects": "a table of subject (`sub`) → list of skills, `*` for all",
        "clients": "a table of client (`client_id`) → list of skills",
        "scopes": "a table of scope → list of skills; `skill:NAME` and `skill:*` need no row",
    },
    "rate_limit": {
        "principal_per_minute": "requests a minute of one who authenticated; 600 by default",
        "principal_burst": "requests at once after a pause; 100 by default",
        "anonymous_per_minute": "requests a minute from one address; no limit unless this or `anonymous_burst` is set",
        "anonymous_burst": "requests of one address at once after a pause; 100 where only the other is set",
    },
    "executions": {
        "concurrency": (
            "executions that run at once in this process; `0` leaves them to `skillwire worker`; 8 by default"
        ),
        "per_caller": "executions of one caller that run at once; 8 by default",
        "per_skill": "executions of one skill that run at once; 16 by default",
        "waiting": "executions of one caller that wait or run before it gets a 429; 10000 by default",
        "longest_seconds": "what an execution may take, whatever its publisher and its caller say; 3600 by default",
        "longest_task_seconds": "the same of a task for a person; 604800, a week, by default",
        "lease_seconds": "how long a worker may be silent before what it runs is taken for lost; 30 by default",
        "keep_outputs_days": "how long the output of an execution is kept after its end; 7 by default",
        "keep_executions_days": "how long an execution is kept after its end; 30 by default",
        "grant_all": "run every skill that is published here as it is, without `skillwire grant`; `false` by default",
        "secrets_file": (
            "file with secrets that skills may name, which win over the environment; a relative path begins at the "
            "folder of this file, and only its owner may read it"
        ),
        "allow": "list of hosts and networks beyond the public internet that skills may reach",
        "allow_callbacks": "the same for the addresses that callers want to be told at; nothing by default",
    },
    "rpc": {
        "execute_skill": (
            "execute the skills that were granted, by JSON-RPC and MCP: for everybody with `true`, for those who say "
            'who they are with `"authenticated"`; `false` by default'
        ),
        "run_code": (
            "run code of callers in the sandbox, without network and secrets: for everybody with `true`, for those who "
            'say who they are with `"authenticated"`; `false` by default'
        ),
        "blob_bytes": "how large one blob may be; 33554432, 32 MiB, by default",
        "blobs_per_owner": "how many bytes all blobs of one caller may have; 268435456, 256 MiB, by default",
        "blob_hours": "how long a blob is kept after its last use; 24 by default",
        "origins": (
            "list of origins whose pages may call skills, by Skill Sharing too, hand in and fetch blobs, and speak "
            "with `/mcp` in a browser, beside this site and this machine; none by default"
        ),
    },
    "mcp": {
        "serve": "answer at `/mcp`, where the extra `mcp` is installed; `true` by default",
        "pin": "list of skills that are tools of their own, with their inputs; none by default",
    },
    "bridges": {
        "ai_catalog": "version of the AI Catalog to answer with, `1.0`: its catalog and `POST /search`; off by default",
        "agent_card": "version of A2A whose agent card tells what runs here, `1.0`; off by default",
    },
    "discovery": {},  # its keys are of Skill Discovery, which reads them and has a page of its own
}
OFFERS: Final = ("api_key", "oauth2", "custom")
_PRINCIPAL_LIMIT: Final = RateLimit(600, 100)
_ANONYMOUS_LIMIT: Final = RateLimit(300, 100)


@dataclass(frozen=True, slots=True)
class OAuth2Settings:
    """The table ``[oauth2]``; keys as in :data:`TABLES`."""

    issuer: str
    audience: str
    jwks_url: str | None = None
    introspection_url: str | None = None
    client_id: str | None = None
    client_secret_env: str | None = None
    client_secret_file: str | None = None
    authorization_url: str | None = None
    token_url: str | None = None
    allow_untyped: bool = False
    scopes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class ServerConfiguration:
    """The whole file. ``source`` is its path, for errors; ``oauth2`` and ``discovery`` are None without a table."""

    offer: str = "api_key"
    oauth2: OAuth2Settings | None = None
    grants: Grants = field(default_factory=Grants)
    principal_limit: RateLimit = _PRINCIPAL_LIMIT
    anonymous_limit: RateLimit | None = None
    executions: ExecutionSettings = field(default_factory=ExecutionSettings)
    runs: RunSettings = field(default_factory=RunSettings)
    mcp: McpSettings = field(default_factory=McpSettings)
    bridges: BridgeSettings = field(default_factory=BridgeSettings)
    discovery: LanSettings | None = None
    source: str = "server.toml"


def read_configuration(data: bytes, source: str) -> ServerConfiguration:
    """Return what the file says.

    Args:
        data: the file, TOML.
        source: its path, for errors.

    Raises:
        DecodeError: ``LIMIT_SIZE``, ``ENCODING``, ``TOML_...``.
        UsageError: ``SERVER_CONFIGURATION`` with the place.
        ValidationError: ``DISCOVERY_CONFIGURATION`` with the place, in the table of that name.
    """
    reading = _Reading(load_toml(data, source=source), data.decode("utf-8"), source)
    reading.check_names()
    offer = reading.get(("auth", "offer"), choice_of(*OFFERS), "api_key")
    oauth2 = _oauth2(reading) if "oauth2" in reading.document else None
    if offer == "oauth2" and (oauth2 is None or oauth2.authorization_url is None or oauth2.token_url is None):
        missing = 'offer = "oauth2" needs issuer, audience, authorization_url and token_url in [oauth2]'
        reading.refuse(("auth", "offer"), missing, "Write them, as descriptors must name them, or offer api_key.")
    grants = Grants(*(reading.get(("grants", key), read_skill_table, MappingProxyType({})) for key in TABLES["grants"]))
    return ServerConfiguration(
        offer,
        oauth2,
        grants,
        _rate(reading, "principal", _PRINCIPAL_LIMIT),
        _rate(reading, "anonymous", _ANONYMOUS_LIMIT) if _limits_anonymous(reading.document) else None,
        ExecutionSettings(**_values(reading, "executions", EXECUTIONS)),
        RunSettings(**_values(reading, "rpc", RPC)),
        McpSettings(**_values(reading, "mcp", MCP)),
        BridgeSettings(*(reading.get(("bridges", key), choice_of("1.0")) for key in TABLES["bridges"])),
        reading.discovery(),
        source,
    )


class _Reading(NamedTuple):
    """A document under the eyes of its reader."""

    document: dict[str, Any]
    text: str
    source: str

    def refuse(self, path: tuple[str, ...], message: str, fix: str | None = None) -> NoReturn:
        """Raise the error that says what is wrong at ``path``."""
        place = toml_place(self.text, path, self.source)
        raise UsageError("SERVER_CONFIGURATION", message, place=place, fix=fix)

    def check_names(self) -> None:
        """Refuse tables and keys that do not exist."""
        for table, content in self.document.items():
            if table not in TABLES:
                self.refuse((table,), f"unknown table {ascii(table)[:60]}", _known(table, TABLES))
            if not isinstance(content, dict):
                self.refuse((table,), f"{table} must be a table", f"Write [{table}] and its keys below.")
            for key in content if table != "discovery" else ():  # which has tables below it, and is read as a whole
                if key not in TABLES[table]:
                    self.refuse((table, key), f"unknown key {ascii(key)[:60]}", _known(key, TABLES[table]))

    def discovery(self) -> LanSettings | None:
        """Return what ``[discovery]`` says, and the tables below it; paths begin at the folder of the file."""
        if "discovery" not in self.document:
            return None
        return read_discovery(
            self.document["discovery"],
            self.source,
            place=lambda path: toml_place(self.text, ("discovery", *path), self.source),
            folder=os.path.dirname(self.source),  # noqa: PTH120  # a text, no access
        )

    def get(self, path: tuple[str, str], read: Callable[[object], Any], default: Any = None) -> Any:
        """Return the value at ``path`` as ``read`` gives it, which raises ValueError with what it must be."""
        table, key = path
        values = self.document.get(table, {})
        if key not in values:
            return default
        try:
            return read(values[key])
        except ValidationError as error:
            self.refuse(path, f"{key} is no URL: {error.message}", error.fix)
        except ValueError as error:
            self.refuse(path, f"{key} {error}")


def _oauth2(reading: _Reading) -> OAuth2Settings:
    readers: dict[str, Callable[[object], Any]] = {
        **dict.fromkeys(("audience", "client_id", "client_secret_env", "client_secret_file"), read_text),
        **dict.fromkeys(("issuer", "jwks_url", "introspection_url", "authorization_url", "token_url"), read_url),
        "allow_untyped": read_flag,
        "scopes": read_text_table,
    }
    found = {key: reading.get(("oauth2", key), readers[key]) for key in reading.document["oauth2"]}
    for key in ("issuer", "audience"):
        if key not in found:
            reading.refuse(("oauth2",), f"[oauth2] has no {key}", f"Write {key}: {TABLES['oauth2'][key]}.")
    secrets = [key for key in ("client_secret_env", "client_secret_file") if key in found]
    if len(secrets) != ("client_id" in found):
        fix = "Write client_id and one of client_secret_env and client_secret_file, or none of the three."
        reading.refuse(("oauth2", *secrets[:1]), "client_id and where its secret is belong together", fix)
    return OAuth2Settings(**found)


def _values(reading: _Reading, table: str, rows: Mapping[str, tuple[str, Callable[[object], Any]]]) -> dict[str, Any]:
    """Return what a table sets, by the names of the settings."""
    read = {setting: reading.get((table, key), reader) for key, (setting, reader) in rows.items()}
    return {setting: value for setting, value in read.items() if value is not None}


def _rate(reading: _Reading, who: str, default: RateLimit) -> RateLimit:
    per_minute = reading.get(("rate_limit", f"{who}_per_minute"), read_count, default.per_minute)
    return RateLimit(per_minute, reading.get(("rate_limit", f"{who}_burst"), read_count, default.burst))


def _limits_anonymous(document: Mapping[str, Any]) -> bool:
    """Whether the file says anything of anonymous clients: what everyone may read is not limited otherwise."""
    return any(key.startswith("anonymous") for key in document.get("rate_limit", ()))


def _known(name: str, names: Mapping[str, object]) -> str:
    close = get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]}?" if close else f"Known are {', '.join(names)}."


_SECRET_BYTES: Final = 4096


class Credentials(NamedTuple):
    """Who we are to the issuer. The secret is in no text that is made of this."""

    client_id: str
    client_secret: str

    def __repr__(self) -> str:
        return f"Credentials({self.client_id!r}, ...)"

    def header(self) -> str:
        """Return the value of ``Authorization``. Spec: RFC 6749 §2.3.1."""
        userinfo = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}"
        return "Basic " + base64.b64encode(userinfo.encode()).decode("ascii")


def load_configuration(path: Path) -> ServerConfiguration:
    """Return what the configuration file says.

    Its executions are a queue named by the path of the file. A relative ``secrets_file`` lies beside it.

    Raises:
        StorageError: ``STORAGE`` when the file cannot be read.
        DecodeError, UsageError: as :func:`~skillwire.server.configuration.read_configuration`.
    """
    configuration = read_configuration(_read(path, limits.TOML_BYTES), str(path))
    executions = replace(configuration.executions, queue=os.path.abspath(path))  # noqa: PTH100  # a link keeps its name
    if executions.secrets_file is not None:
        executions = replace(executions, secrets_file=str(path.parent / executions.secrets_file))
    return replace(configuration, executions=executions)


def load_credentials(configuration: ServerConfiguration, environment: Mapping[str, str]) -> Credentials | None:
    """Return this server's credentials at the issuer; None when the configuration names none.

    A relative ``client_secret_file`` lies beside the configuration file.

    Raises:
        UsageError: ``SERVER_CONFIGURATION`` when there is no secret where the configuration says.
        StorageError: ``STORAGE``; ``SERVER_CONFIGURATION`` when others may read the file.
    """
    settings = configuration.oauth2
    if settings is None or settings.client_id is None:
        return None
    if settings.client_secret_file is not None:
        path = Path(configuration.source).parent / settings.client_secret_file
        where, secret = str(path), _read_secret(path)
    else:
        where = settings.client_secret_env or ""
        secret = environment.get(where, "")
    if not secret or not secret.isprintable():
        raise UsageError("SERVER_CONFIGURATION", "there is no secret of one line", place=SourceLocation(where))
    return Credentials(settings.client_id, secret)


def _read_secret(path: Path) -> str:
    data = _read(path, _SECRET_BYTES, is_secret=True)
    try:
        return data.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise UsageError("SERVER_CONFIGURATION", "the secret is not text", place=SourceLocation(str(path))) from None


def _read(path: Path, max_bytes: int, *, is_secret: bool = False) -> bytes:
    with storage_errors(path), path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        data = file.read(max_bytes + 1)
    if is_secret and os.name == "posix" and mode & 0o077:
        fix = f"Take that away: chmod 600 {path}"
        raise StorageError(
            "SERVER_CONFIGURATION", "others may read the secret", place=SourceLocation(str(path)), fix=fix
        )
    if len(data) > max_bytes:
        message = f"more than {max_bytes} bytes"
        raise DecodeError("LIMIT_SIZE", message, place=SourceLocation(str(path)))
    return data


def use_local_defaults(configuration: ServerConfiguration) -> ServerConfiguration:
    """Return what holds for this process alone: its executions are a queue of its own.

    So what a host leaves that has vanished is run by nobody else, and ends at its deadline. Where the configuration
    leaves all running to ``skillwire worker``, they stay in the queue that this works for.
    """
    runs = replace(configuration.runs, is_local=True)
    executions = configuration.executions
    if executions.concurrency:
        executions = replace(executions, queue=f"process {os.getpid()} {secrets.token_hex(8)}")
    return replace(configuration, runs=runs, executions=executions)
