"""Where something stands in a JSON text: line, column and the line itself, for messages.

The standard parser tells the place of a syntax error and of nothing else. This module reads the text once
more, token by token, for the refusals that the parser's hooks and the scan make, and for lint findings. It
looks at the first MiB only, so a large refused document costs no second full reading; beyond, the place is
the source alone. It decides nothing: what is refused was refused before.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from skillwire.errors import Place
from skillwire.trust.excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WINDOW: Final = 1024 * 1024
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\]:,]|[^\s"{}\[\]:,]++|"', re.DOTALL)
_WIDTH: Final = 160


def place_at(before: str, text: str | None, source: str) -> Place:
    """Return the place right behind ``before``; ``text``, when it is at hand, gives the whole line."""
    line = before.count("\n") + 1
    start = before.rfind("\n") + 1
    shown = None
    if text is not None:
        end = text.find("\n", len(before))
        shown = excerpt(text[start : end if end >= 0 else None])
    return Place(source, line, len(before) - start + 1, None, shown)


def literal(text: str, wanted: str, source: str) -> Place:
    """Return the place of the first bare token that reads ``wanted``: a number, ``NaN`` or ``Infinity``."""
    for token in _tokens(text):
        if token.group() == wanted:
            return _place(token, text, source)
    return Place(source)


def too_deep(text: str, depth: int, source: str) -> Place:
    """Return the place of the first bracket that opens more than ``depth`` levels."""
    level = 0
    for token in _tokens(text):
        level += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token.group(), 0)
        if level > depth:
            return _place(token, text, source)
    return Place(source)


def duplicate_key(text: str, source: str) -> tuple[str, Place]:
    """Return the first key that its object holds already, as written, and where it stands the second time."""
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
    return "in question", Place(source)


def member(text: str, path: Sequence[str | int], source: str) -> Place:
    """Return the place of the value at ``path``, such as ``("skills", 3, "digest")``, in valid JSON.

    Where the path leads nowhere, the place is that of the deepest value on the way.
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
    return _place(found, text, source) if found else Place(source)


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


def _place(token: re.Match[str], text: str, source: str) -> Place:
    place = place_at(text[: token.start()], text, source)
    width = min(token.end() - token.start(), _WIDTH)
    return place._replace(end_column=(place.column or 1) + width)
