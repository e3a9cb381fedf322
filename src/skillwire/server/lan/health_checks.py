"""How one skill of a folder is checked: a function of it is called in a sandbox, or a URL is asked.

A function is called as the skill itself would be: by the same executor, in a sandbox of its own, with the secrets and
the network that were granted, and within a shorter time. A URL is asked by the client and the address policy that the
skill's calls have, without a header field of them and without following anywhere.

Trust: what comes back is a stranger's: bounded, decoded strictly, and nothing of it is told but a word that is known.
"""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from skillwire import limits
from skillwire.errors import DecodeError, SkillwireError
from skillwire.model.execution import Attempt, Execution
from skillwire.protocols.skill_discovery.messages import HealthStatus
from skillwire.server.lan.check_rounds import Answer
from skillwire.server.lan.conditions import FAILED, GOOD, SENSELESS, SILENT, UNCHECKABLE, Condition, read_said
from skillwire.server.lan.obstacles import UNGRANTED
from skillwire.trust.guarded_json import load_json
from skillwire.wire.exchange import HttpRequest, one

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.adapters.http.asynchronous import AsyncDriver
    from skillwire.model.action import Action, HealthCheck
    from skillwire.model.execution import Failure
    from skillwire.model.skill import Skill
    from skillwire.ports import Executor
    from skillwire.wire.exchange import HttpResponse

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
            return Answer(Condition(HealthStatus.DEGRADED, UNGRANTED))
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
            response = await self._driver.run(one(request))
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
        condition = read_said(outcome.output)
        return Answer(SENSELESS, "it returned what is no status") if condition is None else Answer(condition)


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
    return Answer(FAILED, f"it answered {response.status}") if word is None else Answer(Condition(word))


def _word(body: bytes) -> HealthStatus | None:
    """Return how an API says that it is; None where it says nothing that is known."""
    try:
        document: Any = load_json(body, max_bytes=limits.LAN_HEALTH_BYTES, source="the health check's answer")
    except DecodeError:
        return None
    said = document.get("status") if isinstance(document, dict) else None
    condition = read_said(said) if isinstance(said, str) else None
    return condition.status if condition is not None and condition.status in _TOLD else None
