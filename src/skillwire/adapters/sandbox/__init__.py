"""The sandbox in which the code of a skill runs; ``docs/topics/sandbox.md`` describes what is inside.

:class:`Sandbox` puts a job together: mounts, namespaces and system calls
(:mod:`~skillwire.adapters.sandbox.bubblewrap`) and limits (:mod:`~skillwire.adapters.sandbox.resources`), and
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

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
from skillwire.adapters.sandbox.seccomp import filter_program

_UIDS: Final = range(1_900_000_000, 1_900_000_000 + 2**24)  # systemd and others give out none of these
_FEW_UIDS: Final = range(60_000, 61_000)  # where a container has no more than 65,536
_SYSTEM_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_UIDS_SINCE: Final = (5, 14)  # before, the kernel counted a user's processes on the whole machine
_OWN_PROCESSES: Final = 2  # the first one, and the forwarder
_FORWARDING: Final = 32  # threads of the forwarder, two for each open connection


class Job(NamedTuple):
    """One call of a skill's function."""

    folder: Path | None  # the skill, unpacked, readable for all users: as root it runs under another uid; None for code
    entrypoint: str
    export: str
    inputs: Mapping[str, Any]
    environment: Mapping[str, str]  # on no command line
    bounds: ResourceLimits  # for all its processes together where the kernel or we can count them
    proxy: Path | None = None  # the socket of an AllowListProxy; without one no network
    log_bytes: int = 0  # how much of the end of what it prints is kept
    code: bytes | None = None  # the entry point's text, without a folder
    mounts: Sequence[Mount] = ()  # readable for all users; places below /blobs and /skills
    spool: Callable[[], BinaryIO] | None = None  # makes a file for what it hands out; without one nothing is


