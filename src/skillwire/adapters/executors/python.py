"""Skills that are Python code: a function of the skill's folder, called in a sandbox.

Each attempt gets a sandbox of its own (:mod:`skillwire.adapters.sandbox.sandbox`): a bare interpreter, the skill's
folder, a work folder that is forgotten, and nothing of this server. What becomes of it:

====================================  ====================  =======================
the skill                             reason                another attempt may help
====================================  ====================  =======================
returned JSON                         none: that is the output
raised                                ``exception``         yes
ended without returning               ``exit``              yes
met a bound of the sandbox            ``limit``             no
returned what is no JSON, or too much ``output``            no
handed out files with forbidden names ``output``            no
handed out more than is kept          ``limit``             no
took longer than it had               ``deadline``          no
wants a secret that nobody has set    ``unavailable``       no
====================================  ====================  =======================

The log is the end of what it printed, without secrets; that of one that failed stands in its details, too. So that one
that takes too long has a log as well, the sandbox ends it a little before the deadline of its execution:
:data:`skillwire.limits.SANDBOX_END_MS`.

A run that is given blobs and skills finds them as files, mounted from where they lie. What it hands out becomes blobs
of its caller: :mod:`skillwire.adapters.executors.handed_out`.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

import structlog

from skillwire import limits
from skillwire.adapters.executors.handed_out import keep_files, read_rows
from skillwire.adapters.executors.told import Shown, outcome_of, read_report
from skillwire.adapters.executors.unpacked import UnpackedSkills
from skillwire.adapters.files.atomic import storage_error
from skillwire.adapters.files.directories import cache_directory
from skillwire.adapters.http.names import look_up
from skillwire.adapters.sandbox.arguments import BLOBS, SKILLS, Mount
from skillwire.adapters.sandbox.bounds import Bounds
from skillwire.adapters.sandbox.granted import read_patterns
from skillwire.adapters.sandbox.proxy import AllowListProxy
from skillwire.adapters.sandbox.sandbox import Job, Sandbox
from skillwire.adapters.sandbox.secrets import Secrets, longest
from skillwire.errors import DecodeError, SkillwireError, TrustError
from skillwire.invocation.code import is_code
from skillwire.model.digest import Digest
from skillwire.model.execution import Attachments, Failure, Outcome
from skillwire.model.run_blob import no_blob
from skillwire.trust.address import AddressPolicy
from skillwire.trust.hidden_text import neutralise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillwire.adapters.executors.unpacked import Held
    from skillwire.adapters.http.names import Resolver
    from skillwire.adapters.sandbox.process import Ending
    from skillwire.model.action import Action
    from skillwire.model.execution import Attempt
    from skillwire.model.skill import Skill
    from skillwire.ports import BlobStore, RunBlobs

_MS: Final = 1000
#: So much of a short time is the margin at its end: the fifth part.
_MARGIN_PART: Final = 5


class PythonExecutor:
    """Fills :class:`skillwire.ports.Executor` for actions of the kind ``python``.

    Args:
        blobs: hold the files of the skills.
        secrets: those of this server; by default its environment.
        policy: where granted connections may lead; by default to public addresses.
        folder: where skills lie unpacked; by default in the cache directory.
        bounds: those of an attempt that has ``seconds`` left; by default those of :mod:`skillwire.limits`.
        sandbox: runs it.
        resolve: asked for the addresses of names.
        run_blobs: the blobs of callers; without them none comes in or goes out.
        on_log: told the execution's ID and the end of what was printed, without secrets, of each attempt.
    """

    def __init__(
        self,
        blobs: BlobStore,
        *,
        secrets: Secrets | None = None,
        policy: AddressPolicy | None = None,
        folder: Path | None = None,
        bounds: Callable[[float], Bounds] = Bounds,
        sandbox: Sandbox | None = None,
        resolve: Resolver = look_up,
        run_blobs: RunBlobs | None = None,
        on_log: Callable[[str, str], object] = lambda *_: None,
    ) -> None:
        self._unpacked = UnpackedSkills(folder or cache_directory() / "unpacked", blobs)
        self._secrets = Secrets(os.environ) if secrets is None else secrets
        self._policy = AddressPolicy() if policy is None else policy
        self._bounds = bounds
        self._sandbox = sandbox or Sandbox()
        self._resolve = resolve
        self._run_blobs = run_blobs
        self._on_log = on_log
        self._log = structlog.get_logger("skillwire")

    async def check(self) -> None:
        """See whether skills can be run here. For the start of a server.

        Raises:
            TrustError: ``SANDBOX_UNAVAILABLE``, with the fix.
        """
        await asyncio.to_thread(self._sandbox.check)

    async def execute(self, attempt: Attempt) -> Outcome:
        """Call the skill's function once. Everything of it has ended when this returns or is cancelled."""
        began = time.monotonic()
        action = attempt.skill.action
        if action is None or not action.entrypoint:
            return Outcome(failure=Failure("unavailable", "the skill has no Python entry point any more"))
        try:
            found: dict[str, str] = {}
            if action.permissions.secrets:
                found, missing = await asyncio.to_thread(self._secrets.find, action.permissions.secrets)
                if missing:
                    return Outcome(failure=Failure("unavailable", f"the operator has not set {', '.join(missing)}"))
            return await self._run(attempt, action, found, began + attempt.seconds)
        except OSError as error:  # such as a disk that is full of what a skill handed out
            return self._unable(attempt, storage_error(error, Path(error.filename or "")))
        except SkillwireError as error:  # for the operator; a caller learns nothing of this machine
            return self._unable(attempt, error)

    def _unable(self, attempt: Attempt, error: SkillwireError) -> Outcome:
        self._log.error(
            "a skill cannot be run",
            skill=attempt.skill.name,
            code=error.code,
            reason=error.message,
            place=error.place and str(error.place),
            fix=error.diagnostics().fix,
        )
        failure = Failure("unavailable", "the server cannot run the skill", is_passing=error.retryable)
        return Outcome(failure=failure)

    async def _run(self, attempt: Attempt, action: Action, found: Mapping[str, str], deadline: float) -> Outcome:
        async with AsyncExitStack() as stack:
            view = await self._view(attempt, stack)
            proxy = None
            if action.permissions.network:
                patterns = read_patterns(action.permissions.network)
                tell = self._refusal_teller(attempt)
                allowing = AllowListProxy(patterns, self._policy, resolve=self._resolve, on_refusal=tell)
                proxy = (await stack.enter_async_context(allowing)).path
            bounds = self._bounds(_seconds_until(deadline, attempt.seconds))
            job = Job(
                folder=view.folder,
                entrypoint=action.entrypoint,
                export=action.export,
                inputs=attempt.inputs,
                environment={**found, **_about(attempt)},
                bounds=bounds,
                proxy=proxy,
                log_bytes=bounds.log_shown_bytes + 4 * longest(found.values()),
                code=view.code,
                mounts=view.mounts,
                spool=self._run_blobs.spool if self._run_blobs and attempt.execution.attachments else None,
            )
            ending = await self._sandbox.run(job)
        return await self._judge(attempt, ending, bounds, tuple(found.values()))

    async def _view(self, attempt: Attempt, stack: AsyncExitStack) -> _View:
        """Return what the code of an attempt sees; it stays until the end of ``stack``.

        Raises:
            NotFoundError: ``BLOB_NOT_FOUND``, ``FILE_NOT_FOUND``. StorageError: ``STORAGE``.
        """
        given = attempt.execution.attachments or Attachments()
        mounts = [
            Mount(str(await self._folder(skill, stack)), f"{SKILLS}/{name}") for name, skill in attempt.mounts.items()
        ]
        for digest in map(Digest, given.blobs):
            path = None if self._run_blobs is None else await asyncio.to_thread(self._run_blobs.path, digest)
            if path is None:
                raise no_blob(digest.hex)
            mounts.append(Mount(str(path), f"{BLOBS}/{digest.hex}"))
        if is_code(attempt.skill) and given.code is not None:
            return _View(None, given.code.encode(errors="surrogatepass"), mounts)
        return _View(await self._folder(attempt.skill, stack), None, mounts)

    async def _folder(self, skill: Skill, stack: AsyncExitStack) -> Path:
        held = await self._hold(skill)
        stack.callback(held.close)
        return held.path

    async def _hold(self, skill: Skill) -> Held:
        """Return the skill's folder; let go of it when nobody waits for it any more, since no thread can be stopped."""
        holding = asyncio.ensure_future(asyncio.to_thread(self._unpacked.hold, skill))
        try:
            return await asyncio.shield(holding)
        except asyncio.CancelledError:
            holding.add_done_callback(_let_go)
            raise

    def _refusal_teller(self, attempt: Attempt) -> Callable[[str], object]:
        def tell(why: str) -> None:
            self._log.warning("connection refused", skill=attempt.skill.name, reason=neutralise(why))

        return tell

    async def _judge(self, attempt: Attempt, ending: Ending, bounds: Bounds, found: tuple[str, ...]) -> Outcome:
        shown = Shown(found, _called(attempt))
        log = shown.log(ending, bounds.log_shown_bytes)
        identifier = attempt.execution.execution_id
        self._on_log(identifier, log)
        self._log.debug("skill ran", skill=attempt.skill.name, execution=identifier, code=ending.code, log=log)
        report = None if ending.limit else read_report(ending.report, bounds)
        outcome = outcome_of(ending, report, bounds, shown)
        if ending.files is not None:
            listed = report and report.get("files")
            outcome = await asyncio.to_thread(self._with_files, attempt, ending.files, listed, outcome, bounds)
        outcome = outcome._replace(log=log)
        if outcome.failure is None or not log:
            return outcome
        details = {**outcome.failure.details, "log": log}
        return outcome._replace(failure=outcome.failure._replace(details=details))

    def _with_files(
        self, attempt: Attempt, files: BinaryIO, listed: object, outcome: Outcome, bounds: Bounds
    ) -> Outcome:
        """Return the outcome with what was handed out, all of it; or why it has failed of that."""
        with files:
            if outcome.failure is not None or self._run_blobs is None:
                return outcome
            try:
                rows = read_rows(listed, files.seek(0, os.SEEK_END), bounds)
            except (DecodeError, TrustError) as error:
                message = f"what {_called(attempt)} handed out is refused: {error.message}"
                return Outcome(failure=Failure("output", message))
            try:
                kept = keep_files(self._run_blobs, attempt.execution.caller, rows, files, time.time())
            except SkillwireError as error:
                return self._unable(attempt, error)
        return Outcome(failure=kept) if isinstance(kept, Failure) else outcome._replace(blobs=kept)


class _View(NamedTuple):
    """What code sees beside what every sandbox has: the skill's folder, or the code alone; and mounts."""

    folder: Path | None
    code: bytes | None
    mounts: list[Mount]


def _let_go(holding: asyncio.Future[Held]) -> None:
    if not holding.cancelled() and holding.exception() is None:
        holding.result().close()


def _seconds_until(deadline: float, given: float) -> float:
    """Return how long code may run: until a little before ``deadline``, at which nobody waits for its log any more."""
    margin = min(limits.SANDBOX_END_MS / _MS, given / _MARGIN_PART)
    return max(deadline - time.monotonic() - margin, 0.0)


def _called(attempt: Attempt) -> str:
    return "the code" if is_code(attempt.skill) else "the skill"


def _about(attempt: Attempt) -> dict[str, str]:
    return {
        "SKILLWIRE_EXECUTION_ID": attempt.execution.execution_id,
        "SKILLWIRE_TRACE_ID": attempt.execution.trace_id or "",
        "SKILLWIRE_ATTEMPT": str(attempt.execution.attempt),
    }
