"""Simulated power cuts lose nothing that was confirmed: ``python bench/power_cuts.py [CUTS]``.

A server and its workers use a ledger in this process while all of its disk requests are recorded. Then the power is
cut at random moments of the record: a disk is made with everything synced by then, and with a random part of the rest:
nothing, all, some of the writes in any order, or some of the sectors of 512 bytes of each. The ledger opened on that
disk must be intact, and hold every confirmed execution, cancellation and output. As a control the same is done with a
disk that ignores every sync; there something must be missing.

The simulated disk keeps what was synced and writes whole sectors. File systems are not simulated except for names: new
files and folders last once their folder is synced.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from disk_recorder import Op, Recorder, can_record
from ledgers import flaws_of, make_execution, open_ledger
from skillwire import limits
from skillwire.adapters.clock import moment
from skillwire.model.execution import Claim, ExecutionStatus, IdempotencyKey, NewExecution, Quota

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skillwire.adapters.sql.ledger import SqlLedger

CUTS: Final = 10_000
CUTS_OF_A_RECORD: Final = 1_000
EXECUTIONS: Final = 240
SECTOR: Final = 512
LARGE: Final = int(limits.EXECUTION_ROW_OUTPUT_BYTES) + 1
NAMES: Final = {"delete", "rename", "mkdir"}
_HALF: Final = 0.5
QUOTA: Final = Quota(per_caller=1_000, per_skill=1_000)
#: A folder in memory where there is one: the disk is a simulated one.
MEMORY: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  # a random name below it


class Promise(NamedTuple):
    """A confirmation to a caller: an execution's status, and its output, if any."""

    execution_id: str
    status: ExecutionStatus
    output: bytes | None = None


class Disk:
    """What survives, as the operations of a record come in one by one.

    Args:
        keeps_syncs: whether what was synced is kept; a disk without that loses promises.
    """

    def __init__(self, *, keeps_syncs: bool = True) -> None:
        self._keeps_syncs = keeps_syncs
        self._files: dict[str, bytearray] = {}
        self._pending: list[Op] = []
        self.promises: dict[str, Promise] = {}

    def do(self, op: Op) -> None:
        """Take the next operation."""
        if op.what == "confirm":
            self.promises[op.data.execution_id] = op.data
        elif op.what in {"sync", "sync folder"}:
            if self._keeps_syncs:
                self._sync(op)
        else:
            self._pending.append(op)

    def _sync(self, sync: Op) -> None:
        """Keep what waited for this sync: of a file what was written to it, of a folder the names in it."""
        rest = []
        for op in self._pending:
            if sync.what == "sync folder":
                is_meant = op.what in NAMES and op.path.rpartition("/")[0] == sync.path
            else:
                is_meant = op.what not in {"rename", "mkdir"} and op.path == sync.path
            if is_meant:
                _apply(self._files, op)
            else:
                rest.append(op)
        self._pending = rest

    def cut(self, chance: random.Random) -> dict[str, bytearray]:
        """Return the files as they are after a power cut now."""
        files = {path: bytearray(content) for path, content in self._files.items()}
        how = chance.choice(("nothing", "all", "first", "some", "sectors"))
        first = chance.randint(0, len(self._pending))
        stays: set[str] = set()  # files whose deletion is forgotten: what came after was another file
        for number, op in enumerate(self._pending):
            is_kept = how == "all" or (how == "first" and number < first)
            for part in _sectors(op) if how == "sectors" else (op,):
                if op.path not in stays and (is_kept or (how in {"some", "sectors"} and chance.random() < _HALF)):
                    _apply(files, part)
                elif op.what == "delete":
                    stays.add(op.path)
        return _reachable(files)


