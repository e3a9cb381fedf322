"""How skills are: what the server knows, and what their publisher's function says, the worse of the two."""

import asyncio
import json
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from blockbuster import blockbuster_ctx
from tests.support.attempts import skill_of
from tests.support.opened import open_grants
from tests.support.publishing import write_skill
from tests.support.virtual_time import virtual_loop

from skillwire import limits
from skillwire.adapters.executors.function import in_thread
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.adapters.stores import open_stores
from skillwire.errors import FetchError, StorageError, TrustError
from skillwire.folder.publish import PreparedSkill, prepare
from skillwire.model.digest import Digest
from skillwire.model.execution import ExecutionSettings, Failure, Outcome
from skillwire.model.skill import Action, HealthCheck, Permissions
from skillwire.protocols.skill_discovery.messages import HealthStatus
from skillwire.server.lan.health import (
    BROKEN,
    FAILED,
    GOOD,
    NO_SANDBOX,
    SILENT,
    UNCHECKABLE,
    UNCHECKED,
    UNGRANTED,
    UNREADABLE,
    UNSET,
    Answer,
    HealthCheckLoop,
    HealthChecks,
    HealthReading,
    RunBlockers,
    SkillHealth,
)
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpResponse

KNOWN: dict[str, Any] = {
    "notes": SimpleNamespace(name="notes", action=None),
    "adder": SimpleNamespace(name="adder", action=SimpleNamespace(health=None)),
}


async def _granted(_):
    return True


async def _not_granted(_):
    return False


def conditions(checks=None, obstacles=None, patience=5.0, folders=None):
    return SkillHealth(lambda _: obstacles or {}, checks or {}, folders, patience, run_in_thread=in_thread)


def never():
    pytest.fail("called")


BLOCKED = "it is not granted on this server"
CHECKED: Any = {"looked": SimpleNamespace(name="looked", action=SimpleNamespace(health=object()))}


@pytest.mark.parametrize(
    ("known", "skills", "broken", "found"),
    [
        ({}, KNOWN, (), {"notes": GOOD, "adder": GOOD}),
        ({}, KNOWN, ("notes", "another"), {"notes": BROKEN, "adder": GOOD}),
        ({}, KNOWN | CHECKED, (), {"notes": GOOD, "adder": GOOD, "looked": UNCHECKABLE}),
        ({"checks": {"gone": never}}, KNOWN, (), {"notes": GOOD, "adder": GOOD}),
    ],
    ids=["nothing is wrong", "an earlier version is served", "no folder is checked here", "a skill is not published"],
)
async def test_the_health_of_skills_without_an_answer(known, skills, broken, found):
    invalid: list[Any] = [SimpleNamespace(name=name) for name in broken]
    assert await conditions(**known).look(skills, invalid) == found


@pytest.mark.parametrize(
    ("returned", "status"), [("HEALTHY", "DEGRADED"), ("UNHEALTHY", "UNHEALTHY"), ("MAINTENANCE", "MAINTENANCE")]
)
async def test_the_worse_is_reported_and_maintenance_above_all(returned, status):
    found = await conditions({"adder": lambda: returned}, {"adder": BLOCKED}).look(KNOWN, ())
    assert found["adder"].status == status


async def test_what_cannot_run_is_degraded_and_only_what_runs_is_asked_about():
    asked: list[str] = []

    def obstacles(skills):
        asked.extend(skill.name for skill in skills)
        assert threading.current_thread() is not threading.main_thread()
        return {"adder": BLOCKED}

    found = await SkillHealth(obstacles, {}, run_in_thread=in_thread).look(KNOWN, ())
    assert (asked, found["adder"]) == (["adder"], (HealthStatus.DEGRADED, BLOCKED))


async def awaited():
    return "DEGRADED"


def raises():
    raise OSError("the disk is full, at /home/alice")


def leaves():
    raise SystemExit(1)


