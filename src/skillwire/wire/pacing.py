"""How long to wait before the next request: what the server says, else exponential backoff with full jitter.

Full jitter draws from the whole of the interval, so that clients which failed together do not come back together. A
hint of the server wins over it, in both directions; a tenth of jitter comes on top, for the same reason.

Time and chance are arguments. Spec: RFC 9110 §10.2.3 (Retry-After); SSP §8.3.6 (exponential backoff).

The circuit breaker: an origin that fails again and again is left alone for a while.

A circuit is *closed* while requests pass. After some failures in a row it is *open*: no request is made. When it has
rested, it is *half open*: one request looks whether the origin is back, and its outcome decides. That request may be
given up without an outcome; after another rest the next one may look.

:data:`TRANSITIONS` is the whole of it, as h11 has its states: what follows on what. :func:`ask`, :func:`passed` and
:func:`failed` are steps in that table, with time as an argument; :class:`Circuits` holds one circuit for each origin
that is in trouble, for as long as a client lasts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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


class State(StrEnum):
    """How an origin stands with us."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Event(StrEnum):
    """What happens to a circuit."""

    PASSED = "passed"  # an answer came that says that the origin works
    FAILED = "failed"  # none did
    FAILED_TOO_OFTEN = "failed_too_often"  # the same, and it is the last of so many in a row
    RESTED = "rested"  # its time is over


TRANSITIONS: Final[dict[State, dict[Event, State]]] = {
    State.CLOSED: {
        Event.PASSED: State.CLOSED,
        Event.FAILED: State.CLOSED,
        Event.FAILED_TOO_OFTEN: State.OPEN,
        Event.RESTED: State.CLOSED,
    },
    State.OPEN: {
        # A request that was under way when the circuit opened ends after it: good news counts, bad news are no news.
        Event.PASSED: State.CLOSED,
        Event.FAILED: State.OPEN,
        Event.FAILED_TOO_OFTEN: State.OPEN,
        Event.RESTED: State.HALF_OPEN,
    },
    State.HALF_OPEN: {
        Event.PASSED: State.CLOSED,
        Event.FAILED: State.OPEN,
        Event.FAILED_TOO_OFTEN: State.OPEN,
        Event.RESTED: State.HALF_OPEN,  # the probing request gave no outcome
    },
}


class Circuit(NamedTuple):
    """One circuit.

    Args:
        failures: in a row.
        until: the moment before which no request may be made; while it is closed it means nothing.
    """

    state: State = State.CLOSED
    failures: int = 0
    until: float = 0.0


def ask(circuit: Circuit, now: float, *, rest: float = limits.CIRCUIT_SECONDS) -> tuple[Circuit, float]:
    """Return the circuit after a request was asked for, and the seconds to wait; 0 lets it pass."""
    if circuit.state is State.CLOSED:
        return circuit, 0.0
    if now < circuit.until:
        # Where the sum was rounded up, the difference is more than a rest by as much.
        return circuit, min(circuit.until - now, rest)
    return circuit._replace(state=TRANSITIONS[circuit.state][Event.RESTED], until=now + rest), 0.0


def passed(circuit: Circuit) -> Circuit:
    """Return the circuit after a request that was answered."""
    return Circuit(TRANSITIONS[circuit.state][Event.PASSED])


def failed(
    circuit: Circuit, now: float, *, most: int = limits.CIRCUIT_FAILURES, rest: float = limits.CIRCUIT_SECONDS
) -> Circuit:
    """Return the circuit after a request that failed, where ``most`` failures in a row are too many."""
    failures = circuit.failures + 1
    state = TRANSITIONS[circuit.state][Event.FAILED_TOO_OFTEN if failures >= most else Event.FAILED]
    is_new = state is State.OPEN and circuit.state is not State.OPEN
    return Circuit(state, failures, now + rest if is_new else circuit.until)


class Circuits:
    """The circuits of a client, one for each origin.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._troubled: dict[str, Circuit] = {}

    def ask(self, origin: str) -> float:
        """Return the seconds to wait before a request to ``origin``; at 0 it must be made, and its outcome reported."""
        found = self._troubled.get(origin)
        if found is None:
            return 0.0
        self._troubled[origin], wait = ask(found, self._clock())
        return wait

    def passed(self, origin: str) -> None:
        """Take note that ``origin`` has answered."""
        self._troubled.pop(origin, None)

    def failed(self, origin: str) -> None:
        """Take note that ``origin`` has not answered, or only that it cannot."""
        self._troubled[origin] = failed(self._troubled.get(origin, Circuit()), self._clock())
