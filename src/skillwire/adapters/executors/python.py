"""Skills that are Python code: a function of the skill's folder, called in a sandbox.

Each attempt gets a sandbox of its own (:mod:`skillwire.adapters.sandbox`): a bare interpreter, the skill's
folder, a temporary work folder, and nothing of this server. The outcome:

====================================  ====================  =======================
the skill                             reason                another attempt may help
====================================  ====================  =======================
returned JSON                         none: an output
raised                                ``exception``         yes
ended without returning               ``exit``              yes
reached a limit of the sandbox        ``limit``             no
returned no JSON, or too much         ``output``            no
left files with forbidden names       ``output``            no
left more files than are stored       ``limit``             no
took too long                         ``deadline``          no
needs a secret that is not set        ``unavailable``       no
====================================  ====================  =======================

The log is the end of the printed output, without secrets; a failure has it in its details. A skill's time
begins with its code; its end and its log have :data:`skillwire.limits.EXECUTION_END_SECONDS` after the deadline.

A run finds the blobs and skills that it was given as mounted files. Files that it leaves come out of the sandbox
behind the report in one stream: the report lists names and sizes, the bytes follow. A skill can forge all of it, so
names are checked like every untrusted path, sizes are limited, media types are guessed from the names, and a list that
does not add up is refused as a whole. The files become blobs of the run's caller.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import mimetypes
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import structlog

from skillwire import limits
from skillwire.adapters.executors.secrets import SecretMask, Secrets
from skillwire.adapters.files.atomic import (
    cache_directory,
    make_folder,
    open_locked,
    storage_error,
    storage_errors,
    sync_folder,
)
from skillwire.adapters.http.connection import Resolver, resolve_host
from skillwire.adapters.sandbox import Job, Sandbox
from skillwire.adapters.sandbox.bubblewrap import BLOBS, SKILLS, Mount, find_interpreter
from skillwire.adapters.sandbox.process import Ending
from skillwire.adapters.sandbox.proxy import AllowListProxy, read_patterns
from skillwire.adapters.sandbox.resources import Limit, ResourceLimits
from skillwire.errors import (
    ConflictError,
    DecodeError,
    SkillwireError,
    SourceLocation,
    StorageError,
    TrustError,
    in_seconds,
)
from skillwire.executions.callable_skill import is_code
from skillwire.model.digest import Digest
from skillwire.model.execution import (
    Attachments,
    Attempt,
    Failure,
    Outcome,
    OutputBlob,
    Reason,
    blob_not_found,
    check_kind,
)
from skillwire.model.skill import Action, Skill, SkillFile
from skillwire.ports import BlobStore, RunBlobs
from skillwire.trust.address import AddressPolicy
from skillwire.trust.guarded_json import load_json
from skillwire.trust.hidden_text import neutralise
from skillwire.trust.paths import check_path, collision_key

_PIECE: Final = 256 * 1024
_UNKNOWN: Final = "application/octet-stream"
_ROW: Final = 2
#: The endings that Python itself knows, whatever the machine says.
_ENDINGS: Final = mimetypes.MimeTypes(filenames=())
_MAKING: Final = ".making-"
_GOING: Final = ".going-"
_ABANDONED_SECONDS: Final = 600.0  # a skill is unpacked in less than one


class UnpackedSkills:
    """Skills as folders that are ready to run, in a folder of their own; at most ``keep``, and ``keep_bytes`` of them.

    A folder is named by the digest of its artifact. It is made aside, synced, renamed into place and never changed, so
    any number of sandboxes and servers use it at once, and a power cut leaves no half file. A user holds a lock on the
    folder itself, which ends with the process; only folders without a lock are removed, the longest unused first.
    """

    def __init__(
        self,
        folder: Path,
        blobs: BlobStore,
        *,
        keep: int = limits.UNPACKED_SKILLS,
        keep_bytes: int = limits.UNPACKED_BYTES,
    ) -> None:
        self._folder = folder
        self._blobs = blobs
        self._keep, self._keep_bytes = keep, keep_bytes

    def lock(self, skill: Skill) -> LockedFolder:
        """Return the unpacked folder of ``skill``, locked until closed. Raises StorageError (``STORAGE``)."""
        size = sum(file.size for file in skill.files)
        path = self._folder / f"{skill.artifact.digest.hex}-{size}"
        with storage_errors(path):
            while True:
                with suppress(FileNotFoundError):
                    descriptor = open_locked(path, os.O_RDONLY | os.O_DIRECTORY, operation=fcntl.LOCK_SH)
                    if descriptor is not None:  # else it was removed meanwhile
                        os.utime(descriptor)
                        return LockedFolder(path, descriptor)
                self._make(path, skill)
                self._evict(keep=path)

    def _make(self, path: Path, skill: Skill) -> None:
        make_folder(self._folder, mode=0o700)
        making = self._folder / f"{_MAKING}{os.urandom(8).hex()}"
        making.mkdir()
        try:
            for file in skill.files:
                self._write(making, file)
            for folder in (making, *filter(Path.is_dir, making.rglob("*"))):
                folder.chmod(0o755)  # whatever the umask: a server of root runs skills as another user
                sync_folder(folder)
            try:
                making.rename(path)
            except OSError as error:
                if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:  # those: another process made the same before
                    raise
        finally:
            shutil.rmtree(making, ignore_errors=True)

    def _write(self, root: Path, file: SkillFile) -> None:
        content = self._blobs.read(file.digest)
        if content is None:
            fix = "Call the skill again: the server makes the blob again."
            raise StorageError("STORAGE", "a blob was damaged or missing", place=SourceLocation(file.path), fix=fix)
        path = root / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as stream:  # noqa: PTH123  # from a handle
            stream.write(content)
            os.fchmod(stream.fileno(), 0o555 if file.executable else 0o444)
            stream.flush()
            os.fsync(stream.fileno())

    def _evict(self, keep: Path) -> None:
        """Remove what is too much, and what killed processes left half made; never ``keep``."""
        rows: list[tuple[float, Path]] = []
        for path in self._folder.iterdir():
            with suppress(OSError):  # removed meanwhile
                rows.append((path.stat().st_mtime, path))
        count, size = 0, 0
        for used, path in sorted(rows, reverse=True):
            if path.name.startswith("."):
                if used < time.time() - _ABANDONED_SECONDS or path.name.startswith(_GOING):
                    self._remove(path)
                continue
            count, size = count + 1, size + int(path.name.rpartition("-")[2])
            if path != keep and (count > self._keep or size > self._keep_bytes):
                self._remove(path)

    def _remove(self, path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # it was made, or removed, meanwhile
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            going = self._folder / f"{_GOING}{os.urandom(8).hex()}"
            path.rename(going)  # a process that locks it now sees that it was moved
            shutil.rmtree(going, ignore_errors=True)
        except OSError:  # another process uses or removes it
            return
        finally:
            os.close(descriptor)


class LockedFolder:
    """A folder that stays as long as this is not closed."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def close(self) -> None:
        """Unlock it."""
        os.close(self.descriptor)


