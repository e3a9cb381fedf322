"""Handing a call in: once for the provider, however often it takes on the way.

A call goes out under a key that stays the same for all attempts, so a provider that knows ``Idempotency-Key`` executes
it once, however often it arrives. It is sent again when the network fails, and when the provider says that it cannot
take it now (429, 502, 503, 504): after the time that the provider asks for, else by exponential backoff with full
jitter. Attempts and time are bounded.

But ``Idempotency-Key`` is not in the text of Skill Sharing, and what may have arrived must not be executed twice. So it
goes out again only where the descriptor lets it (``endpoint.retry``), the provider has just asked to retry, or its
answer to ``OPTIONS`` allows the field.

An origin that fails again and again is left alone for a while (:mod:`skillwire.wire.pacing`); what would be handed in
there is refused at once.

Time, chance and pauses come from outside. Spec: SSP §5.2, §8.3. Trust: answers are hostile; what they ask for in time
is bounded.

Following an execution, from the moment it was accepted to what it gave.

The provider is asked to wait for news (``Prefer: wait``), and for those alone (``If-None-Match``). One that answers at
once is asked again after ``Retry-After``, or after pauses that grow. An execution that was accepted is not given up for
a failure or two, nor because the circuit of its origin is open: only when one question after the other fails is
an error raised, with the command that asks again later.

Time, chance and pauses come from outside. Spec: SSP §5.2, §5.4. Trust: answers are hostile; a server decides neither
how often it is asked nor how long a client waits, beyond our bounds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from msgspec import UNSET

from skillwire import limits
from skillwire.errors import FetchError, SkillwireError, SourceLocation
from skillwire.model.execution import ExecutionStatus, RemoteExecution, RemoteFailure
from skillwire.model.url import parse_url, resolve_url
from skillwire.protocols.skill_sharing.calls import Answer, cancel, fetch_result, fetch_status, status_headers, submit
from skillwire.wire.exchange import HttpRequest, Sleep
from skillwire.wire.pacing import pause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillwire.model.execution import CallRecord
    from skillwire.protocols.skill_sharing.messages import ErrorBody, InvocationEndpoint, InvocationResponse
    from skillwire.wire.exchange import Flow
    from skillwire.wire.pacing import Circuits


#: Seconds of the first pause and of the longest, where neither the provider nor the descriptor says more.
BASE: Final = 0.5
CAP: Final = 30.0
#: Statuses that say that the provider cannot take a request now.
BUSY: Final = frozenset({429, 502, 503, 504})
_GRACE: Final = 5.0  # seconds beyond the end for an answer: one that comes late says more than none
_OVERLOADED: Final = frozenset({502, 503, 504})
_LOST: Final = frozenset({"CONNECT_FAILED", "CONNECTION_LOST", "TIMEOUT", "HOST_NOT_FOUND"})
#: Errors after which it is unknown whether a call has arrived; after the others it has not.
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


class SubmitContext(NamedTuple):
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


def submit_until(request: HttpRequest, line: SubmitContext, patience: Patience, *, end: float) -> Flow[Answer]:
    """Hand a call in; return the answer, which may be the provider's refusal.

    Args:
        request: of :func:`~skillwire.protocols.skill_sharing.calls.invocation`.
        line: what it goes out through.
        patience: as the descriptor has it.
        end: when the caller stops waiting; long before it, no new attempt is made.

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
            outcome = yield from request_through_circuit(attempt, request.url, line)
        except FetchError as error:
            raise _with_outcome(error, is_unseen=is_unseen) from None
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
        yield Sleep(seconds)
        if not may_repeat and hint is None and _may_have_arrived(outcome):
            may_repeat = yield from _takes_keys(request.url)
            if not may_repeat:
                break
    if outcome is None:
        raise _circuit_open(request.url, rest)
    if isinstance(outcome, FetchError):
        raise _with_outcome(outcome, is_unseen=is_unseen)
    return outcome


def _takes_keys(url: str) -> Flow[bool]:
    """Return whether the provider says that it takes ``Idempotency-Key``; how it takes calls, that does not say."""
    try:
        answer = yield from status_headers(url)
    except SkillwireError:  # it says nothing of use
        return False
    return answer.takes_keys


def _may_have_arrived(outcome: Answer | FetchError) -> bool:
    return outcome.code in _UNSEEN if isinstance(outcome, FetchError) else outcome.may_be_accepted


