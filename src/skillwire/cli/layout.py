"""Lines laid out for a terminal: broken between words, with an indent, and tables that become lines where it is narrow.

A word is never cut. One that is longer than a line, such as an address, is left for the terminal to break, so that it
stays one piece to copy. Widths are columns of the terminal, not characters.

Only what is written to a terminal needs this module: in a pipe a line is as long as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from skillwire.trust.display_width import display_width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skillwire.cli.output import Styled

_WORD: Final = re.compile(" *[^ ]+")
_KEPT: Final = "\0"  # stands for a space at which no line is broken; what is printed holds none
_ROOM: Final = 20  # columns that a broken line needs beside its indent
_ROOM_OF_CELL: Final = 24  # columns that the last cell of a table needs to say anything
_STEP: Final = 2  # columns


def wrap(pieces: Sequence[Styled], columns: int, indent: int | None = None) -> Iterator[list[Styled]]:
    """Yield the lines of ``columns`` columns that ``pieces`` fill.

    Args:
        pieces: one line, harmless by now.
        columns: of the terminal.
        indent: of the second line and those after it; two more than that of the first when None.
    """
    text = "".join(piece.text for piece in pieces)
    if indent is None or columns - indent < _ROOM:
        indent = len(text) - len(text.lstrip(" ")) + _STEP
    text = "".join(_kept_whole(piece, columns - indent) for piece in pieces)
    for number, (start, end) in enumerate(_spans(text, columns, indent)):
        margin = [pieces[0]._replace(text=" " * indent, style={})] if number else []
        yield [*margin, *_between(pieces, start, end)]


def _kept_whole(piece: Styled, room: int) -> str:
    """Return the text of a piece, with spaces at which no line is broken where it is to stay whole and can."""
    is_kept = piece.is_whole and display_width(piece.text) <= room
    return piece.text.replace(" ", _KEPT) if is_kept else piece.text


def _spans(text: str, columns: int, indent: int) -> Iterator[tuple[int, int]]:
    """Yield where each line begins and ends in ``text``."""
    start = end = used = 0
    for found in _WORD.finditer(text):
        word = found[0].lstrip(" ")
        filled = used + display_width(found[0])
        if used and filled > columns and indent + display_width(word) <= columns:
            yield start, end
            start = found.end() - len(word)
            filled = indent + display_width(word)
        end, used = found.end(), (filled - 1) % columns + 1
    yield start, end


def _between(pieces: Sequence[Styled], start: int, end: int) -> Iterator[Styled]:
    position = 0
    for piece in pieces:
        text = piece.text[max(start - position, 0) : max(end - position, 0)]
        position += len(piece.text)
        if text:
            yield piece._replace(text=text)


def column_widths(rows: Sequence[Sequence[Styled]]) -> list[int]:
    """Return the width of each column but the last one, which is as long as it is."""
    return [max(display_width(row[column].text) for row in rows) for column in range(len(rows[0]) - 1)]


def is_too_narrow(rows: Sequence[Sequence[Styled]], widths: Sequence[int], columns: int) -> bool:
    """Whether a table leaves its last column too little room to be read."""
    before = sum(widths) + _STEP * len(widths)
    longest = max(display_width(row[-1].text) for row in rows)
    return before + min(longest, _ROOM_OF_CELL) > columns


def padding(cell: Styled, width: int) -> str:
    """Return what stands between ``cell`` in a column of ``width`` and the next column."""
    return " " * (width - display_width(cell.text) + _STEP)
