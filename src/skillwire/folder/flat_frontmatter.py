"""A tiny reader for the frontmatter that most skills have, so that reading it needs no YAML parser.

It knows lines of the form ``key: value`` where the value is plain text or one quoted string, and one level
of such lines below ``metadata:``. It answers only when every line is printable and of that form, and no
character in it has a meaning in YAML; in every other case it returns None, and
:mod:`skillwire.trust.guarded_yaml` decides. A property test holds it to that: whatever it answers, guarded
YAML answers the same, places included.

The installing command therefore starts without PyYAML, and a build of 10,000 skills reads each in some 10 us.
"""

from __future__ import annotations

import re
from typing import Any, Final

from skillwire import limits
from skillwire.errors import Place
from skillwire.trust.excerpt import excerpt
from skillwire.trust.guarded_yaml import YamlMapping

_MOST_LINES: Final = 64
_MOST_CHARACTERS: Final = limits.FRONTMATTER_BYTES // 4  # a character has at most four bytes
# For printable text; a plain value begins with a letter, a digit or a sign that means nothing in YAML.
_LINE: Final = re.compile(
    r"( *)([A-Za-z][A-Za-z0-9_.-]{0,63}):"
    r"(?: +(?:\"([^\"\\]*)\"|'([^']*)'|((?:[A-Za-z0-9(/_.<$+]|[^ -~]).*)))?"
)
_NESTED: Final = "metadata"


def read_flat(text: str, *, source: str = "SKILL.md", first_line: int = 1) -> YamlMapping | None:
    """Return what ``text`` spells when it is of the simple form, else None.

    Trust: ``text`` is hostile; the time grows with its length only.
    """
    lines = text.split("\n")
    if lines.pop() or len(lines) > _MOST_LINES or len(text) > _MOST_CHARACTERS:
        return None
    reader = _Reader(source)
    for number, line in enumerate(lines, first_line):
        if not reader.take(line.removesuffix("\r"), number):
            return None
    return reader.result()


class _Reader:
    """Takes line after line, and refuses the first that is not of the simple form."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._values: dict[str, Any] = {}
        self._places: dict[tuple[str, ...], Place] = {}
        self._below: dict[str, str] | None = None  # the map below ``metadata:``, while its lines may follow
        self._indent = 0

    def take(self, line: str, number: int) -> bool:
        """Read one line; False when the whole text is not for this reader."""
        found = _LINE.fullmatch(line) if line.isprintable() else None
        if found is None:
            return False
        indent, key, double, single, plain = found.groups()
        if plain is not None and (": " in plain or " #" in plain or plain[-1] in ": "):
            return False
        value = plain if plain is not None else double if double is not None else single
        path = (_NESTED, key) if indent else (key,)
        if path in self._places or not self._put(key, value, len(indent)):
            return False
        column = len(indent) + 1
        self._places[path] = Place(self._source, number, column, column + len(key), excerpt(line))
        return True

    def _put(self, key: str, value: str | None, indent: int) -> bool:
        if indent:
            if self._below is None or value is None or indent != (self._indent or indent):
                return False
            self._indent = indent
            self._below[key] = value
        elif value is None:
            self._below, self._indent = {}, 0
            self._values[key] = self._below
            return key == _NESTED
        else:
            self._below = None
            self._values[key] = value
        return True

    def result(self) -> YamlMapping | None:
        """Return the mapping; None when there is nothing in it, or nothing below ``metadata:``."""
        complete = self._values and self._values.get(_NESTED) != {}
        return YamlMapping(self._values, self._places) if complete else None
