"""Where a key stands in a TOML text, for messages: ``tomllib`` returns values without places.

A line-by-line search that knows table headers, not a parser: a key inside an inline table, or one written
with quotes, is told by the line of what holds it. It decides nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from skillwire.errors import Place
from skillwire.trust.excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADER: Final = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")
_KEY: Final = re.compile(r"\s*([A-Za-z0-9_.\-\"' ]+?)\s*=")


def toml_place(text: str, path: Sequence[str], source: str) -> Place:
    """Return the place of the key at ``path``, or of the innermost table around it that is found."""
    best = Place(source)
    depth = 0
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            table = _parts(header[1])
            found = table
        elif key := _KEY.match(line):
            found = (*table, *_parts(key[1]))
        else:
            continue
        if len(found) > depth and tuple(path[: len(found)]) == found:
            depth = len(found)
            best = _place(line, number, header or key, source)
    return best


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip(" \"'") for part in dotted.split("."))


def _place(line: str, number: int, found: re.Match[str] | None, source: str) -> Place:
    start, end = found.span(1) if found else (0, 0)
    return Place(source, number, start + 1, end + 1, excerpt(line))
