"""How the skills are that we announce: what their heartbeats say.

A skill is DEGRADED where the server knows of something: its folder is broken and an earlier version is served, or what
would run it cannot. Beyond that a check decides: a function that its publisher registered with the skill
(``@publisher.skill(health=...)``), or what ``[health]`` of its folder says. It says whether the skill is healthy, or
one of the words that heartbeats have. The worse of the two is told; MAINTENANCE is told whatever else is known. Of a
folder nothing is checked as long as something is in the way of the skill itself, such as that nobody granted it.
What is told of a skill is a :class:`Condition`: a word of SDP §8.1, and why. The why names nothing: no secret, no path,
no program. Whoever is on the network reads it. Spec: SDP §8.1.
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
    from skillwire.server.lan.check_rounds import CheckRounds

#: How long a function may take before its skill counts as DEGRADED.
_PATIENCE: Final = 2.0


class Condition(NamedTuple):
    """How a skill is, and why, as the network is told."""

    status: HealthStatus
    detail: str = ""


GOOD: Final = Condition(HealthStatus.HEALTHY)
BROKEN: Final = Condition(HealthStatus.DEGRADED, "a newer version of it cannot be published")
FAILED: Final = Condition(HealthStatus.UNHEALTHY, "its health check failed")
SILENT: Final = Condition(HealthStatus.DEGRADED, "its health check does not answer")
SENSELESS: Final = Condition(HealthStatus.DEGRADED, "its health check says nothing that is known")
_SAID: Final = "its health check says so"
UNCHECKED: Final = Condition(HealthStatus.DEGRADED, "its health was not checked yet")
UNCHECKABLE: Final = Condition(HealthStatus.DEGRADED, "its health cannot be checked here")

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


class Conditions:
    """Knows how skills are.

    Args:
        obstacles: returns what keeps skills from running, by name. Called in a thread.
        checks: what their publisher registered, by the name of the skill.
        folders: checks the skills of folders; None where nothing of a folder runs in this process.
        patience: seconds that a registered check may take.
    """

    def __init__(
        self,
        obstacles: Callable[[Iterable[Skill]], Mapping[str, str]],
        checks: Mapping[str, Callable[[], object]],
        folders: CheckRounds | None = None,
        patience: float = _PATIENCE,
    ) -> None:
        self._obstacles = obstacles
        self._checks = checks
        self._folders = folders
        self._patience = patience
        self._asked: dict[str, asyncio.Task[object]] = {}
        self._failing: set[str] = set()
        self._log = structlog.get_logger("skillwire")

    def follow(self, on_change: Callable[[], object]) -> None:
        """Have ``on_change`` called when a skill is otherwise than at the last look, as far as that is known before."""
        if self._folders is not None:
            self._folders.on_change = on_change

    async def look(self, skills: Mapping[str, Skill], broken: Iterable[Broken]) -> dict[str, Condition]:
        """Return how each of ``skills`` is, by name.

        Args:
            skills: that are announced.
            broken: the folders that cannot be published as they are.
        """
        found = dict.fromkeys(skills, GOOD)
        found |= {one.name: BROKEN for one in broken if one.name in skills}
        acting = [skill for skill in skills.values() if skill.action is not None]
        in_the_way = await asyncio.to_thread(self._obstacles, acting) if acting else {}
        found |= {name: Condition(HealthStatus.DEGRADED, reason) for name, reason in in_the_way.items()}
        free = [skill for skill in acting if skill.name not in in_the_way]
        for name, condition in self._of_folders(free).items():
            found[name] = worse(found[name], condition)
        checked = [name for name in self._checks if name in skills]
        for name, condition in zip(checked, await asyncio.gather(*map(self._check, checked)), strict=True):
            found[name] = worse(found[name], condition)
        return found

    async def close(self) -> None:
        """Wait for no check any more; end those of folders."""
        for task in self._asked.values():
            task.cancel()
        self._asked.clear()
        if self._folders is not None:
            await self._folders.close()

    def _of_folders(self, skills: Iterable[Skill]) -> dict[str, Condition]:
        """Return how those are whose folder says how that is found out."""
        if self._folders is not None:
            return self._folders.look(skills)
        return {skill.name: UNCHECKABLE for skill in skills if skill.action is not None and skill.action.health}

    async def _check(self, name: str) -> Condition:
        """Return what a check says; it is asked once at a time, however long it takes."""
        task = self._asked.get(name)
        if task is None:
            task = self._asked[name] = asyncio.create_task(_called(self._checks[name]))
        done, _ = await asyncio.wait({task}, timeout=self._patience)
        if not done:
            return SILENT
        self._asked.pop(name, None)
        error = None if task.cancelled() else task.exception()
        if error is not None or task.cancelled():
            if name not in self._failing:
                self._log.warning("a health check failed", skill=name, exc_info=error)
            self._failing.add(name)
            return FAILED
        self._failing.discard(name)
        condition = read_said(task.result())
        if condition is None:
            said = ascii(task.result())[:80]
            self._log.warning("a health check returned what is no status", skill=name, returned=said)
            return SENSELESS
        return condition


async def _called(check: Callable[[], object]) -> object:
    """Return what ``check`` returns; a coroutine runs in the loop, anything else in a thread of its own."""
    try:
        if inspect.iscoroutinefunction(check):
            return await check()
        found = await in_thread(check, lambda: None)
        return await found if inspect.isawaitable(found) else found
    except SystemExit as error:  # which would end the server
        raise RuntimeError("a health check that exits") from error


def read_said(said: object) -> Condition | None:
    """Return what a check says that returned ``said``: a bool, a word, or nothing. None where it is none of these.

    Trust: ``said`` may be any value.
    """
    if said is None:
        return GOOD
    status = _WORDS.get(said) if isinstance(said, bool | str) else None
    if status is None:
        return None
    return GOOD if status is HealthStatus.HEALTHY else Condition(status, _SAID)


def worse(one: Condition, other: Condition) -> Condition:
    """Return the worse of two, the first where they are alike; MAINTENANCE is worse than all."""
    return max(one, other, key=lambda condition: _ORDER.index(condition.status))
