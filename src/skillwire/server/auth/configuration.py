"""The server's configuration file: who may authenticate, how, what that opens, how often anyone may ask.

It is TOML and the operator's own. Still an unknown key is an error with its place, never passed over: a misspelt
``audience`` would open what should be closed. :data:`TABLES` is the one list of what can be set; the documentation
and a test walk it. Secrets do not stand in the file; it says where they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from skillwire.errors import UsageError, ValidationError
from skillwire.folder.toml_places import toml_place
from skillwire.model.access import EVERY_SKILL
from skillwire.model.name import is_skill_name
from skillwire.model.url import parse_url
from skillwire.server.auth.grants import Grants
from skillwire.server.auth.rate_limit import RateLimit
from skillwire.trust.guarded_toml import load_toml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
}
OFFERS: Final = ("api_key", "oauth2", "custom")
_PRINCIPAL_LIMIT: Final = RateLimit(600, 100)
_ANONYMOUS_LIMIT: Final = RateLimit(300, 100)
_RATE_MAX: Final = 1_000_000
_TEXT_LENGTH: Final = 2048


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
    """The whole file. ``source`` is its path, for errors; ``oauth2`` is None without that table."""

    offer: str = "api_key"
    oauth2: OAuth2Settings | None = None
    grants: Grants = field(default_factory=Grants)
    principal_limit: RateLimit = _PRINCIPAL_LIMIT
    anonymous_limit: RateLimit | None = None
    source: str = "server.toml"


def read_configuration(data: bytes, source: str) -> ServerConfiguration:
    """Return what the file says.

    Args:
        data: the file, TOML.
        source: its path, for errors.

    Raises:
        DecodeError: ``LIMIT_SIZE``, ``ENCODING``, ``TOML_...``.
        UsageError: ``SERVER_CONFIGURATION`` with the place.
    """
    reading = _Reading(load_toml(data, source=source), data.decode("utf-8"), source)
    reading.check_names()
    offer = reading.get(("auth", "offer"), _choice(*OFFERS), "api_key")
    oauth2 = _oauth2(reading) if "oauth2" in reading.document else None
    if offer == "oauth2" and (oauth2 is None or oauth2.authorization_url is None or oauth2.token_url is None):
        missing = 'offer = "oauth2" needs issuer, audience, authorization_url and token_url in [oauth2]'
        reading.refuse(("auth", "offer"), missing, "Write them, as descriptors must name them, or offer api_key.")
    grants = Grants(*(reading.get(("grants", key), _skill_table, MappingProxyType({})) for key in TABLES["grants"]))
    return ServerConfiguration(
        offer,
        oauth2,
        grants,
        _rate(reading, "principal", _PRINCIPAL_LIMIT),
        _rate(reading, "anonymous", _ANONYMOUS_LIMIT) if _limits_anonymous(reading.document) else None,
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
            for key in content:
                if key not in TABLES[table]:
                    self.refuse((table, key), f"unknown key {ascii(key)[:60]}", _known(key, TABLES[table]))

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
        **dict.fromkeys(("audience", "client_id", "client_secret_env", "client_secret_file"), _text),
        **dict.fromkeys(("issuer", "jwks_url", "introspection_url", "authorization_url", "token_url"), _url),
        "allow_untyped": _flag,
        "scopes": _text_table,
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


def _rate(reading: _Reading, who: str, default: RateLimit) -> RateLimit:
    per_minute = reading.get(("rate_limit", f"{who}_per_minute"), _count, default.per_minute)
    return RateLimit(per_minute, reading.get(("rate_limit", f"{who}_burst"), _count, default.burst))


def _limits_anonymous(document: Mapping[str, Any]) -> bool:
    """Whether the file says anything of strangers: what everybody may read is not limited otherwise."""
    return any(key.startswith("anonymous") for key in document.get("rate_limit", ()))


def _known(name: str, names: Mapping[str, object]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  # only an error needs it

    close = get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]}?" if close else f"Known are {', '.join(names)}."


def _text(value: object) -> str:
    if isinstance(value, str) and 0 < len(value) <= _TEXT_LENGTH and value.isprintable():
        return value
    raise ValueError("must be a text of one line")


def _url(value: object) -> str:
    text = _text(value)
    parse_url(text)
    return text  # as written: an issuer is compared letter by letter


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("must be true or false")


def _count(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _RATE_MAX:
        return value
    raise ValueError(f"must be a whole number from 1 to {_RATE_MAX}")


def _choice(*allowed: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value in allowed:
            return str(value)
        raise ValueError(f"must be one of {', '.join(allowed)}")

    return read


def _text_table(value: object) -> Mapping[str, str]:
    if isinstance(value, dict):
        return MappingProxyType({_text(name): _text(meaning) for name, meaning in value.items()})
    raise ValueError("must be a table of scope and meaning")


def _skill_table(value: object) -> Mapping[str, frozenset[str]]:
    if not isinstance(value, dict) or not all(isinstance(skills, list) for skills in value.values()):
        raise ValueError("must be a table of name and list of skills")
    return MappingProxyType({_text(name): frozenset(map(_skill, skills)) for name, skills in value.items()})


def _skill(value: object) -> str:
    if isinstance(value, str) and (value == EVERY_SKILL or is_skill_name(value)):
        return value
    raise ValueError("must list names of skills, or *")
