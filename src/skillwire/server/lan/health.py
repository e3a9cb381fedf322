"""How the skills are that we announce: what their heartbeats say.

A skill is DEGRADED where the server knows of something: its folder is broken and an earlier version is served, or what
would run it cannot. Beyond that a check decides: a function that its publisher registered with the skill
(``@publisher.skill(health=...)``), or what ``[health]`` of its folder says. It says whether the skill is healthy, or
one of the words that heartbeats have. The worse of the two is told; MAINTENANCE is told whatever else is known. Of a
folder nothing is checked as long as something is in the way of the skill itself, such as that nobody granted it.
What is told of a skill is a :class:`Condition`: a word of SDP §8.1, and why. The why names nothing: no secret, no path,
no program. Whoever is on the network reads it. Spec: SDP §8.1.

When the skills of folders are checked that say how that is found out, and what each check said last.

A check takes as long as it takes, and nobody waits for it: what is told is the last answer. So neither a heartbeat nor
what others say is late because of one that is slow. Few checks run at once, each in the order in which it was due; one
that is not over is not begun again. Between two of them a place rests, so that those of very many skills take half a
processor and not all of them: with more than 200 of the usual interval a round takes longer than that. Those that
were slow the last time wait for each other, and for no place that the others need. Spec: SDP §8.1.

How one skill of a folder is checked: a function of it is called in a sandbox, or a URL is asked.

A function is called as the skill itself would be: by the same executor, in a sandbox of its own, with the secrets and
the network that were granted, and within a shorter time. A URL is asked by the client and the address policy that the
skill's calls have, without a header field of them and without following anywhere.

Trust: what comes back is a stranger's: bounded, decoded strictly, and nothing of it is told but a word that is known.

What keeps a published skill from running here, as far as the server knows before anybody calls it.

What is found is told to the network, so it says what is wrong and names nothing: no secret, no path, no program.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from skillwire import limits
from skillwire.adapters.executors.function import in_thread
from skillwire.errors import DecodeError, SkillwireError
from skillwire.model.execution import Attempt, Execution
from skillwire.protocols.skill_discovery.messages import HealthStatus
from skillwire.server.callable_skills import ungranted_skills
from skillwire.trust.guarded_json import load_json
from skillwire.wire.exchange import HttpRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from skillwire.adapters.http.asynchronous import AsyncDriver
    from skillwire.executions.accept import ExecutionSettings
    from skillwire.model.execution import Failure
    from skillwire.model.skill import Action, HealthCheck, Skill
    from skillwire.ports import Executor
    from skillwire.server.folders import InvalidFolder
    from skillwire.wire.exchange import HttpResponse


#: How long a function may take before its skill counts as DEGRADED.
_PATIENCE: Final = 2.0


class HealthReading(NamedTuple):
    """How a skill is, and why, as the network is told."""

    status: HealthStatus
    detail: str = ""


GOOD: Final = HealthReading(HealthStatus.HEALTHY)
BROKEN: Final = HealthReading(HealthStatus.DEGRADED, "a newer version of it cannot be published")
FAILED: Final = HealthReading(HealthStatus.UNHEALTHY, "its health check failed")
SILENT: Final = HealthReading(HealthStatus.DEGRADED, "its health check does not answer")
UNREADABLE: Final = HealthReading(HealthStatus.DEGRADED, "its health check says nothing that is known")
_SAID: Final = "its health check says so"
UNCHECKED: Final = HealthReading(HealthStatus.DEGRADED, "its health was not checked yet")
UNCHECKABLE: Final = HealthReading(HealthStatus.DEGRADED, "its health cannot be checked here")

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


class SkillHealth:
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
        folders: HealthCheckLoop | None = None,
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

    async def look(self, skills: Mapping[str, Skill], broken: Iterable[InvalidFolder]) -> dict[str, HealthReading]:
        """Return how each of ``skills`` is, by name.

        Args:
            skills: that are announced.
            broken: the folders that cannot be published as they are.
        """
        found = dict.fromkeys(skills, GOOD)
        found |= {one.name: BROKEN for one in broken if one.name in skills}
        acting = [skill for skill in skills.values() if skill.action is not None]
        in_the_way = await asyncio.to_thread(self._obstacles, acting) if acting else {}
        found |= {name: HealthReading(HealthStatus.DEGRADED, reason) for name, reason in in_the_way.items()}
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

    def _of_folders(self, skills: Iterable[Skill]) -> dict[str, HealthReading]:
        """Return how those are whose folder says how that is found out."""
        if self._folders is not None:
            return self._folders.look(skills)
        return {skill.name: UNCHECKABLE for skill in skills if skill.action is not None and skill.action.health}

    async def _check(self, name: str) -> HealthReading:
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
        condition = read_report(task.result())
        if condition is None:
            said = ascii(task.result())[:80]
            self._log.warning("a health check returned what is no status", skill=name, returned=said)
            return UNREADABLE
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


def read_report(said: object) -> HealthReading | None:
    """Return what a check says that returned ``said``: a bool, a word, or nothing. None where it is none of these.

    Trust: ``said`` may be any value.
    """
    if said is None:
        return GOOD
    status = _WORDS.get(said) if isinstance(said, bool | str) else None
    if status is None:
        return None
    return GOOD if status is HealthStatus.HEALTHY else HealthReading(status, _SAID)


def worse(one: HealthReading, other: HealthReading) -> HealthReading:
    """Return the worse of two, the first where they are alike; MAINTENANCE is worse than all."""
    return max(one, other, key=lambda condition: _ORDER.index(condition.status))


#: Seconds that a check may be begun early: it is looked for what is due only so often.
_EARLY: Final = 0.5
#: Seconds from which a check is slow; a sandbox takes some hundredths.
_SLOW: Final = 2.0
#: Seconds that a place rests.
_REST: Final = 0.5


class Answer(NamedTuple):
    """What a check says; ``why`` is for the operator's log, and for nobody else."""

    condition: HealthReading
    why: str = ""


