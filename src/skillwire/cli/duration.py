"""How long something lasts, as people type it: ``90d``, ``24h``, ``30m``, ``45s``, ``2w``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from typing import Any

_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_FORM: Final = re.compile(r"([0-9]{1,9})([smhdw])", re.ASCII)
_MOST: Final = 36_525 * _SECONDS["d"]  # a hundred years, so that every moment has a date
_WORDS: Final = (("d", "days"), ("h", "hours"), ("m", "minutes"), ("s", "seconds"))


class Duration(click.ParamType):  # type: ignore[type-arg]  # that of click 8.2 takes none
    """A whole number and its unit; the value is in seconds, at most a hundred years."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds; refuse what has another form."""
        if isinstance(value, float):
            return value
        found = _FORM.fullmatch(value)
        if found is None:
            self.fail(
                f"{ascii(value)[:40]} is no duration; write a number and s, m, h, d or w, such as 90d", param, ctx
            )
        seconds = int(found[1]) * _SECONDS[found[2]]
        if seconds > _MOST:
            self.fail(f"{value} is longer than a hundred years", param, ctx)
        return float(seconds)


def in_words(seconds: float) -> str:
    """Return how long that is in the largest unit of which there are two or more: ``90 days``."""
    for unit, word in _WORDS:
        if seconds >= 2 * _SECONDS[unit]:
            return f"{round(seconds / _SECONDS[unit])} {word}"
    return "a second"
