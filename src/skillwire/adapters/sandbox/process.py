"""One sandbox from its start to its end, in a thread of its own.

Bubblewrap dies with the *thread* that started it, so this thread lives exactly as long as the sandbox, and a server
that is killed takes its sandboxes along. The thread starts bubblewrap, hands over the request, reads and writes each
descriptor when it is ready, measures usage, and ends everything at a limit, a deadline or a cancellation.

Ending kills the first process of the sandbox's process namespace; the kernel then kills all others in it, forked or
detached. A *pidfd* shows when they are gone.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import BinaryIO, Final, NamedTuple

from skillwire import limits
from skillwire.adapters.sandbox.bubblewrap import WORK, fix_for, unavailable
from skillwire.adapters.sandbox.resources import ControlGroup, Limit, ResourceLimits, make_group, measure_usage
from skillwire.errors import in_seconds

_PIECE: Final = 64 * 1024
_CREDENTIALS: Final = struct.Struct("3i")  # process, user, group


class Pipes:
    """All descriptors of one sandbox; :meth:`close` closes every one."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._ours: set[int] = set()
        self._theirs: set[int] = set()

    def reading(self, take: Callable[[bytes], object]) -> int:
        """Make a pipe; return the end to write. ``take`` is called with each piece that comes, empty at the end."""
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        self._theirs.add(theirs)
        self.follow(ours, take)
        return theirs

    def greeting(self, sender: Callable[[int], object]) -> int:
        """Make a socket; return the end to write. ``sender`` gets the number of the process that writes."""
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        descriptor, given = ours.detach(), theirs.detach()
        self._theirs.add(given)

        def receive() -> None:
            process = _sender(descriptor)
            self._end(descriptor)
            if process is not None:
                sender(process)

        self._watch(descriptor, receive)
        return given

    def writing(self, data: bytes) -> tuple[int, Callable[[], None]]:
        """Make a pipe; return the end to read, and what begins to write ``data`` to it."""
        theirs, ours = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(ours, False)
        self._theirs.add(theirs)
        self._ours.add(ours)
        return theirs, partial(self._write, ours, memoryview(data))

    def follow(self, descriptor: int, take: Callable[[bytes], object]) -> None:
        """Read ``descriptor``, which now belongs here, as it is ready."""
        os.set_blocking(descriptor, False)
        self._watch(descriptor, partial(self._read, descriptor, take))

    def await_end(self, process: int, ended: Callable[[], object]) -> int:
        """Return a *pidfd* of ``process``; ``ended`` is called when it has ended."""
        descriptor = os.pidfd_open(process)

        def on_end() -> None:
            self._selector.unregister(descriptor)
            ended()

        self._watch(descriptor, on_end)
        return descriptor

    def _watch(self, descriptor: int, on_ready: Callable[[], None]) -> None:
        self._ours.add(descriptor)
        self._selector.register(descriptor, selectors.EVENT_READ, on_ready)

    def hand_over(self) -> None:
        """Close the other side's ends here, so that its end is seen."""
        while self._theirs:
            os.close(self._theirs.pop())

    def turn(self, seconds: float) -> bool:
        """Do what is ready, waiting at most ``seconds``; return whether there was anything."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            if key.fd in self._selector.get_map():  # one that is ready may end another
                key.data()
        return bool(ready)

    def close(self) -> None:
        """Close everything."""
        self.hand_over()
        self._selector.close()
        while self._ours:
            os.close(self._ours.pop())

    def _read(self, descriptor: int, take: Callable[[bytes], object]) -> None:
        try:
            data = os.read(descriptor, _PIECE)
        except BlockingIOError:
            return
        if not data:
            self._end(descriptor)
        take(data)

    def _write(self, descriptor: int, rest: memoryview) -> None:
        """Write what fits; the rest when there is room."""
        if descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            pass  # full; the selector reports when there is room
        except BrokenPipeError:
            rest = rest[:0]  # the reader has gone
        if rest:
            self._selector.register(descriptor, selectors.EVENT_WRITE, partial(self._write, descriptor, rest))
        else:
            self._ours.discard(descriptor)
            os.close(descriptor)

    def _end(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        self._ours.discard(descriptor)
        os.close(descriptor)


def _sender(descriptor: int) -> int | None:
    """Return the process that has sent what is on a socket, as the kernel says; None at the end."""
    sock = socket.socket(fileno=descriptor)
    try:
        data, rows, _, _ = sock.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
    finally:
        sock.detach()
    for level, kind, row in rows if data else ():
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return _CREDENTIALS.unpack(row)[0] or None
    return None


_LOOK_SECONDS: Final = 0.05  # between two measurements; a core fills 200 MiB of memory in that time
_END_SECONDS: Final = 10.0  # for the kernel to end what was killed
_STOPPED_SECONDS: Final = 1.0  # a longer time between two measurements: this process was stopped, or the machine slept
_SAID_LENGTH: Final = 300
_BEGUN: Final = b"+"


class Launch(NamedTuple):
    """What is started."""

    #: Makes the command from two descriptors: the runner greets on one, and its report goes to the other.
    command: Callable[[int, int], Sequence[str]]
    descriptors: tuple[int, ...]  # further ones that the command names
    request: bytes  # handed to the runner
    bounds: ResourceLimits
    kept_bytes: int  # how much of the end of what it prints is kept
    spool: Callable[[], BinaryIO] | None = None  # makes a file for what is handed out; None where nothing is


class Ending(NamedTuple):
    """How a sandbox ended."""

    report: bytes  # up to the first line feed; empty when the runner wrote nothing
    limit: Limit | None  # the bound for which it was stopped
    code: int  # 128 and the signal's number where one ended it
    log: bytes  # the end of what was printed
    is_log_cut: bool
    started: float  # seconds until the skill's code began
    files: BinaryIO | None = None  # what it wrote behind the report, for the caller to close


class Process:
    """A sandbox. :meth:`run` it in a thread of its own; :meth:`cancel` it from any other."""

    _launch: Launch

    def __init__(self) -> None:
        self._pipes = Pipes()
        woken, self._waker = os.pipe2(os.O_CLOEXEC)
        self._pipes.follow(woken, self._on_wake)
        self._report, self._log = bytearray(), bytearray()
        self._logged = 0
        self._first: int | None = None  # the number of the sandbox's first process, outside
        self._first_handle: int | None = None  # its pidfd
        self._is_over = self._is_cancelled = False
        self._limit: Limit | None = None
        self._began = self._looked = self._waited = 0.0
        self._started: float | None = None
        self._send: Callable[[], None] = lambda: None
        self._group: ControlGroup | None = None
        self._files: BinaryIO | None = None
        self._files_failure: OSError | None = None
        self._spooled = 0

    def cancel(self) -> None:
        """Kill everything from any thread until :meth:`close`; :meth:`run` then returns soon."""
        with contextlib.suppress(BrokenPipeError):  # it has ended already
            os.write(self._waker, b"!")

    def close(self) -> None:
        """Close the last descriptors."""
        os.close(self._waker)
        self._pipes.close()

    def run(self, launch: Launch) -> Ending:
        """Run it to its end; then no process of it is left. Raises TrustError (``SANDBOX_UNAVAILABLE``)."""
        self._launch = launch
        self._began = self._looked = time.monotonic()
        try:
            self._group = make_group(launch.bounds)
            process = self._start()
            try:
                self._serve(process)
            finally:
                self._kill(process)
                code = _reap(process)
            while self._pipes.turn(0):  # what the pipes still hold
                pass
            if self._group is not None and self._group.has_run_out_of_memory():
                self._limit = self._limit or "memory_bytes"
        finally:
            self._pipes.close()
            if self._group is not None:
                self._group.remove()
            if self._files is not None and (self._is_cancelled or self._limit or self._files_failure):
                self._files.close()
                self._files = None
        if self._files_failure is not None:
            raise self._files_failure
        if self._started is None and not self._is_cancelled and self._limit is None:
            printed = " ".join(self._log.decode(errors="replace").split())[:_SAID_LENGTH]
            if not printed and self._is_overdue():
                message = f"the sandbox did not start within {in_seconds(limits.SANDBOX_START_SECONDS)}"
                raise unavailable(
                    message, "Lower concurrency in [executions], or give the machine more processor time."
                )
            raise unavailable(f"the sandbox did not start: {printed or 'it did not answer'}", fix_for(printed))
        return Ending(
            report=bytes(self._report.removeprefix(_BEGUN)),
            limit=self._limit,
            code=code,
            log=bytes(self._log[-launch.kept_bytes :]),
            is_log_cut=self._logged > launch.kept_bytes,
            started=(self._started or time.monotonic()) - self._began,
            files=self._files,
        )

    def _start(self) -> subprocess.Popen[bytes]:
        request, self._send = self._pipes.writing(self._launch.request)
        greeting = self._pipes.greeting(self._on_ready)
        report, log = map(self._pipes.reading, (self._on_report, self._on_log))
        try:
            return subprocess.Popen(  # noqa: S603  # the whole command is ours
                self._launch.command(greeting, report),
                stdin=request,
                stdout=log,
                stderr=log,
                pass_fds=(greeting, report, *self._launch.descriptors),
                env={},
                cwd="/",
                umask=0o022,
                start_new_session=True,
            )
        except OSError as error:
            raise unavailable(f"bubblewrap cannot be started: {error}", None) from error
        finally:
            self._pipes.hand_over()

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for what happens until no process of the sandbox is left."""
        self._pipes.await_end(process.pid, self._on_monitor_ended)
        killed: float | None = None
        while not self._is_over:
            self._pipes.turn(_LOOK_SECONDS)
            before, self._looked = self._looked, time.monotonic()
            self._waited += min(self._looked - before, _STOPPED_SECONDS)
            if killed is None:
                # Until its first process is known, bubblewrap has processes that wait for each other, killed or not.
                if self._must_end() and (self._first_handle is not None or self._is_overdue()):
                    self._kill(process)
                    killed = self._waited
            elif self._waited - killed > _END_SECONDS:
                raise OSError("the kernel does not end a sandbox that was killed")

    def _is_overdue(self) -> bool:
        return self._waited > limits.SANDBOX_START_SECONDS

    def _must_end(self) -> bool:
        bounds = self._launch.bounds
        if self._is_cancelled or self._limit is not None or self._files_failure is not None:
            return True
        if self._looked - (self._started or self._began) > bounds.seconds:  # the start is no part of a skill's time
            self._limit = "seconds"
        elif self._started is None:
            return self._is_overdue()
        elif self._first is not None and (usage := measure_usage(self._first, WORK, bounds.memory_bytes)):
            self._limit = usage.exceeds(bounds)
        return self._limit is not None

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the first process of the sandbox, and with it all; before there is one, bubblewrap and its children."""
        with contextlib.suppress(ProcessLookupError):
            if self._first_handle is None:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(self._first_handle, signal.SIGKILL)

    def _on_wake(self, _: bytes) -> None:
        self._is_cancelled = True

    def _on_ready(self, runner: int) -> None:
        """Send the request to the runner, the first process of the sandbox, which waits."""
        # From now on everything inside dies with bubblewrap, and bubblewrap with us. If we died before, the runner
        # would meet the end of an empty request, and nothing of the skill would run.
        self._first = runner
        with contextlib.suppress(ProcessLookupError):  # it has ended; the end of bubblewrap shows that
            self._first_handle = self._pipes.await_end(runner, self._on_first_ended)
        if self._group is not None and not self._group.add(runner):
            self._group.remove()
            self._group = None
        self._send()

    def _on_report(self, data: bytes) -> None:
        if self._started is None and data.startswith(_BEGUN):
            self._started = time.monotonic()
        if self._launch.spool is not None:
            data = self._spool(data)
        self._report += data
        if len(self._report) > self._launch.bounds.output_bytes + self._launch.bounds.frame_bytes:
            self._limit = self._limit or "output_bytes"
            self._report.clear()

    def _spool(self, data: bytes) -> bytes:
        """Keep what belongs to files; return what belongs to the report."""
        report = b""
        if self._files is None:
            report, begins, data = data.partition(b"\n")
            if not begins or self._files_failure is not None or self._launch.spool is None:
                return report
            self._files = self._launch.spool()
        self._spooled += len(data)
        if self._spooled > self._launch.bounds.blob_bytes:
            self._limit = self._limit or "blob_bytes"
        elif self._files_failure is None:
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[self._files.write(rest) :]
            except OSError as error:  # such as a full disk: raised when everything has ended
                self._files_failure = error
        return report

    def _on_log(self, data: bytes) -> None:
        self._logged += len(data)
        self._log += data
        if len(self._log) > 2 * self._launch.kept_bytes:
            del self._log[: -self._launch.kept_bytes]
        if self._logged > self._launch.bounds.log_bytes:
            self._limit = self._limit or "log_bytes"

    def _on_monitor_ended(self) -> None:
        self._is_over = self._is_over or self._first_handle is None

    def _on_first_ended(self) -> None:
        self._is_over = True


def _reap(process: subprocess.Popen[bytes]) -> int:
    try:
        code = process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    return code if code >= 0 else 128 - code
