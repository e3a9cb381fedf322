"""JSON from strangers: the standard parser behind a scan that bounds what it may cost.

The standard library's parser is fast and follows the grammar, but it recurses, takes the last of two equal
keys, reads ``NaN`` and turns ``1e999`` into infinity, and builds millions of values out of a few megabytes.
So :func:`load_json` works in three steps:

1. **Scan.** Strings and everything else that cannot nest are deleted from the bytes, at memory speed; what
   is left are the brackets and commas. Their number bounds the values, their running sum is the depth. A
   document that lies about its quotes is read differently here than by the parser, but only from the place
   on where the parser refuses it.
2. **Parse**, with hooks that refuse equal keys and numbers beyond any field's need.
3. **On refusal only**, find the line and column (:mod:`skillwire.trust.json_places`).

A leading byte order mark is skipped, as browsers do: RFC 8259 section 8.1 lets a reader do so, and sites
made on Windows carry it. Every other departure from UTF-8, a lone surrogate included, is refused.
"""

from __future__ import annotations

import json
import math
import re
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NoReturn

from skillwire import limits
from skillwire.errors import DecodeError, Place
from skillwire.trust import json_places

if TYPE_CHECKING:
    from collections.abc import Callable

_BOM: Final = b"\xef\xbb\xbf"
_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE_PAIR: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_STRUCTURE: Final = b'"[]{},'
_NOT_STRUCTURE: Final = bytes(set(range(256)).difference(_STRUCTURE))
_STEPS: Final = bytes({ord("["): 1, ord("{"): 1, ord("]"): 255, ord("}"): 255}.get(byte, 0) for byte in range(256))


def load_json(data: bytes, *, max_bytes: int, source: str = "JSON") -> object:
    """Return the value that ``data`` spells in JSON.

    Args:
        data: the document, UTF-8, with or without a byte order mark.
        max_bytes: how many bytes it may have; ``LIMIT_SIZE`` beyond.
        source: the file or URL to name in an error.

    Raises:
        DecodeError: ``LIMIT_SIZE``, ``LIMIT_ENTRIES`` or one of the ``JSON_...`` codes, with line and column
            where the fault lies in the first MiB.

    Trust: time and memory grow with ``len(data)`` only; nothing else escapes.
    """
    if len(data) > max_bytes:
        raise DecodeError("LIMIT_SIZE", f"{len(data)} bytes of JSON, at most {max_bytes} are read", place=Place(source))
    data = data.removeprefix(_BOM)
    text = _decode(data, source)
    _bound(data, text, source)
    return _parse(text, source)


def _decode(data: bytes, source: str) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        place = json_places.place_at(data[: error.start].decode("utf-8", "replace"), None, source)
        raise DecodeError("JSON_UNICODE", f"not UTF-8 at byte {error.start}", place=place) from None
    if _SURROGATE.search(data):
        # Spaces of the same length keep every offset, and keep two halves from meeting across what was between.
        single = data.replace(rb"\\", b"  ")
        single = _SURROGATE_PAIR.sub(lambda pair: b" " * len(pair.group()), single)
        if lone := _SURROGATE.search(single):
            place = json_places.place_at(data[: lone.start()].decode("utf-8"), None, source)
            raise DecodeError("JSON_UNICODE", "half of a surrogate pair stands alone", place=place)
    return text


def _bound(data: bytes, text: str, source: str) -> None:
    outline = (_ESCAPE.sub(b"", data) if b"\\" in data else data).translate(None, _NOT_STRUCTURE)
    _bound_values(outline.count(b'"') // 2, source)
    brackets = b"".join(outline.split(b'"')[::2])
    _bound_values(len(brackets), source)
    depth = max(accumulate(memoryview(brackets.translate(_STEPS)).cast("b")), default=0)
    if depth > limits.JSON_DEPTH:
        place = json_places.too_deep(text, limits.JSON_DEPTH, source)
        raise DecodeError("JSON_DEPTH", f"nests {depth} levels deep, at most {limits.JSON_DEPTH} are read", place=place)


def _bound_values(count: int, source: str) -> None:
    if count > limits.JSON_VALUES:
        message = f"about {count} values and keys, at most {limits.JSON_VALUES} are read"
        raise DecodeError("LIMIT_ENTRIES", message, place=Place(source))


def _parse(text: str, source: str) -> object:
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique_keys(text, source),
            parse_int=_integer(text, source),
            parse_float=_finite(text, source),
            parse_constant=_no_constant(text, source),
        )
    except json.JSONDecodeError as error:
        place = json_places.place_at(text[: error.pos], text, source)
        raise DecodeError("JSON_SYNTAX", error.msg[:1].lower() + error.msg[1:], place=place) from None


def _unique_keys(text: str, source: str) -> Callable[[list[tuple[str, object]]], dict[str, object]]:
    def collect(pairs: list[tuple[str, object]]) -> dict[str, object]:
        members = dict(pairs)
        if len(members) != len(pairs):
            key, place = json_places.duplicate_key(text, source)
            raise DecodeError("JSON_DUPLICATE_KEY", f"the key {key} stands twice in one object", place=place)
        return members

    return collect


def _integer(text: str, source: str) -> Callable[[str], int]:
    def read(literal: str) -> int:
        if len(literal) > limits.JSON_INTEGER_DIGITS:
            _refuse_number(literal, text, source)
        return int(literal)

    return read


def _finite(text: str, source: str) -> Callable[[str], float]:
    def read(literal: str) -> float:
        number = float(literal)
        if not math.isfinite(number):
            _refuse_number(literal, text, source)
        return number

    return read


def _refuse_number(literal: str, text: str, source: str) -> NoReturn:
    shown = literal if len(literal) <= limits.JSON_INTEGER_DIGITS else f"{literal[:16]}... ({len(literal)} characters)"
    place = json_places.literal(text, literal, source)
    raise DecodeError("JSON_NUMBER", f"{shown} is beyond what a field can hold", place=place)


def _no_constant(text: str, source: str) -> Callable[[str], NoReturn]:
    def refuse(literal: str) -> NoReturn:
        raise DecodeError("JSON_SYNTAX", f"{literal} is not JSON", place=json_places.literal(text, literal, source))

    return refuse
