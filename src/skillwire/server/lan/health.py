"""The health of announced skills, as heartbeats report it. Spec: SDP §8.1.

A skill is DEGRADED when its folder is invalid and an earlier version is served, or when this server cannot run it
(:class:`RunBlockers`). Otherwise a health check decides: a function that the publisher registered with the skill, or
``[health]`` in its folder, which names a function or a URL (:class:`HealthChecks`). The worst status is reported;
MAINTENANCE is worse than any other. A folder is not checked while its skill cannot run. A reported reason names no
secret, path or program, since every machine on the network can read it.

While a check runs, the previous result is reported (:class:`HealthCheckLoop`), so a slow check delays neither
heartbeats nor other checks. Few checks run at once, in the order in which they are due. Each slot pauses between two
checks, which bounds the checks of very many skills to half a processor. Checks that were slow last time have slots of
their own.

A function runs like the skill itself, with the same executor, sandbox, granted secrets and network, and a shorter time
limit. A URL is requested with the client and the address policy of the skill's calls, without their header fields and
without redirects. Trust: the response is untrusted: bounded, decoded strictly, and reduced to a known status.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from skillwire import limits
from skillwire.errors import DecodeError, SkillwireError, in_seconds
from skillwire.model.execution import Attempt, Execution, ExecutionSettings
from skillwire.protocols.skill_discovery.messages import HealthStatus
from skillwire.trust.guarded_json import load_json
from skillwire.wire.exchange import HttpRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

    from skillwire.adapters.http.asynchronous import AsyncDriver
    from skillwire.folder.publish import InvalidFolder
    from skillwire.model.skill import HealthCheck, Skill
    from skillwire.ports import Executor

    RunInThread = Callable[[Callable[[], object], Callable[[], None]], Awaitable[object]]

#: Seconds that a registered function may take before its skill is DEGRADED.
_PATIENCE: Final = 2.0


class HealthReading(NamedTuple):
    """The reported status of a skill, and the reason."""

    status: HealthStatus
    detail: str = ""


GOOD: Final = HealthReading(HealthStatus.HEALTHY)
BROKEN: Final = HealthReading(HealthStatus.DEGRADED, "a newer version of it cannot be published")
FAILED: Final = HealthReading(HealthStatus.UNHEALTHY, "its health check failed")
SILENT: Final = HealthReading(HealthStatus.DEGRADED, "its health check does not answer")
UNREADABLE: Final = HealthReading(HealthStatus.DEGRADED, "its health check returned an unknown status")
_REPORTED: Final = "its health check reports it"
UNCHECKED: Final = HealthReading(HealthStatus.DEGRADED, "its health was not checked yet")
UNCHECKABLE: Final = HealthReading(HealthStatus.DEGRADED, "its health cannot be checked here")

_WORDS: Final[dict[bool | str, HealthStatus]] = {
    True: HealthStatus.HEALTHY,
    False: HealthStatus.UNHEALTHY,
    **{str(status): status for status in HealthStatus if status is not HealthStatus.UNKNOWN},
}
#: From best to worst.
_ORDER: Final = (
    HealthStatus.HEALTHY,
    HealthStatus.DEGRADED,
    HealthStatus.UNHEALTHY,
    HealthStatus.OFFLINE,
    HealthStatus.MAINTENANCE,
)


class SkillHealth:
    """Determines the health of skills.

    ``blockers`` returns, in a thread, why skills cannot run. ``checks`` has the registered functions by skill;
    ``run_in_thread`` runs one of them, for at most ``patience`` seconds. ``folders`` checks the skills of folders; None
    in a process that runs no skills.
    """

    def __init__(
        self,
        blockers: Callable[[Iterable[Skill]], Mapping[str, str]],
        checks: Mapping[str, Callable[[], object]],
        folders: HealthCheckLoop | None = None,
        patience: float = _PATIENCE,
        *,
        run_in_thread: RunInThread,
    ) -> None:
        self._blockers = blockers
        self._checks = checks
        self._folders = folders
        self._patience = patience
        self._run_in_thread = run_in_thread
        self._running: dict[str, asyncio.Task[object]] = {}
        self._failing: set[str] = set()
        self._log = structlog.get_logger("skillwire")

    def follow(self, on_change: Callable[[], object]) -> None:
        """Call ``on_change`` when the result of a folder's check changes."""
        if self._folders is not None:
            self._folders.on_change = on_change

    async def look(self, skills: Mapping[str, Skill], broken: Iterable[InvalidFolder]) -> dict[str, HealthReading]:
        """Return the health of each of the announced ``skills``, by name; ``broken`` are the invalid folders."""
        found = dict.fromkeys(skills, GOOD)
        found |= {one.name: BROKEN for one in broken if one.name in skills}
        acting = [skill for skill in skills.values() if skill.action is not None]
        blocked = await asyncio.to_thread(self._blockers, acting) if acting else {}
        found |= {name: HealthReading(HealthStatus.DEGRADED, reason) for name, reason in blocked.items()}
        free = [skill for skill in acting if skill.name not in blocked]
        if self._folders is not None:
            of_folders = self._folders.look(free)
        else:
            of_folders = {skill.name: UNCHECKABLE for skill in free if skill.action is not None and skill.action.health}
        for name, condition in of_folders.items():
            found[name] = worse(found[name], condition)
        checked = [name for name in self._checks if name in skills]
        for name, condition in zip(checked, await asyncio.gather(*map(self._check, checked)), strict=True):
            found[name] = worse(found[name], condition)
        return found

    async def close(self) -> None:
        """Cancel all checks."""
        for task in self._running.values():
            task.cancel()
        self._running.clear()
        if self._folders is not None:
            await self._folders.close()

    async def _check(self, name: str) -> HealthReading:
        """Return the result of a registered function, which has at most one running call."""
        task = self._running.get(name)
        if task is None:
            task = self._running[name] = asyncio.create_task(self._call(self._checks[name]))
        done, _ = await asyncio.wait({task}, timeout=self._patience)
        if not done:
            return SILENT
        self._running.pop(name, None)
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
            self._log.warning("a health check returned an unknown status", skill=name, returned=said)
            return UNREADABLE
        return condition

    async def _call(self, check: Callable[[], object]) -> object:
        """Return the result of ``check``; a coroutine runs in the loop, another function in a thread of its own."""
        try:
            if inspect.iscoroutinefunction(check):
                return await check()
            found = await self._run_in_thread(check, lambda: None)
            return await found if inspect.isawaitable(found) else found
        except SystemExit as error:  # it would end the server
            raise RuntimeError("a health check called exit") from error


