"""Untrusted TOML: ``tomllib`` after a scan for what makes it slow, and the locations of keys for messages.

``tomllib`` constructs nothing dangerous, but it recurses into brackets and walks every dotted key once for each of its
parts: 60 KB of ``a.a.a`` take it 13 seconds and 3.4 GB. The scan deletes comments and strings and measures the rest:
the parts of the longest dotted key, and the depth of brackets. It reads quotes exactly as the parser does, up to the
place where the parser gives up.

``tomllib`` returns no locations, so :func:`toml_place` searches line by line. It knows table headers only: a key in an
inline table, or a quoted one, gets the line of its container.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, Final

from skillwire import limits
from skillwire.errors import DecodeError, SourceLocation
from skillwire.trust.hidden_text import excerpt

# A string that never ends is taken whole: the parser gives up there, and looking for its end again from each
# quote inside it would cost the square of its length. No possessive group holds a lookahead: Python before 3.11.5 goes
# on behind what the lookahead saw.
_COMMENT_OR_STRING: Final = re.compile(
    r"#[^\n]*+"
    r'|"""(?:[^"\\]++|\\.|"[^"\\]|"\\.|""[^"\\]|""\\.)*+"{0,5}'
    r"|'''.*?(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]++|\\.)*+"?'
    r"|'[^'\n]*+'?",
    re.DOTALL,
)
_DOTTED: Final = re.compile(r'[\w"-]++(?:[ \t]*+\.[ \t]*+[\w"-]++)++')
_STEPS: Final = {"[": 1, "{": 1, "]": -1, "}": -1}
_PLACE: Final = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)
_INTEGERS: Final = range(-(2**63), 2**63)


def load_toml(data: bytes, *, source: str = "TOML") -> dict[str, Any]:
    """Return the table of a TOML document; its numbers fit 64 bits and are finite.

    Raises DecodeError: ``LIMIT_SIZE``, ``ENCODING`` or a ``TOML_...`` code, with line and column if known. Trust:
    hostile; no other error is raised.
    """
    if len(data) > limits.TOML_BYTES:
        message = f"{len(data)} bytes of TOML, at most {limits.TOML_BYTES} are read"
        raise DecodeError("LIMIT_SIZE", message, place=SourceLocation(source))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DecodeError("ENCODING", f"not UTF-8 at byte {error.start}", place=SourceLocation(source, line)) from None
    # A string may be a part of a key, so one quote stays for each; its line ends stay, to count lines by.
    outline = _COMMENT_OR_STRING.sub(lambda token: '"' + "\n" * token.group().count("\n"), text)
    keys = (key.start() for key in _DOTTED.finditer(outline) if key.group().count(".") >= limits.TOML_DEPTH)
    levels = accumulate(_STEPS.get(character, 0) for character in outline)
    brackets = (offset for offset, level in enumerate(levels) if level > limits.TOML_DEPTH)
    for offset in chain(keys, brackets):
        place = SourceLocation(source, outline.count("\n", 0, offset) + 1)
        raise DecodeError("TOML_DEPTH", f"nests more than {limits.TOML_DEPTH} levels deep", place=place)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, lines = str(error), text.split("\n")
        place = SourceLocation(source, len(lines))
        if found := _PLACE.fullmatch(message):
            message = found[1]
            if found[2]:
                line = int(found[2])
                place = SourceLocation(source, line, int(found[3]), None, excerpt(lines[line - 1]))
        raise DecodeError("TOML_SYNTAX", message[:1].lower() + message[1:], place=place) from None
    except ValueError as error:  # an integer beyond Python's own bound, or a date that no calendar has
        raise DecodeError("TOML_NUMBER", str(error), place=SourceLocation(source)) from None
    _bound_numbers(document, source)
    return document


def _bound_numbers(value: object, source: str) -> None:
    """Refuse numbers that JSON readers and 64-bit integers cannot hold. The depth is bounded already."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _bound_numbers(item, source)
    elif (isinstance(value, int) and value not in _INTEGERS) or (isinstance(value, float) and not math.isfinite(value)):
        message = "a number is not finite, or needs more than 64 bits"
        raise DecodeError("TOML_NUMBER", message, place=SourceLocation(source))


_HEADER: Final = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")
_KEY: Final = re.compile(r"\s*([A-Za-z0-9_.\-\"' ]+?)\s*=")


def toml_place(text: str, path: Sequence[str], source: str) -> SourceLocation:
    """Return the place of the key at ``path``, or of the innermost table around it that is found."""
    best = SourceLocation(source)
    depth = 0
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        header = _HEADER.match(line)
        written = header or _KEY.match(line)
        if written is None:
            continue
        parts = tuple(part.strip(" \"'") for part in written[1].split("."))
        if header:
            table = parts
        found = parts if header else (*table, *parts)
        if len(found) > depth and tuple(path[: len(found)]) == found:
            depth = len(found)
            best = SourceLocation(source, number, written.start(1) + 1, written.end(1) + 1, excerpt(line))
    return best
