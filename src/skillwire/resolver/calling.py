"""Handing a call in: once for the provider, however often it takes on the way.

A call goes out under a key that stays the same for all attempts, so a provider that knows ``Idempotency-Key`` executes
it once, however often it arrives. It is sent again when the network fails, and when the provider says that it cannot
take it now (429, 502, 503, 504): after the time that the provider asks for, else by exponential backoff with full
jitter. Attempts and time are bounded.

But ``Idempotency-Key`` is not in the text of Skill Sharing, and what may have arrived must not be executed twice. So it
goes out again only where the descriptor lets it (``endpoint.retry``), the provider has just asked for it, or it says
to ``OPTIONS`` that it takes the field: whoever lets scripts send it knows what it is for.

An origin that fails again and again is left alone for a while (:mod:`skillwire.wire.circuit`); what would be handed in
there is refused at once.

Time, chance and pauses come from outside. Spec: SSP §5.2, §8.3. Trust: answers are hostile; what they ask for in time
is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from skillwire import limits
from skillwire.errors import FetchError, Place, SkillwireError
from skillwire.model.url import parse_url
from skillwire.protocols.skill_sharing.invoke import ask_fields, submit
from skillwire.resolver.flow import Pause, fetch
from skillwire.wire.pace import pause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillwire.model.call_record import CallRecord
    from skillwire.protocols.skill_sharing.answers import Answer
    from skillwire.protocols.skill_sharing.messages import InvocationEndpoint
    from skillwire.resolver.flow import Flow
    from skillwire.wire.circuit import Circuits
    from skillwire.wire.exchange import Exchange, HttpRequest

#: Seconds of the first pause and of the longest, where neither the provider nor the descriptor says more.
BASE: Final = 0.5
CAP: Final = 30.0
#: Statuses that say that the provider cannot take a request now.
BUSY: Final = frozenset({429, 502, 503, 504})
_GRACE: Final = 5.0  # seconds beyond the end for an answer: one that comes late says more than none
_OVERLOADED: Final = frozenset({502, 503, 504})
_LOST: Final = frozenset({"CONNECT_FAILED", "CONNECTION_LOST", "TIMEOUT", "HOST_NOT_FOUND"})
#: Errors after which nobody knows whether a call has arrived; the others say that it has not.
_UNSEEN: Final = frozenset({"CONNECTION_LOST", "TIMEOUT", "HTTP_SYNTAX"})
_TAKEN_UP: Final = (
    "It may have been accepted. Make the same call again within a quarter of an hour: it is not executed twice."
)


class CallBook(Protocol):
    """What is remembered of calls; :class:`skillwire.adapters.files.calls.FileCalls` fills it."""

    def caller_id(self, origin: str) -> str:
        """Return the name under which ``origin`` knows us."""

    def begin(self, record: CallRecord, sameness: bytes, *, may_take_up: bool) -> CallRecord:
        """Keep and hold a call that is about to be sent, or take up the same one of a moment ago."""

    def answered(self, record: CallRecord) -> None:
        """Keep what the provider calls the execution."""

    def drop(self, record: CallRecord) -> None:
        """Forget a call that was refused, or answered at once."""

    def release(self, record: CallRecord) -> None:
        """Let go of a call that is not being sent any more."""

    def find(self, text: str) -> list[CallRecord]:
        """Return the calls whose execution has this id, or whose status has this URL."""


class Line(NamedTuple):
    """What calls go out through.

    Args:
        circuits: of the client.
        now: seconds that only grow.
        chance: returns a number from 0 to 1.
        credential: URL and the name of a header field → the header fields of the credential that goes there.
    """

    circuits: Circuits
    now: Callable[[], float]
    chance: Callable[[], float]
    credential: Callable[[str, str | None], Mapping[str, str]]


class Patience(NamedTuple):
    """How often a call is handed in, and the seconds of the first pause.

    ``is_allowed`` when the descriptor lets a call be sent again that may have arrived.
    """

    attempts: int = limits.CALL_ATTEMPTS
    base: float = BASE
    is_allowed: bool = False


def patience_of(endpoint: InvocationEndpoint) -> Patience:
    """Return how often a descriptor lets a call be handed in, within our own bounds. Spec: SSP §3.5.3."""
    if not endpoint.retry:
        return Patience()
    attempts = min(int(endpoint.retry.max_attempts) + 1, limits.CALL_ATTEMPTS)
    return Patience(attempts, endpoint.retry.backoff_ms / 1000 or BASE, is_allowed=True)


def hand_in(request: HttpRequest, line: Line, patience: Patience, *, end: float) -> Flow[Answer]:
    """Hand a call in; return the answer, which may be the provider's refusal.

    Args:
        request: of :func:`~skillwire.protocols.skill_sharing.invoke.invocation`.
        line: what it goes out through.
        patience: as the descriptor has it.
        end: when nobody waits for an answer any more; long before it, no new attempt is made.

    Raises:
        FetchError: the network failed to the end, and the fix says whether the call may have been accepted by an
            attempt before; ``CIRCUIT_OPEN``.
        TrustError, DecodeError, ValidationError: as the exchange says.
    """
    made, outcome, is_unseen, may_repeat = 0, None, False, patience.is_allowed
    retry_end = min(end, line.now() + limits.CALL_SUBMIT_SECONDS)
    while (rest := line.circuits.ask(parse_url(request.url).origin)) == 0:
        left = max(end - line.now(), 0.0) + _GRACE
        try:
            attempt = submit(request._replace(timeout=min(request.timeout, left)))
            outcome = yield from converse(attempt, request.url, line)
        except FetchError as error:
            raise _told_of(error, is_unseen=is_unseen) from None
        made += 1
        is_unseen = _is_unseen(outcome, before=is_unseen)
        most, hint = patience.attempts, None
        if not isinstance(outcome, FetchError):
            if outcome.status not in BUSY or outcome.is_permanent:
                return outcome
            hint = outcome.retry_after
            most = most if outcome.most_retries is None else min(most, int(outcome.most_retries) + 1)
        seconds = pause(hint, made - 1, line.chance(), base=patience.base, cap=CAP)
        if made >= most or line.now() + seconds > retry_end:
            break
        yield Pause(seconds)
        if not may_repeat and hint is None and _may_have_arrived(outcome):
            may_repeat = yield from _takes_keys(request.url)
            if not may_repeat:
                break
    if outcome is None:
        raise _left_alone(request.url, rest)
    if isinstance(outcome, FetchError):
        raise _told_of(outcome, is_unseen=is_unseen)
    return outcome


def _takes_keys(url: str) -> Flow[bool]:
    """Return whether the provider says that it takes ``Idempotency-Key``; how it takes calls, that does not say."""
    try:
        answer = yield from fetch(ask_fields(url))
    except SkillwireError:  # it says nothing of use
        return False
    return answer.takes_keys


def _may_have_arrived(outcome: Answer | FetchError) -> bool:
    return outcome.code in _UNSEEN if isinstance(outcome, FetchError) else outcome.may_be_accepted


def _is_unseen(outcome: Answer | FetchError, *, before: bool) -> bool:
    """Return whether nobody knows if a call has arrived, by this attempt or one ``before``; a refusal says so, too."""
    if before and not isinstance(outcome, FetchError) and outcome.error is not None:
        outcome.error.may_be_accepted = True
    return before or _may_have_arrived(outcome)


def _told_of(error: FetchError, *, is_unseen: bool) -> FetchError:
    """Return ``error`` with what it means for the call: of several attempts, the last says nothing of those before."""
    error.may_be_accepted = is_unseen or error.code in _UNSEEN
    if error.may_be_accepted:
        error.fix = _TAKEN_UP
    return error


def converse(exchange: Exchange[Answer], url: str, line: Line) -> Flow[Answer | FetchError]:
    """Hold one conversation and tell the circuit of its outcome; return the answer, or an error that may pass."""
    origin = parse_url(url).origin
    try:
        answer = yield from fetch(exchange)
    except FetchError as error:
        if error.code not in _LOST:
            raise
        line.circuits.failed(origin)
        return error
    if answer.status in _OVERLOADED and not answer.is_permanent:
        line.circuits.failed(origin)
    else:
        line.circuits.passed(origin)
    return answer


def _left_alone(url: str, seconds: float) -> FetchError:
    origin = parse_url(url).origin
    message = f"{origin} has failed {int(limits.CIRCUIT_FAILURES)} times in a row and is left alone for {seconds:.0f} s"
    error = FetchError("CIRCUIT_OPEN", message, place=Place(url))
    error.may_be_accepted = False
    return error