@pytest.mark.parametrize(
    ("check", "status"),
    [
        (lambda: True, "HEALTHY"),
        (lambda: None, "HEALTHY"),
        (lambda: False, "UNHEALTHY"),
        (lambda: "MAINTENANCE", "MAINTENANCE"),
        (lambda: HealthStatus.DEGRADED, "DEGRADED"),
        (lambda: "fine", "DEGRADED"),
        (lambda: "UNKNOWN", "DEGRADED"),
        (lambda: 1.5, "DEGRADED"),
        (partial(awaited), "DEGRADED"),
        (awaited, "DEGRADED"),
        (raises, "UNHEALTHY"),
        (leaves, "UNHEALTHY"),
    ],
)
async def test_a_check_decides(check, status):
    found = await conditions({"adder": check}).look(KNOWN, ())
    assert found["adder"].status == status
    assert found["notes"] == GOOD
    assert "alice" not in found["adder"].detail


async def test_a_check_that_hangs_is_asked_once_and_heard_when_it_answers():
    calls, answer = [], asyncio.Event()

    async def slow():
        calls.append(1)
        await answer.wait()
        return True

    known = conditions({"adder": slow}, patience=0.05)
    for _ in range(2):
        assert (await known.look(KNOWN, ()))["adder"].status == "DEGRADED"
    assert calls == [1]
    answer.set()
    await asyncio.sleep(0)
    assert (await known.look(KNOWN, ()))["adder"] == GOOD


async def test_a_check_that_never_ends_keeps_nobody_from_ending():
    forever = asyncio.Event()
    known = conditions({"adder": forever.wait}, patience=0.01)
    await known.look(KNOWN, ())
    await known.close()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task() and not task.cancelling()]


class Folders:
    """Stands in for what has the skills of folders checked."""

    def __init__(self, **said):
        self.said = said
        self.asked: list[str] = []
        self.is_closed = False
        self.on_change = None

    def look(self, skills):
        self.asked = [skill.name for skill in skills]
        return {name: condition for name, condition in self.said.items() if name in self.asked}

    async def close(self):
        self.is_closed = True


async def test_what_a_folder_says_counts_and_the_worse_is_told():
    folders = Folders(adder=FAILED)
    known = conditions(folders=folders)
    known.follow(print)
    assert folders.on_change is print
    assert (await known.look(KNOWN, ()))["adder"] == FAILED
    folders.said["adder"] = GOOD
    broken: list[Any] = [SimpleNamespace(name="adder")]
    assert (await known.look(KNOWN, broken))["adder"] == BROKEN
    folders.said["adder"] = HealthReading(HealthStatus.MAINTENANCE)
    assert (await known.look(KNOWN, broken))["adder"].status == "MAINTENANCE"
    await known.close()
    assert folders.is_closed


async def test_nothing_of_a_folder_is_checked_while_something_is_in_its_way():
    folders = Folders(adder=GOOD)
    found = await conditions(folders=folders, obstacles={"adder": BLOCKED}).look(KNOWN, ())
    assert folders.asked == []
    assert found["adder"] == (HealthStatus.DEGRADED, BLOCKED)


DEGRADED = HealthReading(HealthStatus.DEGRADED)


def skill(name="adder", interval=30, content=b"one"):
    check = HealthCheck("", "main.py", "health", interval, 5)
    one = skill_of(Action("python", "main.py", health=check), name)
    return one._replace(artifact=one.artifact._replace(digest=Digest.of(content)))


