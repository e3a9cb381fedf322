"""Runs: skills, and code that callers bring, executed for callers that wait for the result, and the blobs of runs.

A run is an execution like every other: a row of the ledger that any worker of this machine may run. It has
attachments: blobs of the caller and skills that the caller may use, which its code sees as files. The row names them,
and the transaction that accepts the run keeps the blobs until its deadline, so an accepted run never misses one.

A request that is invalid or not allowed raises, and nothing of it is in the ledger. An accepted run that fails is a
failed run. Blobs are read and written in pieces. Spec: SKP; specs §4.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import codecs
import math
import os
import re
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec
from msgspec import UNSET

from skillwire import limits
from skillwire.errors import (
    ConflictError,
    DecodeError,
    NotFoundError,
    PendingError,
    StorageError,
    TrustError,
    ValidationError,
)
from skillwire.executions.callable_skill import CallableSkill, Invocation, callable_code, code_skill
from skillwire.model.digest import Digest
from skillwire.model.execution import (
    AllowedCallers,
    Attachments,
    BlobHold,
    Execution,
    ExecutionStatus,
    Failure,
    RunBlob,
    RunSettings,
    blob_not_found,
    check_kind,
    digest_of,
    is_blob_id,
)
from skillwire.model.ref import BLOB_PREFIX
from skillwire.protocols.skill_sharing.messages import Caller, InvocationContext, InvocationRequest
from skillwire.protocols.skills_rpc.messages import (
    BlobContent,
    CreateBlob,
    CreatedBlob,
    ExecuteSkill,
    OutputBlob,
    ReadBlob,
    RunCode,
    RunError,
    RunResult,
)
from skillwire.protocols.skills_rpc.server import GUIDE, SkillsRpc, load_guide
from skillwire.server.log import GRANT
from skillwire.server.quotas import ADDRESS, ConcurrencyLimit, queue_full_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence

    from skillwire.model.skill import Skill
    from skillwire.ports import RunBlobs
    from skillwire.server.execution_service import CallableSkills, ExecutionService, GrantCache


#: Setting → the option of a command that serves over standard input.
_OPTIONS: Final = {"execute_skill": "--execute", "run_code": "--run-code"}
#: Tells a client that another credential does not help.
_CLOSED: Final = {"reason": "closed"}


def check_allowed(
    owner: str, openings: Mapping[str, AllowedCallers], what: str, *, is_local: bool = False, instead: str = ""
) -> None:
    """Check that one of the settings, by their names in ``[rpc]``, opens ``what`` to ``owner``.

    ``instead`` is a sentence on another way, for a server that opens it to no caller.
    Raises TrustError (``PERMISSION_DENIED``, or ``AUTH_REQUIRED`` where authenticated callers may).
    """
    if not any(openings.values()):
        options = " or ".join(_OPTIONS[name] for name in openings)
        settings = " or ".join(f"{name} = true" for name in openings)
        fix = f"The operator of the server: write {settings} below [rpc] in its configuration.{instead}"
        fix = f"Start this command with {options}." if is_local else fix
        raise TrustError("PERMISSION_DENIED", f"this server does not {what}", fix=fix, details=_CLOSED)
    if True not in openings.values() and owner.startswith(ADDRESS):
        raise TrustError("AUTH_REQUIRED", f"this server does {what}, for authenticated callers only")


_PIECE: Final = 256 * 1024
#: The bytes in UTF-8 that begin no character, and how many of them a cut leaves at most.
_CONTINUED: Final = range(0x80, 0xC0)
_LEFT: Final = 3


class OpenBlob:
    """A blob that is being read; it stays readable until it is closed, also when it expires meanwhile."""

    def __init__(self, blob: RunBlob, descriptor: int) -> None:
        self.blob_id = blob.blob_id
        self.kind = blob.kind
        self.size = blob.size
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    async def read(self, position: int, length: int) -> bytes:
        """Return at most ``length`` bytes from ``position``; fewer only at the end."""
        return await asyncio.to_thread(os.pread, self._descriptor, length, position)

    async def pieces(self, begin: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes from ``begin`` until before ``end``, some at a time."""
        position, last = begin, self.size if end is None else min(end, self.size)
        while position < last:
            piece = await self.read(position, min(_PIECE, last - position))
            if not piece:
                raise EOFError("a blob is shorter than it was")
            position += len(piece)
            yield piece