def read_output_rows(listed: object, size: int, bounds: ResourceLimits) -> list[tuple[str, int]]:
    """Return the names and sizes in an unchecked report; ``size`` bytes came behind it.

    Raises TrustError (``PATH_...``, ``PATH_COLLISION``), DecodeError (``LIMIT_ENTRIES``, ``LIMIT_SIZE``).
    """
    if not isinstance(listed, list) or len(listed) > bounds.blobs:
        raise DecodeError("LIMIT_ENTRIES", f"it lists no files, or more than {bounds.blobs}")
    rows: list[tuple[str, int]] = []
    for row in listed:
        if not isinstance(row, list) or len(row) != _ROW or not isinstance(row[0], str) or type(row[1]) is not int:
            raise DecodeError("LIMIT_ENTRIES", "it lists what is no file")
        if row[1] < 0:
            raise DecodeError("LIMIT_SIZE", "it lists a file of less than nothing")
        rows.append((check_path(row[0]), row[1]))
    if len({collision_key(name) for name, _ in rows}) < len(rows):
        raise TrustError("PATH_COLLISION", "two of its files have one name")
    if sum(length for _, length in rows) != size:
        raise DecodeError("LIMIT_SIZE", "its files changed while they were read")
    return rows


def kind_of(name: str) -> str:
    """Return the media type that the ending of a file's name stands for."""
    try:
        kind, encoding = _ENDINGS.guess_type(f"file:///{name}")
        return _UNKNOWN if kind is None or encoding is not None else check_kind(kind)
    except (ValueError, SkillwireError):
        return _UNKNOWN


