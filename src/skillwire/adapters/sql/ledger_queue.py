"""Which executions are next: by their place in the queue, within the quotas of callers and skills.

First the front of the queue is read. When everything there has to wait, because a caller at its quota queued
thousands, lanes are read instead: a lane is what waits for one caller and one skill. Lanes at their quota are skipped
as a whole, and the heads of the others are taken in the order of the queue. Each read is bounded, and the next walk
over the lanes goes on where this one stopped. So a claim costs the same however much waits, and no execution waits for
ever behind others that may not run.

A worker reads its own queue alone. Quotas count over all queues.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Final

from skillwire.adapters.sql.connection import Connection
from skillwire.model.execution import (
    Moment,
    Quota,
)

#: What waits for a worker; as the indexes have it, word by word.
WAITING: Final = "worker IS NULL AND completed IS NULL AND executor <> 'human'"
#: What a worker, or a person, has.
CLAIMED: Final = "worker IS NOT NULL AND status = 'running'"
#: How many rows at the beginning of the queue are looked at first, and how many when none of those may run.
_LOOKS: Final = (64, 1024)
#: How many lanes one walk visits, and how many rows of each it looks at.
_LANES: Final = 256
_LANE: Final = 64
#: How many rows more than may be taken are read at once, since some may have no room beside the others.
_SPARE: Final = 32

#: What a row must be beyond what an index can tell.
_MAY_RUN: Final = (
    "deadline > ? AND executor IN (SELECT value FROM json_each(?))"
    " AND (executor <> 'function' OR ? OR digest IN (SELECT value FROM json_each(?)))"
)
# The inner queries read an index alone, as far as they are told; only what is left of that is looked up in its row.
_FRONT: Final = (
    "SELECT number, turn, execution_id, caller, skill FROM executions WHERE number IN"  # noqa: S608  # constants
    " (SELECT number FROM (SELECT number, not_before, caller, skill FROM executions INDEXED BY executions_waiting"
    f" WHERE {WAITING} AND queue = ? ORDER BY turn LIMIT ?) AS front WHERE not_before <= ?"
    " AND caller NOT IN (SELECT value FROM json_each(?)) AND skill NOT IN (SELECT value FROM json_each(?)))"
    f" AND {_MAY_RUN} ORDER BY turn, number LIMIT ?"
)
_HAS_MORE: Final = (
    f"SELECT 1 FROM executions INDEXED BY executions_waiting WHERE {WAITING}"  # noqa: S608  # the same
    " AND queue = ? LIMIT 1 OFFSET ?"
)
_NEXT_SKILL: Final = (
    f"SELECT caller, skill FROM executions INDEXED BY executions_lanes WHERE {WAITING}"  # noqa: S608  # the same
    " AND caller = ? AND skill > ? ORDER BY skill LIMIT 1"
)
_NEXT_CALLER: Final = (
    f"SELECT caller, skill FROM executions INDEXED BY executions_lanes WHERE {WAITING}"  # noqa: S608  # the same
    " AND caller > ? ORDER BY caller, skill LIMIT 1"
)
_HEADS: Final = (
    "SELECT number, turn, execution_id, caller, skill FROM executions WHERE number IN"  # noqa: S608  # the same
    f" (SELECT number FROM executions INDEXED BY executions_lanes WHERE {WAITING} AND caller = ? AND skill = ?"
    f" AND queue = ? ORDER BY turn LIMIT {_LANE}) AND not_before <= ? AND {_MAY_RUN} ORDER BY turn, number LIMIT ?"
)
_COUNT_HELD: Final = (
    "SELECT caller, skill, count(*) FROM executions INDEXED BY executions_held"  # noqa: S608  # the same
    f" WHERE {CLAIMED} AND executor <> 'human' GROUP BY caller, skill"
)


#: Its number, its turn, its ID, its caller, its skill.
_Row = tuple[int, float, str, str, str]
#: A caller, and a skill.
_Lane = tuple[str, str]
_FIRST: Final[_Lane] = ("", "")


class _Quotas:
    """What callers and skills may have beyond what they have; and what was taken, in order."""

    def __init__(self, held: Iterable[tuple[str, str, int]], quota: Quota, limit: int) -> None:
        self.left = limit
        self.taken: dict[str, None] = {}
        self._callers: Counter[str] = Counter()
        self._skills: Counter[str] = Counter()
        self._quota = quota
        for caller, skill, number in held:
            self._callers[caller] += number
            self._skills[skill] += number

    def is_caller_full(self, caller: str) -> bool:
        return self._callers[caller] >= self._quota.per_caller

    def is_skill_full(self, skill: str) -> bool:
        return self._skills[skill] >= self._quota.per_skill_of(skill)

    def take(self, row: _Row) -> None:
        _, _, execution_id, caller, skill = row
        is_full = not self.left or self.is_caller_full(caller) or self.is_skill_full(skill)
        if is_full or execution_id in self.taken:
            return
        self._callers[caller] += 1
        self._skills[skill] += 1
        self.taken[execution_id] = None
        self.left -= 1

    def full(self) -> tuple[str, str]:
        """Return the callers, and the skills, that have as much as they may, as JSON."""
        callers = [name for name, number in self._callers.items() if number >= self._quota.per_caller]
        skills = [name for name in {*self._skills, *self._quota.skills} if self.is_skill_full(name)]
        return json.dumps(callers), json.dumps(skills)


class Queue:
    """The queue of a ledger. It remembers only where its last walk over the lanes stopped."""

    def __init__(self) -> None:
        self._stopped = _FIRST

    async def choose(self, connection: Connection, now: Moment, quota: Quota, limit: int) -> list[str]:
        """Return the IDs of at most ``limit`` executions that may run now, those whose turn it is."""
        executors, functions = (json.dumps(sorted(names or ())) for names in (quota.executors, quota.functions))
        may_run = (now.wall, executors, quota.functions is None, functions)
        room = _Quotas(await connection.rows(_COUNT_HELD), quota, limit)
        for look in _LOOKS:
            taken = -1
            while room.left and taken < len(room.taken):
                taken = len(room.taken)
                most = room.left + taken + _SPARE
                asked = (quota.queue, look, now.wall, *room.full(), *may_run, most)
                for row in await connection.rows(_FRONT, asked):
                    room.take(row)
            if not room.left or await connection.row(_HAS_MORE, (quota.queue, look)) is None:
                return list(room.taken)
        heads = [
            await connection.rows(_HEADS, (*lane, quota.queue, now.wall, *may_run, limit))
            async for lane in self._lanes(connection, room)
        ]
        for row in heapq.merge(*heads, key=lambda row: (row[1], row[0])):  # by turn and number
            room.take(row)
        return list(room.taken)

    async def _lanes(self, connection: Connection, room: _Quotas) -> AsyncIterator[_Lane]:
        """Yield lanes with room, from where the last walk stopped, and once around at most."""
        began = lane = self._stopped
        is_full, has_turned = False, began == _FIRST
        for _ in range(_LANES):
            found: _Lane | None = None
            if not is_full:  # another lane of the same caller
                found = await connection.row(_NEXT_SKILL, lane)
            found = found or await connection.row(_NEXT_CALLER, lane[:1])
            if found is None and not has_turned:
                lane, is_full, has_turned = _FIRST, False, True
                continue
            if found is None or (has_turned and began != _FIRST and found > began):
                self._stopped = _FIRST
                return
            lane, is_full = found, room.is_caller_full(found[0])
            if not is_full and not room.is_skill_full(lane[1]):
                yield lane
        self._stopped = lane
