"""Executions on the event loop, for routes, pages, tools and workers: what is callable here, accepting and following.

Each call is stored durably before it is acknowledged. Calls that come while others are being written are gathered and
stored together next, so the more come, the less each costs, and a call that comes alone does not wait. Between two
batches there is a short pause: callers that got an answer call again, and are in the next batch. Without it the callers
fall into two halves that wait for each other, with twice as many commits for the same work.

A change in this process notifies the subscribers of its executions. A change by another process is noticed by the
ledger alone, which cannot name the executions, so it notifies every subscriber. A needless notification is harmless.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import structlog

from skillwire import limits
from skillwire.errors import StorageError, ValidationError
from skillwire.executions.callable_skill import (
    CallableSkill,
    Invocation,
    callable_code,
    is_code,
    make_callable_skill,
    make_execution,
)
from skillwire.executions.grants import needs_grant
from skillwire.executions.tasks import check_task_output, rejection
from skillwire.executions.view import without_ids
from skillwire.model.digest import Digest
from skillwire.model.execution import (
    Accepted,
    BlobHold,
    Claim,
    Execution,
    ExecutionSettings,
    Failure,
    IdempotencyKey,
    NewExecution,
    OutputBlob,
)
from skillwire.protocols.skill_sharing.messages import SkillDescriptor
from skillwire.protocols.skill_sharing.server import descriptor_of
from skillwire.server.background import BackgroundTasks, wait_until_set
from skillwire.server.http import LOGGED
from skillwire.server.log import GRANT, few
from skillwire.server.quotas import ConcurrencyLimit, QueueQuota
from skillwire.wire.tracing import open_span, read_trace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.model.skill import Skill
    from skillwire.ports import BlobStore, Clock, ExecutionLedger


_CALLABLE_SKILLS_KEPT: Final = 1_000
#: The site in descriptors made here; it is never shown.
_PLACEHOLDER_SITE: Final = "https://skill.invalid"


class CallableSkills:
    """Makes callable skills, and keeps those that are used; ``blobs`` hold the descriptors that folders have."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._kept: OrderedDict[Digest, CallableSkill] = OrderedDict()

    async def load(self, skill: Skill) -> CallableSkill | None:
        """Return the callable skill; None for one that is not executed here."""
        return self._kept.get(skill.artifact.digest) or await asyncio.to_thread(self.of, skill)

    def of(self, skill: Skill) -> CallableSkill | None:
        """Return what :meth:`load` returns, in a thread: it may read a file."""
        if is_code(skill):
            return callable_code(skill)
        if skill.action is None or skill.sharing is None:
            return None
        kept = self._kept.get(skill.artifact.digest)
        if kept is not None:
            return kept
        callable_skill = make_callable_skill(skill, self.descriptor(skill))
        if callable_skill is not None:
            self._kept[skill.artifact.digest] = callable_skill
            while len(self._kept) > _CALLABLE_SKILLS_KEPT:
                self._kept.popitem(last=False)
        return callable_skill

    def descriptor(self, skill: Skill) -> SkillDescriptor:
        """Return the descriptor of a skill, with URLs that mean nothing where it was made here."""
        return descriptor_of(skill, _PLACEHOLDER_SITE, self._blobs.read)


#: Seconds for which a grant is believed when a call is accepted. The worker looks again, so a skill whose grant was
#: revoked meanwhile does not run.
_GRANT_SECONDS: Final = 1.0
#: For how many skills a refusal is logged once only.
_LOGGED_SKILLS: Final = 1_000


class GrantCache:
    """Whether skills may run here, remembered for a second."""

    def __init__(self, may_run: Callable[[Skill], Awaitable[bool]]) -> None:
        self._may_run = may_run
        self._until: dict[Digest, float] = {}
        self._logged: set[Digest] = set()
        self._log = structlog.get_logger("skillwire.executions")

    def is_known(self, skill: Skill) -> bool:
        """Whether a skill certainly may run, without reading the grants."""
        if not needs_grant(skill):
            return True
        return self._until.get(skill.artifact.digest, 0.0) > asyncio.get_running_loop().time()

    async def allows(self, skill: Skill, *, is_call: bool) -> bool:
        """Return whether a skill may run. The first refused call of a skill is logged."""
        if self.is_known(skill):
            return True
        digest, loop = skill.artifact.digest, asyncio.get_running_loop()
        self._until = {digest: until for digest, until in self._until.items() if until > loop.time()}
        if await self._may_run(skill):
            self._until[digest] = loop.time() + _GRANT_SECONDS
            return True
        if is_call and digest not in self._logged:
            if len(self._logged) >= _LOGGED_SKILLS:
                self._logged.clear()
            self._logged.add(digest)
            self._log.warning("a call was refused: not granted", skill=skill.name, fix=GRANT.format(skill.name))
        return False