class BlobUploads:
    """What callers do with their blobs."""

    def __init__(self, blobs: RunBlobs, settings: RunSettings, clock: Callable[[], float]) -> None:
        self._blobs = blobs
        self._settings = settings
        self._clock = clock
        self._uploads = ConcurrencyLimit(lambda: (limits.BLOB_UPLOADS, limits.BLOB_UPLOADS_OWNER))

    async def create(self, owner: str, params: CreateBlob) -> CreatedBlob:
        """Keep what a request holds."""
        try:
            is_base64 = params.encoding == "base64"
            content = base64.b64decode(params.content, validate=True) if is_base64 else params.content.encode()
        except (binascii.Error, ValueError) as error:
            message = f"content is not {'base64' if params.encoding == 'base64' else 'Unicode text'}"
            raise ValidationError("VALIDATION_ERROR", message) from error

        async def body() -> AsyncIterator[bytes]:
            yield content

        return await self.receive(owner, params.kind, body())

    async def receive(self, owner: str, kind: str, content: AsyncIterable[bytes]) -> CreatedBlob:
        """Store a stream as a blob of ``owner``. Raises TrustError, ValidationError, DecodeError, ConflictError."""
        readers = {"execute_skill": self._settings.execute_skill, "run_code": self._settings.run_code}
        check_allowed(owner, readers, "keep blobs", is_local=self._settings.is_local)
        check_kind(kind)
        pieces = _in_pieces(content)
        first = await anext(pieces, b"")  # only a large upload counts

        async def upload() -> AsyncIterator[bytes]:
            if first:
                yield first
            async for piece in pieces:
                yield piece

        if not self._uploads.has_capacity(owner):
            raise ConflictError("BLOB_ROOM", "too many blobs are being sent at once", details={"retry_after": 1})
        with self._uploads.occupy(owner):
            (blob,) = await self._blobs.store(owner, [(upload(), kind)], self._clock())
        return CreatedBlob(blob.blob_id, blob.size)

    async def open(self, owner: str, blob_id: str) -> OpenBlob:
        """Return a blob of ``owner`` to read; the caller closes it. Raises NotFoundError (``BLOB_NOT_FOUND``)."""
        digest = digest_of(blob_id)
        blob = await self._blobs.find(owner, digest, self._clock())
        path = await self._blobs.file_of(digest) if blob is not None else None
        if blob is None or path is None:
            raise blob_not_found(blob_id)
        try:
            return OpenBlob(blob, os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))
        except OSError as error:
            raise StorageError("STORAGE", f"a blob cannot be read: {error.strerror}") from error

    async def remove(self, owner: str, blob_id: str) -> None:
        """Delete a blob of ``owner``. Raises NotFoundError (``BLOB_NOT_FOUND``)."""
        if not await self._blobs.remove(owner, digest_of(blob_id)):
            raise blob_not_found(blob_id)

    async def read(self, owner: str, params: ReadBlob) -> BlobContent:
        """Return a part of a blob. Raises NotFoundError, DecodeError (``ENCODING``) for bytes asked for as text."""
        with await self.open(owner, params.blob_id) as blob:
            usual = limits.RPC_FILE_BYTES if params.mode == "full" else limits.BLOB_SAMPLE_BYTES
            length = min(params.max_bytes or usual, limits.RPC_FILE_BYTES, blob.size)
            position = blob.size - length if params.mode == "sample_tail" else 0
            data = await blob.read(position, length)
            is_cut = len(data) < blob.size
            if params.encoding == "base64":
                content = base64.b64encode(data).decode()
            else:
                content = _text(data, begins_within=position > 0, ends_within=position + len(data) < blob.size)
            return BlobContent(content, blob.size, is_cut, params.encoding, blob.kind)


