"""The line that a message shows, when it is short enough to be shown."""

from __future__ import annotations

from typing import Final

_LENGTH: Final = 160


def excerpt(line: str) -> str | None:
    """Return ``line`` without a final carriage return, or None when it has more than 160 characters.

    A stranger's line may have a million; a part of it would need the place within it to be told anew.
    """
    line = line.removesuffix("\r")
    return line if len(line) <= _LENGTH else None