class Site:
    """Checks that answer when a test says what."""

    def __init__(self):
        self.now = 100.0
        self.begun: list[str] = []
        self.changes = 0
        self.is_closed = False
        self.running = 0
        self.answers: dict[str, asyncio.Future] = {}
        self.health = HealthCheckLoop(self, lambda: self.now, rest=0.0)  # type: ignore[arg-type]  # as far as it is used
        self.health.on_change = self.change

    def change(self):
        self.changes += 1

    async def ask(self, skill, check):
        assert check == skill.action.health
        self.begun.append(skill.name)
        self.running += 1
        try:
            self.answers[skill.name] = asyncio.Future()
            return await self.answers[skill.name]
        finally:
            self.running -= 1

    async def close(self):
        self.is_closed = True

    async def look(self, *skills):
        found = self.health.look(skills)
        await settled()
        return found

    async def answer(self, name, answer):
        future = self.answers.pop(name)
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
        await settled()


async def settled():
    for _ in range(8):
        await asyncio.sleep(0)


@pytest.fixture
async def site():
    site = Site()
    yield site
    await site.health.close()


async def test_nobody_waits_for_a_check_and_its_answer_is_told_between_two(site):
    one = skill()
    assert await site.look(one) == {"adder": UNCHECKED}
    assert await site.look(one) == {"adder": UNCHECKED}
    await site.answer("adder", Answer(GOOD))
    assert site.changes == 1
    site.now += 25
    assert await site.look(one) == {"adder": GOOD}
    assert site.begun == ["adder"]
    site.now += 5
    assert await site.look(one) == {"adder": GOOD}
    assert site.begun == ["adder", "adder"]
    await site.answer("adder", Answer(GOOD))
    assert site.changes == 1


async def test_a_slow_check_is_not_begun_again_and_delays_no_other(site):
    slow, quick = skill("slow", interval=5), skill("quick")
    await site.look(slow, quick)
    site.now += 20
    await site.answer("quick", Answer(GOOD))
    assert await site.look(slow, quick) == {"slow": UNCHECKED, "quick": GOOD}
    assert site.begun == ["slow", "quick"]
    await site.answer("slow", Answer(GOOD))
    await site.look(slow, quick)
    assert site.begun == ["slow", "quick", "slow"]


async def test_few_run_at_once_and_none_is_left_out(site):
    skills = [skill(f"skill-{number}") for number in range(2 * limits.LAN_HEALTH_CHECKS + 1)]
    await site.look(*skills)
    assert site.running == limits.LAN_HEALTH_CHECKS
    for number in range(len(skills)):
        await site.answer(f"skill-{number}", Answer(GOOD))
        assert site.running <= limits.LAN_HEALTH_CHECKS
    assert set((await site.look(*skills)).values()) == {GOOD}


async def test_those_that_were_slow_take_no_place_of_the_others(site):
    slow = [skill(f"slow-{number}", interval=5) for number in range(limits.LAN_HEALTH_CHECKS)]
    await site.look(*slow)
    site.now += 10
    for one in slow:
        await site.answer(one.name, Answer(GOOD))
    await site.look(*slow, skill("quick"))
    assert site.running == limits.LAN_HEALTH_SLOW_CHECKS + 1
    await site.answer("quick", Answer(GOOD))
    first = next(iter(site.answers))
    await site.answer(first, Answer(GOOD))  # quick again
    assert site.running == limits.LAN_HEALTH_SLOW_CHECKS
    site.now += 10
    await site.look(skill(first, interval=5))
    assert site.running == 1


async def test_a_new_version_is_checked_at_once_and_the_last_answer_counts_until_then(site):
    await site.look(skill())
    await site.answer("adder", Answer(DEGRADED))
    assert await site.look(skill(content=b"two")) == {"adder": DEGRADED}
    assert site.begun == ["adder", "adder"]
    await site.look(skill(content=b"three"))  # while the second is being checked
    assert (site.begun, site.running) == (["adder"] * 3, 1)


async def test_what_cannot_be_checked_any_more_is_forgotten_and_its_check_ended(site):
    one = skill()
    await site.look(one)
    await site.answer("adder", Answer(GOOD))
    site.now += 60
    await site.look(one)
    assert site.running == 1
    assert await site.look() == {}
    assert site.running == 0
    assert await site.look(one) == {"adder": UNCHECKED}


