"""Processes killed at any moment lose nothing: ``python bench/crash.py [--kills N] [--invocations N] [--every S]``.

Two parts, each on its own database. In the first, two servers accept and cancel and two workers run executions; a
random one of the four is killed (SIGKILL) at a random moment and replaced, ``--kills`` times. In the second,
``--invocations`` are accepted, half of skills that may run twice, while a random worker is killed every ``--every``
seconds. The processes report what the ledger confirmed to them. After the remaining executions have run, every accepted
execution must exist and have ended once, as confirmed, and the database must be intact. In the second part, executions
that may run twice must have completed, and of the others all that were not running in a killed worker.

``power_cuts.py`` simulates power cuts.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ledgers import flaws_of, found_in, has_lost_too_many, make_execution, open_ledger
from skillwire import limits
from skillwire.adapters.clock import moment
from skillwire.model.execution import Claim, Execution, ExecutionStatus, Failure, IdempotencyKey, NewExecution, Quota

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from skillwire.adapters.sql.ledger import SqlLedger

KILLS: Final = 1_000
INVOCATIONS: Final = 100_000
EVERY: Final = 5.0
LEASE: Final = 1.0
CALLERS: Final = 8
LARGE: Final = b'"' + b"x" * limits.EXECUTION_ROW_OUTPUT_BYTES + b'"'
#: What a worker that is looked at has at once.
AT_ONCE: Final = 16
_SLOW: Final = 0.005  # seconds that an execution takes at most
QUOTA: Final = Quota(per_caller=1_000_000, per_skill=1_000_000, lease=LEASE)


class Process:
    """A process of ours that does ``work``, and its reports."""

    def __init__(self, work: Callable[[Reporter], Coroutine[None, None, None]]) -> None:
        self.work = work
        self.lines: list[str] = []
        self.begin()

    def begin(self) -> None:
        """Start it."""
        self._out, report = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                os.close(self._out)
                random.seed()
                asyncio.run(self.work(Reporter(report)))
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        os.close(report)
        os.set_blocking(self._out, False)
        self._rest = b""

    def listen(self) -> None:
        """Take the reports since the last time; an incomplete one counts as not made."""
        while True:
            try:
                some = os.read(self._out, 1 << 16)
            except BlockingIOError:
                return
            if not some:
                return
            *lines, self._rest = (self._rest + some).split(b"\n")
            self.lines += [line.decode() for line in lines]

    def kill(self) -> None:
        """Kill it."""
        os.kill(self._pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Return its exit code when it has ended; negative when it was killed."""
        while not self.has_ended():
            self.listen()
            time.sleep(0.002)
        return self._code

    def has_ended(self) -> bool:
        """Whether it has ended, with all of its reports read."""
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid == 0:
            return False
        self._code = os.waitstatus_to_exitcode(status)
        self.listen()
        os.close(self._out)
        return True