def read_report(said: object) -> HealthReading | None:
    """Return the reading for a check's result: a bool, a status, or None for healthy; None for any other value."""
    if said is None:
        return GOOD
    status = _WORDS.get(said) if isinstance(said, bool | str) else None
    if status is None:
        return None
    return GOOD if status is HealthStatus.HEALTHY else HealthReading(status, _REPORTED)


def worse(one: HealthReading, other: HealthReading) -> HealthReading:
    """Return the worse of two readings; MAINTENANCE is the worst."""
    return max(one, other, key=lambda condition: _ORDER.index(condition.status))


#: Seconds that a check may start early, since due checks are started at intervals.
_EARLY_SECONDS: Final = 0.5
#: Seconds from which a check counts as slow; starting a sandbox takes some hundredths of a second.
_SLOW_SECONDS: Final = 2.0
#: Seconds that a slot pauses between two checks.
_REST_SECONDS: Final = 0.5


class Answer(NamedTuple):
    """The result of a check; ``why`` is logged for the operator, and not reported."""

    condition: HealthReading
    why: str = ""


class HealthCheckLoop:
    """Checks skills repeatedly, and keeps their last results; a slot pauses ``rest`` seconds between two checks.

    ``on_change`` is called when the result of a check changes; set before the first look.
    """

    def __init__(
        self, checks: HealthChecks, clock: Callable[[], float] = time.monotonic, rest: float = _REST_SECONDS
    ) -> None:
        self.on_change: Callable[[], object] = lambda: None
        self._checks = checks
        self._clock = clock
        self._rest = rest
        self._slots = asyncio.Semaphore(limits.LAN_HEALTH_CHECKS)
        self._slow_slots = asyncio.Semaphore(limits.LAN_HEALTH_SLOW_CHECKS)
        self._known: dict[str, _CheckState] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger("skillwire")

    def look(self, skills: Iterable[Skill]) -> dict[str, HealthReading]:
        """Return the last result of each skill with a check, and start the checks that are due.

        Results of other skills are dropped. A new version keeps the last result until it is checked.
        """
        asked = {skill.name: skill for skill in skills if skill.action is not None and skill.action.health is not None}
        for name in self._known.keys() - asked.keys():
            self._known.pop(name).stop()
        for name, skill in asked.items():
            known = self._known.setdefault(name, _CheckState())
            digest = str(skill.artifact.digest)
            if known.digest != digest:
                known.stop()
                known.digest, known.due = digest, 0.0
            if (
                known.task is None
                and self._clock() >= known.due - _EARLY_SECONDS
                and skill.action
                and skill.action.health
            ):
                known.due = self._clock() + skill.action.health.interval
                known.task = asyncio.create_task(self._check(known, skill, skill.action.health))
                self._tasks.add(known.task)
                known.task.add_done_callback(self._tasks.discard)
        return {name: self._known[name].answer.condition for name in asked}

    async def close(self) -> None:
        """Cancel all checks, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        self._known.clear()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._checks.close()

    async def _check(self, known: _CheckState, skill: Skill, check: HealthCheck) -> None:
        async with self._slow_slots if known.is_slow else self._slots:
            began = self._clock()
            try:
                answer = await self._checks.ask(skill, check)
            except Exception as error:  # noqa: BLE001  # the other checks go on
                self._log.error("a health check failed to run", skill=skill.name, exc_info=error)
                answer = Answer(FAILED)
            known.is_slow = self._clock() >= began + _SLOW_SECONDS
            known.task = None
            before, known.answer = known.answer, answer
            if answer.why and answer.why != before.why:
                self._log.warning(
                    "health check", skill=skill.name, status=answer.condition.status.value, why=answer.why
                )
            if answer.condition != before.condition:
                self.on_change()
            await asyncio.sleep(self._rest)


@dataclass(slots=True)
class _CheckState:
    """The check of one skill: when it is due, and its last result."""

    digest: str = ""
    due: float = 0.0
    is_slow: bool = False
    answer: Answer = field(default_factory=lambda: Answer(UNCHECKED))
    task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            self.task = None


UNGRANTED: Final = "it is not granted on this server"
UNSET: Final = "a secret that it needs is not set"
NO_SANDBOX: Final = "the sandbox does not start"
#: Seconds before a sandbox that did not start is tried again.
_SANDBOX_RETRY_SECONDS: Final = 60.0


class RunBlockers:
    """Finds out why skills cannot run on this server.

    ``ungranted`` returns the skills without a grant, ``unset`` the secrets without a value. ``check_sandbox`` raises
    TrustError when a sandbox does not start.
    """

    def __init__(
        self,
        settings: ExecutionSettings,
        ungranted: Callable[[Iterable[Skill]], Coroutine[Any, Any, list[str]]],
        unset: Callable[[Iterable[str]], list[str]],
        check_sandbox: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._ungranted = ungranted
        self._unset = unset
        self._check_sandbox = check_sandbox
        self._clock = clock
        self._sandbox: bool | None = None
        self._looked = 0.0
        self._lock = threading.Lock()

    def find(self, skills: Iterable[Skill]) -> Mapping[str, str]:
        """Return the reasons by skill; called in a thread. With ``concurrency = 0`` only grants are checked."""
        acting = [(skill, skill.action) for skill in skills if skill.action is not None]
        try:
            ungranted = [] if self._settings.grant_all else asyncio.run(self._ungranted([skill for skill, _ in acting]))
        except SkillwireError:  # unreadable grants count as none
            ungranted = [skill.name for skill, _ in acting]
        found = dict.fromkeys(ungranted, UNGRANTED)
        for skill, action in acting if self._settings.concurrency else ():
            if skill.name in found:
                continue
            try:
                lacks = bool(action.permissions.secrets and self._unset(action.permissions.secrets))
            except SkillwireError:
                lacks = True
            if lacks:
                found[skill.name] = UNSET
            elif action.executor == "python" and not self._has_sandbox():
                found[skill.name] = NO_SANDBOX
        return found

    def _has_sandbox(self) -> bool:
        with self._lock:
            now = self._clock()
            if self._sandbox or (self._sandbox is False and now < self._looked + _SANDBOX_RETRY_SECONDS):
                return self._sandbox
            self._sandbox, self._looked = True, now
            try:
                self._check_sandbox()
            except SkillwireError:
                self._sandbox = False
            return self._sandbox


#: The statuses that an API may report with 503.
_UNAVAILABLE: Final = frozenset({HealthStatus.DEGRADED, HealthStatus.UNHEALTHY, HealthStatus.MAINTENANCE})
_LONGEST_WHY: Final = 500


class HealthChecks:
    """Runs the checks of folders; ``executor`` and ``driver`` are called once, in a thread."""

    def __init__(
        self,
        executor: Callable[[], Executor],
        driver: Callable[[], AsyncDriver],
        may_run: Callable[[Skill], Awaitable[bool]],
    ) -> None:
        self._make_executor = executor
        self._make_driver = driver
        self._may_run = may_run
        self._executor: Executor | None = None
        self._driver: AsyncDriver | None = None

    async def ask(self, skill: Skill, check: HealthCheck) -> Answer:
        """Return the result of a check. Cancellation stops everything that the check started."""
        if not await self._may_run(skill):  # the grant may have been revoked while the check waited
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
        if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            return Answer(GOOD)
        if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
            with suppress(DecodeError):
                source = "the health check's answer"
                document: Any = load_json(bytes(response.body), max_bytes=limits.LAN_HEALTH_BYTES, source=source)
                said = document.get("status") if isinstance(document, dict) else None
                reading = read_report(said) if isinstance(said, str) else None
                if reading is not None and reading.status in _UNAVAILABLE:
                    return Answer(HealthReading(reading.status))
        return Answer(FAILED, f"it answered {response.status}")

    async def _call(self, skill: Skill, check: HealthCheck) -> Answer:
        if skill.action is None:
            return Answer(UNCHECKABLE)
        if self._executor is None:
            self._executor = await asyncio.to_thread(self._make_executor)
        action = skill.action._replace(entrypoint=check.entrypoint, export=check.export)
        # An attempt without a caller, which the ledger does not record.
        now = time.time()
        execution = Execution(
            execution_id="health",
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
            deadline=now + check.timeout,
            timeout=check.timeout,
            turn=0.0,
            attempt=1,
        )
        attempt = Attempt(execution, skill._replace(action=action), {}, check.timeout)
        try:
            async with asyncio.timeout(check.timeout):
                outcome = await self._executor.execute(attempt)
        except TimeoutError:
            return Answer(SILENT, f"it did not end within {in_seconds(check.timeout)}")
        if (failure := outcome.failure) is not None:
            why = f"{failure.message}; it printed: {outcome.log}" if outcome.log else failure.message
            readings = {"unavailable": UNCHECKABLE, "deadline": SILENT}
            return Answer(readings.get(failure.reason, FAILED), why[:_LONGEST_WHY])
        condition = read_report(outcome.output)
        return Answer(UNREADABLE, "it returned an unknown status") if condition is None else Answer(condition)
