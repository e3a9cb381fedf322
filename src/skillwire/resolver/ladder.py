"""The ladder: the order in which sources are asked for a skill, and what follows each outcome.

:data:`LADDER` has one row for each rung: local network, DHT, SkillCenter, cache; then the places that the user named.
:data:`AFTER` has one row for each code. A :class:`Climb` asks the enabled rungs in order, each within its deadline and
the remaining time, until one has the skill. It records the result and duration of every rung, or why the rung was not
asked. A caller that cannot use the result of a rung continues with the next one.

With hedging, the climb also asks a rung when the previous one takes longer than 95 % of its earlier answers; the first
rung that finds a skill wins. Clock and random numbers are arguments. Spec: SDP §12.1, §12.2.
"""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from skillwire import limits
from skillwire.errors import NotFoundError, SkillwireError, TrustError, UsageError
from skillwire.wire.exchange import TIME_LEFT, All, Flow, Sleep, within

T = TypeVar("T")
#: How a rung ended, what it found, and its error.
_Result: TypeAlias = "tuple[RungTrace, list[T], SkillwireError | None]"
_LOCAL_SECONDS: Final = 0.05  # for a rung that asks no peer, when no time is left
_RESERVED_SECONDS: Final = 0.25  # kept for such a rung, but at most this share of the remaining time
_RESERVED_SHARE: Final = 1 / 16
_NO_TIME: Final = "no time is left"
_RETRY_SECONDS: Final = 0.05  # before the second attempt, doubled before each further one
_LONGEST_RETRY_SECONDS: Final = 1.0
_MAX_DURATIONS: Final = 64  # latest answers of a rung, which its p95 is computed from
_NEGATIVE_SECONDS: Final = 5.0
_MAX_NEGATIVES: Final = 256  # cached questions
RungName = Literal["lan", "dht", "skillCenter", "cache", "named"]
LAN, DHT, CENTER, CACHE, NAMED = "lan", "dht", "skillCenter", "cache", "named"


class LadderRow(NamedTuple):
    """One rung: its deadline in seconds, the attempts within it, and its assumed p95 until enough answers are known.

    ``is_local``: the rung asks no peer, so it is asked even when no time is left.
    """

    deadline: float
    attempts: int = 1
    p95: float = 1.0
    is_local: bool = False


#: The rungs in their order; a setting may replace a deadline.
LADDER: Final[dict[str, LadderRow]] = {
    LAN: LadderRow(3.0, attempts=2, p95=0.6),
    DHT: LadderRow(5.0, p95=2.5),
    CENTER: LadderRow(10.0, p95=0.5),
    CACHE: LadderRow(5.0, p95=0.05, is_local=True),
    NAMED: LadderRow(float(limits.CALL_WAIT_SECONDS), p95=1.0),
}


class Action(StrEnum):
    """What follows a rung's error."""

    RETRY = "retry"  # the same rung, after a growing pause, while its time lasts
    NEXT = "next"
    USE_CACHE = "use the cache"  # before the rungs that need the network
    STOP = "stop"


#: Code of an error → what follows. For other codes a TrustError stops, and any other error leads to the next rung.
AFTER: Final[dict[str, Action]] = {
    "DISC_001": Action.RETRY,
    "DISC_002": Action.NEXT,  # down to the SkillCenter
    "DISC_003": Action.STOP,
    "DISC_004": Action.STOP,
    "DISC_005": Action.USE_CACHE,
    "DISC_006": Action.NEXT,  # another skill, where the rung itself has none
    "DISC_007": Action.NEXT,
    "DHT_UNREACHABLE": Action.RETRY,
    "LAN_UNAVAILABLE": Action.USE_CACHE,
    "TIMEOUT": Action.RETRY,
}


#: Codes of a network that has no answer, which is no failure.
SILENT: Final = frozenset({"DISC_001", "DISC_002"})


class Outcome(StrEnum):
    """How one rung ended."""

    FOUND = "found"
    NOTHING = "nothing"
    TIMEOUT = "timeout"
    FAILED = "failed"
    REFUSED = "refused"
    OFF = "off"
    NOT_REACHED = "not reached"


