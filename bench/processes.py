"""The cost of a program from start to end, and of a server per request: shared by benches of whole commands."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_SETTLED: Final = 3.0  # seconds until the look that the server takes right after the first one is over


class Cost(NamedTuple):
    """Milliseconds that passed, milliseconds of processor time of all its threads, and megabytes at the peak.

    The kernel counts the memory of who starts a process until it runs its program, so ``memory`` is never less than
    what the bench itself has (some 18 MB).
    """

    wall: float
    cpu: float
    memory: float


def cost_of(command: Sequence[str], *, folder: Path, variables: Mapping[str, str]) -> Cost:
    """Run ``command`` in ``folder`` to its end, with nothing but ``variables`` in its environment.

    Raises:
        CalledProcessError: it failed; what it said on standard error is printed.
    """
    with tempfile.TemporaryFile() as said:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            print(said.read().decode(errors="replace"), file=sys.stderr)
            raise subprocess.CalledProcessError(process.returncode, command)
    return Cost(wall * 1e3, (used.ru_utime + used.ru_stime) * 1e3, used.ru_maxrss * 1024 / 1e6)


def our_program(*arguments: str) -> list[str]:
    """Return a command that runs ours as it is installed."""
    return [str(Path(sys.executable).with_name("skillwire")), *arguments]


def processor_seconds(process: int) -> float:
    """Return the processor time of a process and of those that it started, ended ones too."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == process:
            total += sum(map(int, fields[11:13]))
        elif path.parent.name == str(process):
            total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def serving(skills: Path, home: Path) -> Iterator[str]:
    """Serve the folder ``skills`` with ours on a free port of loopback; give the URL."""
    command = our_program("serve", str(skills), "--port", "0", "--json", "--no-access-log")
    environment = {**os.environ, "SKILLWIRE_HOME": str(home)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout
    try:
        address: str = json.loads(process.stdout.readline())["address"]
        time.sleep(_SETTLED)
        yield address
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
