"""How long a sandbox takes to start: ``python bench/sandbox_start.py [ROUNDS]``.

Measured is a whole call: from the moment that a skill is to run until its function's result is here and nothing of it
is left, without and with a granted network. Beside it, in turns, stand ``python -I -S -c pass`` of the same interpreter
alone, and the same in a bubblewrap as one would start it by hand: one mount of the whole system, all namespaces, no
filter, no limits, as the same user. The goal, 60 ms, is for the start: until the skill's code begins.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from comparison import Goal, compare
from skillwire.adapters.sandbox import Job, Sandbox
from skillwire.adapters.sandbox.bubblewrap import find_interpreter
from skillwire.adapters.sandbox.proxy import AllowListProxy, read_patterns
from skillwire.adapters.sandbox.resources import ResourceLimits
from skillwire.trust.address import AddressPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROUNDS: Final = 41
START_SECONDS: Final = 0.060


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the skill runs as somebody else when this is root
        Path(folder, "main.py").write_text("def main(args):\n    return args\n", encoding="utf-8")
        measure(Path(folder), rounds)


def measure(folder: Path, rounds: int) -> None:
    """Take turns."""
    sandbox = Sandbox()
    python = [find_interpreter().executable, "-I", "-S", "-c", "pass"]
    by_hand = [sandbox.program.path, "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "--", *python]
    job = Job(folder, "main.py", "main", {}, {}, ResourceLimits(30))
    starts: list[float] = []

    def ours() -> None:
        ending = sandbox.run_here(job)
        assert ending.report == b'{"output":{}}'
        starts.append(ending.started)

    def granted() -> None:
        asyncio.run(with_proxy(sandbox, job))

    sides = (ours, granted, lambda: run(python), lambda: run(by_hand))
    for side in sides:
        side()
    starts.clear()
    times = list(zip(*([timed(side) for side in sides] for _ in range(rounds)), strict=True))
    limit = [START_SECONDS] * rounds
    compare("until the code of a skill begins", in_ms(starts), in_ms(limit), Goal("at most", 1), peer="60 ms")
    for what, row, alone, by_hand_goal in (
        ("a call of a skill", times[0], 6, 3),
        ("a call of a skill with a granted network", times[1], 8, 4),
    ):
        compare(what, in_ms(row), in_ms(times[2]), Goal("at most", alone), peer="python -I -S -c pass")
        compare(what, in_ms(row), in_ms(times[3]), Goal("at most", by_hand_goal), peer="the same in bwrap by hand")


async def with_proxy(sandbox: Sandbox, job: Job) -> None:
    """Run ``job`` with a proxy for one origin."""
    async with AllowListProxy(read_patterns(["https://api.example.com"]), AddressPolicy()) as proxy:
        ending = await sandbox.run(job._replace(proxy=proxy.path))
    assert ending.report == b'{"output":{}}'


def run(command: Sequence[str]) -> None:
    """Run a program to its end."""
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def timed(side: Callable[[], object]) -> float:
    """Return how many seconds ``side`` takes."""
    began = time.perf_counter()
    side()
    return time.perf_counter() - began


def in_ms(seconds: Sequence[float]) -> list[float]:
    """Return milliseconds."""
    return [second * 1e3 for second in seconds]


if __name__ == "__main__":
    main()
