"""The sandbox in which the code of a skill runs; ``docs/topics/sandbox.md`` describes what is inside.

:class:`Sandbox` puts a job together: mounts and namespaces (:mod:`~skillwire.adapters.sandbox.bubblewrap`), system
calls (:mod:`~skillwire.adapters.sandbox.seccomp`) and limits (:mod:`~skillwire.adapters.sandbox.resources`), and
:mod:`~skillwire.adapters.sandbox.process` runs it. A skill's code never runs without it: where it does not work,
:meth:`Sandbox.check` reports why and how to fix it.
"""

from __future__ import annotations

import asyncio
import json
import marshal
import os
import secrets
import threading
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire.adapters.sandbox.bubblewrap import (
    AUTHORITIES,
    BLOBS,
    OUTPUT,
    PROXY,
    RUNNER,
    SKILL,
    SKILLS,
    Mount,
    Program,
    Written,
    find_authorities,
    find_interpreter,
    find_program,
    find_setpriv,
    inner_arguments,
    outer_arguments,
    own_mounts,
)
from skillwire.adapters.sandbox.process import Ending, Launch, Process
from skillwire.adapters.sandbox.resources import ResourceLimits
from skillwire.adapters.sandbox.seccomp import program as filter_program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import BinaryIO

_UIDS: Final = range(1_900_000_000, 1_900_000_000 + 2**24)  # systemd and others give out none of these
_FEW_UIDS: Final = range(60_000, 61_000)  # where a container has no more than 65,536
_SYSTEM_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_UIDS_SINCE: Final = (5, 14)  # before, the kernel counted a user's processes on the whole machine
_OWN_PROCESSES: Final = 2  # the first one, and the forwarder
_FORWARDING: Final = 32  # threads of the forwarder, two for each open connection


class Job(NamedTuple):
    """One call of a skill's function.

    Args:
        folder: the skill, unpacked; readable for all users, because it runs under another uid when we are root. None
            where it is ``code`` alone.
        entrypoint: the file, relative to the folder.
        export: the function in it.
        inputs: its argument, as JSON values.
        environment: variables; they are on no command line.
        bounds: hold for all its processes together where the kernel or we can count them.
        proxy: the socket of an :class:`~skillwire.adapters.sandbox.proxy.AllowListProxy`; without one no network.
        log_bytes: how much of the end of what it prints is kept.
        code: the text of the entry point, where it lies in no folder.
        mounts: further files and folders that it sees, readable for all users; places below ``/blobs`` and ``/skills``.
        spool: makes a file for what it hands out; without one nothing is.
    """

    folder: Path | None
    entrypoint: str
    export: str
    inputs: Mapping[str, Any]
    environment: Mapping[str, str]
    bounds: ResourceLimits
    proxy: Path | None = None
    log_bytes: int = 0
    code: bytes | None = None
    mounts: Sequence[Mount] = ()
    spool: Callable[[], BinaryIO] | None = None


class Sandbox:
    """Runs jobs, each in a sandbox of its own, any number at once.

    Args:
        program: bubblewrap; by default that of this machine, looked for when the first job comes.
    """

    def __init__(self, program: Program | None = None) -> None:
        self._given = program

    async def run(self, job: Job) -> Ending:
        """Run ``job`` to its end. When this is cancelled, everything of it is killed first.

        Raises:
            TrustError: ``SANDBOX_UNAVAILABLE``.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Ending] = loop.create_future()
        ended.add_done_callback(
            lambda future: future.cancelled() or future.exception()
        )  # its result is not needed when cancelled
        over = asyncio.Event()
        process = Process()

        def work() -> None:
            outcome: Ending | BaseException
            try:
                with ExitStack() as stack:
                    outcome = process.run(self._launch(job, stack))
            except BaseException as error:  # noqa: BLE001  # raised where it is awaited
                outcome = error
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(_settle, ended, outcome)
                loop.call_soon_threadsafe(over.set)

        threading.Thread(target=work, name="sandbox", daemon=True).start()
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            process.cancel()
            raise
        finally:
            await _uninterrupted(over)
            process.close()

    def run_here(self, job: Job) -> Ending:
        """Run ``job`` in this thread.

        Raises:
            TrustError: ``SANDBOX_UNAVAILABLE``.
        """
        process = Process()
        try:
            with ExitStack() as stack:
                return process.run(self._launch(job, stack))
        finally:
            process.close()

    def check(self) -> float:
        """See whether a sandbox starts; return how many seconds it took.

        Raises:
            TrustError: ``SANDBOX_UNAVAILABLE``, with the fix.
        """
        probe = Job(Path(__file__).resolve().parent, "probe.py", "main", {}, {}, ResourceLimits(seconds=30))
        return self.run_here(probe).started

    @cached_property
    def program(self) -> Program:
        """The bubblewrap that is used.

        Raises:
            TrustError: ``SANDBOX_UNAVAILABLE``.
        """
        return self._given or find_program()

    def _launch(self, job: Job, stack: ExitStack) -> Launch:
        interpreter = find_interpreter()
        skill = [] if job.folder is None else [Mount(str(job.folder), SKILL)]
        mounts = [*own_mounts(interpreter), *skill, *job.mounts, *_network_mounts(job)]
        seccomp = _in_memory(filter_program(os.uname().machine), stack)
        code = [] if job.code is None else [Written(_in_memory(job.code, stack), f"{SKILL}/{job.entrypoint}")]
        inner = inner_arguments(interpreter, mounts, job.bounds, filter_descriptor=seccomp, written=code)
        arguments = _in_memory("\0".join(inner).encode(errors="surrogateescape") + b"\0", stack)
        outer = self._outer(mounts)
        command = [*outer, self.program.path, "--args", str(arguments), "--", *_bare(interpreter.executable), RUNNER]

        def complete(greeting: int, report: int) -> Sequence[str]:
            return [*command, str(greeting), str(report)]

        descriptors = (seccomp, arguments, *(one.descriptor for one in code))
        return Launch(complete, descriptors, _request(job), job.bounds, job.log_bytes, job.spool)

    def _outer(self, mounts: Sequence[Mount]) -> list[str]:
        """Return the command that root needs in front."""
        if os.geteuid():
            return []
        setpriv = find_setpriv()
        libraries = {os.path.realpath(path) for path in _SYSTEM_LIBRARIES if Path(path).is_dir()}
        needed = [self.program.path, setpriv, *self.program.folders, *libraries]
        arguments = outer_arguments(find_interpreter(), mounts, needed, setpriv=setpriv, uid=_free_uid())
        return [self.program.path, *arguments]


def _settle(future: asyncio.Future[Ending], outcome: Ending | BaseException) -> None:
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


async def _uninterrupted(over: asyncio.Event) -> None:
    """Wait until ``over``, which is soon, even when cancelled; raise the cancellation afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not over.is_set():
        try:
            await over.wait()
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _bare(executable: str) -> list[str]:
    """Return the interpreter's command: no environment, no installed packages, nothing written beside modules."""
    return [executable, "-I", "-S", "-B", "-X", "utf8"]