async def test_those_that_do_not_say_how_are_passed_over(site):
    instructions = skill()._replace(action=None)
    silent = skill()._replace(action=Action("python", "main.py"))
    assert await site.look(instructions, silent) == {}
    assert site.begun == []


async def test_a_defect_is_told_and_the_next_check_is_made(site, capsys):
    one = skill()
    await site.look(one)
    await site.answer("adder", RuntimeError("a defect"))
    assert await site.look(one) == {"adder": FAILED}
    assert "a defect" in capsys.readouterr().out
    site.now += 30
    await site.look(one)
    assert site.begun == ["adder", "adder"]


async def test_why_is_said_to_the_operator_once_until_it_is_another(site, capsys):
    one = skill()
    for why in ("it raised", "it raised", "", "it raised"):
        await site.look(one)
        await site.answer("adder", Answer(FAILED if why else GOOD, why))
        site.now += 30
    assert capsys.readouterr().out.count("it raised") == 2


async def test_at_the_end_nothing_runs(site):
    await site.look(skill("first"), skill("second"))
    assert site.running == 2
    await site.health.close()
    assert (site.running, site.is_closed, site.changes) == (0, True, 0)


@pytest.mark.virtual_time
async def test_a_place_rests_between_two_checks():
    asked: list[float] = []

    async def ask(*_):
        asked.append(virtual_loop().time())
        return Answer(GOOD)

    async def close():
        return

    checks: Any = SimpleNamespace(ask=ask, close=close)
    health = HealthCheckLoop(checks, virtual_loop().time, rest=0.1)
    health.look([skill(f"skill-{number}") for number in range(limits.LAN_HEALTH_CHECKS + 1)])
    await asyncio.sleep(1)
    began, *rest = asked
    assert [at - began for at in rest] == pytest.approx([*[0.0] * (limits.LAN_HEALTH_CHECKS - 1), 0.1])
    await health.close()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


pytestmark = pytest.mark.spec("SDP-heartbeat-callback")
URL = "https://api.example.com/healthz"