async def log_publish_warnings(
    skills: Iterable[Skill],
    ungranted: Callable[[Iterable[Skill]], Awaitable[list[str]]] | None,
    unset: Callable[[Iterable[str]], list[str]] | None,
) -> None:
    """Log the skills without the grant they need, and the secrets of the others without a value.

    ``ungranted`` is None where all may run, ``unset`` where no code runs in this process.
    Raises StorageError (``DATABASE``, ``SECRETS_FILE``).
    """
    log, asking = structlog.get_logger("skillwire"), [skill for skill in skills if needs_grant(skill)]
    names = set(await ungranted(asking)) if ungranted else set()
    if names:
        fix = GRANT.format(min(names))
        log.warning("not granted, so that calls are refused", skills=few(sorted(names)), fix=fix)
    if unset is None:
        return
    secrets = {
        secret: skill.name
        for skill in asking
        if skill.action is not None and skill.name not in names
        for secret in skill.action.permissions.secrets
    }
    missing = await asyncio.to_thread(unset, secrets)
    if missing:
        named = {"secrets": ", ".join(missing), "skills": few(sorted({secrets[secret] for secret in missing}))}
        fix = "set them in the environment of the server, or in the secrets_file of its configuration"
        log.warning("secrets are not set, so that calls may fail", **named, fix=fix)


T = TypeVar("T")

#: Seconds for which the ledger is known to have a skill version. The version stays as long as its last execution, a
#: day at least.
_KNOWN_VERSION_SECONDS: Final = 600.0
#: How many such versions are remembered.
_KNOWN_VERSIONS: Final = 20_000
#: Seconds between two batches; a commit takes about as long.
_BATCH_PAUSE: Final = 0.001


class Notifier:
    """The changes of the ledger that one event loop notices; ``number`` rises with each."""

    def __init__(self) -> None:
        self.number = 0
        self.is_closed = False
        self._followers: dict[str, set[asyncio.Event]] = {}
        self._watchers: set[asyncio.Event] = set()

    def __len__(self) -> int:
        return len(self._watchers) + sum(map(len, self._followers.values()))

    def notify(self, *execution_ids: str) -> None:
        """Wake the subscribers of these executions."""
        self.number += 1
        for execution_id in execution_ids:
            for event in self._followers.get(execution_id, ()):
                event.set()
        for event in self._watchers:
            event.set()

    def notify_all(self) -> None:
        """Wake every subscriber: any execution may have changed."""
        self.notify(*self._followers)

    def close(self) -> None:
        """Wake every subscriber for the last time."""
        self.is_closed = True
        self.notify_all()

    def follow(self, execution_id: str) -> Subscription:
        """Begin to listen for changes of one execution: before it is looked up, so that none is missed."""

        def drop() -> None:
            if not self._followers.get(execution_id):
                self._followers.pop(execution_id, None)

        return Subscription(self._followers.setdefault(execution_id, set()), drop)

    async def beyond(self, since: int, seconds: float) -> int:
        """Return :attr:`number` when it is more than ``since``, or as it is after ``seconds``."""
        if self.number <= since:
            with Subscription(self._watchers, lambda: None) as following:
                await following.wait(seconds)
        return self.number


