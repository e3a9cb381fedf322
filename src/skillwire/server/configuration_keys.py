"""The tables and keys of the server's configuration file.

:data:`TABLES` is the one list of keys: the reader in :mod:`skillwire.server.configuration`, the reference and a test
walk it. A reader returns the value of a key, or raises ValueError with the end of the sentence "KEY must ...".
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import UsageError
from skillwire.folder.publish import check_publisher
from skillwire.model.execution import AllowedCallers
from skillwire.model.package import is_grant
from skillwire.model.skill import is_skill_name
from skillwire.model.url import check_base_url, parse_url
from skillwire.protocols.skill_discovery.settings import flag, integer, number, text, texts
from skillwire.resolver.settings import choice_of
from skillwire.trust.address import AddressPolicy
from skillwire.web.assets import check_contact

_COUNT_MAX: Final = 1_000_000
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
_SIZE_MAX: Final = 2**40
_LINE_LENGTH: Final = 80
_FEATURED: Final = 12
OFFERS: Final = ("api_key", "oauth2", "custom")


def _url(value: object) -> str:
    parse_url(url := text(value))
    return url  # as written: an issuer is compared letter by letter


_count: Final = integer(1, _COUNT_MAX)
_count_from_none: Final = integer(0, _COUNT_MAX)


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


def _publisher(value: object) -> str:
    try:
        return check_publisher(text(value))
    except UsageError as error:
        raise ValueError(f"must be a name for identifiers: {error.message}") from error


class Key(NamedTuple):
    """A key of the file: how its value is read, its meaning, and its setting where that has another name."""

    read: Callable[[object], Any]
    meaning: str = ""
    setting: str = ""


#: The tables and keys of the file. Those of ``serve`` are the options of the command, whose help explains them.
TABLES: Final[dict[str, dict[str, Key]]] = {
    "serve": {
        "folders": Key(texts),
        "registry": Key(flag),
        "host": Key(text),
        "port": Key(integer(0, 65_535)),
        "base_url": Key(lambda value: check_base_url(text(value))),
        "publisher": Key(_publisher),
        "poll_seconds": Key(number(0.1, _DAY), setting="poll"),
        "access_log": Key(flag),
        "store": Key(text),
        "log_format": Key(choice_of("human", "json")),
        "lan": Key(flag),
        "dht": Key(flag),
        "scenes": Key(texts),
    },
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