class Sandbox:
    """Runs jobs, each in a sandbox of its own, any number at once; ``program`` is this machine's by default."""

    def __init__(self, program: Program | None = None) -> None:
        self._given = program

    async def run(self, job: Job) -> Ending:
        """Run ``job`` to its end; a cancellation kills it first. Raises TrustError (``SANDBOX_UNAVAILABLE``)."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Ending] = loop.create_future()
        process = Process()

        def work() -> None:
            settle: Callable[[], None]
            try:
                with ExitStack() as stack:
                    settle = partial(ended.set_result, process.run(self._launch(job, stack)))
            except BaseException as error:  # noqa: BLE001  # raised where it is awaited
                settle = partial(ended.set_exception, error)
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(settle)

        threading.Thread(target=work, name="sandbox", daemon=True).start()
        cancelled: asyncio.CancelledError | None = None
        while not ended.done():  # also when cancelled, which ends it soon
            try:
                await asyncio.wait([ended])
            except asyncio.CancelledError as error:
                process.cancel()
                cancelled = error
        process.close()
        if cancelled is not None:
            ended.exception()  # marks the error as retrieved
            raise cancelled
        return ended.result()

    def run_here(self, job: Job) -> Ending:
        """Run ``job`` in this thread. Raises TrustError (``SANDBOX_UNAVAILABLE``)."""
        process = Process()
        try:
            with ExitStack() as stack:
                return process.run(self._launch(job, stack))
        finally:
            process.close()

    def check(self) -> float:
        """Return the seconds that a sandbox takes to start. Raises TrustError with the fix."""
        code = b"def main(_):\n    return True\n"
        return self.run_here(Job(None, "probe.py", "main", {}, {}, ResourceLimits(seconds=30), code=code)).started

    @cached_property
    def program(self) -> Program:
        """The bubblewrap that is used. Raises TrustError (``SANDBOX_UNAVAILABLE``)."""
        return self._given or find_program()

    def _launch(self, job: Job, stack: ExitStack) -> Launch:
        interpreter = find_interpreter()
        mounts = [*own_mounts(interpreter), *job.mounts]
        if job.folder is not None:
            mounts.append(Mount(str(job.folder), SKILL))
        if job.proxy is not None:
            mounts.append(Mount(os.path.realpath(job.proxy), PROXY))
            if authorities := find_authorities():
                mounts.append(Mount(authorities, AUTHORITIES))
        seccomp = _in_memory(filter_program(os.uname().machine), stack)
        code = [] if job.code is None else [Written(_in_memory(job.code, stack), f"{SKILL}/{job.entrypoint}")]
        inner = inner_arguments(interpreter, mounts, job.bounds, filter_descriptor=seccomp, written=code)
        arguments = _in_memory("\0".join(inner).encode(errors="surrogateescape") + b"\0", stack)
        # No environment, no installed packages, nothing written beside modules.
        bare = [interpreter.executable, "-I", "-S", "-B", "-X", "utf8"]
        command = [*self._outer(mounts), self.program.path, "--args", str(arguments), "--", *bare, RUNNER]
        descriptors = (seccomp, arguments, *(one.descriptor for one in code))
        return Launch(
            lambda greeting, report: [*command, str(greeting), str(report)],
            descriptors,
            _request(job),
            job.bounds,
            job.log_bytes,
            job.spool,
        )

    def _outer(self, mounts: Sequence[Mount]) -> list[str]:
        """Return the command that root needs in front."""
        if os.geteuid():
            return []
        setpriv = find_setpriv()
        libraries = {os.path.realpath(path) for path in _SYSTEM_LIBRARIES if Path(path).is_dir()}
        needed = [self.program.path, setpriv, *self.program.folders, *libraries]
        with Path("/proc/self/uid_map").open(encoding="ascii") as rows:
            spans = [range(int(first), int(first) + int(count)) for first, _, count in (row.split() for row in rows)]
        usable = any(_UIDS[-1] in span and _UIDS[0] in span for span in spans)
        arguments = outer_arguments(
            find_interpreter(), mounts, needed, setpriv=setpriv, uid=secrets.choice(_UIDS if usable else _FEW_UIDS)
        )
        return [self.program.path, *arguments]


def _request(job: Job) -> bytes:
    """Return what the runner reads."""
    network = {"SSL_CERT_FILE": AUTHORITIES} if job.proxy else {}
    basic = {"HOME": "/work", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "PATH": "/nonexistent", "TZ": "UTC"}  # noqa: S108  # inside
    ours = {"SKILLS_BLOBS": BLOBS, "SKILLS_DIR": SKILLS, "SKILLS_OUTPUT": OUTPUT}
    bounds = job.bounds
    processes = bounds.processes + _OWN_PROCESSES + (_FORWARDING if job.proxy else 0)
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    if os.geteuid() and release < _UIDS_SINCE:  # then the kernel counts this user's other processes, too
        tasks = Path("/proc").glob("[0-9]*/task/*")
        processes += sum(path.stat().st_uid == os.geteuid() for path in tasks)
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
    request = {
        "folder": SKILL,
        "entrypoint": job.entrypoint,
        "export": job.export,
        "inputs": dict(job.inputs),
        "environment": {**basic, **ours, **network, **job.environment},
        "proxy": PROXY if job.proxy else None,
        "limits": {
            "RLIMIT_CPU": (bounds.cpu_seconds, bounds.cpu_seconds + 1),
            **{key: (n, n) for key, n in values.items()},
        },
        "output_bytes": job.bounds.output_bytes,
        "outputs": (OUTPUT, job.bounds.blobs, job.bounds.blob_bytes) if job.spool else None,
    }
    return marshal.dumps(json.loads(json.dumps(request, allow_nan=False)))  # values of Python's own types alone


def _in_memory(data: bytes, stack: ExitStack) -> int:
    """Return the descriptor of a file in memory, at its begin."""
    descriptor = os.memfd_create("skillwire", os.MFD_CLOEXEC)
    stack.callback(os.close, descriptor)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
