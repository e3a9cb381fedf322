"""Calls of skills, from the descriptor to the output: each use case is a flow.

The descriptor and the inputs are checked before a request is sent. The call is stored before it is sent, and again with
the provider's execution id. If the process ends in between, the same call within the next minutes is sent under the
stored key, so the provider executes it once, and the user is informed.

A descriptor is untrusted and may name an endpoint at any origin. A credential for that origin acts in the user's name,
so the user must consent to its use. No consent is needed for the origin that the user named, nor for a host below it,
whose owner could obtain the credential anyway.
"""

from __future__ import annotations

import json
import math
import random
import secrets
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

from skillwire import limits
from skillwire.errors import (
    FetchError,
    NotFoundError,
    SourceLocation,
    StorageError,
    TrustError,
    UsageError,
    ValidationError,
    did_you_mean,
)
from skillwire.executions.callable_skill import InputRules, OutputRules
from skillwire.model.execution import ExecutionStatus, Priority
from skillwire.model.remote_execution import CallRecord, RemoteExecution
from skillwire.model.skill import Finding
from skillwire.model.url import Url, is_ipv4, parse_url
from skillwire.protocols.skill_sharing.calls import (
    InvocationOptions,
    credential_fields,
    credential_header,
    invocation,
    result_url,
    status_url,
)
from skillwire.resolver.calls import (
    ExecutionFollower,
    SubmitContext,
    known,
    patience_of,
    status_place,
    submit_until,
    updated,
)
from skillwire.resolver.rank import static_site
from skillwire.resolver.references import reference_to
from skillwire.wire.exchange import Flow, HttpRequest, seconds_of, work
from skillwire.wire.pacing import Circuits

if TYPE_CHECKING:
    from skillwire.adapters.files.calls import FileCalls
    from skillwire.client.credentials import OriginAccess
    from skillwire.model.ref import SkillRef
    from skillwire.protocols.skill_sharing.messages import Method, SkillDescriptor
    from skillwire.resolver.context import ResolveContext


_TOO_LARGE: Final = 413
_ID_PREFIX: Final = "exec-"
_SHORTEST: Final = 4  # characters of an abbreviated id
_LISTED: Final = 5
_MARGIN: Final = 20.0  # seconds for the answer of an endpoint beyond the time of the run

OnChange = Callable[[RemoteExecution], object]


class CallOptions(NamedTuple):
    """The options of a call; see :meth:`skillwire.Client.call`."""

    wait: bool = True
    timeout: float | None = None
    priority: str | None = None
    trace_id: str | None = None
    idempotency_key: str | None = None
    caller_id: str | None = None
    caller_type: str = "user"
    consent: bool = False
    on_change: OnChange = lambda _: None


class CallArguments(TypedDict, total=False):
    """The options of a call as keyword arguments."""

    wait: bool
    timeout: float | None
    priority: str | None
    trace_id: str | None
    idempotency_key: str | None
    caller_id: str | None
    caller_type: str
    consent: bool
    on_change: OnChange


def read_options(arguments: CallArguments) -> CallOptions:
    """Return the options of a call. Raises UsageError (``USAGE``) for an unknown one, which may be an input."""
    if unknown := next((name for name in arguments if name not in CallOptions._fields), None):
        what, options = ascii(unknown)[1:-1][:40], ", ".join(CallOptions._fields)
        fix = f"Pass inputs as one mapping, such as {{'{what}': ...}}; the options are {options}."
        raise UsageError("USAGE", f"a call has no option {what}", fix=fix)
    return CallOptions(**arguments)


class PreparedCall(NamedTuple):
    """A checked call that is not sent: its request, with ``...`` for a credential, and its inputs with defaults."""

    skill_id: str
    method: Method
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    inputs: Mapping[str, Any]


def _priority_of(text: str | None) -> Priority | None:
    if text is None:
        return None
    try:
        return Priority(text)
    except ValueError:
        raise UsageError("USAGE", f"unknown priority {ascii(text)[:40]}; use {', '.join(Priority)}") from None


def is_below(url: Url, index: Url) -> bool:
    """Whether the host of ``url`` is below that of ``index``, as ``api.example.com``, and both use https."""
    is_name = not is_ipv4(index.host) and ":" not in index.host
    return is_name and url.scheme == index.scheme == "https" and url.host.endswith(f".{index.host}")


def run_milliseconds(timeout: float | None) -> int | None:
    """Return a timeout in seconds as the whole milliseconds of a message, at least 1."""
    seconds = seconds_of(timeout)
    return None if seconds is None else max(round(seconds * 1000), 1)