class Reporter:
    """Where a process tells what was confirmed to it: at once, so that nothing is forgotten when it is killed."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def __call__(self, *words: str) -> None:
        """Tell a line."""
        os.write(self._pipe, " ".join(words).encode() + b"\n")


# --- what servers and workers do


async def serve(folder: Path, executions: Iterator[Execution], pause: float, report: Reporter) -> None:
    """Accept executions, some by a key, and cancel some."""
    ledger = open_ledger(folder)

    async def call() -> None:
        for execution in executions:
            key = IdempotencyKey("all", str(random.randint(0, 400)), b"1") if pause and random.random() < 0.3 else None  # noqa: S311  # nothing secret
            (accepted,) = await ledger.accept_all([NewExecution(execution, key)])
            if isinstance(accepted, Exception):
                raise accepted
            name = accepted.execution.execution_id
            report("accepted", name)
            if key is not None:
                report("key", key.key, name)
            if pause and random.random() < 0.1:  # noqa: S311  # same
                cancelled = await ledger.cancel(name, "anna", moment())
                assert cancelled is not None
                report("ended", name, cancelled.status)
            await asyncio.sleep(random.random() * pause)  # noqa: S311  # same

    await asyncio.gather(*[call() for _ in range(CALLERS)])
    await ledger.close()


async def work(folder: Path, report: Reporter, *, until_empty: bool = False, has_faults: bool = False) -> None:
    """Run executions; for ever, or until none is left. One in ten has faults, or large outputs."""
    ledger = open_ledger(folder)
    name = f"worker {os.getpid()} {time.monotonic_ns()}"
    while True:
        await ledger.recover(moment())
        await ledger.expire(moment())
        claimed = await ledger.claim(name, moment(), QUOTA, limit=AT_ONCE)
        claims = [Claim(one.execution_id, name, one.attempt) for one in claimed]
        await asyncio.gather(*[_run(ledger, claim, report, has_faults=has_faults) for claim in claims])
        if not claimed:
            if until_empty and not await ledger.waiting():
                await ledger.close()
                return
            await asyncio.sleep(0.05)


async def _run(ledger: SqlLedger, claim: Claim, report: Reporter, *, has_faults: bool = False) -> None:
    chance = random.random()  # noqa: S311  # nothing secret
    await asyncio.sleep(_SLOW * chance)
    if has_faults and chance < 0.02:
        await ledger.renew([claim], moment(), LEASE)
        await asyncio.sleep(_SLOW)
    if has_faults and chance < 0.05:
        await ledger.release(claim, moment())
    elif has_faults and chance < 0.1:
        failure = Failure("upstream", "busy", is_passing=chance < 0.08)
        await ledger.fail(claim, failure, moment())
    else:
        output = LARGE if has_faults and chance < 0.12 else b'{"reservation":"R-4711"}'
        if await ledger.complete(claim, output, moment()):
            report("ended", claim.execution_id, ExecutionStatus.COMPLETED)


# --- what must be left


def judge(folder: Path, processes: list[Process]) -> Counter[str]:
    """Return what is wrong in the end with the ledger, and with what was confirmed."""
    flaws = asyncio.run(flaws_of(folder, ended=True))
    statuses = {execution.execution_id: execution.status for execution in asyncio.run(found_in(folder))}
    keys: dict[str, str] = {}
    for what, *words in (line.split() for process in processes for line in process.lines):
        if what == "accepted" and words[0] not in statuses:
            flaws["an execution is lost"] += 1
        elif what == "ended" and statuses.get(words[0]) != words[1]:
            flaws["an execution did not end as was confirmed"] += 1
        elif what == "key" and keys.setdefault(words[0], words[1]) != words[1]:
            flaws["a key made two executions"] += 1
    return flaws


def kill_any(folder: Path, kills: int) -> Counter[str]:
    """Kill servers and workers ``kills`` times; return what is wrong in the end."""
    executions = (make_execution(number, is_repeatable=number % 2 == 0) for number in range(10**9))
    servers = [Process(partial(serve, folder, executions, 0.02)) for _ in range(2)]
    workers = [Process(partial(work, folder, has_faults=True)) for _ in range(2)]
    processes, began, shown = [*servers, *workers], time.monotonic(), 0.0
    for number in range(kills):
        pause = time.monotonic() + random.uniform(0.005, 0.06)  # noqa: S311  # nothing secret
        while time.monotonic() < pause:
            for process in processes:
                process.listen()
            time.sleep(0.002)
        victim = random.choice(processes)  # noqa: S311  # same
        victim.kill()
        victim.begin()
        if time.monotonic() - shown > 5:
            shown = time.monotonic()
            print(f"  {number + 1:,} kills, {_confirmed(processes)} ({shown - began:.0f} s)", flush=True)
    for process in processes:
        process.kill()
    last = Process(partial(work, folder, until_empty=True))
    assert last.wait() == 0
    flaws = judge(folder, [*processes, last])
    print(f"kills: {kills:,}; {_confirmed([*processes, last])}; {_found(flaws)} ({time.monotonic() - began:.0f} s)")
    return flaws


def kill_workers(folder: Path, invocations: int, every: float) -> Counter[str]:
    """Kill a worker every so many seconds until all invocations have ended; return what is wrong in the end."""
    executions = [
        (make_execution(number, is_repeatable=number % 2 == 0) for number in range(start, invocations, 2))
        for start in range(2)
    ]
    servers = [Process(partial(serve, folder, mine, 0.0)) for mine in executions]
    workers = [Process(partial(work, folder)) for _ in range(3)]
    processes, began, kills = [*servers, *workers], time.monotonic(), 0
    serving, next_kill = set(servers), began + every
    while serving or _is_waiting(folder):  # nothing is open here while processes are begun
        for process in (*serving, *workers):
            process.listen()
        serving -= {server for server in serving if server.has_ended()}
        time.sleep(0.05)
        if time.monotonic() > next_kill:
            next_kill += every
            victim = random.choice(workers)  # noqa: S311  # nothing secret
            victim.kill()
            victim.begin()
            kills += 1
            print(f"  {kills:,} kills, {_confirmed(processes)} ({time.monotonic() - began:.0f} s)", flush=True)
    for process in workers:
        process.kill()
    flaws = judge(folder, processes)
    found = asyncio.run(found_in(folder))
    lost = [one for one in found if one.failure and one.failure.reason == "worker_lost"]
    again = sum(one.attempt > 1 for one in found)
    if len(found) != invocations:
        flaws["there are more or fewer executions than were made"] += 1
    if any(one.is_repeatable and not has_lost_too_many(one) for one in lost):
        flaws["what may be run twice was not run again"] += 1
    if sum(one.status is ExecutionStatus.COMPLETED for one in found) != len(found) - len(lost):
        flaws["something failed without a reason"] += 1
    if len(lost) > kills * AT_ONCE:
        flaws["more was lost than ran in the workers that were killed"] += 1
    print(
        f"invocations: {invocations:,}, {kills:,} workers killed; {_confirmed(processes)}; run again {again:,}, "
        f"failed as worker_lost {len(lost):,}; {_found(flaws)} ({time.monotonic() - began:.0f} s)"
    )
    return flaws


def _is_waiting(folder: Path) -> bool:
    return asyncio.run(_waiting(folder))


async def _waiting(folder: Path) -> bool:
    ledger = open_ledger(folder)
    try:
        return bool(await ledger.waiting())
    finally:
        await ledger.close()


def _confirmed(processes: list[Process]) -> str:
    lines = [line for process in processes for line in process.lines]
    counts = Counter(line.split(maxsplit=1)[0] for line in lines)
    return f"{counts['accepted']:,} accepted, {counts['ended']:,} ends confirmed"


def _found(flaws: Counter[str]) -> str:
    return "; ".join(f"{number}x {flaw}" for flaw, number in flaws.most_common()) or "0 lost, each ended once, intact"


@contextmanager
def _new_folder() -> Iterator[Path]:
    """Give a folder with an empty ledger that no process has open."""
    with tempfile.TemporaryDirectory(prefix="skillwire-crash-") as folder:
        _is_waiting(Path(folder))
        yield Path(folder)


def main() -> int:
    """Run both parts; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--invocations", type=int, default=INVOCATIONS)
    parser.add_argument("--every", type=float, default=EVERY)
    wanted = parser.parse_args()
    flaws: Counter[str] = Counter()
    with _new_folder() as folder:
        flaws += kill_any(folder, wanted.kills)
    with _new_folder() as folder:
        flaws += kill_workers(folder, wanted.invocations, wanted.every)
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main())
