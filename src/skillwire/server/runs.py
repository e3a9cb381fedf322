"""Runs: skills, and code that callers bring, executed for callers that wait for the result. Spec: SKP; specs §4.

A run is an execution like every other: a row of the ledger that any worker of this machine may run. It has
attachments: blobs of the caller and skills that the caller may use, which its code sees as files. The row names them,
and the transaction that accepts the run holds the blobs until its deadline, so nothing that expires or changes
meanwhile stops an accepted run.

There are two levels of errors. A request that is invalid or not allowed raises, and nothing of it is in the ledger. An
accepted run that fails, for whatever reason, is a failed run.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from skillwire import limits
from skillwire.errors import DecodeError, NotFoundError, PendingError, TrustError, ValidationError
from skillwire.executions.accept import Invocation
from skillwire.executions.callable_skill import callable_code, code_skill
from skillwire.model.execution import PREFIX, Attachments, BlobHold, ExecutionStatus, digest_of, is_blob_id
from skillwire.protocols.skill_sharing.messages import Caller, InvocationContext, InvocationRequest
from skillwire.protocols.skills_rpc.messages import ExecuteSkill, OutputBlob, RunError, RunResult
from skillwire.protocols.skills_rpc.server import GUIDE, load_guide
from skillwire.server.log import GRANT
from skillwire.server.quotas import queue_full_error
from skillwire.server.run_blobs import BlobUploads, check_allowed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from skillwire.executions.callable_skill import CallableSkill
    from skillwire.model.digest import Digest
    from skillwire.model.execution import Execution, RunSettings
    from skillwire.model.skill import Skill
    from skillwire.ports import RunBlobs
    from skillwire.protocols.skills_rpc.messages import RunCode
    from skillwire.protocols.skills_rpc.server import SkillsRpc
    from skillwire.server.callable_skills import CallableSkills, GrantCache
    from skillwire.server.execution_service import ExecutionService


def mountable(names: Iterable[str], skills: SkillsRpc) -> dict[str, Skill]:
    """Return the skills of these names, which the caller may use, and whose files can be shown to code."""
    found = {name: skills.usable(name) for name in names}
    if GUIDE in found and found[GUIDE] is load_guide().skill:
        fix = "Read it with load_skills_protocol_guide."
        raise ValidationError("VALIDATION_ERROR", f"{GUIDE} is part of this server, and is not mounted", fix=fix)
    return found


def blobs_of(named: Iterable[str], args: Mapping[str, Any], offer: CallableSkill) -> list[Digest]:
    """Return the digests of a run's blobs: the named ones, and arguments that are blob ids.

    Raises ValidationError for too many, or where nothing reads them; NotFoundError (``BLOB_NOT_FOUND``).
    """
    given = list(dict.fromkeys(named))
    if offer.action.executor != "python":
        if given:
            message = f"{offer.skill.name} is no code: blobs are files that only code could read"
            raise ValidationError("VALIDATION_ERROR", message, fix="Call it without input_blobs.")
        return []
    wanted = list(dict.fromkeys([*given, *(value for value in args.values() if is_blob_id(value))]))
    check_number("input_blobs", wanted, limits.RUN_INPUT_BLOBS)
    return [digest_of(one) for one in wanted]


def check_number(name: str, given: Sequence[str], most: int) -> None:
    """Refuse a list with more than ``most`` entries. Raises ValidationError (``VALIDATION_ERROR``)."""
    if len(given) > most:
        raise ValidationError("VALIDATION_ERROR", f"{name} has {len(given)} entries, {most} at most")


#: Reason of ours → what a run calls it, where that differs.
_TYPES: Final = {"deadline": "timeout"}
#: Seconds in the queue that are worth a word.
_STILL_RUNNING: Final = 1.0


async def result_of(service: ExecutionService, execution: Execution, called: str) -> RunResult:
    """Return the run that an ended execution was; ``called`` names it in sentences."""
    blobs = tuple(
        OutputBlob(PREFIX + one.digest.removeprefix("sha256:"), one.kind, one.size, one.name) for one in execution.blobs
    )
    run_id, failure = execution.execution_id, execution.failure
    if execution.status is not ExecutionStatus.COMPLETED:
        reason = failure.reason if failure else "exception"
        message = failure.message if failure else "it failed"
        error = RunError(_TYPES.get(reason, reason), message)
        return RunResult("failed", run_id, f"{called} failed: {message}", None, blobs, _preview(execution), error)
    output = await service.output_of(execution)
    value = None if output is None else msgspec.json.decode(output)
    return RunResult("completed", run_id, _summary(called, execution), value, blobs, execution.log)


def _preview(execution: Execution) -> str:
    """Return the end of what a run printed that failed, and where it raised, as Python prints that."""
    trace = execution.failure.details.get("traceback") if execution.failure else None
    return execution.log + (trace if isinstance(trace, str) else "")


def _summary(called: str, execution: Execution) -> str:
    begun = next((event.at for event in execution.timeline if event.what == "claim"), execution.created)
    ran, waited = (execution.completed or execution.updated) - begun, begun - execution.created
    number = len(execution.blobs)
    left = f" and handed out {number} {'file' if number == 1 else 'files'}" if number else ""
    before = f" after waiting {waited:.2f} s for its turn" if waited > _STILL_RUNNING else ""
    return f"{called} completed in {ran:.2f} s{before}{left}"


_MS: Final = 1000
#: Seconds beyond its deadline that a blob is held for a run: a clock may be set meanwhile.
_HELD_SECONDS: Final = 3600.0
#: Seconds between two looks at an execution that no notification comes for.
_LOOK: Final = 5.0
_UNPRINTABLE: Final = re.compile(r"[^ -~]")
_ID_LENGTH: Final = 256
_KIND: Final = "agent"
_encode: Final = msgspec.json.encode


class _RunRequest(NamedTuple):
    """What a run is to be: of which offer, with what, and what has to be kept beside it."""

    offer: CallableSkill
    args: Mapping[str, Any]
    attachments: Attachments
    timeout_ms: int | None
    skills: Sequence[Skill] = ()


class Runs:
    """Executes skills and code, and waits for their end.

    ``on_accept`` is called when there is something to run. Each ``owner`` is as of
    :func:`skillwire.server.auth.rate_limit.caller_of`.
    """

    def __init__(
        self,
        service: ExecutionService,
        offers: CallableSkills,
        granted: GrantCache,
        blobs: RunBlobs,
        *,
        settings: RunSettings,
    ) -> None:
        self.on_accept: Callable[[], object] = lambda: None
        self._service = service
        self._offers = offers
        self._granted = granted
        self._settings = settings
        self.blobs = BlobUploads(blobs, settings, lambda: service.clock().wall)

    async def execute_skill(self, owner: str, skills: SkillsRpc, params: ExecuteSkill) -> RunResult:
        """Execute a skill by its dotted name, and return its result.

        Raises TrustError (``PERMISSION_DENIED``, ``AUTH_REQUIRED``), NotFoundError (``SKILL_NOT_FOUND``,
        ``BLOB_NOT_FOUND``), ValidationError, ConflictError (``TOO_MANY_EXECUTIONS``), StorageError, and PendingError
        (``RUN_PENDING``) when the server stops; the run goes on.
        """
        with self._place(owner):
            self._check_executing(owner)
            skill = await asyncio.to_thread(skills.usable, params.name, params.version)
            run_id = await self._begin(owner, skill, params)
            return await result_of(self._service, await self._ended(run_id), f"{params.name} {skill.version}")

    async def begin_skill(self, owner: str, skill: Skill, args: Mapping[str, Any]) -> str:
        """Begin a skill's execution for ``owner``; return the run's id for :meth:`follow`. Errors as execute_skill."""
        self._check_place(owner)
        self._check_executing(owner)
        return await self._begin(owner, skill, ExecuteSkill(name=skill.name, args=dict(args)))

    async def follow(self, owner: str, run_id: str, seconds: float) -> RunResult:
        """Return the result of a run that ends within ``seconds``.

        Raises NotFoundError (``RUN_NOT_FOUND``) also for another owner's run, PendingError (``RUN_PENDING``).
        """
        execution = await self._service.look_up(run_id)
        if execution is None or execution.caller != owner:
            raise NotFoundError("RUN_NOT_FOUND", f"there is no run {run_id[:_ID_LENGTH]!a}")
        is_code = execution.attachments is not None and execution.attachments.code is not None
        called = "the code" if is_code else execution.skill
        is_crowded = not self._service.places.has_room(owner)  # then it is answered now
        del execution  # its inputs are not needed while waiting
        with self._service.places.taking(owner):
            ended = await self._ended(run_id, 0.0 if is_crowded else seconds)
        return await result_of(self._service, ended, called)

    @contextmanager
    def _place(self, owner: str) -> Iterator[None]:
        """Take a place for a waiting caller. Raises ConflictError (``TOO_MANY_EXECUTIONS``)."""
        self._check_place(owner)
        with self._service.places.taking(owner):
            yield

    def _check_place(self, owner: str) -> None:
        if not self._service.places.has_room(owner):
            raise queue_full_error("as many wait for their runs as may, or as many of yours")

    async def cancel(self, owner: str, run_id: str) -> None:
        """End a run of ``owner``, unless it has ended."""
        execution = await self._service.look_up(run_id)
        if execution is not None and execution.caller == owner:
            await self._service.cancel(run_id, "its caller")

    def _check_executing(self, owner: str) -> None:
        check_allowed(
            owner, {"execute_skill": self._settings.execute_skill}, "execute skills", is_local=self._settings.is_local
        )

    async def _begin(self, owner: str, skill: Skill, params: ExecuteSkill) -> str:
        """Accept the execution of a skill; return its id."""
        offer = self._offers.known(skill) or await asyncio.to_thread(self._offers.of, skill)
        if offer is None:
            message = f"{params.name} is instructions: it is read with read_skill_file, not executed"
            raise ValidationError("VALIDATION_ERROR", message, fix="Read its SKILL.md, and do what it says.")
        if offer.needs_authentication and owner.startswith("address "):
            raise TrustError("AUTH_REQUIRED", f"{params.name} is executed for those who say who they are")
        if not await self._granted.look(skill):
            raise TrustError(
                "PERMISSION_DENIED",
                f"the operator has not granted that {params.name} runs",
                fix=f"Whoever runs the server: {GRANT}.",
            )
        blobs = blobs_of(params.input_blobs, params.args, offer)
        wanted = _RunRequest(offer, params.args, Attachments(tuple(map(str, blobs))), params.timeout_ms)
        return await self._accept(owner, wanted)

    async def run_code(self, owner: str, skills: SkillsRpc, params: RunCode) -> RunResult:
        """Run code that the caller brings, and return what came of it."""
        with self._place(owner):
            run_id = await self._begin_code(owner, skills, params)
            return await result_of(self._service, await self._ended(run_id), "the code")

    async def _begin_code(self, owner: str, skills: SkillsRpc, params: RunCode) -> str:
        """Accept the execution of code; return its id."""
        check_allowed(
            owner,
            {"run_code": self._settings.run_code},
            "run code that callers bring",
            is_local=self._settings.is_local,
        )
        code = params.code.encode(errors="surrogatepass")
        if len(code) > limits.RUN_CODE_BYTES:
            fix = "Let it read what is large from a blob."
            raise DecodeError(
                "LIMIT_SIZE", f"the code has {len(code):,} bytes, {limits.RUN_CODE_BYTES:,} at most", fix=fix
            )
        check_number("mount_skills", params.mount_skills, limits.RUN_MOUNTS)
        mounted = await asyncio.to_thread(mountable, dict.fromkeys(params.mount_skills), skills)
        offer = callable_code(code_skill(code, params.entrypoint))
        blobs = blobs_of(params.input_blobs, params.args, offer)
        mounts = tuple((name, str(skill.artifact.digest)) for name, skill in mounted.items())
        attachments = Attachments(tuple(map(str, blobs)), mounts, params.code)
        wanted = _RunRequest(offer, params.args, attachments, params.limits.timeout_ms, tuple(mounted.values()))
        return await self._accept(owner, wanted)

    async def _accept(self, owner: str, wanted: _RunRequest) -> str:
        """Accept a run; return its ID, so that a waiting request does not hold the inputs."""
        if len(_encode(wanted.args)) > limits.EXECUTION_REQUEST_BYTES:
            fix = "Hand in what is large as a blob."
            raise DecodeError("LIMIT_SIZE", f"args have more than {limits.EXECUTION_REQUEST_BYTES:,} bytes", fix=fix)
        self.on_accept()
        now = self._service.clock().wall
        invocation = Invocation(self._request(owner, wanted), owner, now, attachments=wanted.attachments)
        blobs = [digest_of(f"{PREFIX}{digest.removeprefix('sha256:')}") for digest in wanted.attachments.blobs]

        def hold(execution: Execution) -> BlobHold | None:
            until = max(execution.deadline + _HELD_SECONDS, now + self._settings.blob_seconds)
            return BlobHold(owner, tuple(blobs), now, until) if blobs else None

        accepted = await self._service.accept(wanted.offer, invocation, skills=wanted.skills, hold=hold)
        return accepted.execution.execution_id

    def _request(self, owner: str, wanted: _RunRequest) -> InvocationRequest:
        """Return the request of a run. The caller waits for the end, so a person gets no more time than code."""
        longest = round(self._service.settings.longest * _MS)
        is_task = wanted.offer.action.executor == "human"
        timeout = min(wanted.timeout_ms or longest, longest) if is_task else wanted.timeout_ms
        caller = _UNPRINTABLE.sub("?", owner.partition(" ")[2])[:_ID_LENGTH] or _KIND
        return InvocationRequest(
            caller=Caller(id=caller, type=_KIND),
            skill_id=wanted.offer.skill_id,
            inputs=dict(wanted.args),
            context=InvocationContext(timeout_ms=timeout) if timeout else UNSET,
        )

    async def _ended(self, run_id: str, seconds: float | None = None) -> Execution:
        """Return an execution when it has ended, within ``seconds`` if given. Raises PendingError (``RUN_PENDING``)."""
        changes = self._service.changes
        until = math.inf if seconds is None else time.monotonic() + seconds
        with changes.follow(run_id) as following:
            while True:
                now = await self._service.look_up(run_id)
                if now is not None and now.status.is_final:
                    return now
                left = until - time.monotonic()
                if changes.is_closed or now is None or left <= 0:
                    message = f"the run {run_id} goes on, and was not waited for any longer"
                    details = {"run_id": run_id, "status": str(now.status) if now else "accepted"}
                    raise PendingError("RUN_PENDING", message, details=details)
                del now
                await following.wait(min(_LOOK, left))