def _network_mounts(job: Job) -> list[Mount]:
    if job.proxy is None:
        return []
    authorities = find_authorities()
    return [Mount(os.path.realpath(job.proxy), PROXY), *([Mount(authorities, AUTHORITIES)] if authorities else [])]


def _request(job: Job) -> bytes:
    """Return what the runner reads."""
    network = {"SSL_CERT_FILE": AUTHORITIES} if job.proxy else {}
    basic = {"HOME": "/work", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "PATH": "/nonexistent", "TZ": "UTC"}  # noqa: S108  # inside
    ours = {"SKILLS_BLOBS": BLOBS, "SKILLS_DIR": SKILLS, "SKILLS_OUTPUT": OUTPUT}
    request = {
        "folder": SKILL,
        "entrypoint": job.entrypoint,
        "export": job.export,
        "inputs": dict(job.inputs),
        "environment": {**basic, **ours, **network, **job.environment},
        "proxy": PROXY if job.proxy else None,
        "limits": _limits(job),
        "output_bytes": job.bounds.output_bytes,
        "outputs": (OUTPUT, job.bounds.blobs, job.bounds.blob_bytes) if job.spool else None,
    }
    return marshal.dumps(json.loads(json.dumps(request, allow_nan=False)))  # values of Python's own types alone


def _limits(job: Job) -> dict[str, tuple[int, int]]:
    """Return what the kernel holds each process to: resource → soft and hard limit."""
    bounds = job.bounds
    processes = bounds.processes + _OWN_PROCESSES + (_FORWARDING if job.proxy else 0) + _counted_outside()
    values = {
        "RLIMIT_AS": bounds.address_bytes,
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": bounds.file_bytes,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_NOFILE": bounds.open_files,
        "RLIMIT_NPROC": processes,
        "RLIMIT_SIGPENDING": bounds.processes,
    }
    return {"RLIMIT_CPU": (bounds.cpu_seconds, bounds.cpu_seconds + 1), **{key: (n, n) for key, n in values.items()}}


def _counted_outside() -> int:
    """Return how many processes an old kernel counts into the limit although they are not the sandbox's."""
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    if os.geteuid() == 0 or release >= _UIDS_SINCE:
        return 0
    own = [path for path in Path("/proc").glob("[0-9]*/task/*") if path.stat().st_uid == os.geteuid()]
    return len(own)


def _free_uid() -> int:
    """Return a uid for one sandbox that no other has, but by a chance of one in millions."""
    with Path("/proc/self/uid_map").open(encoding="ascii") as rows:
        spans = [range(int(first), int(first) + int(count)) for first, _, count in (row.split() for row in rows)]
    usable = any(_UIDS[-1] in span and _UIDS[0] in span for span in spans)
    return secrets.choice(_UIDS if usable else _FEW_UIDS)


def _in_memory(data: bytes, stack: ExitStack) -> int:
    """Return the descriptor of a file in memory, at its begin."""
    descriptor = os.memfd_create("skillwire", os.MFD_CLOEXEC)
    stack.callback(os.close, descriptor)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