async def store_output_files(
    blobs: RunBlobs, owner: str, rows: Sequence[tuple[str, int]], files: BinaryIO, now: float
) -> tuple[OutputBlob, ...] | Failure:
    """Store files as blobs of ``owner`` and close ``files``, which holds them one after the other."""
    try:
        files.seek(0)
        kept = await blobs.store(owner, [(_read(files, size), kind_of(name)) for name, size in rows], now)
        return tuple(
            OutputBlob(str(blob.digest), blob.kind, blob.size, name) for blob, (name, _) in zip(kept, rows, strict=True)
        )
    except (ConflictError, DecodeError) as error:
        message = f"what the skill handed out cannot be kept: {error.message}"
        return Failure("limit", message, details=dict(error.details))
    finally:
        files.close()


async def _read(files: BinaryIO, size: int) -> AsyncIterator[bytes]:
    while size:
        piece = await asyncio.to_thread(files.read, min(_PIECE, size))
        if not piece:
            raise DecodeError("LIMIT_SIZE", "a file is shorter than it was")
        yield piece
        size -= len(piece)


_SIGNALLED: Final = 128
_SIGXCPU: Final = 24
_MESSAGE_LENGTH: Final = 500
#: An error of the system that a bound of ours explains.
_BY_ERRNO: Final[dict[int, Limit]] = {
    errno.ENOSPC: "work_bytes",
    errno.EFBIG: "file_bytes",
    errno.EMFILE: "open_files",
    errno.ENOMEM: "address_bytes",
}
#: The bytes in UTF-8 that begin no character: a cut may leave some of them.
_CONTINUED: Final = bytes(range(0x80, 0xC0))


class Shown:
    """Makes texts of a skill safe to show: without secrets, without this machine's paths, harmless.

    ``called`` is what sentences call it: "the skill", or "the code".
    """

    def __init__(self, secrets: tuple[str, ...], called: str) -> None:
        self._mask = SecretMask(secrets)
        self.called = called

    def text(self, text: object) -> str:
        """Return the begin of ``text``."""
        return neutralise(self._clean(str(text))[:_MESSAGE_LENGTH])

    def end(self, text: object, length: int) -> str:
        """Return the end of ``text``."""
        return neutralise(self._clean(str(text))[-length:])

    def _clean(self, text: str) -> str:
        return self._mask.text(text).replace(find_interpreter().library, "<python>")

    def log(self, ending: Ending, length: int) -> str:
        """Return the end of what was printed."""
        kept = ending.log.lstrip(_CONTINUED) if ending.is_log_cut else ending.log
        printed = self._clean(kept.decode(errors="replace"))
        if ending.is_log_cut:
            printed = printed[self._mask.longest :]  # it may begin within a secret
        cut = ending.is_log_cut or len(printed) > length
        return ("… " if cut else "") + neutralise(printed[-length:])


def outcome_of(ending: Ending, report: Mapping[str, Any] | None, bounds: ResourceLimits, shown: Shown) -> Outcome:
    """Return the outcome of code that has ended, from what the runner reported."""
    called, code = shown.called, ending.code
    if ending.limit is not None:
        return _limited(ending.limit, bounds, called)
    if report is None and code == _SIGNALLED + _SIGXCPU:
        return _limited("cpu_seconds", bounds, called)
    if report is None:
        message, details = f"{called} ended with exit code {code} before its function returned", {"exit_code": code}
        if code > _SIGNALLED:
            message, details = f"{called} was ended by signal {code - _SIGNALLED}", {"signal": code - _SIGNALLED}
        return Outcome(failure=Failure("exit", message, is_passing=True, details=details))
    if "output" in report:
        return Outcome(output=report["output"])
    return _reported(report, bounds, shown)


def _reported(report: Mapping[str, Any], bounds: ResourceLimits, shown: Shown) -> Outcome:
    called = shown.called
    if "large" in report:
        return _limited("output_bytes", bounds, called)
    if "exceeded" in report:
        return _limited("blobs" if report["exceeded"] == "blobs" else "blob_bytes", bounds, called)
    if "unfit" in report:
        message = f"the function returned what is not JSON: {shown.text(report['unfit'])}"
        return Outcome(failure=Failure("output", message))
    if "asynchronous" in report:
        name = shown.text(report["asynchronous"])
        message = f"{name} gave a coroutine, which nothing awaits: it has to be a plain function, def and not async def"
        return Outcome(failure=Failure("output", message))
    if "exit" in report:
        message = f"{called} called exit with {shown.text(report['exit'])}"
        return Outcome(failure=Failure("exit", message, is_passing=True))
    return _raised(report, bounds, shown)