def _is_unseen(outcome: Answer | FetchError, *, before: bool) -> bool:
    """Return whether a call may have arrived, by this attempt or one ``before``; a refusal is marked so, too."""
    if before and not isinstance(outcome, FetchError) and outcome.error is not None:
        outcome.error.may_be_accepted = True
    return before or _may_have_arrived(outcome)


def _with_outcome(error: FetchError, *, is_unseen: bool) -> FetchError:
    """Return ``error`` with what it means for the call: of several attempts, the last says nothing of those before."""
    error.may_be_accepted = is_unseen or error.code in _UNSEEN
    if error.may_be_accepted:
        error.fix = _TAKEN_UP
    return error


def request_through_circuit(exchange: Flow[Answer], url: str, line: SubmitContext) -> Flow[Answer | FetchError]:
    """Hold one conversation and tell the circuit of its outcome; return the answer, or an error that may pass."""
    origin = parse_url(url).origin
    try:
        answer = yield from exchange
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


def _circuit_open(url: str, seconds: float) -> FetchError:
    origin = parse_url(url).origin
    message = f"{origin} has failed {int(limits.CIRCUIT_FAILURES)} times in a row and is left alone for {seconds:.0f} s"
    error = FetchError("CIRCUIT_OPEN", message, place=SourceLocation(url))
    error.may_be_accepted = False
    return error


#: A question may also be asked again where an invocation might be executed twice, or would fail in the same way.
_AGAIN: Final = BUSY | {408, 425, 500}
_POLL_CAP: Final = 5.0  # seconds between two questions, where the provider says nothing
_GROWTH: Final = 1.5
_AT_ONCE: Final = 1.0  # seconds; who was asked to wait and answers within them has not waited
_NEWS: Final = 4  # answers at once that may well be news; more are a server that does not do what it says
_LAST_LOOK: Final = 5.0  # seconds for one more question when the time is over, which may tell the end
_LAST_WAIT: Final = 1.0  # seconds of these that the provider may wait: its clock is not ours
_FORGOTTEN: Final = (
    "Providers forget executions and outputs after a time, and show them to who called alone: check the id and the"
    " login, or call the skill again."
)
_ONE_QUESTION: Final = 60.0  # seconds for what is asked once, with all attempts
_GLANCE: Final = 5.0  # the same for a single look, while a person waits


def accepted(response: InvocationResponse, record: CallRecord) -> RemoteExecution:
    """Return the execution that a provider has accepted."""
    return updated(known(record), response)


def known(record: CallRecord) -> RemoteExecution:
    """Return the execution of a remembered call, before its provider was asked."""
    return RemoteExecution(
        execution_id=record.execution_id,
        skill_id=record.skill_id,
        reference=record.reference,
        status=ExecutionStatus.ACCEPTED,
        status_url=record.status_url,
        result_url=record.result_url,
    )


def updated(execution: RemoteExecution, response: InvocationResponse) -> RemoteExecution:
    """Return the execution as ``response`` tells it."""
    stamps = response.timestamps
    return replace(
        execution,
        execution_id=response.execution_id,
        skill_id=execution.skill_id or response.skill_id,
        status=response.status,
        output=None if response.output is UNSET else response.output,
        error=_failure(response.error) if response.error else None,
        created_at=stamps.created_at,
        updated_at=stamps.updated_at,
        completed_at=stamps.completed_at or "",
    )


def status_place(answer: Answer, url: str, described: str | None) -> str | None:
    """Return the status URL of an execution: as the descriptor says, else as the answer does.

    Trust: ``Location`` may name any place; one of another origin than ``url`` is passed over, as a credential would
    go there.
    """
    if described is not None or answer.location is None:
        return described
    try:
        found = resolve_url(parse_url(url), answer.location)
    except SkillwireError:
        return None
    return str(found) if found.origin == parse_url(url).origin else None