class HealthCheckLoop:
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

    def look(self, skills: Iterable[Skill]) -> dict[str, HealthReading]:
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


UNGRANTED: Final = "nobody granted it here"
UNSET: Final = "a secret that it needs is not set"
NO_SANDBOX: Final = "there is no sandbox to run it in"
#: Seconds until a sandbox that did not start is tried again.
_AGAIN: Final = 60.0


class RunBlockers:
    """Looks for what is in the way of skills.

    Args:
        settings: of executions here.
        unset: returns those of some names of secrets that nobody has set.
        check_sandbox: starts a sandbox; raises ``TrustError`` where none starts.
        clock: seconds that never run backwards.
    """

    def __init__(
        self,
        settings: ExecutionSettings,
        unset: Callable[[Iterable[str]], list[str]],
        check_sandbox: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._unset = unset
        self._check_sandbox = check_sandbox
        self._clock = clock
        self._sandbox: bool | None = None
        self._looked = 0.0
        self._lock = threading.Lock()

    def find(self, skills: Iterable[Skill]) -> Mapping[str, str]:
        """Return what is in the way, by the name of the skill; those that can run are not in it. Called in a thread.

        Where this process runs nothing (``concurrency = 0``), only grants are looked at: the rest is another's.
        """
        acting = [skill for skill in skills if skill.action is not None]
        try:
            ungranted = set() if self._settings.grant_all else set(ungranted_skills(acting))
        except SkillwireError:  # what cannot be read grants nothing
            ungranted = {skill.name for skill in acting}
        found = dict.fromkeys(ungranted, UNGRANTED)
        if not self._settings.concurrency:
            return found
        for skill in acting:
            if skill.name not in found and (reason := self._obstacle(skill)) is not None:
                found[skill.name] = reason
        return found

    def _obstacle(self, skill: Skill) -> str | None:
        action = skill.action
        if action is None:
            return None
        if action.permissions.secrets and self._lacks(action.permissions.secrets):
            return UNSET
        return NO_SANDBOX if action.executor == "python" and not self._has_sandbox() else None

    def _lacks(self, secrets: Iterable[str]) -> bool:
        try:
            return bool(self._unset(secrets))
        except SkillwireError:
            return True

    def _has_sandbox(self) -> bool:
        with self._lock:
            now = self._clock()
            if self._sandbox or (self._sandbox is False and now < self._looked + _AGAIN):
                return self._sandbox
            try:
                self._check_sandbox()
            except SkillwireError:
                self._sandbox = False
            else:
                self._sandbox = True
            self._looked = now
            return self._sandbox


#: What a check is called where executions have an identifier.
_ID: Final = "health"
#: Words by which an API may say how it is while it answers 503.
_TOLD: Final = frozenset({HealthStatus.DEGRADED, HealthStatus.UNHEALTHY, HealthStatus.MAINTENANCE})
_LONGEST_WHY: Final = 500


class HealthChecks:
    """Makes checks.

    Args:
        executor: returns what runs the code of folders. Called in a thread, with the first check of one.
        driver: returns what asks URLs; the same.
        may_run: whether somebody granted that a skill runs here. Called in a thread.
    """

    def __init__(
        self,
        executor: Callable[[], Executor],
        driver: Callable[[], AsyncDriver],
        may_run: Callable[[Skill], bool],
    ) -> None:
        self._make_executor = executor
        self._make_driver = driver
        self._may_run = may_run
        self._executor: Executor | None = None
        self._driver: AsyncDriver | None = None

    async def ask(self, skill: Skill, check: HealthCheck) -> Answer:
        """Return what a check of ``skill`` says. Cancelling ends everything that it began."""
        if not await asyncio.to_thread(self._may_run, skill):  # it may have been taken back since it was due
            return Answer(HealthReading(HealthStatus.DEGRADED, UNGRANTED))
        return await (self._ask_url(check) if check.url else self._call(skill, check))

    async def close(self) -> None:
        """Close the connections."""
        if self._driver is not None:
            await self._driver.close()

    async def _ask_url(self, check: HealthCheck) -> Answer:
        if self._driver is None:
            self._driver = await asyncio.to_thread(self._make_driver)
        request = HttpRequest(
            check.url,
            headers={"accept": "application/json, */*;q=0.1", "cache-control": "no-cache"},
            max_bytes=limits.LAN_HEALTH_BYTES,
            timeout=check.timeout,
        )
        try:
            response = await self._driver.send(request)
        except SkillwireError as error:
            return Answer(FAILED, f"{error.code}: {error.message}"[:_LONGEST_WHY])
        return _read_answer(response)

    async def _call(self, skill: Skill, check: HealthCheck) -> Answer:
        if skill.action is None:
            return Answer(UNCHECKABLE)
        if self._executor is None:
            self._executor = await asyncio.to_thread(self._make_executor)
        action = skill.action._replace(entrypoint=check.entrypoint, export=check.export)
        attempt = _attempt(skill, action, check.timeout)
        try:
            async with asyncio.timeout(check.timeout):
                outcome = await self._executor.execute(attempt)
        except TimeoutError:
            return Answer(SILENT, f"it did not end within {check.timeout} s")
        if outcome.failure is not None:
            return _failed(outcome.failure, outcome.log)
        condition = read_report(outcome.output)
        return Answer(UNREADABLE, "it returned what is no status") if condition is None else Answer(condition)


def _attempt(skill: Skill, action: Action, seconds: float) -> Attempt:
    """Return a call that is in no ledger, and of nobody."""
    now = time.time()
    execution = Execution(
        execution_id=_ID,
        skill=skill.name,
        skill_id=skill.name,
        version=skill.version,
        digest=str(skill.artifact.digest),
        executor=action.executor,
        caller="",
        caller_id="",
        caller_type="",
        inputs=b"{}",
        created=now,
        updated=now,
        deadline=now + seconds,
        timeout=seconds,
        turn=0.0,
        attempt=1,
    )
    return Attempt(execution, skill._replace(action=action), {}, seconds)


def _failed(failure: Failure, log: str) -> Answer:
    """Return what it means that a function gave no answer."""
    printed = f"; it printed: {log}" if log else ""
    why = f"{failure.message}{printed}"[:_LONGEST_WHY]
    if failure.reason == "unavailable":
        return Answer(UNCHECKABLE, why)
    return Answer(SILENT if failure.reason == "deadline" else FAILED, why)


def _read_answer(response: HttpResponse) -> Answer:
    if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
        return Answer(GOOD)
    word = _word(bytes(response.body)) if response.status == HTTPStatus.SERVICE_UNAVAILABLE else None
    return Answer(FAILED, f"it answered {response.status}") if word is None else Answer(HealthReading(word))


def _word(body: bytes) -> HealthStatus | None:
    """Return how an API says that it is; None where it says nothing that is known."""
    try:
        document: Any = load_json(body, max_bytes=limits.LAN_HEALTH_BYTES, source="the health check's answer")
    except DecodeError:
        return None
    said = document.get("status") if isinstance(document, dict) else None
    condition = read_report(said) if isinstance(said, str) else None
    return condition.status if condition is not None and condition.status in _TOLD else None
