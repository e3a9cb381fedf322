"""Excerpts of text for messages, and the width of text on a terminal."""

from __future__ import annotations

from typing import Final
from unicodedata import category, east_asian_width

_LENGTH: Final = 160


def excerpt(line: str) -> str | None:
    """Return ``line`` without a final carriage return, or None when it has more than 160 characters.

    A line of untrusted text may be very long, and a part of it would need another column.
    """
    line = line.removesuffix("\r")
    return line if len(line) <= _LENGTH else None


_WIDE = frozenset("WF")
#: Marks drawn upon the character before them, and what only directs or joins.
_DRAWN_ON = frozenset({"Mn", "Me", "Cf"})


def display_width(text: str) -> int:
    """Return how many columns ``text``, which is one line, fills."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if category(character) in _DRAWN_ON:
        return 0
    return 2 if east_asian_width(character) in _WIDE else 1
