"""The order in which the sources of a skill are asked, and what each outcome leads to.

:data:`LADDER` has one row for each rung: local network, DHT, SkillCenter, cache; then the places that the user named.
:data:`AFTER` has one row for each code. A :class:`Climb` asks the rungs that are in play, each within its deadline and
the time that is left, until one has the skill. It records every rung: its result, its time, and the reason where it was
not asked. A caller that cannot use what a rung found continues with the next one.

With hedging, a rung is also asked when the one before takes longer than 95 % of its earlier answers; the first rung
that finds something wins. Time and chance are arguments. Spec: SDP §12.1, §12.2.
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
_LOCAL: Final = 0.05  # seconds for a rung that asks no peer, when no time is left
_RESERVED: Final = 0.25  # seconds that the rungs which ask peers leave to it, but no more than this share of all time
_RESERVED_SHARE: Final = 1 / 16
_NO_TIME: Final = "no time is left"
_PAUSE: Final = 0.05  # seconds before the second attempt, doubled before each further one
_LONGEST_PAUSE: Final = 1.0
_DURATIONS: Final = 64  # answers of a rung that its p95 is taken from
_NEGATIVE_SECONDS: Final = 5.0
_NEGATIVES: Final = 256  # questions
RungName = Literal["lan", "dht", "skillCenter", "cache", "named"]
LAN, DHT, CENTER, CACHE, NAMED = "lan", "dht", "skillCenter", "cache", "named"


class LadderRow(NamedTuple):
    """One rung: seconds that it may take, attempts within them, and a guess of its p95 until there are figures.

    ``is_local``: it asks no peer, so that it is asked even when no time is left.
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


#: Codes of a network without an answer, which is no fault.
SILENT: Final = frozenset({"DISC_001", "DISC_002"})


class Outcome(StrEnum):
    """The end of one rung."""

    FOUND = "found"
    NOTHING = "nothing"
    TIMEOUT = "timeout"
    FAILED = "failed"
    REFUSED = "refused"
    OFF = "off"
    NOT_REACHED = "not reached"


#: Outcomes of rungs that leave the answer a negative one; after a failure the next question may be answered.
_NEGATIVE: Final = frozenset({Outcome.NOTHING, Outcome.TIMEOUT, Outcome.OFF})


class Rung(NamedTuple, Generic[T]):
    """A rung in play.

    Args:
        name: a key of :data:`LADDER`.
        ask: returns what the source has, given the seconds that it may take.
        off: why it is not asked; empty if it is.
        row: its figures, where they are not those of the ladder.
        start: readies what asks; the deadline begins after it, since the source is not asked before.
        is_always: asked even when an earlier rung has found something.
    """

    name: str
    ask: Callable[[float], Flow[list[T]]] | None = None
    off: str = ""
    row: LadderRow | None = None
    start: Callable[[], Flow[object]] | None = None
    is_always: bool = False


