"""When the skills of folders are checked that say how that is found out, and what each check said last.

A check takes as long as it takes, and nobody waits for it: what is told is the last answer. So neither a heartbeat nor
what others say is late because of one that is slow. Few checks run at once, each in the order in which it was due; one
that is not over is not begun again. Between two of them a place rests, so that those of very many skills take half a
processor and not all of them: with more than 200 of the usual interval a round takes longer than that. Those that
were slow the last time wait for each other, and for no place that the others need. Spec: SDP §8.1.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from skillwire import limits
from skillwire.server.lan.conditions import FAILED, UNCHECKED, Condition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from skillwire.model.action import HealthCheck
    from skillwire.model.skill import Skill

#: Seconds that a check may be begun early: it is looked for what is due only so often.
_EARLY: Final = 0.5
#: Seconds from which a check is slow; a sandbox takes some hundredths.
_SLOW: Final = 2.0
#: Seconds that a place rests.
_REST: Final = 0.5


class Answer(NamedTuple):
    """What a check says; ``why`` is for the operator's log, and for nobody else."""

    condition: Condition
    why: str = ""


class CheckRounds:
    """Has skills checked, again and again, and keeps their last answers.

    Args:
        ask: checks a skill, within a bounded time.
        close: is awaited at the end, when no check runs any more.
        clock: seconds that never run backwards.
        rest: seconds between two checks in one place.

    ``on_change`` is called when a skill is otherwise than it was; set before the first look.
    """

    def __init__(
        self,
        ask: Callable[[Skill, HealthCheck], Awaitable[Answer]],
        close: Callable[[], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
        rest: float = _REST,
    ) -> None:
        self.on_change: Callable[[], object] = lambda: None
        self._ask = ask
        self._close = close
        self._clock = clock
        self._rest = rest
        self._places = asyncio.Semaphore(limits.LAN_HEALTH_CHECKS)
        self._slow_places = asyncio.Semaphore(limits.LAN_HEALTH_SLOW_CHECKS)
        self._known: dict[str, _Known] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger("skillwire")

    def look(self, skills: Iterable[Skill]) -> dict[str, Condition]:
        """Return how each of ``skills`` is by its last answer, by name, and begin the checks that are due.

        What was known of others is forgotten. Of a new version the last answer counts until it was checked.

        Args:
            skills: that can be checked now; those that say nothing of it are passed over.
        """
        asked = {skill.name: skill for skill in skills if skill.action is not None and skill.action.health is not None}
        for name in self._known.keys() - asked.keys():
            self._known.pop(name).stop()
        for name, skill in asked.items():
            known = self._known.setdefault(name, _Known())
            digest = str(skill.artifact.digest)
            if known.digest != digest:
                known.stop()
                known.digest, known.due = digest, 0.0
            if known.task is None and self._clock() >= known.due - _EARLY and skill.action and skill.action.health:
                known.due = self._clock() + skill.action.health.interval
                known.task = asyncio.create_task(self._check(known, skill, skill.action.health))
                self._tasks.add(known.task)
                known.task.add_done_callback(self._tasks.discard)
        return {name: self._known[name].answer.condition for name in asked}

    async def close(self) -> None:
        """End every check that runs; everything of it has ended when this returns."""
        for task in self._tasks:
            task.cancel()
        self._known.clear()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._close()

    async def _check(self, known: _Known, skill: Skill, check: HealthCheck) -> None:
        async with self._slow_places if known.is_slow else self._places:
            began = self._clock()
            try:
                answer = await self._ask(skill, check)
            except Exception as error:  # noqa: BLE001  # whatever it is, the others are checked and the network is told
                self._log.error("a health check could not be made", skill=skill.name, exc_info=error)
                answer = Answer(FAILED)
            known.is_slow = self._clock() >= began + _SLOW
            known.task = None
            self._take(known, skill.name, answer)
            await asyncio.sleep(self._rest)

    def _take(self, known: _Known, name: str, answer: Answer) -> None:
        before, known.answer = known.answer, answer
        if answer.why and answer.why != before.why:
            self._log.warning("a health check", skill=name, said=answer.condition.status.value, why=answer.why)
        if answer.condition != before.condition:
            self.on_change()


class _Known:
    """What is known of one skill."""

    def __init__(self) -> None:
        self.digest = ""
        self.due = 0.0
        self.is_slow = False
        self.answer = Answer(UNCHECKED)
        self.task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            self.task = None
