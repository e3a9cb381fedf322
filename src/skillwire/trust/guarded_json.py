"""Untrusted JSON: the standard parser after a scan that bounds its cost, and the locations of values for messages.

The standard parser recurses, takes the last of two equal keys, reads ``NaN``, turns ``1e999`` into infinity, and builds
millions of values out of a few megabytes. So a scan first deletes strings and everything else that cannot nest, at
memory speed: the number of brackets and commas bounds the values, their running sum is the depth. (Only a document that
the parser refuses before that place could mislead the scan.) Hooks of the parser refuse equal keys and excessive
numbers. The parser reports the place of syntax errors only, so a refused text is read again token by token, up to the
first MiB, to find the line and column. A leading byte order mark is skipped (RFC 8259 §8.1), because sites made on
Windows have one; every other departure from UTF-8, a lone surrogate included, is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NoReturn

from skillwire import limits
from skillwire.errors import DecodeError, SourceLocation
from skillwire.trust.hidden_text import excerpt, neutralise

_WINDOW: Final = 1024 * 1024
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\]:,]|[^\s"{}\[\]:,]++|"', re.DOTALL)
_WIDTH: Final = 160


def place_at(before: str, text: str | None, source: str) -> SourceLocation:
    """Return the place right behind ``before``, with the whole line if ``text`` is given."""
    start = before.rfind("\n") + 1
    shown = None if text is None else excerpt(text[start:].partition("\n")[0])
    return SourceLocation(source, before.count("\n") + 1, len(before) - start + 1, None, shown)


def place_of_range(text: str, start: int, end: int, source: str) -> SourceLocation:
    """Return the place of ``text[start:end]``."""
    place = place_at(text[:start], text, source)
    return place if "\n" in text[start:end] else place._replace(end_column=(place.column or 1) + end - start)


def place_of_literal(text: str, wanted: str, source: str) -> SourceLocation:
    """Return the place of the first bare token that reads ``wanted``: a number, ``NaN`` or ``Infinity``."""
    for token in _tokens(text):
        if token.group() == wanted:
            return _place(token, text, source)
    return SourceLocation(source)


def too_deep(text: str, depth: int, source: str) -> SourceLocation:
    """Return the place of the first bracket that opens more than ``depth`` levels."""
    level = 0
    for token in _tokens(text):
        level += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token.group(), 0)
        if level > depth:
            return _place(token, text, source)
    return SourceLocation(source)


def duplicate_key(text: str, source: str) -> tuple[str, SourceLocation]:
    """Return the first duplicate key of an object, as written, and its second location."""
    open_objects: list[set[str]] = []
    last: re.Match[str] | None = None
    for token in _tokens(text):
        match token.group():
            case "{" | "[":
                open_objects.append(set())
            case "}" | "]" if open_objects:
                open_objects.pop()
            case ":" if last is not None and open_objects:
                key = json.loads(last.group())
                if key in open_objects[-1]:
                    return last.group(), _place(last, text, source)
                open_objects[-1].add(key)
        last = token
    return "in question", SourceLocation(source)


def pointer_keys(pointer: str) -> list[str]:
    """Return the keys of a JSON Pointer, the outermost first. Spec: RFC 6901 §4."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def member(text: str, path: Sequence[str | int], source: str) -> SourceLocation:
    """Return the location of the value at ``path``, such as ``("skills", 3, "digest")``, in valid JSON.

    A path that does not exist gives the location of its deepest existing part.
    """
    tokens = _tokens(text)
    found = next(tokens, None)
    for step in path:
        if found is None:
            break
        reached = _enter(tokens, found, step)
        if reached is None:
            break
        found = reached
    return _place(found, text, source) if found else SourceLocation(source)


def _enter(tokens: Iterator[re.Match[str]], opening: re.Match[str], step: str | int) -> re.Match[str] | None:
    """Return the first token of the member ``step`` of the array or object that ``opening`` opens."""
    if opening.group() not in ("{", "["):
        return None
    level, index, last = 0, 0, opening
    is_array = opening.group() == "["
    if is_array and step == 0:
        return next(tokens, None)
    for token in tokens:
        match token.group():
            case "{" | "[":
                level += 1
            case "}" | "]":
                level -= 1
                if level < 0:
                    return None
            case "," if level == 0 and is_array:
                index += 1
                if index == step:
                    return next(tokens, None)
            case ":" if level == 0 and last.group() == json.dumps(step):
                return next(tokens, None)
        last = token
    return None


def _tokens(text: str) -> Iterator[re.Match[str]]:
    for token in _TOKEN.finditer(text, 0, _WINDOW):
        if token.group() == '"':
            return  # a string that never ends, or that the window cuts: what follows is not tokens
        yield token


def _place(token: re.Match[str], text: str, source: str) -> SourceLocation:
    place = place_at(text[: token.start()], text, source)
    width = min(token.end() - token.start(), _WIDTH)
    return place._replace(end_column=(place.column or 1) + width)


_BOM: Final = b"\xef\xbb\xbf"
_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE_PAIR: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_STRUCTURE: Final = b'"[]{},'
_NOT_STRUCTURE: Final = bytes(set(range(256)).difference(_STRUCTURE))
_STEPS: Final = bytes({ord("["): 1, ord("{"): 1, ord("]"): 255, ord("}"): 255}.get(byte, 0) for byte in range(256))


