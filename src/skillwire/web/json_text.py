"""A JSON value as a person reads it: indented, within a bound, its hidden characters shown where it is printed.

Trust: the value is a stranger's. One that is too large, too deep or has a number too long to be read is shown as it
came, cut where the bound is.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from skillwire import limits

#: What is longer is shown folded.
_LINES: Final = 24
_LENGTH: Final = 4_000


class JsonText(NamedTuple):
    """What is shown of a value: its text, the size of the whole in bytes, and whether that is more than is shown."""

    text: str
    size: int
    lines: int
    is_cut: bool

    @property
    def is_long(self) -> bool:
        """Whether it is shown folded."""
        return self.lines > _LINES or len(self.text) > _LENGTH


def json_text(data: bytes) -> JsonText:
    """Return what is shown of the JSON document ``data``."""
    if len(data) > limits.CONSOLE_JSON_BYTES:
        shown = data[: limits.CONSOLE_JSON_BYTES].decode("utf-8", "replace")
        return JsonText(shown, len(data), shown.count("\n") + 1, is_cut=True)
    try:
        text = json.dumps(json.loads(data), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        text = data.decode("utf-8", "replace")
    return JsonText(text, len(data), text.count("\n") + 1, is_cut=False)