def read_report(data: bytes, bounds: ResourceLimits) -> dict[str, Any] | None:
    """Return what the runner reported; None when it did not, or not in this form."""
    try:
        report = load_json(data, max_bytes=bounds.output_bytes + bounds.frame_bytes, source="the result")
    except DecodeError as error:
        return {"unfit": error.message} if data else None
    return report if isinstance(report, dict) and report.keys() & _FORMS else {"unfit": "not a report"}


_FORMS: Final = frozenset({"output", "large", "exceeded", "unfit", "asynchronous", "exit", "exception"})


def _raised(report: Mapping[str, Any], bounds: ResourceLimits, shown: Shown) -> Outcome:
    limit: Limit | None = "address_bytes" if report.get("memory") is True else None
    number = report.get("errno")
    if isinstance(number, int):
        limit = _BY_ERRNO.get(number, limit)
    if limit is not None:
        return _limited(limit, bounds, shown.called)
    name, said = shown.text(report.get("exception")), shown.text(report.get("message", ""))
    details = {"exception": name, "traceback": shown.end(report.get("traceback", ""), bounds.log_shown_bytes)}
    message = f"{shown.called} raised {name}: {said}" if said else f"{shown.called} raised {name}"
    return Outcome(failure=Failure("exception", message, details=details, is_passing=True))


def _limited(limit: Limit, bounds: ResourceLimits, called: str) -> Outcome:
    reason: Reason = "limit"
    code, message = "EXECUTION_FAILED", f"{called} used more than {bounds.say(limit)}"
    if limit == "seconds":
        reason, code = "deadline", "INVOCATION_TIMEOUT"
        message = f"{called} did not end within {in_seconds(bounds.seconds)}"
    elif limit == "output_bytes":
        reason, message = "output", f"the function returned more than {bounds.say(limit)}"
    elif limit == "address_bytes":  # what it asked for at last is not known
        message = f"{called} got no more memory: one process has at most {bounds.say(limit)}"
    return Outcome(failure=Failure(reason, message, code, {"limit": limit}))


