"""How values of a discovery configuration are read, each by a function that says what it must be.

A value comes from TOML or JSON with its type, or from YAML as the text that stands there (``is_text``). A reader
raises ValueError with the end of the sentence "KEY must ...".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from skillwire.errors import DecodeError, ValidationError
from skillwire.model.url import parse_url
from skillwire.protocols.skill_discovery.fields import read_endpoint, read_identifier

if TYPE_CHECKING:
    from enum import StrEnum

    E = TypeVar("E", bound=StrEnum)

#: Takes a value and whether it is a text that stands for one.
Read = Callable[[object, bool], Any]

_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,11}", re.ASCII)
_NUMBER: Final = re.compile(r"(?:0|[1-9][0-9]{0,11})(?:\.[0-9]{1,9})?", re.ASCII)
_WORDS: Final = {"true": True, "false": False}
_TEXT_LENGTH: Final = 2048
_LONGEST_AGENT: Final = 118  # of 128: a question is named by it, a dot, and a number
_MOST_TEXTS: Final = 64
_IPV6: Final = 6
_EXAMPLES: Final = {4: "224.0.0.1", _IPV6: "ff12::d431"}


def flag(value: object, is_text: bool) -> bool:  # noqa: FBT001 - the form of a reader
    """Return a yes or no."""
    found = _WORDS.get(value) if is_text and isinstance(value, str) else value
    if isinstance(found, bool):
        return found
    raise ValueError("must be true or false")


def text(value: object, is_text: bool) -> str:  # noqa: ARG001, FBT001 - the form of a reader
    """Return a text of one line."""
    if isinstance(value, str) and 0 < len(value) <= _TEXT_LENGTH and value.isprintable():
        return value
    raise ValueError("must be a text of one line")


def texts(value: object, is_text: bool) -> tuple[str, ...]:  # noqa: FBT001 - the form of a reader
    """Return a list of texts; one alone may stand without a list."""
    items = [value] if isinstance(value, str) else value
    if isinstance(items, list) and len(items) <= _MOST_TEXTS:
        return tuple(text(item, is_text) for item in items)
    raise ValueError(f"must be a list of at most {_MOST_TEXTS} texts")


def whole(least: int, most: int) -> Read:
    """Return a reader of whole numbers."""

    def read(value: object, is_text: bool) -> int:  # noqa: FBT001 - the form of a reader
        found = int(value) if is_text and isinstance(value, str) and _WHOLE.fullmatch(value) else value
        if isinstance(found, int) and not isinstance(found, bool) and least <= found <= most:
            return found
        raise ValueError(f"must be a whole number from {least} to {most}")

    return read


def number(least: float, most: float) -> Read:
    """Return a reader of numbers."""

    def read(value: object, is_text: bool) -> float:  # noqa: FBT001 - the form of a reader
        found = float(value) if is_text and isinstance(value, str) and _NUMBER.fullmatch(value) else value
        if isinstance(found, int | float) and not isinstance(found, bool) and least <= found <= most:
            return float(found)
        raise ValueError(f"must be a number from {least} to {most}")

    return read


def milliseconds(least: int, most: int) -> Read:
    """Return a reader of milliseconds, which gives seconds."""
    count = whole(least, most)

    def read(value: object, is_text: bool) -> float:  # noqa: FBT001 - the form of a reader
        try:
            return float(count(value, is_text)) / 1000
        except ValueError as error:
            raise ValueError(f"{error}, in milliseconds") from None

    return read


def group(version: int) -> Read:
    """Return a reader of multicast groups of one IP version; none of version 6 is an empty text."""
    refused = f"must be an IPv{version} multicast address, such as {_EXAMPLES[version]}"

    def read(value: object, is_text: bool) -> str:  # noqa: ARG001, FBT001 - the form of a reader
        if value == "" and version == _IPV6:
            return ""
        try:
            address = ipaddress.ip_address(value if isinstance(value, str) and "%" not in value else "")
        except ValueError:
            raise ValueError(refused) from None
        if address.version != version or not address.is_multicast:
            raise ValueError(refused)
        return str(address)

    return read


def agent(value: object, is_text: bool) -> str:  # noqa: ARG001, FBT001 - the form of a reader
    """Return an agent's identifier, with room for what tells its questions from each other."""
    try:
        if len(name := read_identifier(value if isinstance(value, str) else "")) <= _LONGEST_AGENT:
            return name
    except DecodeError:
        pass
    raise ValueError(f"must be letters, digits, dots, hyphens and underscores, at most {_LONGEST_AGENT}")


def one_of(kind: type[E], *, without: Collection[E] = ()) -> Read:
    """Return a reader of the values of an enumeration, ``without`` some."""
    values = {member.value: member for member in kind if member not in without}

    def read(value: object, is_text: bool) -> E:  # noqa: ARG001, FBT001 - the form of a reader
        if isinstance(value, str) and value in values:
            return values[value]
        raise ValueError(f"must be one of {', '.join(values)}")

    return read


def web_address(value: object, is_text: bool) -> str:  # noqa: FBT001 - the form of a reader
    """Return a URL as it is written."""
    try:
        parse_url(text(value, is_text))
    except ValidationError as error:
        raise ValueError(f"must be a URL: {error.message}") from None
    return str(value)


def places(value: object, is_text: bool) -> tuple[str, ...]:  # noqa: FBT001 - the form of a reader
    """Return a list of ``host`` and ``port`` as ``host:port``. Spec: SDP §6.4."""
    if not isinstance(value, list) or len(value) > _MOST_TEXTS:
        raise ValueError("must be a list of host and port")
    return tuple(_place(item, is_text) for item in value)


def _place(item: object, is_text: bool) -> str:  # noqa: FBT001 - the form of a reader
    if not isinstance(item, Mapping) or set(item) != {"host", "port"}:
        raise ValueError("must be a list of host and port, and nothing else in it")
    port = whole(1, 65_535)(item["port"], is_text)
    host = text(item["host"], is_text)
    try:
        return str(read_endpoint(f"[{host}]:{port}" if ":" in host else f"{host}:{port}"))
    except DecodeError:
        raise ValueError(f"must be a list of host and port; {ascii(host)[:60]} is no host") from None
