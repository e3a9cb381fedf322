"""The time until the next request: the server's hint, else exponential backoff with full jitter; and circuits.

Full jitter draws from the whole interval, so that clients which failed together do not return together. A hint wins in
both directions, plus a tenth of jitter.

A circuit is *closed* while requests pass, and *open* after some failures in a row: no request is made. After a rest
one request probes the origin, and success closes the circuit; otherwise the next one probes after another rest.

Time and chance are arguments. Spec: RFC 9110 §10.2.3 (Retry-After); SSP §8.3.6 (exponential backoff).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from skillwire import limits

_JITTER: Final = 0.1
_DIGITS: Final = 9  # more seconds than 30 years are no advice
_STEPS: Final = 60  # doublings after which every interval is at its cap; keeps the power small


def backoff(attempt: int, chance: float, *, base: float, cap: float) -> float:
    """Return the ``chance`` (0 to 1) of ``base`` seconds, doubled with each ``attempt`` from 0, at most ``cap``."""
    return chance * min(cap, base * 2.0 ** min(attempt, _STEPS))


def pause(hint: float | None, attempt: int, chance: float, *, base: float, cap: float) -> float:
    """Return the seconds to wait: the server's ``hint`` with some jitter, or :func:`backoff`."""
    return backoff(attempt, chance, base=base, cap=cap) if hint is None else hint * (1 + _JITTER * chance)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of ``Retry-After``, or None; a date is compared with the server's own ``Date``."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:_DIGITS])
    moment, now = _seconds(text), _seconds(headers.get("date", ""))
    return max(moment - now, 0.0) if moment is not None and now is not None else None


def _seconds(date: str) -> float | None:
    if not date:
        return None
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


class Circuits:
    """The circuits of a client, one for each failing origin; ``clock`` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failing: dict[str, tuple[int, float]] = {}  # failures in a row, and the end of the rest

    def ask(self, origin: str) -> float:
        """Return the seconds to wait before a request to ``origin``; at 0 it must be made, and its outcome reported."""
        failures, until = self._failing.get(origin, (0, 0.0))
        now = self._clock()
        if failures < limits.CIRCUIT_FAILURES:
            return 0.0
        if now < until:
            return min(until - now, limits.CIRCUIT_SECONDS)  # a rounded sum may exceed a rest
        self._failing[origin] = failures, now + limits.CIRCUIT_SECONDS  # one request probes, the others wait
        return 0.0

    def passed(self, origin: str) -> None:
        """Record that ``origin`` has answered."""
        self._failing.pop(origin, None)

    def failed(self, origin: str) -> None:
        """Record that ``origin`` has not answered, or is overloaded; no later failure prolongs its rest."""
        failures, until = self._failing.get(origin, (0, 0.0))
        is_last = failures + 1 == limits.CIRCUIT_FAILURES
        self._failing[origin] = failures + 1, self._clock() + limits.CIRCUIT_SECONDS if is_last else until
