"""How long to wait before the next request: what the server says, else exponential backoff with full jitter.

Full jitter draws from the whole of the interval, so that clients which failed together do not come back together. A
hint of the server wins over it, in both directions; a tenth of jitter comes on top, for the same reason.

Time and chance are arguments. Spec: RFC 9110 §10.2.3 (Retry-After); SSP §8.3.6 (exponential backoff).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_JITTER: Final = 0.1
_DIGITS: Final = 9  # more seconds than 30 years are no advice
_STEPS: Final = 60  # doublings after which every interval is at its cap; keeps the power small


def backoff(attempt: int, chance: float, *, base: float, cap: float) -> float:
    """Return a part of ``base`` seconds, doubled with each attempt, and at most ``cap``.

    Args:
        attempt: how many were made before, from 0.
        chance: which part, from 0 to 1.
        base: seconds for the first.
        cap: seconds for any.
    """
    return chance * min(cap, base * 2.0 ** min(attempt, _STEPS))


def pause(hint: float | None, attempt: int, chance: float, *, base: float, cap: float) -> float:
    """Return the seconds to wait: the server's ``hint`` and a little more, or what :func:`backoff` says without one."""
    if hint is not None:
        return hint * (1 + _JITTER * chance)
    return backoff(attempt, chance, base=base, cap=cap)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that ``Retry-After`` asks for, or None where it asks for nothing that can be read.

    A date is compared with the server's own ``Date``: two clocks need not agree.

    Args:
        headers: of the answer, by lower-case name.
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:_DIGITS])
    moment, now = _seconds(text), _seconds(headers.get("date", ""))
    return max(moment - now, 0.0) if moment is not None and now is not None else None


def _seconds(date: str) -> float | None:
    if not date:
        return None
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  # few servers write dates here

    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
