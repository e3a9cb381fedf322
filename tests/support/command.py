"""Runs the command line in this process, with streams, a folder and an environment of its own.

A process of its own is for what only a process shows: signals, terminals, and that the program starts at all. The three
descriptors of this process are replaced, so that what a command starts writes there too.
"""

import asyncio
import contextlib
import fcntl
import gc
import json
import logging
import os
import signal
import struct
import sys
import tempfile
import termios
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, Self
from unittest import mock

import structlog
from tests.support.documents import check_document
from tests.support.eventually import PATIENCE

from skillwire.cli.main import main

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Result(NamedTuple):
    """What a command ended with, and wrote."""

    code: int
    raw: bytes
    raw_errors: bytes

    @property
    def out(self) -> str:
        """Standard output, as text."""
        return self.raw.decode()

    @property
    def err(self) -> str:
        return self.raw_errors.decode()

    def document(self) -> Any:
        return json.loads(self.raw)


def run_command(
    *arguments: object,
    input: str | bytes = b"",  # noqa: A002  # as subprocess.run names it
    cwd: str | os.PathLike[str] | None = None,
    env: dict[str, str] | None = None,
    is_all: bool = False,
    columns: int | None = None,
    is_merged: bool = False,
) -> Result:
    """Run ``skillwire`` with ``arguments`` as a process of its own would, and return how it ended.

    Args:
        arguments: what follows the program's name.
        input: what it reads from standard input.
        cwd: the folder it runs in.
        env: variables beside those of this process.
        is_all: whether ``env`` is all of its environment.
        columns: of a terminal that it runs on; all that it writes is ``raw`` then.
        is_merged: whether all that it writes is ``raw``, in its order.
    """
    options: dict[str, Any] = {"input": input, "cwd": cwd, "env": env, "is_all": is_all, "columns": columns}
    options["is_merged"] = is_merged
    if not _is_loop_running():
        return _run(arguments, **options)
    with ThreadPoolExecutor(1) as threads:  # the driver of a browser keeps a loop running in this thread
        return threads.submit(_run, arguments, **options).result()


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run(
    arguments: Sequence[object],
    *,
    input: str | bytes,  # noqa: A002  # same
    cwd: Any,
    env: Any,
    is_all: bool,
    columns: Any,
    is_merged: bool,
) -> Result:
    with ExitStack() as stack:
        streams: list[IO[bytes]] = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        streams[0].write(input.encode() if isinstance(input, str) else input)
        streams[0].seek(0)  # which also writes it out
        terminal = None if columns is None else stack.enter_context(_Terminal(columns))
        stack.enter_context(mock.patch.dict(os.environ, env or {}, clear=is_all))
        stack.enter_context(_folder(cwd))
        stack.enter_context(_signals())
        stack.enter_context(new_logging())
        if "keyring.core" in sys.modules:  # it keeps the backend of the first command
            stack.enter_context(mock.patch("keyring.core._keyring_backend", None))
        stack.enter_context(mock.patch.object(webbrowser, "_tryorder", None))  # it keeps the browsers of the first too
        # A command leaves its process soon, so it lets no cycle be searched for: here others live on.
        stack.enter_context(mock.patch.object(gc, "disable"))
        stack.enter_context(mock.patch.object(gc, "freeze"))
        ends = [terminal.end] * 3 if terminal else [stream.fileno() for stream in streams]
        with _descriptors([*ends[:2], ends[1]] if is_merged else ends):
            code = _exit_code([str(argument) for argument in arguments])
        raw, errors = (terminal.close(), b"") if terminal else (_content(streams[1]), _content(streams[2]))
    check_document(raw)
    return Result(code, raw, errors)


class _Terminal:
    """A pseudo-terminal that nobody types on; ``end`` is where a command reads and writes."""

    def __init__(self, columns: int) -> None:
        self._shown, self.end = os.openpty()
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self._raw = b""
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> bytes:
        if self.end >= 0:
            os.close(self.end)
            self.end = -1
            self._thread.join(PATIENCE)
            assert not self._thread.is_alive(), "something that the command started has its terminal open"
            os.close(self._shown)
        return self._raw

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # Linux says so when the other end is closed
            while data := os.read(self._shown, 65536):
                self._raw += data


def _exit_code(arguments: list[str]) -> int:
    try:
        main(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1 if end.code else 0
    return 0


@contextmanager
def _descriptors(streams: list[int]) -> Iterator[None]:
    """Let 0, 1 and 2 and the streams of :mod:`sys` be these."""
    kept = [os.dup(number) for number in range(3)]
    old = sys.stdin, sys.stdout, sys.stderr
    for stream in old[1:]:
        stream.flush()
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        with (
            open(0, encoding="utf-8", closefd=False) as stdin,
            open(1, "w", encoding="utf-8", closefd=False) as stdout,
            open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False) as stderr,
        ):
            sys.stdin, sys.stdout, sys.stderr = stdin, stdout, stderr
            with mock.patch.object(sys, "__stdout__", stdout):  # where shutil looks for the width of a terminal
                yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = old
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


@contextmanager
def _folder(cwd: str | os.PathLike[str] | None) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(cwd or before)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _signals() -> Iterator[None]:
    """Set back what a command that was cut off would leave."""
    try:
        before = [(number, signal.getsignal(number)) for number in _SIGNALS]
        yield
    finally:
        for number, handler in before:
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


@contextmanager
def new_logging() -> Iterator[None]:
    """Let the command find logging as a new process has it, and restore the configuration after it.

    Until the command configures logging, threads of this process log to the stream of the test, not to the command's.
    No logger keeps a stream that is closed after the command.
    """
    configure, before, was_configured = structlog.configure, structlog.get_config(), structlog.is_configured()
    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "skillwire.lan")]
    kept = [(one, one.handlers, one.propagate, one.level) for one in loggers]

    def uncached(**settings: Any) -> None:
        configure(**{**settings, "cache_logger_on_first_use": False})

    structlog.reset_defaults()
    # A PrintLogger prints to what is sys.stdout at the time, which is soon the command's.
    configure(logger_factory=structlog.WriteLoggerFactory(sys.stdout))
    for one in loggers:
        one.handlers, one.propagate = [], True
    try:
        with mock.patch.object(structlog, "configure", uncached):
            yield
    finally:
        configure(**before) if was_configured else structlog.reset_defaults()
        for one, handlers, propagates, level in kept:
            one.handlers, one.propagate = handlers, propagates
            one.setLevel(level)


def _content(stream: IO[bytes]) -> bytes:
    stream.seek(0)
    return stream.read()