#: A climb with only these outcomes is cached as a negative answer; after a failure the question is asked again.
_NEGATIVE: Final = frozenset({Outcome.NOTHING, Outcome.TIMEOUT, Outcome.OFF})


class Rung(NamedTuple, Generic[T]):
    """A rung of one climb.

    Args:
        name: a key of :data:`LADDER`.
        ask: returns the skills of the source, given the seconds that it may take.
        off: why the rung is not asked; empty if it is.
        row: its limits, if they differ from those of the ladder.
        start: prepares the source; the deadline begins after it.
        is_always: the rung is asked even after an earlier one has found a skill.
    """

    name: str
    ask: Callable[[float], Flow[list[T]]] | None = None
    off: str = ""
    row: LadderRow | None = None
    start: Callable[[], Flow[object]] | None = None
    is_always: bool = False


class Query(NamedTuple):
    """A search for skills by their properties: all words and capabilities, one scene, one type.

    If no skill has these properties, a skill called ``name`` is the answer.
    """

    words: str = ""
    capabilities: tuple[str, ...] = ()
    scenes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    name: str = ""


class RungTrace(NamedTuple):
    """A rung of one answer: how it ended, after how many seconds and attempts, why, and how many skills it gave."""

    name: Annotated[str, "Rung; named: the places that you named", RungName]
    outcome: Annotated[Outcome, "How it ended"]
    seconds: Annotated[float, "Time that it took"] = 0.0
    attempts: Annotated[int, "How often it was asked"] = 0
    code: Annotated[str, "Code of its error; empty without one"] = ""
    reason: Annotated[str, "Why it ended so, or was not asked; may be empty"] = ""
    found: Annotated[int, "Number of skills that it has"] = 0

    def __str__(self) -> str:
        return f"{self.name} ({', '.join((self.outcome, *([f'{self.seconds:.1f} s'] if self.attempts else [])))})"


def outcome_of(error: SkillwireError) -> Outcome:
    """Return the outcome of a rung that raised ``error``."""
    if isinstance(error, NotFoundError):
        return Outcome.NOTHING
    if action_after(error) is Action.RETRY:
        return Outcome.TIMEOUT
    return Outcome.REFUSED if action_after(error) is Action.STOP else Outcome.FAILED


def action_after(error: SkillwireError) -> Action:
    """Return what follows ``error``. A DHT error never stops a climb, since any node may announce any name."""
    if error.details.get("source") == DHT:
        return Action.NEXT
    return AFTER.get(error.code, Action.STOP if isinstance(error, TrustError) else Action.NEXT)


def _ends_climb(result: _Result[Any]) -> bool:
    """Whether a rung found something, or failed in a way that stops the climb."""
    _, found, error = result
    return bool(found) or (error is not None and action_after(error) is Action.STOP)


def random_share() -> float:
    """Return a number from 0 to 1, without ``random``, which takes a while to import."""
    return int.from_bytes(os.urandom(4), "big") / 2**32


