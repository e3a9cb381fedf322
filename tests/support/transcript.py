"""What a person sees of a row of calls: on a wide terminal, on a narrow one, and in a pipe.

Each surrounding plays the whole row in a home and a project of its own, so that calls build upon each other: ``add``,
then ``list``. What changes from run to run (folders, ports, digests, times) gets a stable name of the same length, so
that lines break where they did.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, NamedTuple, Self

from tests.support.command import run_command
from tests.support.eventually import PATIENCE, readable
from tests.support.forked import PROGRAM, ForkedPython
from tests.support.terminal import Shown, Terminal

from skillwire.version import VERSION

_HOME = "/home/newcomer"  # as long as what mkdtemp makes below
CTRL_C = "\x03"
_CTRL_D = "\x04"
_DIGITS = {
    "ORIGIN": "8",
    "FLAWED": "7",
    "SLOW": "6",
    "CALLED": "5",
    "ENDPOINT": "4",
    "REGISTRY": "3",
    "OFFICE": "2",
    "NODE": "9",
}
_VOLATILE = [
    (re.compile(r"[0-9a-f]{64}"), lambda found: "d" * len(found[0])),
    (re.compile(r"(?<![0-9a-f])[0-9a-f]{38,40}(?![0-9a-f])"), lambda _: "c" * 40),  # of a certificate
    (re.compile(r"(?<=sha256:)[0-9a-f]{12}\b"), lambda found: "d" * len(found[0])),
    (re.compile(r"(?<=newcomer, )\d{4}-\d\d-\d\d"), lambda _: "2026-01-01"),
    (re.compile(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d"), lambda found: f"2026-01-01{found[1]}12:00:00"),
    (re.compile(r"(\d\.\d\.\d {2,4})\d{4}-\d\d-\d\d(?= )"), lambda found: f"{found[1]}2026-01-01"),
    # A line of the log comes from another thread: it may stand before or behind what the command says.
    (re.compile(r"(?m)^\d\d:\d\d:\d\d info .*\n"), lambda _: ""),
    (re.compile(r"Python 3[.\d]+, \w+ on .*?(?=\r?\n)"), lambda _: "Python 3.14.0, CPython on Linux x86_64"),
    (re.compile(r"\d+ certificate authorities, .*?(?=\r?\n)"), lambda _: "150 certificate authorities, OpenSSL 4.0.0"),
    (re.compile(rf"(?<=skillwire ){re.escape(VERSION)}"), lambda _: "1.2.3"),
    (re.compile(r"(?ms)^[^\n]{0,10}Sandbox[^\n]{0,10}\n.*?\n\r?\n"), lambda _: ""),  # each machine has another
    (re.compile(r"(?<=skillwire-)[0-9a-f]{24}"), lambda found: "a" * len(found[0])),
    (re.compile(r"(exec-[a-z]+-)\d{4}\b"), lambda found: f"{found[1]}9999"),
    (re.compile(r"(?<=  )\d{1,2} s\b"), lambda found: "9 s".rjust(len(found[0]), "9")),
    (re.compile(r"(?<=  )\d\.\d s\b"), lambda _: "0.0 s"),
    (re.compile(r"(?<=, )\d\.\d(\s+s\))"), lambda found: f"0.0{found[1]}"),
    (re.compile(r"(port(?:\x1b\[\d*m)? {6})\d{5}\b"), lambda found: f"{found[1]}22222"),
    # Less the seconds since it was fetched; a line may break before them.
    (re.compile(r"(fresh for(?:\s|\x1b\[\d*m)+)(?:[56]\d s|1 min)\b"), lambda found: f"{found[1]}60 s"),
    (re.compile(r"(?<=answered within )\d(?:\.\d)? s\b"), lambda _: "1 s"),  # it took a little longer
    (re.compile(r'(?<="seconds": )\d+\.\d+'), lambda _: "0.0"),
    (re.compile(r"\b\d{1,2} s old"), lambda found: "9 s old".rjust(len(found[0]), "9")),
]


class Call(NamedTuple):
    """A call of the program, as it is typed behind ``skillwire``.

    Args:
        line: the words; ``ORIGIN`` and such stand for addresses of servers.
        typed: what is answered on a terminal; in a pipe nothing is.
        until: the program goes on until it is interrupted, once all of this was printed; in a pipe the first of it.
        by_input: it ends with its input instead, and says what is waited for on standard error.
    """

    line: str
    typed: str = ""
    until: tuple[str, ...] = ()
    by_input: bool = False


Step = Call | Callable[[Path], object]


class Surrounding:
    """A home, a project in it, and how the program's output is seen there; a context manager that takes it away.

    Args:
        columns: of the terminal; None for a pipe.
        servers: name in calls → host and port.
        is_alone: whether no other one plays at the same time, so that commands can run in this process.
        variables: more of the environment.
    """

    def __init__(
        self, columns: int | None, servers: Mapping[str, str], *, is_alone: bool = True, **variables: str
    ) -> None:
        self.columns = columns
        self.raw = b""
        self._is_alone = is_alone
        self._servers = servers
        self._home = Path(tempfile.mkdtemp(prefix="w", dir="/tmp"))  # its length is known everywhere
        self.project = self._home / "project"
        self.project.mkdir()
        # Nothing on the path but the system's: what is installed for the developer is not looked at.
        self._environment = {"HOME": str(self._home), "TERM": "xterm", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}
        self._environment["LOGNAME"] = "newcomer"
        self._environment |= variables

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._home)

    def see(self, call: Call) -> list[str]:
        """Make a call; return what is seen of it, as parts of a transcript."""
        words = shlex.split(call.line)
        for name, address in self._servers.items():
            words = [word.replace(name, address) for word in words]
        return self._on_terminal(words, call) if self.columns else self._in_pipe(words, call)

    def start(self, words: Sequence[str], **variables: str) -> Terminal:
        environment = {**self._environment, **variables}
        return Terminal([PROGRAM, *words], cwd=self.project, environment=environment, columns=self.columns or 80)

    def _on_terminal(self, words: Sequence[str], call: Call) -> list[str]:
        if self._is_alone and not call.until and not call.typed:
            done = run_command(*words, cwd=self.project, env=self._environment, is_all=True, columns=self.columns)
            return self._seen(Shown(self.columns or 80, raw=done.raw), done.code)
        with self.start(words) as terminal:
            if call.until:
                terminal.until(lambda text: all(part in text for part in call.until))
                terminal.type(_CTRL_D if call.by_input else CTRL_C)
            elif call.typed:
                terminal.until(lambda text: any(mark in text.replace("\n", "") for mark in ("[y/N]:", "space selects")))
                terminal.type(call.typed)
            code = terminal.wait()
            return self._seen(terminal, code)

    def _seen(self, shown: Shown, code: int) -> list[str]:
        shown.show_anew(lambda raw: self._stable(raw.decode()).encode())
        self.raw = shown.raw
        return [f"--- {self.columns} columns ---", shown.styled(), f"[exit {code}]"]

    def _in_pipe(self, words: Sequence[str], call: Call) -> list[str]:
        if self._is_alone and not call.until:
            done = run_command(*words, cwd=self.project, env=self._environment, is_all=True)
            return self._piped(done.raw, done.raw_errors, done.code)
        with ForkedPython(
            [PROGRAM, *words],
            cwd=self.project,
            env=self._environment,
            stdin=subprocess.PIPE if call.by_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            early = told = b""
            if call.by_input:
                told = _read_until(process.stderr, call.until[0])
            elif call.until:
                early = _read_until(process.stdout, call.until[0])
                process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=PATIENCE)  # which ends its input
        return self._piped(early + out, told + errors, process.returncode)

    def _piped(self, out: bytes, errors: bytes, code: int) -> list[str]:
        self.raw = out + errors
        assert b"\x1b" not in self.raw
        streams = [("pipe, standard output", out), ("pipe, standard error", errors)]
        parts = [part for title, data in streams if data for part in (f"--- {title} ---", self._text_of(data))]
        return [*(parts or ["--- pipe ---"]), f"[exit {code}]"]

    def _text_of(self, data: bytes) -> str:
        return self._stable(data.decode()).removesuffix("\n")

    def _stable(self, text: str) -> str:
        for name, address in self._servers.items():
            text = text.replace(address, stable_address(name, address))
        text = text.replace(str(self._home), _HOME)
        for pattern, name_for in _VOLATILE:
            text = pattern.sub(name_for, text)
        return re.sub(r"(127\.0\.0\.1:)[3-6]\d{4}\b", r"\g<1>99999", text)  # a port that a call itself has taken


def stable_address(name: str, address: str) -> str:
    """Return what stands for a server in a transcript: another port for each name."""
    host, _, port = address.partition(":")
    return f"{host}:{_DIGITS[name] * len(port)}"


def _read_until(stream: IO[bytes] | None, text: str) -> bytes:
    assert stream is not None
    deadline = time.monotonic() + PATIENCE
    read = b""
    while text.encode() not in read:
        assert readable(stream, seconds=max(deadline - time.monotonic(), 0)), "it does not show"
        data = os.read(stream.fileno(), 65536)
        assert data, "it ended"
        read += data
    return read


def play(
    calls: Sequence[Step], servers: Mapping[str, str], *, is_narrow_too: bool = True, at_once: bool = False
) -> str:
    """Return the transcript of a row of calls; between them functions may change the project.

    Args:
        calls: the row.
        servers: name in calls → host and port.
        is_narrow_too: whether a terminal of 40 columns shows something new.
        at_once: play in all surroundings at the same time, where calls mostly wait and leave nothing at a server.
    """

    def seen_on(columns: int | None) -> list[str]:
        with Surrounding(columns, servers, is_alone=not at_once) as surrounding:
            return list(_play_in(surrounding, calls))

    with ThreadPoolExecutor(3 if at_once else 1) as threads:
        seen = list(threads.map(seen_on, (80, 40, None) if is_narrow_too else (80, None)))
    lines = [call.line for call in calls if isinstance(call, Call)]
    pieces = []
    for line, wide, *narrow, pipe in zip(lines, *seen, strict=True):
        told = [other for other in narrow if other.partition("\n")[2] != wide.partition("\n")[2]]
        pieces.append("\n".join([f"$ skillwire {line}", wide, *told, pipe]))
    return "\n\n".join(pieces) + "\n"


def _play_in(surrounding: Surrounding, calls: Sequence[Step]) -> Iterator[str]:
    for call in calls:
        if isinstance(call, Call):
            yield "\n".join(filter(None, surrounding.see(call)))
        else:
            call(surrounding.project)
