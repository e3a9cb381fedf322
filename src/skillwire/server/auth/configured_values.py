"""How each value of the server's configuration file is read: it is returned, or ValueError says what it must be.

What is no URL is a ValidationError, with its own advice.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from skillwire import limits
from skillwire.errors import UsageError
from skillwire.model.access import EVERY_SKILL
from skillwire.model.name import is_skill_name
from skillwire.model.url import parse_url
from skillwire.trust.address import AddressPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillwire.invocation.settings import Opening

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


def _opening(value: object) -> Opening:
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
    "execute_skill": ("execute_skill", _opening),
    "run_code": ("run_code", _opening),
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
