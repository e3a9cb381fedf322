"""Submitting a call so that the provider executes it once, and following its execution to the output.

A call keeps one key for all attempts, so a provider that knows ``Idempotency-Key`` executes it once. It is sent again
when the network fails or the provider is busy (429, 502, 503, 504, and 408 with advice to retry), after the provider's
pause or an exponential backoff with full jitter. That key is not in the text of Skill Sharing, so a call that may have
arrived is sent again only if the descriptor allows it (``endpoint.retry``), the provider has just asked to retry, or
its answer to ``OPTIONS`` allows the field. A call to an origin that failed repeatedly is refused at once
(:mod:`skillwire.wire.pacing`).

The provider is asked to wait for a change (``Prefer: wait``), and for a change only (``If-None-Match``). One that
answers at once is asked again after ``Retry-After``, or after growing pauses. Following goes on through single failures
and an open circuit; repeated failures raise an error with the command that asks again later.

Time, chance and pauses come from outside. Spec: SSP §5.2, §5.4, §8.3. Trust: answers are hostile; the number of
requests, and the time that a server can make a client wait, are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from msgspec import UNSET

from skillwire import limits
from skillwire.errors import FetchError, SkillwireError, SourceLocation, in_seconds
from skillwire.model.execution import ExecutionStatus
from skillwire.model.remote_execution import CallRecord, RemoteExecution, RemoteFailure
from skillwire.model.url import parse_url, resolve_url
from skillwire.protocols.skill_sharing.calls import Answer, cancel, fetch_result, fetch_status, status_headers, submit
from skillwire.protocols.skill_sharing.messages import InvocationEndpoint, InvocationResponse
from skillwire.wire.exchange import Flow, HttpRequest, Sleep
from skillwire.wire.pacing import Circuits, pause

#: Seconds of the first and of the longest pause, unless provider or descriptor say otherwise.
BASE: Final = 0.5
CAP: Final = 30.0
#: Statuses of a provider that cannot take a request now.
BUSY: Final = frozenset({429, 502, 503, 504})
_REQUEST_TIMEOUT: Final = 408  # an execution that timed out, as 504; retried where the answer advises it
_GRACE: Final = 5.0  # seconds beyond the end for an answer: a late one is better than none
_OVERLOADED: Final = frozenset({502, 503, 504})
_LOST: Final = frozenset({"CONNECT_FAILED", "CONNECTION_LOST", "TIMEOUT", "HOST_NOT_FOUND"})
#: Errors after which a call may have arrived; after others it has not.
UNSEEN: Final = frozenset({"CONNECTION_LOST", "TIMEOUT", "HTTP_SYNTAX"})
_REPEATABLE: Final = (
    "It may have been accepted. Make the same call again within a quarter of an hour: it is not executed twice."
)


class SubmitContext(NamedTuple):
    """The client's circuits, monotonic seconds, a chance from 0 to 1, and the credentials of calls.

    ``credential``: URL and name of a header field → header fields for that URL.
    """

    circuits: Circuits
    now: Callable[[], float]
    chance: Callable[[], float]
    credential: Callable[[str, str | None], Mapping[str, str]]


class Patience(NamedTuple):
    """The number of attempts, and the seconds of the first pause.

    ``is_allowed``: the descriptor permits sending a call again that may have arrived.
    """

    attempts: int = limits.CALL_ATTEMPTS
    base: float = BASE
    is_allowed: bool = False


def patience_of(endpoint: InvocationEndpoint) -> Patience:
    """Return the attempts that a descriptor permits, within our own bounds. Spec: SSP §3.5.3."""
    if not endpoint.retry:
        return Patience()
    attempts = min(int(endpoint.retry.max_attempts) + 1, limits.CALL_ATTEMPTS)
    return Patience(attempts, endpoint.retry.backoff_ms / 1000 or BASE, is_allowed=True)


def submit_until(
    request: HttpRequest, skill_id: str, line: SubmitContext, patience: Patience, *, end: float
) -> Flow[Answer]:
    """Submit a call until ``end``; return the answer, which may be a refusal.

    Raises:
        FetchError: the network failed, and ``may_be_accepted`` covers all attempts; ``CIRCUIT_OPEN``.
    """
    made, outcome, is_unseen, may_repeat = 0, None, False, patience.is_allowed
    retry_end = min(end, line.now() + limits.CALL_SUBMIT_SECONDS)
    while (rest := line.circuits.ask(parse_url(request.url).origin)) == 0:
        left = max(end - line.now(), 0.0) + _GRACE
        try:
            attempt = submit(request._replace(timeout=min(request.timeout, left)), skill_id)
            outcome = yield from request_through_circuit(attempt, request.url, line)
        except FetchError as error:
            raise _with_outcome(error, is_unseen=is_unseen) from None
        made += 1
        was_unseen, is_unseen = is_unseen, is_unseen or _may_have_arrived(outcome)
        most, hint = patience.attempts, None
        if not isinstance(outcome, FetchError):
            if was_unseen and outcome.error is not None:
                outcome.error.may_be_accepted = True
            is_timeout = outcome.status == _REQUEST_TIMEOUT and outcome.retry_after is not None
            if (outcome.status not in BUSY and not is_timeout) or outcome.is_permanent:
                return outcome
            hint = outcome.retry_after
            most = most if outcome.most_retries is None else min(most, int(outcome.most_retries) + 1)
        seconds = pause(hint, made - 1, line.chance(), base=patience.base, cap=CAP)
        if made >= most or line.now() + seconds > retry_end:
            break
        yield Sleep(seconds)
        is_safe = may_repeat or hint is not None or not _may_have_arrived(outcome)
        if not is_safe and not (may_repeat := (yield from _takes_keys(request.url))):
            break
    if outcome is None:
        origin, failures = parse_url(request.url).origin, int(limits.CIRCUIT_FAILURES)
        message = f"{origin} has failed {failures} times in a row; it gets no requests for {in_seconds(rest)}"
        blocked = FetchError("CIRCUIT_OPEN", message, place=SourceLocation(request.url))
        blocked.may_be_accepted = False
        raise blocked
    if isinstance(outcome, FetchError):
        raise _with_outcome(outcome, is_unseen=is_unseen)
    return outcome


def _takes_keys(url: str) -> Flow[bool]:
    try:
        return (yield from status_headers(url)).takes_keys
    except SkillwireError:
        return False


def _may_have_arrived(outcome: Answer | FetchError) -> bool:
    return outcome.code in UNSEEN if isinstance(outcome, FetchError) else outcome.may_be_accepted


def _with_outcome(error: FetchError, *, is_unseen: bool) -> FetchError:
    """Return ``error``, marked if this or an earlier attempt may have been accepted."""
    error.may_be_accepted = is_unseen or error.code in UNSEEN
    if error.may_be_accepted:
        error.fix = _REPEATABLE
    return error


def request_through_circuit(exchange: Flow[Answer], url: str, line: SubmitContext) -> Flow[Answer | FetchError]:
    """Run one exchange and update the circuit; return the answer, or an error that may be temporary."""
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


#: Statuses after which a status request is repeated: it executes nothing twice.
_AGAIN: Final = BUSY | {408, 425, 500}
_POLL_CAP: Final = 5.0  # seconds between two requests, unless the provider says otherwise
_GROWTH: Final = 1.5
_AT_ONCE: Final = 1.0  # seconds; a provider that was asked to wait and answers within them has not waited
_QUICK_CHANGES: Final = 4  # plausible answers at once; after more, the server ignores Prefer: wait
_LAST_LOOK: Final = 5.0  # seconds for one more request at the end of the time, which may have the result
_LAST_WAIT: Final = 1.0  # seconds of these that the provider may wait: its clock is not ours
_FORGOTTEN: Final = (
    "Providers delete executions and outputs after a time, and show them to their caller only: check the id and the"
    " login, or call the skill again."
)
_ONE_QUESTION: Final = 60.0  # seconds for one request with all attempts
_GLANCE: Final = 5.0  # the same while a person waits for the status


def known(record: CallRecord) -> RemoteExecution:
    """Return the execution of a stored call, before its provider was asked."""
    return RemoteExecution(
        execution_id=record.execution_id,
        skill_id=record.skill_id,
        reference=record.reference,
        status=ExecutionStatus.ACCEPTED,
        status_url=record.status_url,
        result_url=record.result_url,
    )


def updated(execution: RemoteExecution, response: InvocationResponse) -> RemoteExecution:
    """Return the execution with the status of ``response``."""
    stamps, failure, error = response.timestamps, None, response.error
    if error:
        delay = max(error.retry.suggested_delay_ms, 0) / 1000 if error.retry else None
        failure = RemoteFailure(error.code, error.message, None if error.details is UNSET else error.details, delay)
    return replace(
        execution,
        execution_id=response.execution_id,
        skill_id=execution.skill_id or response.skill_id,
        status=response.status,
        output=None if response.output is UNSET else response.output,
        error=failure,
        created_at=stamps.created_at,
        updated_at=stamps.updated_at,
        completed_at=stamps.completed_at or "",
    )


def status_place(answer: Answer, url: str, described: str | None) -> str | None:
    """Return the status URL of an execution, from the descriptor or else from the answer.

    Trust: a ``Location`` at another origin than ``url`` is ignored, since a credential would go there.
    """
    if described is not None or answer.location is None:
        return described
    try:
        found = resolve_url(parse_url(url), answer.location)
    except SkillwireError:
        return None
    return str(found) if found.origin == parse_url(url).origin else None


class ExecutionFollower:
    """Follows one execution; ``execution`` is its latest known state.

    ``on_change`` is called at each new status. ``answer`` is the one that ``execution`` was read from, if any.
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
        self._same = 0  # consecutive answers without a change
        self._failure: SkillwireError | None = None  # of the last request, until there is an answer

    def follow_until(self, end: float) -> Flow[RemoteExecution]:
        """Follow it until its final status, or until ``end``; return it.

        Raises:
            FetchError: repeated failures, or a refusal; ``ENDPOINT_UNREACHABLE`` without a status URL.
            NotFoundError: the provider does not know it, or no longer.
        """
        while not self.execution.is_final:
            left = end - self._line.now()
            if left <= 0:
                url, failure = self._url(), self._failure
                if self._line.circuits.ask(parse_url(url).origin) > 0:
                    if failure is not None:
                        raise self._silent()
                    return self.execution
                etag = self._answer.etag if self._answer is not None else None
                ask = partial(fetch_status, etag=etag, wait=_LAST_WAIT)
                outcome = yield from request_through_circuit(_hurried(self._request(ask, url)), url, self._line)
                if isinstance(outcome, Answer) and outcome.response is not None:
                    self._take(outcome)
                elif failure is not None and isinstance(outcome, FetchError):
                    raise self._silent()
                return (yield from self._complete())
            yield from self._poll(end)
        return (yield from self._complete())

    def follow_once(self, seconds: float) -> Flow[RemoteExecution]:
        """Return it after one more answer of its provider, which may have no change; failures as of ``follow_until``.

        The provider may wait for a change, but not longer than ``seconds``.
        """
        if not self.execution.is_final:
            yield from self._poll(self._line.now() + seconds)
        return (yield from self._complete())

    def look_once(self) -> Flow[RemoteExecution]:
        """Return its status now, with its output if there is one; failures are raised after a few seconds."""
        try:
            return (yield from self._finish(fetch_status, _GLANCE))
        except FetchError as error:
            if error.code == "TIMEOUT" and self._failure is not None:
                raise self._resumable(self._failure) from None
            raise

    def cancel(self) -> Flow[RemoteExecution]:
        """Cancel it; return it as it ended, which may not be cancelled."""
        return (yield from self._finish(cancel, _ONE_QUESTION))

    def _finish(self, ask: Callable[..., Flow[Answer]], seconds: float) -> Flow[RemoteExecution]:
        url = self._url()
        answer = yield from self._ask(ask, url, self._line.now() + seconds)
        self._take(answer)
        return (yield from self._complete(seconds))

    def _poll(self, end: float) -> Flow[None]:
        left = end - self._line.now()
        if (seconds := min(self._pause(), left)) > 0:
            yield Sleep(seconds)
            left = max(end - self._line.now(), 0.0)
        self._asked = self._line.now()
        wait, etag = min(left, float(limits.CALL_LONG_POLL_SECONDS)), self._answer.etag if self._answer else None
        answer = yield from self._ask(partial(fetch_status, etag=etag, wait=wait), self._url(), end)
        if answer is None:  # no time is left for another attempt
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
        """Return the execution, with its output fetched if it has completed and its status had none."""
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
        """Ask until there is an answer; None at the end of the time. Raises repeated failures and refusals."""
        line, failures = self._line, 0
        while True:
            if (rest := line.circuits.ask(parse_url(url).origin)) > 0:
                if line.now() + rest > end:
                    return None
                yield Sleep(rest)
                continue
            outcome = yield from request_through_circuit(self._request(ask, url), url, line)
            failure, hint = (outcome.error, outcome.retry_after) if isinstance(outcome, Answer) else (outcome, None)
            self._failure = failure
            if isinstance(outcome, Answer) and failure is None:
                return outcome
            assert failure is not None  # noqa: S101  # of the answer, or instead of it
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

    def _request(self, ask: Callable[..., Flow[Answer]], url: str) -> Flow[Answer]:
        credential = self._line.credential(url, self._record.header)
        return ask(url, credential, execution_id=self._record.execution_id, skill_id=self._record.skill_id)

    def _pause(self) -> float:
        """Return the seconds until the next request: 0 after a server that waited as requested."""
        answer = self._answer
        if answer is None:
            return 0.0
        has_waited = answer.waited and (
            self._line.now() - self._asked >= _AT_ONCE or (not self._same and self._at_once < _QUICK_CHANGES)
        )
        if has_waited:
            return 0.0
        grown = min(BASE * _GROWTH ** min(self._same, limits.CALL_POLL_FAILURES), _POLL_CAP)
        if answer.retry_after is None:  # half of it is fixed, since chance alone could send many requests at once
            return grown / 2 + pause(None, 0, self._line.chance(), base=grown / 2, cap=_POLL_CAP)
        seconds = pause(answer.retry_after, 0, self._line.chance(), base=grown, cap=_POLL_CAP)
        return min(max(seconds, BASE / 2), float(limits.CALL_PAUSE_SECONDS))

    def _url(self) -> str:
        url = self.execution.status_url
        if url is None:
            message = f"the provider accepted {self.execution.execution_id} without a status URL"
            raise FetchError("ENDPOINT_UNREACHABLE", message, place=SourceLocation(self._record.url))
        return url

    def _silent(self) -> SkillwireError:
        message, last = "the provider does not answer", self._failure
        if last is not None:
            message = f"{message}; the last attempt: {last.code}, {last.message}"
        return self._resumable(FetchError("TIMEOUT", message, place=SourceLocation(self._url())))

    def _resumable(self, error: SkillwireError) -> SkillwireError:
        name = self._record.execution_id or self._url()
        error.fix = f"It may still run at the provider. Ask again later: skillwire executions result {name}."
        error.in_python = f"client.result({name!r})"
        return error


def _hurried(exchange: Flow[Answer]) -> Flow[Answer]:
    """Run an exchange with one request of a few seconds; a redirect is not followed."""
    request = next(exchange)
    assert isinstance(request, HttpRequest)  # noqa: S101  # an exchange begins with one
    try:
        exchange.send((yield request._replace(timeout=_LAST_LOOK)))
    except StopIteration as stop:
        answer: Answer = stop.value
        return answer
    return Answer(0)
