"""The server's configuration file: who may authenticate, how, what that opens, how often anyone may ask; what runs.

It is TOML and the operator's own. Still an unknown key is an error with its place, never passed over: a misspelt
``audience`` would open what should be closed. :data:`TABLES` is the one list of what can be set; the documentation
and a test walk it. Secrets do not stand in the file; it says where they are.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from skillwire.errors import UsageError, ValidationError
from skillwire.folder.toml_places import toml_place
from skillwire.invocation.settings import ExecutionSettings, RunSettings
from skillwire.protocols.skill_discovery.configuration import read_discovery
from skillwire.server.auth.configured_values import (
    EXECUTIONS,
    MCP,
    RPC,
    choice_of,
    read_count,
    read_flag,
    read_skill_table,
    read_text,
    read_text_table,
    read_url,
)
from skillwire.server.auth.grants import Grants
from skillwire.server.auth.rate_limit import RateLimit
from skillwire.server.mcp.settings import McpSettings
from skillwire.server.neighbours.settings import BridgeSettings
from skillwire.trust.guarded_toml import load_toml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillwire.protocols.skill_discovery.configuration import LanSettings

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
            "executions that run at once in this process; `0` leaves them to `skillwire work`; 8 by default"
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
    """Whether the file says anything of strangers: what everybody may read is not limited otherwise."""
    return any(key.startswith("anonymous") for key in document.get("rate_limit", ()))


def _known(name: str, names: Mapping[str, object]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  # only an error needs it

    close = get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]}?" if close else f"Known are {', '.join(names)}."