class Ladder:
    """The ladder of one client: its clock, the durations of earlier answers, and negative answers.

    Args:
        clock: monotonic seconds.
        chance: returns a number from 0 to 1.
        hedges: start the next rung after the p95 of the one before.
    """

    def __init__(
        self, clock: Callable[[], float], chance: Callable[[], float] = random_share, *, hedges: bool = False
    ) -> None:
        self.clock, self.chance, self.hedges = clock, chance, hedges
        self._durations: dict[str, deque[float]] = {}
        self._negative: OrderedDict[object, tuple[float, Climb[Any]]] = OrderedDict()

    def took(self, name: str, seconds: float) -> None:
        """Store the duration of an answer."""
        self._durations.setdefault(name, deque(maxlen=_MAX_DURATIONS)).append(seconds)

    def p95(self, name: str) -> float:
        """Return the 95th percentile of a rung's durations, in seconds."""
        known = sorted(self._durations.get(name, ()))
        return known[len(known) * 95 // 100] if len(known) >= _MAX_DURATIONS // 4 else LADDER[name].p95

    def climb(self, question: object, rungs: Sequence[Rung[T]], seconds: float | None = None) -> Climb[T]:
        """Return a new climb within ``seconds``, or the cached climb of this ``question`` that found nothing.

        An empty ``question`` is never cached.
        """
        until, climb = self._negative.get(question, (0.0, None))
        if question and climb is not None and self.clock() < until:
            return climb
        return Climb(self, question, rungs, seconds)

    def keep_negative(self, question: object, climb: Climb[Any]) -> None:
        """Cache a climb that found nothing."""
        if question:
            self._negative[question] = self.clock() + _NEGATIVE_SECONDS, climb
            self._negative.move_to_end(question)
            if len(self._negative) > _MAX_NEGATIVES:
                self._negative.popitem(last=False)


class Climb(Generic[T]):
    """One question to the rungs of a ladder; ``traces`` has a row for each rung that ended."""

    def __init__(self, ladder: Ladder, question: object, rungs: Sequence[Rung[T]], seconds: float | None) -> None:
        self._ladder, self._question = ladder, question
        self._waiting = sorted(rungs, key=lambda rung: list(LADDER).index(rung.name))
        self._end = None if seconds is None else ladder.clock() + seconds
        self._traces: list[RungTrace] = []
        self._errors: list[SkillwireError] = []
        self._has_found = self._is_cut_short = False
        self._has_local = any((rung.row or LADDER[rung.name]).is_local and not rung.off for rung in rungs)
        self._reserved: float | None = None

    @property
    def errors(self) -> Sequence[SkillwireError]:
        """The errors of the rungs that failed, in order."""
        return self._errors

    @property
    def traces(self) -> tuple[RungTrace, ...]:
        """The rungs that ended, then those that were not reached."""
        left = [
            RungTrace(rung.name, Outcome.OFF if rung.off else Outcome.NOT_REACHED, reason=rung.off)
            for rung in self._waiting
        ]
        return (*self._traces, *left)

    def next(self) -> Flow[list[T]]:
        """Return the skills of the next rung that has any; an empty list when no rung is left.

        Raises SkillwireError: an error that stops the climb; after the last rung the first error, which names all rungs
        in its message and ``details``.
        """
        is_over, found = not self._waiting, list[T]()
        while self._waiting and not found:
            if self._ladder.hedges and sum(not (rung.off or rung.is_always) for rung in self._waiting) > 1:
                found = yield from self._race()
            else:
                found = self._record(*(yield from self._ask(self._waiting.pop(0))))
        if found:
            self._has_found = True
            for rung in [rung for rung in self._waiting if rung.is_always]:
                self._waiting.remove(rung)
                found = [*found, *self._record(*(yield from self._ask(rung)))]
        elif not (self._has_found or is_over or self._is_cut_short) and _NEGATIVE.issuperset(
            trace.outcome for trace in self._traces
        ):
            self._ladder.keep_negative(self._question, self)
        if not found and self._errors:
            missing = (error for error in self._errors if error.code == "SKILL_NOT_FOUND")
            raise self._described(next(missing, self._errors[0]))
        return found

    def reject(self, error: SkillwireError) -> None:
        """Record that the result of the last rung cannot be used; raise ``error`` if it stops the climb."""
        number = max(n for n, trace in enumerate(self._traces) if trace.outcome is Outcome.FOUND)
        trace = self._traces.pop(number)._replace(outcome=outcome_of(error), code=error.code, reason=error.message)
        self._traces.insert(number, trace)
        self._errors.append(error)
        self._apply_action(error)

    def _ask(self, rung: Rung[T]) -> Flow[_Result[T]]:
        """Start and ask one rung; return its result."""
        if rung.off or rung.ask is None:
            return RungTrace(rung.name, Outcome.OFF, reason=rung.off), [], None
        began = self._ladder.clock()
        if rung.start is not None:
            try:
                yield from rung.start()
            except UsageError:
                raise
            except SkillwireError as error:
                seconds = round(self._ladder.clock() - began, 3)
                return RungTrace(rung.name, outcome_of(error), seconds, 1, error.code, error.message), [], error
        return (yield from self._ask_repeatedly(rung, rung.ask, began))

    def _ask_repeatedly(self, rung: Rung[T], ask: Callable[[float], Flow[list[T]]], began: float) -> Flow[_Result[T]]:
        """Ask one rung, with as many attempts as its row allows; durations count from ``began``."""
        clock, row = self._ladder.clock, rung.row or LADDER[rung.name]
        left = yield TIME_LEFT
        started = clock()
        left = left if self._end is None else min(left, self._end - started)
        end = started + min(row.deadline, self._seconds_for(left, row))
        if end <= started:
            return RungTrace(rung.name, Outcome.NOT_REACHED, reason=_NO_TIME), [], None
        failure: SkillwireError | None = None
        found: list[T] = []
        attempts = 0
        while attempts < row.attempts:
            share = 2 ** (row.attempts - attempts - 1) / (2**row.attempts - 1)  # most answers come early
            seconds = (end - started) * share if attempts + 1 < row.attempts else end - clock()
            attempts += 1
            failure = None
            try:
                found = yield from within(ask(seconds), seconds, clock)
            except UsageError:
                raise
            except SkillwireError as error:
                failure = error
            if failure is None or action_after(failure) is not Action.RETRY or attempts == row.attempts:
                break
            from skillwire.wire.pacing import backoff  # noqa: PLC0415  # few rungs are asked again

            pause = backoff(attempts, self._ladder.chance(), base=_RETRY_SECONDS, cap=_LONGEST_RETRY_SECONDS)
            if (pause := min(pause, end - clock())) > 0:
                yield Sleep(pause)
        seconds = round(clock() - began, 3)
        if failure is None:
            self._ladder.took(rung.name, seconds)
            outcome = Outcome.FOUND if found else Outcome.NOTHING
            return RungTrace(rung.name, outcome, seconds, attempts, found=len(found)), found, None
        outcome = outcome_of(failure)
        if outcome is Outcome.TIMEOUT and end < started + row.deadline:
            self._is_cut_short = True
        return RungTrace(rung.name, outcome, seconds, attempts, failure.code, failure.message), [], failure

    def _seconds_for(self, left: float, row: LadderRow) -> float:
        """Return how many of the ``left`` seconds a rung may take."""
        if row.is_local:
            return max(left, _LOCAL_SECONDS)
        if not self._has_local:
            return left
        if self._reserved is None:
            self._reserved = min(_RESERVED_SECONDS, left * _RESERVED_SHARE)
        return max(left - self._reserved, 0.0)

    def _record(self, trace: RungTrace, found: list[T], error: SkillwireError | None) -> list[T]:
        """Record the result of a rung; return its skills."""
        self._traces.append(trace)
        if error is not None:
            self._errors.append(error)
            self._apply_action(error)
        return found

    def _apply_action(self, error: SkillwireError) -> None:
        """Move the cache to the front after a network failure; raise an error that stops the climb."""
        action = action_after(error)
        if action is Action.STOP:
            raise self._described(error)
        if action is Action.USE_CACHE:
            self._waiting.sort(key=lambda rung: rung.name != CACHE)

    def _race(self) -> Flow[list[T]]:
        """Ask the waiting rungs, each when the previous one has ended or exceeds its p95; return the first result."""
        rungs = [rung for rung in self._waiting if not rung.is_always]
        self._waiting = [rung for rung in self._waiting if rung.is_always]
        delays = [self._ladder.p95(rung.name) for rung in rungs]
        results: list[_Result[T] | None] = yield All([*map(self._ask, rungs)], is_enough=_ends_climb, delays=delays)
        best: list[T] = []
        for rung, result in zip(rungs, results, strict=True):
            if result is None:
                self._traces.append(RungTrace(rung.name, Outcome.NOT_REACHED, reason="another rung was faster"))
            elif isinstance(result, SkillwireError):
                raise result
            else:
                best = best or self._record(*result)
        return best

    def _described(self, error: SkillwireError) -> SkillwireError:
        """Return ``error`` with all rungs in its details, and in its message if several were tried."""
        if "rungs" in error.details:
            return error
        message = error.message
        if len(tried := [str(trace) for trace in self.traces if trace.attempts or trace.reason == _NO_TIME]) > 1:
            message = f"{message}; tried: {', '.join(tried)}"
        details = {**error.details, "rungs": [trace._asdict() for trace in self.traces]}
        described = type(error)(
            error.code, message, place=error.place, fix=error.fix, details=details, in_python=error.in_python
        )
        described.may_be_accepted = error.may_be_accepted
        described.__cause__ = error.__cause__  # else a traceback shows both as two errors
        return described.with_traceback(error.__traceback__)