async def _in_pieces(content: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield what comes, little ones together: each is handed to a thread."""
    gathered, enough = bytearray(), int(limits.EXECUTION_SMALL_BODY_BYTES)
    async for piece in content:
        gathered += piece
        if len(gathered) > enough:
            yield bytes(gathered)
            gathered.clear()
            enough = _PIECE
    if gathered:
        yield bytes(gathered)


def _text(data: bytes, *, begins_within: bool, ends_within: bool) -> str:
    """Return ``data`` as text without characters that the cuts split. Raises DecodeError (``ENCODING``)."""
    if begins_within:
        left = data[:_LEFT]
        data = data[next((at for at, byte in enumerate(left) if byte not in _CONTINUED), len(left)) :]
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=not ends_within)
    except UnicodeDecodeError as error:
        fix = 'Read it with encoding = "base64".'
        raise DecodeError("ENCODING", "the blob is not UTF-8 text", fix=fix) from error


#: Reason of ours → what a run calls it, where that differs.
_TYPES: Final = {"deadline": "timeout"}
#: A longer wait in the queue, in seconds, is reported in the summary.
_REPORTED_WAIT: Final = 1.0


async def result_of(service: ExecutionService, execution: Execution, called: str) -> RunResult:
    """Return the run that an ended execution was; ``called`` names it in sentences."""
    blobs = tuple(
        OutputBlob(BLOB_PREFIX + one.digest.removeprefix("sha256:"), one.kind, one.size, one.name)
        for one in execution.blobs
    )
    run_id = execution.execution_id
    if execution.status is not ExecutionStatus.COMPLETED:
        failure = execution.failure or Failure("exception", "it failed")
        error, trace = RunError(_TYPES.get(failure.reason, failure.reason), failure.message), failure.details
        log = execution.log + (traceback if isinstance(traceback := trace.get("traceback"), str) else "")
        return RunResult("failed", run_id, f"{called} failed: {failure.message}", None, blobs, log, error)
    output = await service.ledger.output(execution)
    begun = next((event.at for event in execution.timeline if event.what == "claim"), execution.created)
    ran, waited = (execution.completed or execution.updated) - begun, begun - execution.created
    files = f"{len(blobs)} file{'' if len(blobs) == 1 else 's'}"
    summary = f"{called} completed in {ran:.2f} s"
    summary += f" after waiting {waited:.2f} s for its turn" if waited > _REPORTED_WAIT else ""
    summary += f" and handed out {files}" if blobs else ""
    value = None if output is None else msgspec.json.decode(output)
    return RunResult("completed", run_id, summary, value, blobs, execution.log)


_MS: Final = 1000
#: Seconds beyond its deadline that a blob is kept for a run: a clock may be set meanwhile.
_KEPT_SECONDS: Final = 3600.0
#: Seconds between two looks at an execution that no notification comes for.
_LOOK: Final = 5.0
_UNPRINTABLE: Final = re.compile(r"[^ -~]")
_ID_LENGTH: Final = 256
_KIND: Final = "agent"


class Runs:
    """Executes skills and code, and waits for their end.

    ``on_accept`` is called when there is something to run. Each ``owner`` is as of
    :func:`skillwire.server.quotas.caller_of`.
    """

    def __init__(
        self,
        service: ExecutionService,
        callables: CallableSkills,
        granted: GrantCache,
        blobs: RunBlobs,
        *,
        settings: RunSettings,
    ) -> None:
        self.on_accept: Callable[[], object] = lambda: None
        self._service = service
        self._callables = callables
        self._granted = granted
        self._settings = settings
        self.blobs = BlobUploads(blobs, settings, lambda: service.clock().wall)

    async def execute_skill(self, owner: str, skills: SkillsRpc, params: ExecuteSkill) -> RunResult:
        """Execute a skill by its dotted name, and return its result.

        Raises TrustError (``PERMISSION_DENIED``, ``AUTH_REQUIRED``), NotFoundError (``SKILL_NOT_FOUND``,
        ``BLOB_NOT_FOUND``), ValidationError, ConflictError (``TOO_MANY_EXECUTIONS``), StorageError, and PendingError
        (``RUN_PENDING``) when the server stops; the run goes on.
        """
        self._check_capacity(owner)
        with self._service.places.occupy(owner):
            skill = await asyncio.to_thread(skills.usable, params.name, params.version)
            run_id = await self._begin(owner, skill, params)
            return await result_of(self._service, await self._ended(run_id), f"{params.name} {skill.version}")

    async def begin_skill(self, owner: str, skill: Skill, args: Mapping[str, Any]) -> str:
        """Begin a skill's execution for ``owner``; return the run's id for :meth:`follow`. Errors as execute_skill."""
        self._check_capacity(owner)
        return await self._begin(owner, skill, ExecuteSkill(name=skill.name, args=dict(args)))

    async def run_code(self, owner: str, skills: SkillsRpc, params: RunCode) -> RunResult:
        """Run code that the caller brings, and return its result. Errors as execute_skill, and DecodeError."""
        self._check_capacity(owner)
        with self._service.places.occupy(owner):
            run_id = await self._begin_code(owner, skills, params)
            return await result_of(self._service, await self._ended(run_id), "the code")

    async def follow(self, owner: str, run_id: str, seconds: float) -> RunResult:
        """Return the result of a run that ends within ``seconds``.

        Raises NotFoundError (``RUN_NOT_FOUND``) also for another owner's run, PendingError (``RUN_PENDING``).
        """
        execution = await self._service.ledger.find(run_id)
        if execution is None or execution.caller != owner:
            raise NotFoundError("RUN_NOT_FOUND", f"there is no run {run_id[:_ID_LENGTH]!a}")
        is_code = execution.attachments is not None and execution.attachments.code is not None
        called = "the code" if is_code else execution.skill
        is_full = not self._service.places.has_capacity(owner)  # then it is answered now
        del execution  # its inputs are not needed while waiting
        with self._service.places.occupy(owner):
            ended = await self._ended(run_id, 0.0 if is_full else seconds)
        return await result_of(self._service, ended, called)

    async def cancel(self, owner: str, run_id: str) -> None:
        """End a run of ``owner``, unless it has ended."""
        execution = await self._service.ledger.find(run_id)
        if execution is not None and execution.caller == owner:
            await self._service.cancel(run_id, "its caller")

    def _check_capacity(self, owner: str) -> None:
        """Refuse one more waiting caller before anything is stored. Raises ConflictError."""
        if not self._service.places.has_capacity(owner):
            raise queue_full_error("as many wait for their runs as may, or as many of yours")

    async def check(self, owner: str, skill: Skill, *, is_call: bool) -> CallableSkill:
        """Return the callable skill; ``is_call`` if ``owner`` calls it now, and does not only ask.

        Raises TrustError (``PERMISSION_DENIED``, ``AUTH_REQUIRED``) or ValidationError where it cannot be called.
        """
        openings = {"execute_skill": self._settings.execute_skill}
        instead = f" Or call it without rpc: skillwire call HOST/{skill.name}." if skill.action else ""
        check_allowed(owner, openings, "execute skills", is_local=self._settings.is_local, instead=instead)
        callable_skill = await self._callables.load(skill)
        if callable_skill is None:
            message = f"{skill.name} is instructions: it is read with read_skill_file, not executed"
            raise ValidationError("VALIDATION_ERROR", message, fix="Read its SKILL.md, and do what it says.")
        if callable_skill.needs_authentication and owner.startswith(ADDRESS):
            raise TrustError("AUTH_REQUIRED", f"{skill.name} is executed for authenticated callers only")
        if not await self._granted.allows(skill, is_call=is_call):
            message = f"the operator has not granted that {skill.name} runs"
            fix = f"The operator of the server: {GRANT.format(skill.name)}."
            raise TrustError("PERMISSION_DENIED", message, fix=fix, details=_CLOSED)
        return callable_skill

    async def _begin(self, owner: str, skill: Skill, params: ExecuteSkill) -> str:
        callable_skill = await self.check(owner, skill, is_call=True)
        attachments = Attachments(_blobs_of(params.input_blobs, params.args, callable_skill))
        return await self._accept(owner, callable_skill, params.args, attachments, timeout_ms=params.timeout_ms)

    async def _begin_code(self, owner: str, skills: SkillsRpc, params: RunCode) -> str:
        openings = {"run_code": self._settings.run_code}
        check_allowed(owner, openings, "run code that callers bring", is_local=self._settings.is_local)
        code = params.code.encode(errors="surrogatepass")
        if len(code) > limits.RUN_CODE_BYTES:
            message = f"the code has {len(code):,} bytes, {limits.RUN_CODE_BYTES:,} at most"
            raise DecodeError("LIMIT_SIZE", message, fix="Let it read what is large from a blob.")
        _check_number("mount_skills", params.mount_skills, limits.RUN_MOUNTS)
        names = dict.fromkeys(params.mount_skills)
        mounted = await asyncio.to_thread(lambda: {name: skills.usable(name) for name in names})
        if GUIDE in mounted and mounted[GUIDE] is load_guide().skill:  # no store has its files
            fix = "Read it with load_skills_protocol_guide."
            raise ValidationError("VALIDATION_ERROR", f"{GUIDE} is part of this server, and is not mounted", fix=fix)
        callable_skill = callable_code(code_skill(code, params.entrypoint))
        blobs = _blobs_of(params.input_blobs, params.args, callable_skill)
        mounts = tuple((name, str(skill.artifact.digest)) for name, skill in mounted.items())
        return await self._accept(
            owner,
            callable_skill,
            params.args,
            Attachments(blobs, mounts, params.code),
            timeout_ms=params.limits.timeout_ms,
            skills=tuple(mounted.values()),
        )

    async def _accept(
        self,
        owner: str,
        callable_skill: CallableSkill,
        args: Mapping[str, Any],
        attachments: Attachments,
        *,
        timeout_ms: int | None,
        skills: Sequence[Skill] = (),
    ) -> str:
        """Accept a run; return its ID, so that a waiting request does not keep the inputs."""
        if len(msgspec.json.encode(args)) > limits.EXECUTION_REQUEST_BYTES:
            message = f"args have more than {limits.EXECUTION_REQUEST_BYTES:,} bytes"
            raise DecodeError("LIMIT_SIZE", message, fix="Hand in what is large as a blob.")
        self.on_accept()
        now, longest = self._service.clock().wall, round(self._service.settings.longest * _MS)
        if callable_skill.action.executor == "human":  # the caller waits, so a person gets no more time than code
            timeout_ms = min(timeout_ms or longest, longest)
        caller = _UNPRINTABLE.sub("?", owner.partition(" ")[2])[:_ID_LENGTH] or _KIND
        request = InvocationRequest(
            caller=Caller(id=caller, type=_KIND),
            skill_id=callable_skill.skill_id,
            inputs=dict(args),
            context=InvocationContext(timeout_ms=timeout_ms) if timeout_ms else UNSET,
        )

        def hold(execution: Execution) -> BlobHold | None:
            until = max(execution.deadline + _KEPT_SECONDS, now + self._settings.blob_seconds)
            blobs = tuple(Digest(blob) for blob in attachments.blobs)
            return BlobHold(owner, blobs, now, until) if blobs else None

        invocation = Invocation(request, owner, now, attachments=attachments)
        accepted = await self._service.accept(callable_skill, invocation, skills=skills, hold=hold)
        return accepted.execution.execution_id

    async def _ended(self, run_id: str, seconds: float | None = None) -> Execution:
        """Return an execution when it has ended, within ``seconds`` if given. Raises PendingError (``RUN_PENDING``)."""
        changes, loop = self._service.changes, asyncio.get_running_loop()
        until = math.inf if seconds is None else loop.time() + seconds
        with changes.follow(run_id) as following:
            while True:
                now = await self._service.ledger.find(run_id)
                if now is not None and now.status.is_final:
                    return now
                left = until - loop.time()
                if changes.is_closed or now is None or left <= 0:
                    message = f"the run {run_id} goes on, and was not waited for any longer"
                    details = {"run_id": run_id, "status": str(now.status) if now else "accepted"}
                    raise PendingError("RUN_PENDING", message, details=details)
                del now
                await following.wait(min(_LOOK, left))


def _blobs_of(named: Iterable[str], args: Mapping[str, Any], callable_skill: CallableSkill) -> tuple[str, ...]:
    """Return the digests of a run's blobs: the named ones, and arguments that are blob ids.

    Raises ValidationError for too many, or where nothing reads them; NotFoundError (``BLOB_NOT_FOUND``).
    """
    blobs = list(dict.fromkeys(named))
    if callable_skill.action.executor != "python":
        if blobs:
            message = f"{callable_skill.skill.name} is no code: blobs are files that only code could read"
            raise ValidationError("VALIDATION_ERROR", message, fix="Call it without input_blobs.")
        return ()
    blobs = list(dict.fromkeys([*blobs, *(value for value in args.values() if is_blob_id(value))]))
    _check_number("input_blobs", blobs, limits.RUN_INPUT_BLOBS)
    return tuple(str(digest_of(one)) for one in blobs)


def _check_number(name: str, given: Sequence[str], most: int) -> None:
    if len(given) > most:
        raise ValidationError("VALIDATION_ERROR", f"{name} has {len(given)} entries, {most} at most")