class ExecutionFollower:
    """Follows one execution.

    Args:
        execution: as it is known; ``execution`` is how it stands, at any time.
        record: how it is asked for.
        line: what questions go out through.
        on_change: called at each new status.
        answer: the one that ``execution`` was read from, with what it says about time; None before the first answer.
    """

    def __init__(
        self,
        execution: RemoteExecution,
        record: CallRecord,
        line: SubmitContext,
        on_change: Callable[[RemoteExecution], object] = lambda _: None,
        answer: Answer | None = None,
    ) -> None:
        self.execution = execution
        self._record = record
        self._line = line
        self._on_change = on_change
        self._answer = answer
        self._asked = line.now()
        self._at_once = 0
        self._same = 0  # answers without news, one after the other
        self._failure: SkillwireError | None = None  # of the last question, while there is no answer

    def follow_until(self, end: float) -> Flow[RemoteExecution]:
        """Follow it until nothing follows, or until ``end``; return it as it is then.

        Raises:
            FetchError: question after question failed, or the provider refuses to tell; ``ENDPOINT_UNREACHABLE``
                where nothing says how to ask.
            NotFoundError: the provider does not know it (any more).
            TrustError, DecodeError, ValidationError: as the exchange says.
        """
        while not self.execution.is_final:
            left = end - self._line.now()
            if left <= 0:
                return (yield from self._look_last())
            if (seconds := min(self._pause(), left)) > 0:
                yield Sleep(seconds)
                left = max(end - self._line.now(), 0.0)
            self._asked = self._line.now()
            yield from self._ask_for_news(min(left, float(limits.CALL_LONG_POLL_SECONDS)), end)
        return (yield from self._complete())

    def look_once(self) -> Flow[RemoteExecution]:
        """Ask once how far it is; with its output, when it has one. Raises what :meth:`follow_until` does.

        A failure is not waited out for long, and is raised as it is.
        """
        try:
            return (yield from self._finish(fetch_status, _GLANCE))
        except FetchError as error:
            if error.code == "TIMEOUT" and self._failure is not None:
                raise self._resumable(self._failure) from None
            raise

    def cancel(self) -> Flow[RemoteExecution]:
        """Cancel it; return it as it ended, which may be otherwise. Raises what :meth:`follow_until` does."""
        return (yield from self._finish(cancel, _ONE_QUESTION))

    def _finish(self, ask: Callable[..., Flow[Answer]], seconds: float) -> Flow[RemoteExecution]:
        url = self._url()
        answer = yield from self._ask(ask, url, self._line.now() + seconds)
        self._take(answer)
        return (yield from self._complete(seconds))

    def _ask_for_news(self, wait: float, end: float) -> Flow[None]:
        etag = self._answer.etag if self._answer is not None else None
        answer = yield from self._ask(partial(fetch_status, etag=etag, wait=wait), self._url(), end)
        if answer is None:  # there is no time for another attempt
            if (left := end - self._line.now()) > 0:
                yield Sleep(left)
            return
        self._same += 1
        self._at_once += self._line.now() - self._asked < _AT_ONCE
        self._answer = answer._replace(etag=answer.etag or etag)
        self._take(answer)

    def _take(self, answer: Answer | None) -> None:
        if answer is None:
            raise self._silent()
        if answer.response is None:
            return
        before, self._answer = self.execution, answer
        self.execution = updated(before, answer.response)
        if self.execution.status is not before.status:
            self._same = 0
            self._on_change(self.execution)

    def _complete(self, seconds: float = _ONE_QUESTION) -> Flow[RemoteExecution]:
        """Return the execution; fetch its output first, where it has completed and its status did not have it."""
        url, response = self.execution.result_url, self._answer.response if self._answer is not None else None
        has_output = response is not None and response.output is not UNSET
        if not self.execution.is_completed or has_output or url is None:
            return self.execution
        answer = yield from self._ask(fetch_result, url, self._line.now() + seconds)
        if answer is None:
            raise self._silent()
        if answer.output is not None:
            value, media_type = answer.output
            self.execution = replace(self.execution, output=value, content_type=media_type)
        elif answer.response is not None and answer.response.output is not UNSET:
            self.execution = replace(self.execution, output=answer.response.output)
        return self.execution

    def _ask(self, ask: Callable[..., Flow[Answer]], url: str, end: float) -> Flow[Answer | None]:
        """Ask until there is an answer; None when the time is over before.

        Raises:
            SkillwireError: question after question failed, or the provider refuses.
        """
        line, failures = self._line, 0
        while True:
            if (rest := line.circuits.ask(parse_url(url).origin)) > 0:
                if line.now() + rest > end:
                    return None
                yield Sleep(rest)
                continue
            outcome = yield from request_through_circuit(self._question(ask, url), url, line)
            failure, hint = (outcome.error, outcome.retry_after) if isinstance(outcome, Answer) else (outcome, None)
            self._failure = failure
            if isinstance(outcome, Answer) and failure is None:
                return outcome
            assert failure is not None  # noqa: S101  # the answer is one, or there was none
            if isinstance(outcome, Answer) and (outcome.status not in _AGAIN or outcome.is_permanent):
                if failure.code == "SKILL_NOT_FOUND":
                    failure.fix = _FORGOTTEN
                raise failure
            failures += 1
            if failures >= limits.CALL_POLL_FAILURES:
                raise self._resumable(failure)
            seconds = min(pause(hint, failures - 1, line.chance(), base=BASE, cap=CAP), limits.CALL_PAUSE_SECONDS)
            if line.now() + seconds > end:
                return None
            yield Sleep(seconds)

    def _question(self, ask: Callable[..., Flow[Answer]], url: str) -> Flow[Answer]:
        credential = self._line.credential(url, self._record.header)
        return ask(url, credential, execution_id=self._record.execution_id)

    def _look_last(self) -> Flow[RemoteExecution]:
        """Ask once more, now that the time is over: a provider with the same limit may just have ended it.

        Raises:
            FetchError: ``TIMEOUT``, the provider has not answered for a while.
        """
        url, failure = self._url(), self._failure
        if self._line.circuits.ask(parse_url(url).origin) > 0:
            if failure is not None:
                raise self._silent()
            return self.execution
        etag = self._answer.etag if self._answer is not None else None
        ask = partial(fetch_status, etag=etag, wait=_LAST_WAIT)
        outcome = yield from request_through_circuit(_hurried(self._question(ask, url)), url, self._line)
        if isinstance(outcome, Answer) and outcome.response is not None:
            self._take(outcome)
        elif failure is not None and isinstance(outcome, FetchError):
            raise self._silent()
        return (yield from self._complete())

    def _pause(self) -> float:
        """Return the seconds until the next question: none after a server that has waited as it was asked to."""
        answer = self._answer
        if answer is None:
            return 0.0
        has_waited = answer.waited and (
            self._line.now() - self._asked >= _AT_ONCE or (not self._same and self._at_once < _NEWS)
        )
        if has_waited:
            return 0.0
        grown = min(BASE * _GROWTH ** min(self._same, limits.CALL_POLL_FAILURES), _POLL_CAP)
        if answer.retry_after is None:  # half of it is certain: chance alone might make a hail of questions
            return grown / 2 + pause(None, 0, self._line.chance(), base=grown / 2, cap=_POLL_CAP)
        seconds = pause(answer.retry_after, 0, self._line.chance(), base=grown, cap=_POLL_CAP)
        return min(max(seconds, BASE / 2), float(limits.CALL_PAUSE_SECONDS))

    def _url(self) -> str:
        url = self.execution.status_url
        if url is None:
            message = f"the provider accepted {self.execution.execution_id} and does not say where to ask for it"
            raise FetchError("ENDPOINT_UNREACHABLE", message, place=SourceLocation(self._record.url))
        return url

    def _silent(self) -> SkillwireError:
        message, last = "the provider does not answer", self._failure
        if last is not None:
            message = f"{message}; the last attempt: {last.code}, {last.message}"
        return self._resumable(FetchError("TIMEOUT", message, place=SourceLocation(self._url())))

    def _resumable(self, error: SkillwireError) -> SkillwireError:
        name = self._record.execution_id or self._url()
        error.fix = f"It may go on at the provider. Ask again later: skillwire executions result {name}."
        return error


def _hurried(exchange: Flow[Answer]) -> Flow[Answer]:
    """Return an exchange whose one request has only a few seconds."""
    request = next(exchange)
    assert isinstance(request, HttpRequest)  # noqa: S101  # a question begins with one
    try:
        exchange.send((yield request._replace(timeout=_LAST_LOOK)))
    except StopIteration as stop:
        answer: Answer = stop.value
        return answer
    return Answer(0)  # it leads elsewhere, and there is no time for that


def _failure(error: ErrorBody) -> RemoteFailure:
    delay = max(error.retry.suggested_delay_ms, 0) / 1000 if error.retry else None
    return RemoteFailure(error.code, error.message, None if error.details is UNSET else error.details, delay)
