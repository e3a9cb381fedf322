"""What an agent keeps is written in the end, also where a disk has failed meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from types import SimpleNamespace

from skillwire.adapters.clock import moment
from skillwire.adapters.lan.keeping import Keeping
from skillwire.protocols.skill_discovery.messages import Profile
from skillwire.protocols.skill_discovery.replay import ReplayGuard

STREAM = ("Heartbeat", "agent-001", "skill-a")


class Disk:
    """Takes what is written, but for the first time."""

    def __init__(self):
        self.tries = 0
        self.written = []

    def write(self, changes):
        self.tries += 1
        if self.tries == 1:
            raise sqlite3.OperationalError("disk I/O error at /a/path")
        self.written.append(changes)


async def test_timestamps_that_could_not_be_written_are_written_the_next_time():
    disk, counters = Disk(), Counter[str]()
    keeping = Keeping(disk, "agent-self", Profile.OPEN, 60.0, counters)  # type: ignore[arg-type]  # as far as it is used
    guard = ReplayGuard(60.0)
    link = SimpleNamespace(name="eth0/4", is_open=True, node=SimpleNamespace(gate=SimpleNamespace(replay=guard)))
    keeping.start(lambda: [link])  # type: ignore[list-item]  # as far as it is used
    now = moment().wall
    guard.keep(STREAM, int(now * 1000), b"a beat", now)
    await keeping._write()
    assert (disk.tries, disk.written) == (1, [])
    assert counters == {"state: OperationalError": 1}  # a label of metrics, which no path belongs in

    await keeping._write()
    [changes] = disk.written
    assert changes.timestamps == ((STREAM, int(now * 1000)),)
    assert changes.links == ("eth0/4",)
    async with asyncio.timeout(20):
        await keeping.stop()
    assert disk.tries == 2  # and it is not written again
