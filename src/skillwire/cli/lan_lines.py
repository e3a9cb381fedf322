"""Lines as wide as a terminal and no wider, of parts that have a look.

Names of the network are ASCII: a letter is a column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.cli.output import Part, Styled

Line = list["Part"]


def flowing(words: Sequence[str], columns: int) -> list[str]:
    """Return words in lines, with commas between them."""
    lines: list[str] = []
    for number, word in enumerate(words):
        text = f"{word}," if number + 1 < len(words) else word
        if lines and len(lines[-1]) + 1 + len(text) <= columns:
            lines[-1] += f" {text}"
        else:
            lines.append(text)
    return lines


def fit(line: Line, columns: int) -> Line:
    """Return a line that is cut where the terminal ends."""
    parts: Line = []
    room = columns
    for part in line:
        text = _text(part)
        if len(text) > room:
            cut = f"{text[: room - 1]}…" if room else ""
            parts.append(cut if isinstance(part, str) else part._replace(text=cut))
            break
        parts.append(part)
        room -= len(text)
    return parts


def _text(part: Part) -> str:
    return part if isinstance(part, str) else part.text


def width_of(line: Line) -> int:
    """Return how many columns a line takes."""
    return sum(len(_text(part)) for part in line)


def cell(text: str, width: int) -> str:
    """Return a text that takes so many columns, cut or with spaces behind it."""
    return f"{text[: width - 1]}…" if len(text) > width else f"{text:<{width}}"


def padded(part: Styled, width: int) -> Styled:
    """Return a word with spaces behind it, that has its look."""
    return part._replace(text=f"{part.text:<{width}}")