class Subscription:
    """A subscription to changes; leaving the context manager ends it."""

    def __init__(self, events: set[asyncio.Event], end: Callable[[], None]) -> None:
        self._events = events
        self._end = end
        self._event = asyncio.Event()

    def __enter__(self) -> Self:
        self._events.add(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        self._events.discard(self._event)
        self._end()

    async def wait(self, seconds: float) -> bool:
        """Return whether something changed since the last call, waiting at most ``seconds``."""
        await wait_until_set(self._event, seconds)
        is_changed = self._event.is_set()
        self._event.clear()
        return is_changed


class WriteBatcher:
    """Stores new executions in batches; ``accepted`` is called with each, even when its caller was cancelled."""

    def __init__(self, ledger: ExecutionLedger, accepted: Callable[[NewExecution], object]) -> None:
        self._ledger = ledger
        self._accepted = accepted
        self._waiting: list[tuple[NewExecution, asyncio.Future[Accepted], Context]] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, new: NewExecution) -> asyncio.Future[Accepted]:
        """Store a new execution in the next batch."""
        future: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        self._waiting.append((new, future, copy_context()))  # with the request that the log names
        if self._task is None:
            self._task = asyncio.create_task(self._write(), context=Context())
        return future

    async def _write(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                try:
                    results = await self._ledger.accept_all([new for new, _, _ in batch])
                except Exception as error:  # noqa: BLE001  # each caller gets it
                    if isinstance(error, StorageError):  # the next batch would wait for the database as long
                        batch, self._waiting = [*batch, *self._waiting], []
                    results = [error] * len(batch)
                for (new, future, context), result in zip(batch, results, strict=True):
                    if not isinstance(result, Exception) and result.how == "new":
                        context.run(self._accepted, new)
                    if future.done():  # its caller was cancelled; what was stored stands
                        continue
                    if isinstance(result, Exception):
                        future.set_exception(result)
                    else:
                        future.set_result(result)
                if self._waiting:
                    await asyncio.sleep(_BATCH_PAUSE)
        finally:
            self._task = None


class Dispatcher:
    """Wakes the tasks of one event loop that look into a database for something to do: a wake may be for nothing."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Say that there may be something."""
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Return when there may be something, or after ``seconds``."""
        await wait_until_set(self._event, seconds)
        self._event.clear()


class ExecutionService:
    """Executions, as one server handles them.

    ``on_cancel`` is called with the ID of each execution cancelled here; ``places`` limits the waiting requests.
    """

    def __init__(
        self,
        ledger: ExecutionLedger,
        *,
        settings: ExecutionSettings,
        clock: Clock,
        log_accepted: bool = True,
        background: BackgroundTasks | None = None,
    ) -> None:
        self.ledger = ledger
        self.background = background or BackgroundTasks()
        self.settings = settings
        self.changes = Notifier()
        self.dispatcher = Dispatcher()
        self.clock = clock
        self.places = ConcurrencyLimit(lambda: (limits.EXECUTION_FOLLOWERS, limits.EXECUTION_FOLLOWERS_CALLER))
        #: Executions whose worker was lost, as this process noticed.
        self.lease_expiries = 0
        self.on_cancel: Callable[[str], object] = lambda _: None
        self._log_accepted = log_accepted
        self._versions_kept: dict[Digest, float] = {}
        self._quota = QueueQuota(ledger, settings.waiting, clock)
        self._batcher = WriteBatcher(ledger, self._accepted)
        self._log = structlog.get_logger("skillwire.executions")

    async def accept(
        self,
        callable_skill: CallableSkill,
        invocation: Invocation,
        key: IdempotencyKey | None = None,
        *,
        skills: Sequence[Skill] = (),
        hold: Callable[[Execution], BlobHold | None] = lambda _: None,
    ) -> Accepted:
        """Store a new execution, or return that of an earlier request with the same key.

        A cancelled caller's execution is accepted all the same. ``skills`` are other versions that it needs, such as
        mounted ones; ``hold`` returns the blobs to keep until its deadline.

        Raises ValidationError (``VALIDATION_ERROR``), NotFoundError (``BLOB_NOT_FOUND``),
        ConflictError (``TOO_MANY_EXECUTIONS``), StorageError (``DATABASE``).
        """
        own_trace = (invocation.request.context and invocation.request.context.trace_id) or None
        with open_span(f"accept {callable_skill.skill.name}", "producer", read_trace(own_trace), {}) as span:
            # Without a trace of its own, the worker and what it calls continue that of the request.
            execution = make_execution(
                callable_skill, invocation, self.settings, trace_id=own_trace or span.traceparent
            )
            if span.is_recorded:
                span.set(span_attributes(execution, "send", "accept"))
            await self._quota.refresh(execution.caller)
            self._quota.check(execution.caller)
            known_until = self._versions_kept.get(callable_skill.skill.artifact.digest, 0.0)
            own = () if known_until > self.clock().steady else (callable_skill.skill,)
            if self._log_accepted and (ids := LOGGED.get()) is not None:
                ids.trace_id = logged_trace(execution)
            accepted = await self._batcher.add(NewExecution(execution, key, (*own, *skills), hold(execution)))
        if accepted.how == "another":
            raise ValidationError("VALIDATION_ERROR", "this Idempotency-Key was used with another request")
        return accepted

    def _accepted(self, new: NewExecution) -> None:
        now = self.clock().steady
        # Code that callers bring is another version each time.
        if new.skills and len(self._versions_kept) >= _KNOWN_VERSIONS:
            self._versions_kept = {digest: until for digest, until in self._versions_kept.items() if until > now}
            if len(self._versions_kept) >= _KNOWN_VERSIONS:
                self._versions_kept.clear()
        for skill in new.skills:
            self._versions_kept[skill.artifact.digest] = now + _KNOWN_VERSION_SECONDS
        self._quota.take(new.execution.caller)
        self._notify(new.execution.execution_id)
        if self._log_accepted:
            self._log.info("accepted", **log_facts(new.execution))

    async def cancel(self, execution_id: str, by: str) -> Execution | None:
        """End an execution, unless it has ended; return it as it is then."""
        ended = await self.ledger.cancel(execution_id, by, self.clock())
        if ended is not None:
            self._notify(execution_id)
            self.on_cancel(execution_id)
            self._log.info("cancelled", by=by, **log_facts(ended))
        return ended

    async def take_task(self, execution_id: str, person: str) -> Execution | None:
        """Give a task to a person; None when another person has it, or it has ended."""
        taken = await self.ledger.claim_task(execution_id, person, self.clock())
        return self._changed(execution_id, taken)

    async def release_task(self, claim: Claim) -> bool:
        """Give a task back for another person."""
        return self._changed(claim.execution_id, await self.ledger.release(claim, self.clock()))

    async def complete_task(self, claim: Claim, output: Any) -> bool:
        """Store a person's output; False when the claim no longer holds. Raises ValidationError."""
        task = await self.ledger.find(claim.execution_id)
        return task is not None and await self.complete(claim, await asyncio.to_thread(check_task_output, task, output))

    async def reject_task(self, claim: Claim, message: str) -> bool:
        """Store that a person declines a task. Raises UsageError (``USAGE``) for a missing or long reason."""
        return await self.fail(claim, rejection(message))

    async def complete(self, claim: Claim, output: bytes, *, log: str = "", blobs: Sequence[OutputBlob] = ()) -> bool:
        """Store an execution's output; False when the claim no longer holds."""
        is_kept = await self.ledger.complete(claim, output, self.clock(), log=log, blobs=blobs)
        return self._changed(claim.execution_id, is_kept)

    async def fail(self, claim: Claim, failure: Failure, *, log: str = "") -> bool:
        """Store that an attempt failed; False when the claim no longer holds."""
        return self._changed(claim.execution_id, await self.ledger.fail(claim, failure, self.clock(), log=log))

    def look(self) -> None:
        """Take any execution as changed, and no version as stored: another process has written or restored them."""
        self._versions_kept.clear()
        self.changes.notify_all()

    def _changed(self, execution_id: str, result: T) -> T:
        if result:
            self._notify(execution_id)
        return result

    def _notify(self, execution_id: str) -> None:
        self.changes.notify(execution_id)
        self.dispatcher.wake()


def log_facts(execution: Execution) -> dict[str, Any]:
    """Return what logs say of an execution: never what goes in or comes out."""
    identity = without_ids(execution.execution_id)
    return {"execution": identity, "skill": execution.skill, "trace_id": logged_trace(execution)}


def logged_trace(execution: Execution) -> str:
    """Return the trace of an execution in logs: its W3C ID, the caller's own name, or else one made of the ID."""
    if (trace := read_trace(execution.trace_id)) is not None:
        return trace.trace_id
    return execution.trace_id or hashlib.sha256(f"trace {execution.execution_id}".encode()).hexdigest()[:32]


def span_attributes(execution: Execution, operation_type: str, operation: str) -> dict[str, str | int]:
    """Return the attributes of a span of an execution, which is a message from its caller to a worker."""
    return {
        "messaging.system": "skillwire",
        "messaging.operation.type": operation_type,
        "messaging.operation.name": operation,
        "messaging.destination.name": execution.skill,
        "messaging.message.id": without_ids(execution.execution_id),
        "skillwire.skill.version": execution.version,
        "skillwire.execution.executor": execution.executor,
    }
