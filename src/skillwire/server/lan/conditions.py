"""How the skills are that we announce: what their heartbeats say.

A skill is DEGRADED where the server knows of something: its folder is broken and an earlier version is served, or what
would run it cannot. Beyond that a function decides which its publisher registered with the skill
(``@publisher.skill(health=...)``): it returns whether the skill is healthy, or one of the words that heartbeats have.
The worse of the two is told; MAINTENANCE is told whatever else is known. Spec: SDP §8.1.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from skillwire.adapters.executors.function import in_thread
from skillwire.protocols.skill_discovery.messages import HealthStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from skillwire.model.skill import Skill
    from skillwire.server.folders import Broken

BROKEN: Final = "a newer version of it cannot be published"
#: How long a check may take before the skill counts as DEGRADED.
_PATIENCE: Final = 2.0
_WORDS: Final[dict[bool | str, HealthStatus]] = {
    True: HealthStatus.HEALTHY,
    False: HealthStatus.UNHEALTHY,
    **{str(status): status for status in HealthStatus if status is not HealthStatus.UNKNOWN},
}
#: The worst last.
_ORDER: Final = (
    HealthStatus.HEALTHY,
    HealthStatus.DEGRADED,
    HealthStatus.UNHEALTHY,
    HealthStatus.OFFLINE,
    HealthStatus.MAINTENANCE,
)


class Condition(NamedTuple):
    """How a skill is, and why, as the network is told."""

    status: HealthStatus
    detail: str = ""


GOOD: Final = Condition(HealthStatus.HEALTHY)


class Conditions:
    """Knows how skills are.

    Args:
        obstacles: returns what keeps skills from running, by name. Called in a thread.
        checks: what their publisher registered, by the name of the skill.
        patience: seconds that a check may take.
    """

    def __init__(
        self,
        obstacles: Callable[[Iterable[Skill]], Mapping[str, str]],
        checks: Mapping[str, Callable[[], object]],
        patience: float = _PATIENCE,
    ) -> None:
        self._obstacles = obstacles
        self._checks = checks
        self._patience = patience
        self._asked: dict[str, asyncio.Task[object]] = {}
        self._failing: set[str] = set()
        self._log = structlog.get_logger("skillwire")

    async def look(self, skills: Mapping[str, Skill], broken: Iterable[Broken]) -> dict[str, Condition]:
        """Return how each of ``skills`` is, by name.

        Args:
            skills: that are announced.
            broken: the folders that cannot be published as they are.
        """
        found = dict.fromkeys(skills, GOOD)
        found |= {one.name: Condition(HealthStatus.DEGRADED, BROKEN) for one in broken if one.name in skills}
        acting = [skill for skill in skills.values() if skill.action is not None]
        if acting:
            in_the_way = await asyncio.to_thread(self._obstacles, acting)
            found |= {name: Condition(HealthStatus.DEGRADED, reason) for name, reason in in_the_way.items()}
        checked = [name for name in self._checks if name in skills]
        for name, condition in zip(checked, await asyncio.gather(*map(self._check, checked)), strict=True):
            found[name] = max(found[name], condition, key=lambda one: _ORDER.index(one.status))
        return found

    def close(self) -> None:
        """Wait for no check any more."""
        for task in self._asked.values():
            task.cancel()
        self._asked.clear()

    async def _check(self, name: str) -> Condition:
        """Return what a check says; it is asked once at a time, however long it takes."""
        task = self._asked.get(name)
        if task is None:
            task = self._asked[name] = asyncio.create_task(_called(self._checks[name]))
        done, _ = await asyncio.wait({task}, timeout=self._patience)
        if not done:
            return Condition(HealthStatus.DEGRADED, "its health check does not answer")
        self._asked.pop(name, None)
        error = None if task.cancelled() else task.exception()
        if error is not None or task.cancelled():
            if name not in self._failing:
                self._log.warning("a health check failed", skill=name, exc_info=error)
            self._failing.add(name)
            return Condition(HealthStatus.UNHEALTHY, "its health check failed")
        self._failing.discard(name)
        return self._read(name, task.result())

    def _read(self, name: str, said: object) -> Condition:
        status = HealthStatus.HEALTHY if said is None else _WORDS.get(said) if isinstance(said, bool | str) else None
        if status is None:
            self._log.warning("a health check returned what is no status", skill=name, returned=ascii(said)[:80])
            return Condition(HealthStatus.DEGRADED, "its health check says nothing that is known")
        return Condition(status)


async def _called(check: Callable[[], object]) -> object:
    """Return what ``check`` returns; a coroutine runs in the loop, anything else in a thread of its own."""
    try:
        if inspect.iscoroutinefunction(check):
            return await check()
        found = await in_thread(check, lambda: None)
        return await found if inspect.isawaitable(found) else found
    except SystemExit as error:  # which would end the server
        raise RuntimeError("a health check that exits") from error
