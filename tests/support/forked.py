"""Starts Python programs of ours without the half second of imports that each would begin with.

A process per test worker imports what servers need, and forks for each program (:mod:`tests.support.fork_server`).
Tests of start-up itself, of signals during imports and of what is imported start a new interpreter.
"""

import atexit
import functools
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import connection
from pathlib import Path
from typing import Any

from tests.support import fork_server
from tests.support.eventually import PATIENCE

PROGRAM = str(Path(sys.executable).with_name("skillwire"))


def _settings_of_python(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


#: What an interpreter reads when it starts, which has happened before a fork.
_OF_PYTHON = _settings_of_python(os.environ)


def can_fork(command: Sequence[object]) -> bool:
    return str(command[0]) in {sys.executable, PROGRAM}


class ForkedPython(subprocess.Popen):
    """A ``Popen`` of ``[sys.executable, ...]`` or of the installed ``skillwire``, with the arguments used here.

    With ``start_new_session`` its standard input becomes the terminal that controls it. Starting and waiting are the
    private methods of Popen that differ between systems, too.
    """

    _waitpid_lock: threading.Lock
    _handle_exitstatus: Callable[[int], None]

    def _execute_child(self, *values: Any) -> None:
        given = inspect.signature(subprocess.Popen._execute_child).bind(self, *values).arguments  # type: ignore[attr-defined]  # the one method that starts the process
        assert can_fork(given["args"])
        wanted = _settings_of_python(given["env"] or os.environ)
        assert wanted.items() <= _OF_PYTHON.items(), f"a new interpreter would obey {wanted}"
        program, *arguments = map(str, given["args"])
        if program == PROGRAM:
            arguments = ["-m", "skillwire", *arguments]
        if not arguments[0].startswith("-"):
            arguments.insert(0, "")
        request = {
            "arguments": arguments,
            "cwd": os.fspath(given["cwd"] or Path.cwd()),
            "env": dict(os.environ if given["env"] is None else given["env"]),
            "is_session": given["start_new_session"],
        }
        pipes = {name: given[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")}
        streams = [pipes["p2cread"], pipes["c2pwrite"], pipes["errwrite"]]
        self._status, theirs = socket.socketpair()
        weakref.finalize(self, self._status.close)
        with theirs:
            sent = [number if one < 0 else one for number, one in enumerate(streams)]  # as here, where none is named
            socket.send_fds(_server(), [json.dumps(request).encode()], [*sent, theirs.fileno()])
        self.pid = self._received()
        self._child_created = True
        self._close_pipe_fds(**pipes)  # type: ignore[attr-defined]  # which closes the ends of the program

    def _received(self) -> int:
        (number,) = fork_server.STATUS.unpack(self._status.recv(fork_server.STATUS.size))
        return number

    def _internal_poll(self, **_: Any) -> int | None:
        try:
            return self._wait(0)
        except subprocess.TimeoutExpired:
            return None

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None and not connection.wait([self._status], timeout):
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        with self._waitpid_lock:
            if self.returncode is None:
                self._handle_exitstatus(self._received())
        return self.returncode


def run_forked(command: Sequence[object], **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run such a program to its end, and return what it wrote."""
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with ForkedPython([*map(str, command)], **options) as process:
        try:
            out, errors = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


@functools.cache
def _server() -> socket.socket:
    """Start the process that forks, which ends with this one; return the socket that it reads."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())],
            cwd=Path(__file__).parents[2],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
    atexit.register(process.wait)
    atexit.register(ours.close)  # the last one that is registered is called first
    return ours