def run_seconds(timeout: float | None) -> float:
    """Return how many seconds to wait for the answer to a run, which arrives when the run ends."""
    return (seconds_of(timeout) or float(limits.CALL_ANSWER_SECONDS)) + _MARGIN


class _Plan(NamedTuple):
    """A call that was checked; ``is_taken_up`` if it resumes an earlier call whose answer was lost."""

    record: CallRecord
    descriptor: SkillDescriptor
    inputs: Mapping[str, Any]
    about: InvocationOptions
    is_taken_up: bool = False


class Calls:
    """Makes and follows the calls of one client.

    Args:
        context: the context of the client.
        access: the origins that the user allows, and their credentials.
        book: stores the calls, so that a later process finds them.
        clock: returns monotonic seconds.
        chance: returns a random number from 0 to 1, for the pauses between attempts.
    """

    def __init__(
        self,
        context: ResolveContext,
        access: OriginAccess,
        book: FileCalls,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._context = context
        self._access = access
        self._clock = clock
        self._line = SubmitContext(Circuits(clock), clock, chance, self._credential)
        self._book = book

    def prepare(
        self, skill: SkillRef, descriptor: SkillDescriptor, inputs: Mapping[str, Any], arguments: CallArguments
    ) -> Flow[PreparedCall]:
        """Check a call and return its request without sending it. Raises ValidationError, UsageError, TrustError."""
        plan = yield from self._plan(skill, descriptor, inputs, read_options(arguments))
        request = self._request(plan, None)
        secret = self._line.credential(plan.record.url, plan.record.header).keys()
        headers = {name: "..." if name in secret else value for name, value in request.headers.items()}
        record, method = plan.record, plan.descriptor.endpoint.method
        return PreparedCall(record.skill_id, method, request.url, headers, request.body, plan.inputs)

    def call(
        self, skill: SkillRef, descriptor: SkillDescriptor, inputs: Mapping[str, Any], arguments: CallArguments
    ) -> Flow[RemoteExecution]:
        """Return the execution of a call once it is accepted or, with ``wait``, once it ended or its time ran out."""
        options = read_options(arguments)
        if self._context.offline:
            place = SourceLocation(descriptor.endpoint.url)
            raise FetchError("OFFLINE", "a skill cannot be called offline", place=place)
        started = self._clock()
        plan = yield from self._plan(skill, descriptor, inputs, options)
        plan = yield from self._begin(plan, may_take_up=options.idempotency_key is None)
        release = partial(self._book.release, plan.record)
        try:
            follower = yield from self._submit(plan, options, started)
        except GeneratorExit:  # the run was abandoned
            release()
            raise
        except BaseException:
            yield from work(release)
            raise
        yield from work(release)
        options.on_change(follower.execution)
        if options.wait or follower.execution.is_final:
            patience = limits.CALL_WAIT_SECONDS if options.timeout is None else options.timeout
            promised = (descriptor.endpoint.timeout_ms or math.inf) / 1000 + limits.CALL_END_SECONDS
            yield from follower.follow_until(min(started + patience, self._clock() + promised))
        if follower.execution.is_completed and not isinstance(follower.execution.output, bytes):
            flaw = OutputRules(descriptor.output.schema).find_flaw(follower.execution.output)
            if flaw is not None:
                message = f"{flaw.path} {flaw.message}"
                fix = "Check it before you use it, and inform the provider."
                place = SourceLocation(f"{follower.execution.status_url or descriptor.endpoint.url}#{flaw.path}")
                self._context.report(Finding("OUTPUT_DIFFERS", "warning", message, place, fix))
        return follower.execution

    def status(self, text: str) -> Flow[RemoteExecution]:
        """Return an execution's present state, by id or status URL. Raises NotFoundError, UsageError, FetchError."""
        follower = yield from self._resume(text)
        return (yield from follower.look_once())

    def follower(self, execution: RemoteExecution) -> Flow[ExecutionFollower]:
        """Return a follower of an accepted execution's changes. Its status is fetched once, for the ``ETag``."""
        follower = yield from self._resume(execution.status_url or execution.execution_id or "")
        follower.execution = execution
        yield from follower.look_once()
        return follower

    def wait(self, text: str, timeout: float | None, on_change: OnChange) -> Flow[RemoteExecution]:
        """Return an execution once it ended, or its state after ``timeout`` seconds. Raises as :meth:`status`."""
        end = self._clock() + (limits.CALL_WAIT_SECONDS if timeout is None else timeout)
        follower = yield from self._resume(text, on_change)
        return (yield from follower.follow_until(end))

    def cancel(self, text: str) -> Flow[RemoteExecution]:
        """Cancel an execution and return its state. Raises as :meth:`status`."""
        follower = yield from self._resume(text)
        return (yield from follower.cancel())

    def _plan(
        self, skill: SkillRef, descriptor: SkillDescriptor, inputs: Mapping[str, Any], options: CallOptions
    ) -> Flow[_Plan]:
        try:
            checked = InputRules(descriptor.inputs).apply(inputs)
        except ValidationError as error:
            error.may_be_accepted = False
            error.fix = f"skillwire show {reference_to(skill)} lists its inputs."
            error.in_python = f"client.show({reference_to(skill)!r}).descriptor().inputs"
            raise
        checked = {one.name: checked[one.name] for one in descriptor.inputs if one.name in checked}
        url, index = parse_url(descriptor.endpoint.url), parse_url(skill.index_url)
        is_lent = yield from work(partial(self._allow_endpoint, url, index, consent=options.consent))
        caller_id = options.caller_id or (yield from work(partial(self._caller_id, url.origin)))
        about = InvocationOptions(
            caller_id,
            options.caller_type,
            options.trace_id,
            _priority_of(options.priority),
            seconds_of(options.timeout),
        )
        record = CallRecord(
            key=options.idempotency_key or secrets.token_hex(16),
            reference=reference_to(skill),
            skill_id=descriptor.id,
            url=str(url),
            created=self._context.clock(),
            origins=tuple(sorted({index.origin, url.origin} & self._access.addresses.named)),
            header=credential_header(descriptor.auth),
            is_lent=is_lent,
            context={"timeout": about.timeout, "priority": about.priority, "trace_id": about.trace_id},
        )
        plan = _Plan(record, descriptor, checked, about)
        self._request(plan, None)  # a call that cannot be sent is refused before it is stored
        return plan

    def _allow_endpoint(self, url: Url, index: Url, *, consent: bool) -> bool:
        """Attach the stored credential of the endpoint's origin; return whether there is one. Raises TrustError."""
        if url.origin in self._context.credentials or self._access.find_credential(url) is None:
            return False
        # True after a login since the user named the origin.
        is_named = url.origin == index.origin and url.origin in self._access.addresses.named
        if not consent and not is_named and not is_below(url, index):
            message = f"{index.origin} names an endpoint at {url.origin}, which would get your credential"
            details = {"endpoint": str(url), "named_by": index.origin}
            raise TrustError("ENDPOINT_FOREIGN", message, place=SourceLocation(str(url)), details=details)
        self._access.attach_credential(url)
        return True

    def _caller_id(self, origin: str) -> str:
        try:
            return self._book.caller_id(origin)
        except StorageError as error:
            self._context.note(error)
            return "skillwire"

    def _begin(self, plan: _Plan, *, may_take_up: bool) -> Flow[_Plan]:
        """Store the call; or resume the same call of the last minutes, if its answer was lost, with its options."""
        record, endpoint = plan.record, plan.descriptor.endpoint
        same = [str(endpoint.method), record.url, record.skill_id, plan.inputs, plan.about.caller_id]
        sameness = json.dumps(same, sort_keys=True).encode()
        try:
            begun = yield from work(partial(self._book.begin, record, sameness, may_take_up=may_take_up))
        except StorageError as error:  # the call works, but cannot be found by its id
            self._context.note(error)
            return plan
        if begun.key == record.key:
            return plan._replace(record=begun)
        message = "the same call was sent a moment ago, and its answer was lost; it is not executed twice"
        fix = "To execute it once more, give a text of your own: --idempotency-key, in Python idempotency_key."
        self._context.report(Finding("CALL_TAKEN_UP", "note", message, SourceLocation(record.url), fix))
        about = plan.about._replace(
            timeout=begun.context.get("timeout"),
            priority=_priority_of(begun.context.get("priority")),
            trace_id=begun.context.get("trace_id"),
        )
        return plan._replace(record=begun, about=about, is_taken_up=True)

    def _submit(self, plan: _Plan, options: CallOptions, started: float) -> Flow[ExecutionFollower]:
        seconds = float(limits.CALL_WAIT_SECONDS) if options.timeout is None else options.timeout
        wait = min(float(limits.CALL_SUBMIT_WAIT_SECONDS), seconds / 2) if options.wait else None
        patience = patience_of(plan.descriptor.endpoint)
        try:
            answer = yield from submit_until(
                self._request(plan, wait), plan.record.skill_id, self._line, patience, end=started + seconds
            )
        except FetchError as error:
            # An earlier one may have arrived.
            error.may_be_accepted = error.may_be_accepted or plan.is_taken_up
            if not error.may_be_accepted:
                yield from self._context.try_change(partial(self._book.drop, plan.record))
            raise
        if (refusal := answer.error) is not None:
            is_unknown, was_accepted = answer.may_be_accepted, bool(refusal.may_be_accepted)
            if not is_unknown:
                yield from self._context.try_change(partial(self._book.drop, plan.record))
            if answer.status == _TOO_LARGE:
                refusal.fix = "Send smaller inputs; upload large content elsewhere, and give its URL in the inputs."
            elif answer.is_permanent:
                command = "skillwire grant add FOLDER, or NAMESPACE/NAME for a package"
                refusal.fix = f"Ask the operator of the provider to allow it there: {command}."
            elif answer.is_of_files:
                url = plan.record.url
                refusal = static_site(f"{parse_url(url).origin} answers the call with {answer.status}", url)
            refusal.may_be_accepted = was_accepted or is_unknown or plan.is_taken_up
            self._access.explain(refusal)
            raise refusal
        if answer.response is None:
            yield from self._context.try_change(partial(self._book.drop, plan.record))
            output, media_type = answer.output or (None, "")  # a provider that answered with it
            execution = RemoteExecution(
                execution_id=None,
                skill_id=plan.record.skill_id,
                reference=plan.record.reference,
                status=ExecutionStatus.COMPLETED,
                output=output,
                content_type=media_type,
            )
            return ExecutionFollower(execution, plan.record, self._line, options.on_change, answer)
        endpoint, execution_id = plan.descriptor.endpoint, answer.response.execution_id
        record = plan.record._replace(
            execution_id=execution_id,
            status_url=status_place(answer, plan.record.url, status_url(endpoint, execution_id)),
            result_url=result_url(endpoint, execution_id),
        )
        yield from self._context.try_change(partial(self._book.answered, record))
        return ExecutionFollower(updated(known(record), answer.response), record, self._line, options.on_change, answer)

    def _request(self, plan: _Plan, wait: float | None) -> HttpRequest:
        credential = self._line.credential(plan.record.url, plan.record.header)
        return invocation(
            plan.descriptor, plan.inputs, plan.about, key=plan.record.key, credential=credential, wait=wait
        )

    def _resume(self, text: str, on_change: OnChange = lambda _: None) -> Flow[ExecutionFollower]:
        """Return the follower of an execution, by its id or status URL."""
        record = yield from work(partial(self._find, text))

        def allow_again() -> None:
            for origin in record.origins:
                self._access.allow_url(origin)
            if record.is_lent:
                self._access.attach_credential(parse_url(record.url))

        yield from work(allow_again)
        return ExecutionFollower(known(record), record, self._line, on_change)

    def _find(self, text: str) -> CallRecord:
        found = self._book.find(text) or ([] if "://" in text else self._begun(text))
        if len(found) > 1 and "://" not in text:
            urls = ", ".join(str(one.status_url) for one in found)
            raise UsageError("REFERENCE", f"{len(found)} calls have the id {text}", fix=f"Give a URL: {urls}")
        if found:
            return found[0]
        if "://" in text:
            url = parse_url(text)
            return CallRecord("", "", "", str(url), self._context.clock(), (url.origin,), status_url=str(url))
        ids = [one.execution_id for one in self._book.recent() if one.execution_id is not None]
        fix = did_you_mean(text, ids)
        raise NotFoundError("EXECUTION_UNKNOWN", f"no call {ascii(text)[1:-1][:120]} is remembered here", fix=fix)

    def _begun(self, text: str) -> list[CallRecord]:
        """Return the calls of the id that begins with ``text``, or ``exec-`` and it. Raises UsageError for several."""
        if len(text.removeprefix(_ID_PREFIX)) < _SHORTEST:
            return []
        beginnings = (text, f"{_ID_PREFIX}{text}")
        begun = [one for one in self._book.recent() if (one.execution_id or "").startswith(beginnings)]
        ids = list(dict.fromkeys(str(one.execution_id) for one in begun))
        if len(ids) > 1:
            named = ", ".join(ids[:_LISTED]) + (" and others" if len(ids) > _LISTED else "")
            message = f"{len(ids)} calls have an id that begins with {ascii(text)[1:-1]}"
            raise UsageError("REFERENCE", message, fix=f"Give more characters: {named}.")
        return begun

    def _credential(self, url: str, header: str | None) -> dict[str, str]:
        return credential_fields(self._context.credential_for(url), header)