class PythonExecutor:
    """Fills :class:`skillwire.ports.Executor` for actions of the kind ``python``.

    ``bounds`` are those of an attempt with so many seconds left; without ``run_blobs`` none comes in or goes out.
    """

    def __init__(
        self,
        blobs: BlobStore,
        *,
        secrets: Secrets | None = None,
        policy: AddressPolicy | None = None,
        folder: Path | None = None,
        bounds: Callable[[float], ResourceLimits] = ResourceLimits,
        sandbox: Sandbox | None = None,
        resolve: Resolver = resolve_host,
        run_blobs: RunBlobs | None = None,
    ) -> None:
        self._unpacked = UnpackedSkills(folder or cache_directory() / "unpacked", blobs)
        self._secrets = Secrets(os.environ) if secrets is None else secrets
        self._policy = AddressPolicy() if policy is None else policy
        self._bounds = bounds
        self._sandbox = sandbox or Sandbox()
        self._resolve = resolve
        self._run_blobs = run_blobs
        self._log = structlog.get_logger("skillwire")

    async def check(self) -> None:
        """Check that skills can run here. Raises TrustError (``SANDBOX_UNAVAILABLE``) with the fix."""
        await asyncio.to_thread(self._sandbox.check)

    async def execute(self, attempt: Attempt) -> Outcome:
        """Call the skill's function once. Everything of it has ended when this returns or is cancelled."""
        action = attempt.skill.action
        if action is None or not action.entrypoint:
            return Outcome(failure=Failure("unavailable", "the skill has no Python entry point any more"))
        try:
            found: dict[str, str] = {}
            if action.permissions.secrets:
                found, missing = await asyncio.to_thread(self._secrets.find, action.permissions.secrets)
                if missing:
                    return Outcome(failure=Failure("unavailable", f"the operator has not set {', '.join(missing)}"))
            return await self._run(attempt, action, found)
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

    async def _run(self, attempt: Attempt, action: Action, found: Mapping[str, str]) -> Outcome:
        async with AsyncExitStack() as stack:
            folder, code, mounts = await self._view(attempt, stack)
            proxy = None
            if action.permissions.network:
                patterns = read_patterns(action.permissions.network)

                def log_refusal(why: str) -> None:
                    self._log.warning("connection refused", skill=attempt.skill.name, reason=neutralise(why))

                allowing = AllowListProxy(patterns, self._policy, resolve=self._resolve, on_refusal=log_refusal)
                proxy = (await stack.enter_async_context(allowing)).path
            bounds = self._bounds(attempt.seconds)
            about = {
                "SKILLWIRE_EXECUTION_ID": attempt.execution.execution_id,
                "SKILLWIRE_TRACE_ID": attempt.execution.trace_id or "",
                "SKILLWIRE_ATTEMPT": str(attempt.execution.attempt),
            }
            job = Job(
                folder=folder,
                entrypoint=action.entrypoint,
                export=action.export,
                inputs=attempt.inputs,
                environment={**found, **about},
                bounds=bounds,
                proxy=proxy,
                log_bytes=bounds.log_shown_bytes + 4 * SecretMask(found.values()).longest,
                code=code,
                mounts=mounts,
                spool=self._run_blobs.spool if self._run_blobs and attempt.execution.attachments else None,
            )
            ending = await self._sandbox.run(job)
        return await self._judge(attempt, ending, bounds, tuple(found.values()))

    async def _view(self, attempt: Attempt, stack: AsyncExitStack) -> tuple[Path | None, bytes | None, list[Mount]]:
        """Return the skill's folder or the code, and the mounts, which stay until ``stack`` ends."""
        given = attempt.execution.attachments or Attachments()
        mounts = [
            Mount(str(await self._folder(skill, stack)), f"{SKILLS}/{name}") for name, skill in attempt.mounts.items()
        ]
        for digest in map(Digest, given.blobs):
            path = None if self._run_blobs is None else await self._run_blobs.file_of(digest)
            if path is None:
                raise blob_not_found(digest.hex)
            mounts.append(Mount(str(path), f"{BLOBS}/{digest.hex}"))
        if is_code(attempt.skill) and given.code is not None:
            return None, given.code.encode(errors="surrogatepass"), mounts
        return await self._folder(attempt.skill, stack), None, mounts

    async def _folder(self, skill: Skill, stack: AsyncExitStack) -> Path:
        locking = asyncio.ensure_future(asyncio.to_thread(self._unpacked.lock, skill))

        def release(done: asyncio.Future[LockedFolder]) -> None:
            if not done.cancelled() and done.exception() is None:
                done.result().close()

        try:
            folder = await asyncio.shield(locking)
        except asyncio.CancelledError:  # no thread can be stopped
            locking.add_done_callback(release)
            raise
        stack.callback(folder.close)
        return folder.path

    async def _judge(self, attempt: Attempt, ending: Ending, bounds: ResourceLimits, found: tuple[str, ...]) -> Outcome:
        def judge() -> tuple[str, object, Outcome]:
            shown = Shown(found, "the code" if is_code(attempt.skill) else "the skill")
            report = None if ending.limit else read_report(ending.report, bounds)
            outcome = outcome_of(ending, report, bounds, shown)
            return shown.log(ending, bounds.log_shown_bytes), report and report.get("files"), outcome

        with ending.files or nullcontext():
            # A report of several MiB takes seconds to read and to search for secrets.
            log, listed, outcome = await asyncio.to_thread(judge)
            identifier = attempt.execution.execution_id
            self._log.debug("skill ran", skill=attempt.skill.name, execution=identifier, code=ending.code, log=log)
            if ending.files is not None:
                outcome = await self._with_files(attempt, ending.files, listed, outcome, bounds)
        outcome = outcome._replace(log=log)
        if outcome.failure is None or not log:
            return outcome
        details = {**outcome.failure.details, "log": log}
        return outcome._replace(failure=outcome.failure._replace(details=details))

    async def _with_files(
        self, attempt: Attempt, files: BinaryIO, listed: object, outcome: Outcome, bounds: ResourceLimits
    ) -> Outcome:
        """Return the outcome with what was handed out, all of it; or why it has failed of that."""
        if outcome.failure is not None or self._run_blobs is None:
            return outcome
        try:
            rows = read_output_rows(listed, files.seek(0, os.SEEK_END), bounds)
        except (DecodeError, TrustError) as error:
            called = "the code" if is_code(attempt.skill) else "the skill"
            message = f"what {called} handed out is refused: {error.message}"
            return Outcome(failure=Failure("output", message))
        try:
            kept = await store_output_files(self._run_blobs, attempt.execution.caller, rows, files, time.time())
        except SkillwireError as error:
            return self._unable(attempt, error)
        return Outcome(failure=kept) if isinstance(kept, Failure) else outcome._replace(blobs=kept)