class Driver:
    """Answers each request alike, and keeps them."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.is_closed = False

    async def send(self, request):
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def close(self):
        self.is_closed = True


UNAVAILABLE = ("DEGRADED", "UNHEALTHY", "MAINTENANCE")
OTHER_STATUSES = (199, 301, 302, 400, 401, 404, 429, 500, 502, 504)


def answered(status, body=b"", content_type="application/json"):
    return HttpResponse(URL, status, {"content-type": content_type}, body)


async def asked(answer, seconds=5):
    """Return what a check of an API says that answers so, and its request."""
    driver = Driver(answer)
    checks = HealthChecks(never, lambda: cast("AsyncDriver", driver), _granted)
    check = HealthCheck(URL, timeout=seconds)
    found = await checks.ask(skill_of(Action("http", health=check)), check)
    await checks.close()
    assert driver.is_closed
    return found, driver.requests[0]


async def test_an_api_is_asked_with_nothing_that_its_calls_have():
    found, request = await asked(answered(204), seconds=3)
    assert found == (GOOD, "")
    assert (request.url, request.method, request.body, request.timeout) == (URL, "GET", None, 3)
    assert set(request.headers) == {"accept", "cache-control"}
    assert request.max_bytes == limits.LAN_HEALTH_BYTES


#: Bodies of a 503 that name no status.
HOSTILE = [
    *(b"", b"<html>", b"[]", b'"DEGRADED"', b'{"status": "HEALTHY"}', b'{"status": "OFFLINE"}', b'{"status": null}'),
    *(b'{"status": "UNKNOWN"}', b'{"status": "degraded"}', b'{"status": ["DEGRADED"]}', b'{"status": true}'),
    *(b'{"status": "DEGRADED"} more', b'{"status": "DEGR\xff"}', b"[" * 30_000, b'{"status": ' + b"9" * 30_000 + b"}"),
]
DEGRADED_BODY = b'{"status": "DEGRADED", "detail": "/home/alice"}'
ERRORS = [
    FetchError("TIMEOUT", "api.example.com did not answer"),
    FetchError("CONNECT_FAILED", "api.example.com at 10.0.0.7"),
    TrustError("ADDRESS_REFUSED", "10.0.0.7 is no public address"),
]


@pytest.mark.parametrize(
    ("answer", "condition", "why"),
    [
        *((answered(503, json.dumps({"status": one}).encode()), (one, ""), "") for one in UNAVAILABLE),
        (answered(503, DEGRADED_BODY), ("DEGRADED", ""), ""),
        *((answered(503, body), FAILED, "it answered 503") for body in HOSTILE),
        *((answered(status, DEGRADED_BODY), FAILED, f"it answered {status}") for status in OTHER_STATUSES),
        *((error, FAILED, f"{error.code}: {error.message}") for error in ERRORS),
    ],
)
async def test_an_api_may_name_its_status_with_a_503_and_is_unhealthy_otherwise(answer, condition, why):
    found, _ = await asked(answer)
    assert found == (condition, why)
    assert "api.example.com" not in found.condition.detail


async def test_where_nobody_granted_it_nothing_is_asked():
    checks = HealthChecks(never, never, _not_granted)
    for check in (HealthCheck(URL), HealthCheck("", "main.py", "health")):
        found = await checks.ask(skill_of(Action("http", health=check)), check)
        assert found.condition == ("DEGRADED", UNGRANTED)
    await checks.close()


class Executor:
    """Ends every attempt alike."""

    def __init__(self, outcome):
        self.outcome = outcome
        self.attempts = []

    async def execute(self, attempt):
        self.attempts.append(attempt)
        if isinstance(self.outcome, Outcome):
            return self.outcome
        return await self.outcome()


async def called(outcome, seconds=5):
    executor = Executor(outcome)
    check = HealthCheck("", "look.py", "check", 30, seconds)
    action = Action("python", "main.py", "main", Permissions(("https://a.example",), ("A_KEY",)), health=check)
    found = await HealthChecks(lambda: executor, never, _granted).ask(skill_of(action), check)
    return found, executor.attempts


async def test_a_function_is_called_as_the_skill_would_be():
    found, [attempt] = await called(Outcome(output=True), seconds=3)
    assert found == (GOOD, "")
    action = attempt.skill.action
    assert (action.entrypoint, action.export) == ("look.py", "check")
    assert action.permissions == Permissions(("https://a.example",), ("A_KEY",))
    assert (attempt.inputs, attempt.seconds, attempt.mounts) == ({}, 3, {})
    assert attempt.execution.attachments is None


REPORTS = "its health check reports it"
FAILURES = {
    **dict.fromkeys(("exception", "exit", "limit", "output"), FAILED), "deadline": SILENT, "unavailable": UNCHECKABLE,
}  # fmt: skip


@pytest.mark.parametrize(
    ("output", "condition"),
    [
        *((output, GOOD) for output in (None, "HEALTHY")),
        (False, ("UNHEALTHY", REPORTS)),
        *((output, (output, REPORTS)) for output in ("DEGRADED", "MAINTENANCE")),
        *((output, UNREADABLE) for output in ("fine", "UNKNOWN", 1, 0.0, {"status": "HEALTHY"}, ["HEALTHY"])),
    ],
)
async def test_what_a_function_returns_is_a_bool_or_a_word(output, condition):
    assert (await called(Outcome(output)))[0].condition == condition


@pytest.mark.parametrize(("reason", "condition"), FAILURES.items())
async def test_a_function_that_gives_no_answer(reason, condition):
    failure = Failure(reason, "the operator has not set A_KEY")
    found, _ = await called(Outcome(failure=failure, log="at /skill/main.py"))
    assert found == (condition, "the operator has not set A_KEY; it printed: at /skill/main.py")
    assert "A_KEY" not in condition.detail


async def test_an_executor_that_takes_too_long_is_ended():
    ended = []

    async def forever():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    found, _ = await called(forever, seconds=0.05)
    assert (found.condition, ended) == (SILENT, [1])


async def test_an_address_that_policy_refuses_is_never_connected_to():
    check = HealthCheck("https://127.0.0.1:9/healthz", timeout=2)
    checks = HealthChecks(never, lambda: AsyncDriver(AddressPolicy()), _granted)
    with blockbuster_ctx():
        found = await checks.ask(skill_of(Action("http", health=check)), check)
        await checks.close()
    assert found.condition == FAILED
    assert "ADDRESS" in found.why


PYTHON = 'kind = "action"\n[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n'
SECRET = f'{PYTHON}[permissions]\nsecrets = ["API_KEY"]\n'
HTTP = 'kind = "action"\n[executor]\nkind = "http"\nurl = "https://api.example.com/"\n'
HUMAN = 'kind = "action"\n[executor]\nkind = "human"\n'


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))


@pytest.fixture
def blocked_skill(tmp_path):
    def make(manifest, name="adder"):
        files = {"skill.toml": manifest, "main.py": "def main(args): ...\n"}
        outcome = prepare(write_skill(tmp_path / "skills", name, files), "acme")
        assert isinstance(outcome, PreparedSkill), outcome
        return outcome.skill

    return make


def obstacles(unset=lambda _: [], sandbox=lambda: 0.01, clock=lambda: 0.0, **settings):
    return RunBlockers(ExecutionSettings(**settings), open_stores().ungranted, unset, sandbox, clock)


def broken():
    raise TrustError("SANDBOX_UNAVAILABLE", "no sandbox starts here")


def test_what_nobody_granted_is_in_the_way_until_somebody_does(blocked_skill):
    one = blocked_skill(PYTHON)
    assert obstacles().find([one]) == {"adder": UNGRANTED}
    open_grants().agree(one, "ann")
    assert obstacles().find([one]) == {}


def unreadable(_):
    raise StorageError("SECRETS_FILE", "others may read it")


@pytest.mark.parametrize(
    ("manifest", "options", "blocker"),
    [
        ("", {"sandbox": broken}, None),
        (HUMAN, {"sandbox": broken}, None),
        (HTTP, {"sandbox": broken, "grant_all": True}, None),
        (PYTHON, {"sandbox": broken, "grant_all": True}, NO_SANDBOX),
        (SECRET, {"grant_all": True}, None),
        (SECRET, {"unset": lambda names: [name for name in names if name == "API_KEY"], "grant_all": True}, UNSET),
        (SECRET, {"unset": unreadable, "grant_all": True}, UNSET),
    ],
)
def test_what_keeps_a_skill_from_running(blocked_skill, manifest, options, blocker):
    found = obstacles(**options).find([blocked_skill(manifest)])
    assert found == ({} if blocker is None else {"adder": blocker})
    assert "API_KEY" not in str(found)


def test_a_sandbox_is_tried_again_after_a_while_and_never_once_it_started(blocked_skill):
    time, tries = [0.0], []

    def sandbox():
        tries.append(time[0])
        if time[0] < 60:
            broken()

    known = obstacles(sandbox=sandbox, clock=lambda: time[0], grant_all=True)
    one = blocked_skill(PYTHON)
    for time[0] in (0.0, 30.0, 61.0, 1000.0):
        found = known.find([one])
        assert found == ({"adder": NO_SANDBOX} if time[0] < 60 else {})
    assert tries == [0.0, 61.0]


def test_where_others_run_it_only_grants_are_looked_at(blocked_skill):
    known = obstacles(unset=list, sandbox=broken, concurrency=0)
    one = blocked_skill(SECRET)
    assert known.find([one]) == {"adder": UNGRANTED}
    open_grants().agree(one, "ann")
    assert known.find([one]) == {}
