"""The time until the next request: the server's hint, else exponential backoff with full jitter; and circuits.

Full jitter draws from the whole interval, so that clients which failed together do not return together. A hint wins in
both directions, plus a tenth of jitter.

A circuit is *closed* while requests pass, and *open* after some failures in a row: no request is made. After a rest it
is *half open*: one request probes the origin, and its outcome decides; if that request is abandoned, the next one
probes after another rest. :data:`TRANSITIONS` is the whole state machine.

Time and chance are arguments. Spec: RFC 9110 §10.2.3 (Retry-After); SSP §8.3.6 (exponential backoff).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final, NamedTuple

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


class State(StrEnum):
    """The state of a circuit."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Event(StrEnum):
    """An event of a circuit."""

    PASSED = "passed"  # the origin works
    FAILED = "failed"
    FAILED_TOO_OFTEN = "failed_too_often"  # the last of too many failures in a row
    RESTED = "rested"  # its rest is over


TRANSITIONS: Final[dict[State, dict[Event, State]]] = {
    State.CLOSED: {
        Event.PASSED: State.CLOSED,
        Event.FAILED: State.CLOSED,
        Event.FAILED_TOO_OFTEN: State.OPEN,
        Event.RESTED: State.CLOSED,
    },
    State.OPEN: {
        # A request that began before the circuit opened may end now: success closes it, failure changes nothing.
        Event.PASSED: State.CLOSED,
        Event.FAILED: State.OPEN,
        Event.FAILED_TOO_OFTEN: State.OPEN,
        Event.RESTED: State.HALF_OPEN,
    },
    State.HALF_OPEN: {
        Event.PASSED: State.CLOSED,
        Event.FAILED: State.OPEN,
        Event.FAILED_TOO_OFTEN: State.OPEN,
        Event.RESTED: State.HALF_OPEN,  # the probe gave no outcome
    },
}


class Circuit(NamedTuple):
    """A circuit, its failures in a row, and the end of its rest unless it is closed."""

    state: State = State.CLOSED
    failures: int = 0
    until: float = 0.0


def ask(circuit: Circuit, now: float, *, rest: float = limits.CIRCUIT_SECONDS) -> tuple[Circuit, float]:
    """Return the circuit after a request was asked for, and the seconds to wait; 0 lets it pass."""
    if circuit.state is State.CLOSED:
        return circuit, 0.0
    if now < circuit.until:
        # A rounded sum may exceed a rest.
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
    """The circuits of a client, one for each failing origin; ``clock`` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failing: dict[str, Circuit] = {}

    def ask(self, origin: str) -> float:
        """Return the seconds to wait before a request to ``origin``; at 0 it must be made, and its outcome reported."""
        found = self._failing.get(origin)
        if found is None:
            return 0.0
        self._failing[origin], wait = ask(found, self._clock())
        return wait

    def passed(self, origin: str) -> None:
        """Record that ``origin`` has answered."""
        self._failing.pop(origin, None)

    def failed(self, origin: str) -> None:
        """Record that ``origin`` has not answered, or is overloaded."""
        self._failing[origin] = failed(self._failing.get(origin, Circuit()), self._clock())