def _sectors(op: Op) -> Iterator[Op]:
    if op.what != "write":
        yield op
        return
    start = op.offset
    while start < op.offset + len(op.data):
        end = min((start // SECTOR + 1) * SECTOR, op.offset + len(op.data))
        yield op._replace(offset=start, data=op.data[start - op.offset : end - op.offset])
        start = end


def _apply(files: dict[str, bytearray], op: Op) -> None:
    if op.what == "delete":
        files.pop(op.path, None)
    elif op.what in {"rename", "mkdir"}:
        files[op.path] = bytearray(op.data)
    else:
        content = files.setdefault(op.path, bytearray())
        if op.what == "truncate":
            del content[op.offset :]
            content.extend(bytes(op.offset - len(content)))
        else:
            content.extend(bytes(max(0, op.offset - len(content))))
            content[op.offset : op.offset + len(op.data)] = op.data


def _reachable(files: dict[str, bytearray]) -> dict[str, bytearray]:
    """Return the files whose folders are there too. A folder is an entry of its own, without content."""

    def is_reachable(path: str) -> bool:
        folder = path.rpartition("/")[0]
        return not folder or (folder in files and is_reachable(folder))

    return {path: content for path, content in files.items() if is_reachable(path)}


# --- what is recorded


def record(folder: Path, seed: int) -> Sequence[Op]:
    """Use a ledger in ``folder`` as servers and workers do; return what was asked of the disk."""
    recorder = Recorder(folder)
    with recorder.recording():
        for part in range(2):  # the second begins with what the first left
            asyncio.run(_use(folder, recorder, random.Random(seed + part)))  # noqa: S311  # repeatable, nothing secret
    return recorder.ops


async def _use(folder: Path, recorder: Recorder, chance: random.Random) -> None:
    ledger = open_ledger(folder)
    numbers = iter(range(EXECUTIONS // 2))
    await asyncio.gather(
        *[_call(ledger, recorder, chance, numbers) for _ in range(6)],
        *[_work(ledger, recorder, chance, f"worker {number}") for number in range(2)],
    )
    await ledger.close()


async def _call(ledger: SqlLedger, recorder: Recorder, chance: random.Random, numbers: Iterator[int]) -> None:
    for number in numbers:
        execution = make_execution(number)
        key = IdempotencyKey(execution.caller, str(chance.random()), b"1") if number % 3 == 0 else None
        (accepted,) = await ledger.accept_all([NewExecution(execution, key)])
        if isinstance(accepted, Exception):
            raise accepted
        recorder.confirm(Promise(execution.execution_id, ExecutionStatus.ACCEPTED))
        if chance.random() < 0.1:
            name = execution.execution_id
            ended = await ledger.cancel(name, "anna", moment())
            if ended is not None:
                recorder.confirm(Promise(name, ended.status, ended.output))


async def _work(ledger: SqlLedger, recorder: Recorder, chance: random.Random, worker: str) -> None:
    idle = 0
    while idle < 3:
        claimed = await ledger.claim(worker, moment(), QUOTA, limit=3)
        idle = 0 if claimed else idle + 1
        for execution in claimed:
            claim = Claim(execution.execution_id, worker, execution.attempt)
            size = LARGE if chance.random() < 0.03 else chance.choice((20, 300, 5_000))
            output = b'"' + chance.randbytes(size // 2).hex().encode() + b'"'
            if await ledger.complete(claim, output, moment()):
                recorder.confirm(Promise(claim.execution_id, ExecutionStatus.COMPLETED, output))


# --- what must be left


def missing(folder: Path, disk: Disk, chance: random.Random) -> Counter[str]:
    """Cut the power now; return what is wrong with what is left, in ``folder``."""
    for path, content in disk.cut(chance).items():
        place = folder / path.lstrip("/")
        if content or place.suffix:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    return asyncio.run(_missing(folder, disk))


async def _missing(folder: Path, disk: Disk) -> Counter[str]:
    flaws = await flaws_of(folder, ended=False)
    ledger = open_ledger(folder)
    for promise in disk.promises.values():
        found = await ledger.find(promise.execution_id)
        if found is None:
            flaws["an execution is lost"] += 1
        elif promise.status.is_final and found.status is not promise.status:
            flaws["an end is lost"] += 1
        elif promise.output is not None and await ledger.output(found) != promise.output:
            flaws["an output is lost"] += 1
    await ledger.close()
    return flaws


def cut_often(ops: Sequence[Op], cuts: int, seed: int, *, keeps_syncs: bool = True) -> tuple[int, Counter[str]]:
    """Return at how many of the ``cuts`` something was missing, and what."""
    chance = random.Random(seed)  # noqa: S311  # repeatable, nothing secret
    moments = Counter(chance.randint(1, len(ops)) for _ in range(cuts))
    disk = Disk(keeps_syncs=keeps_syncs)
    bad, flaws = 0, Counter[str]()
    for number, op in enumerate(ops, 1):
        disk.do(op)
        for _ in range(moments[number]):
            with tempfile.TemporaryDirectory(dir=MEMORY, prefix="skillwire-cut-") as folder:
                try:
                    found = missing(Path(folder), disk, chance)
                except Exception as error:  # noqa: BLE001  # whatever it is, the ledger cannot be used
                    found = Counter({f"it cannot be opened: {error}".replace(folder, ""): 1})
            bad += bool(found)
            flaws += found
    return bad, flaws


def main(cuts: int = CUTS) -> int:
    """Record, cut, tell; return the exit code."""
    if not can_record():
        sys.exit("this Python hides the functions of its SQLite, so that nothing can be recorded")
    began, bad, flaws = time.monotonic(), 0, Counter[str]()
    rounds = -(-cuts // CUTS_OF_A_RECORD)
    for seed in range(rounds):
        ops = record_in_memory(seed)
        some, found = cut_often(ops, min(CUTS_OF_A_RECORD, cuts - seed * CUTS_OF_A_RECORD), seed)
        bad, flaws = bad + some, flaws + found
        asked = Counter(op.what for op in ops)
        print(
            f"record {seed + 1} of {rounds}: {asked['write']:,} writes, {asked['sync']:,} syncs, "
            f"{asked['confirm']:,} promises; so far {bad} of {min(cuts, (seed + 1) * CUTS_OF_A_RECORD):,} cuts lost "
            f"something ({time.monotonic() - began:.0f} s)",
            flush=True,
        )
    for flaw, number in flaws.most_common():
        print(f"  {number}x {flaw}")
    control = min(100, cuts)
    blind, _ = cut_often(record_in_memory(0), control, 1, keeps_syncs=False)
    print(f"power cuts: {cuts:,}, {bad} lost something; with a disk that ignores syncs {blind} of {control}")
    return 1 if bad or not blind else 0


def record_in_memory(seed: int) -> Sequence[Op]:
    """Return a record."""
    folder = Path(tempfile.mkdtemp(dir=MEMORY, prefix="skillwire-record-"))
    try:
        return record(folder, seed)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