class Query(NamedTuple):
    """A question to the rungs that find skills by what they are: all words and capabilities, one scene, one type.

    A skill called ``name`` is an answer where none has the rest.
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
    """Return how a rung ended that raised ``error``."""
    if isinstance(error, NotFoundError):
        return Outcome.NOTHING
    if action_after(error) is Action.RETRY:
        return Outcome.TIMEOUT
    return Outcome.REFUSED if action_after(error) is Action.STOP else Outcome.FAILED


def action_after(error: SkillwireError) -> Action:
    """Return what follows ``error``; any node of the DHT may announce any name, which blocks no source below it."""
    if error.details.get("source") == DHT:
        return Action.NEXT
    return AFTER.get(error.code, Action.STOP if isinstance(error, TrustError) else Action.NEXT)


def _is_last(result: _Result[Any]) -> bool:
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
        """Keep the duration of an answer."""
        self._durations.setdefault(name, deque(maxlen=_DURATIONS)).append(seconds)

    def p95(self, name: str) -> float:
        """Return the seconds within which 95 % of a rung's answers came."""
        known = sorted(self._durations.get(name, ()))
        return known[len(known) * 95 // 100] if len(known) >= _DURATIONS // 4 else LADDER[name].p95

    def climb(self, question: object, rungs: Sequence[Rung[T]], seconds: float | None = None) -> Climb[T]:
        """Return a new climb within ``seconds``; for a question without an answer a moment ago, that climb at its end.

        An empty ``question`` is asked anew each time.
        """
        until, climb = self._negative.get(question, (0.0, None))
        if question and climb is not None and self.clock() < until:
            return climb
        return Climb(self, question, rungs, seconds)

    def keep_negative(self, question: object, climb: Climb[Any]) -> None:
        """Keep a climb that found nothing."""
        if question:
            self._negative[question] = self.clock() + _NEGATIVE_SECONDS, climb
            self._negative.move_to_end(question)
            if len(self._negative) > _NEGATIVES:
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
        """Return what the next rung with a result has; an empty list when every rung answered that it has nothing.

        Raises SkillwireError: a rung's error that stops the climb, or at its end the first one, with all rungs in its
        message and ``details``.
        """
        is_over, found = not self._waiting, list[T]()
        while self._waiting and not found:
            if self._ladder.hedges and sum(not (rung.off or rung.is_always) for rung in self._waiting) > 1:
                found = yield from self._race()
            else:
                found = self._take(*(yield from self._ask(self._waiting.pop(0))))
        if found:
            self._has_found = True
            for rung in [rung for rung in self._waiting if rung.is_always]:
                self._waiting.remove(rung)
                found = [*found, *self._take(*(yield from self._ask(rung)))]
        elif not (self._has_found or is_over or self._is_cut_short) and _NEGATIVE.issuperset(
            trace.outcome for trace in self._traces
        ):
            self._ladder.keep_negative(self._question, self)
        if not found and self._errors:
            missing = (error for error in self._errors if error.code == "SKILL_NOT_FOUND")
            raise self._described(next(missing, self._errors[0]))
        return found

    def reject(self, error: SkillwireError) -> None:
        """Record that what the last rung found cannot be used; raise ``error`` where that stops the climb."""
        number = max(n for n, trace in enumerate(self._traces) if trace.outcome is Outcome.FOUND)
        trace = self._traces.pop(number)._replace(outcome=outcome_of(error), code=error.code, reason=error.message)
        self._traces.insert(number, trace)
        self._errors.append(error)
        self._follow(error)

    def _ask(self, rung: Rung[T]) -> Flow[_Result[T]]:
        """Ask one rung once it has started; return how it ended."""
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
        """Ask one rung, as often as its row says; return how it ended since it ``began``."""
        clock, row = self._ladder.clock, rung.row or LADDER[rung.name]
        left = yield TIME_LEFT
        started = clock()
        left = left if self._end is None else min(left, self._end - started)
        end = started + min(row.deadline, self._share(left, row))
        if end <= started:
            return RungTrace(rung.name, Outcome.NOT_REACHED, reason=_NO_TIME), [], None
        failure: SkillwireError | None = None
        found: list[T] = []
        attempts = 0
        while attempts < row.attempts:
            share = 2 ** (row.attempts - attempts - 1) / (2**row.attempts - 1)  # an answer comes at once, or seldom
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

            pause = backoff(attempts, self._ladder.chance(), base=_PAUSE, cap=_LONGEST_PAUSE)
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

    def _share(self, left: float, row: LadderRow) -> float:
        """Return the seconds of ``left`` that a rung may take."""
        if row.is_local:
            return max(left, _LOCAL)
        if not self._has_local:
            return left
        if self._reserved is None:
            self._reserved = min(_RESERVED, left * _RESERVED_SHARE)
        return max(left - self._reserved, 0.0)

    def _take(self, trace: RungTrace, found: list[T], error: SkillwireError | None) -> list[T]:
        """Record how a rung ended; return what it found."""
        self._traces.append(trace)
        if error is not None:
            self._errors.append(error)
            self._follow(error)
        return found

    def _follow(self, error: SkillwireError) -> None:
        """Put the cache first after a failed network; raise an error that stops the climb."""
        action = action_after(error)
        if action is Action.STOP:
            raise self._described(error)
        if action is Action.USE_CACHE:
            self._waiting.sort(key=lambda rung: rung.name != CACHE)

    def _race(self) -> Flow[list[T]]:
        """Ask the waiting rungs, each when the one before has ended or is slow; return what the first one found."""
        rungs = [rung for rung in self._waiting if not rung.is_always]
        self._waiting = [rung for rung in self._waiting if rung.is_always]
        delays = [self._ladder.p95(rung.name) for rung in rungs]
        results: list[_Result[T] | None] = yield All([*map(self._ask, rungs)], is_enough=_is_last, delays=delays)
        best: list[T] = []
        for rung, result in zip(rungs, results, strict=True):
            if result is None:
                self._traces.append(RungTrace(rung.name, Outcome.NOT_REACHED, reason="another rung was faster"))
            elif isinstance(result, SkillwireError):
                raise result
            else:
                best = best or self._take(*result)
        return best

    def _described(self, error: SkillwireError) -> SkillwireError:
        """Return ``error`` with the rungs in its details, and in its message where there was more than one."""
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
        return described
