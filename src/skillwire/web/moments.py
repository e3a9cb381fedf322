"""Times and durations as an operator reads them: how long ago, how long it took, how much is left.

A time is shown twice, relative for a glance and absolute for a comparison with logs. Absolute times are UTC, which is
what logs hold. The script of the console writes the relative ones anew while they grow, in the same words.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60))
_SECOND: Final = 1.0
_FEW_SECONDS: Final = 10.0


class Instant(NamedTuple):
    """A time: for machines, in full, and relative to the moment at which the page was made."""

    iso: str
    clock: str
    relative: str


def past(at: float, now: float) -> Instant:
    """Return a time that has been, as of ``now``; both in seconds since the epoch."""
    return Instant(_iso(at), _clock(at), f"{_rough(now - at)} ago" if now - at >= _SECOND else "now")


def ahead(at: float, now: float) -> Instant:
    """Return a time that something ends at: how much is left, or since when it is over."""
    left = at - now
    relative = f"{_rough(left)} left" if left >= _SECOND else "over" if left <= 0 else "1 s left"
    return Instant(_iso(at), _clock(at), relative)


def duration_text(seconds: float) -> str:
    """Return how long something took: ``84 ms``, ``3.2 s``, ``2 min 5 s``, ``3 h 12 min``."""
    seconds = max(0.0, seconds)
    if round(seconds, 3) < _SECOND:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _FEW_SECONDS:
        return f"{seconds:.1f} s"
    return _exact(round(seconds))


def _exact(seconds: int) -> str:
    """Return the two largest units of a duration."""
    parts: list[str] = []
    for unit, size in (*_UNITS, ("s", 1)):
        number, seconds = divmod(seconds, size)
        if number or parts:
            parts.append(f"{number} {unit}" if number else "")
    return " ".join(part for part in parts[:2] if part) or "0 s"


def _rough(seconds: float) -> str:
    """Return the largest unit of a duration, rounded down: nothing is said to be further away than it is."""
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(max(0.0, seconds))} s"


def _iso(at: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at % 1 * 1000):03}Z"


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