def load_json(data: bytes, *, max_bytes: int, source: str = "JSON") -> object:
    """Return the value of a JSON document, UTF-8, with or without a byte order mark.

    Raises DecodeError: ``LIMIT_SIZE``, ``LIMIT_ENTRIES`` or a ``JSON_...`` code, with its place in the first MiB.
    Trust: hostile; time and memory are linear in ``len(data)``; no other error is raised.
    """
    if len(data) > max_bytes:
        message = f"{len(data)} bytes of JSON, at most {max_bytes} are read"
        raise DecodeError("LIMIT_SIZE", message, place=SourceLocation(source))
    data = data.removeprefix(_BOM)
    text = _decode(data, source)
    outline = (_ESCAPE.sub(b"", data) if b"\\" in data else data).translate(None, _NOT_STRUCTURE)
    _bound_values(outline.count(b'"') // 2, source)
    brackets = b"".join(outline.split(b'"')[::2])
    _bound_values(len(brackets), source)
    depth = max(accumulate(memoryview(brackets.translate(_STEPS)).cast("b")), default=0)
    if depth > limits.JSON_DEPTH:
        place = too_deep(text, limits.JSON_DEPTH, source)
        raise DecodeError("JSON_DEPTH", f"nests {depth} levels deep, at most {limits.JSON_DEPTH} are read", place=place)

    def collect(pairs: list[tuple[str, object]]) -> dict[str, object]:
        members = dict(pairs)
        if len(members) != len(pairs):
            key, place = duplicate_key(text, source)
            raise DecodeError("JSON_DUPLICATE_KEY", f"the key {key} occurs twice in one object", place=place)
        return members

    def integer(literal: str) -> int:
        return int(literal) if len(literal) <= limits.JSON_INTEGER_DIGITS else refuse_number(literal)

    def finite(literal: str) -> float:
        number = float(literal)
        return number if math.isfinite(number) else refuse_number(literal)

    def refuse_number(literal: str) -> NoReturn:
        is_short = len(literal) <= limits.JSON_INTEGER_DIGITS
        shown = literal if is_short else f"{literal[:16]}... ({len(literal)} characters)"
        place = place_of_literal(text, literal, source)
        raise DecodeError("JSON_NUMBER", f"{shown} is beyond what a field can hold", place=place)

    def refuse_constant(literal: str) -> NoReturn:
        raise DecodeError("JSON_SYNTAX", f"{literal} is not JSON", place=place_of_literal(text, literal, source))

    try:
        return json.loads(
            text, object_pairs_hook=collect, parse_int=integer, parse_float=finite, parse_constant=refuse_constant
        )
    except json.JSONDecodeError as error:
        place = place_at(text[: error.pos], text, source)
        raise DecodeError("JSON_SYNTAX", error.msg[:1].lower() + error.msg[1:], place=place) from None


def _decode(data: bytes, source: str) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        place = place_at(data[: error.start].decode("utf-8", "replace"), None, source)
        raise DecodeError("JSON_UNICODE", f"not UTF-8 at byte {error.start}", place=place) from None
    if _SURROGATE.search(data):
        # Spaces of the same length keep every offset, and keep two halves from meeting across what was between.
        single = data.replace(rb"\\", b"  ")
        single = _SURROGATE_PAIR.sub(lambda pair: b" " * len(pair.group()), single)
        if lone := _SURROGATE.search(single):
            place = place_at(data[: lone.start()].decode("utf-8"), None, source)
            raise DecodeError("JSON_UNICODE", "half of a surrogate pair is alone", place=place)
    return text


def _bound_values(count: int, source: str) -> None:
    if count > limits.JSON_VALUES:
        message = f"about {count} values and keys, at most {limits.JSON_VALUES} are read"
        raise DecodeError("LIMIT_ENTRIES", message, place=SourceLocation(source))


_BYTES: Final = 64 * limits.KIB
_SHOWN: Final = 500
_NAMES: Final = ("detail", "error_description")


def server_message(body: bytes) -> str:
    """Return a server's reason for an error from a response body; empty if there is none, as in a proxy's page.

    Spec: SSP §8.2; JSON-RPC §5.1; RFC 9457 §3.1.4; RFC 6749 §5.2. Trust: hostile. The text is bounded and without
    hidden characters; this never raises.
    """
    document, error = _read_refusal(body)
    reasons = (error.get("message"), *map(document.get, _NAMES))
    return next((neutralise(text[:_SHOWN]) for text in reasons if isinstance(text, str) and text), "")


def server_code(body: bytes) -> str:
    """Return the code of a server's error as :func:`server_message` reads it; empty if there is none."""
    code = _read_refusal(body)[1].get("code")
    return code if isinstance(code, str) else ""


def _read_refusal(body: bytes) -> tuple[dict[str, object], dict[str, object]]:
    """Return the document of a refusal and its ``error``, each empty where it is no object."""
    try:
        document = load_json(body, max_bytes=_BYTES)
    except DecodeError:
        document = {}
    whole = document if isinstance(document, dict) else {}
    error = whole.get("error")
    return whole, error if isinstance(error, dict) else {}
