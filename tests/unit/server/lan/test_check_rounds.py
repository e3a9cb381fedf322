"""When the skills of folders are checked, and what is told of them between."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.attempts import skill_of

from skillwire import limits
from skillwire.model.action import Action, HealthCheck
from skillwire.model.digest import Digest
from skillwire.protocols.skill_discovery.messages import HealthStatus
from skillwire.server.lan.check_rounds import Answer, CheckRounds
from skillwire.server.lan.conditions import FAILED, GOOD, UNCHECKED, Condition

DEGRADED = Condition(HealthStatus.DEGRADED)


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
        self.health = CheckRounds(self.ask, self.close, lambda: self.now, rest=0.0)
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


async def test_one_that_is_not_over_is_not_begun_again(site):
    one = skill(interval=5)
    await site.look(one)
    site.now += 100
    await site.look(one)
    assert site.begun == ["adder"]
    await site.answer("adder", Answer(GOOD))
    await site.look(one)
    assert site.begun == ["adder", "adder"]


async def test_a_slow_one_delays_no_other(site):
    slow, quick = skill("slow"), skill("quick")
    await site.look(slow, quick)
    await site.answer("quick", Answer(GOOD))
    assert await site.look(slow, quick) == {"slow": UNCHECKED, "quick": GOOD}


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


async def test_a_place_rests_between_two_checks():
    ended: list[float] = []
    loop = asyncio.get_running_loop()

    async def ask(*_):
        ended.append(loop.time())
        return Answer(GOOD)

    async def close():
        return

    health = CheckRounds(ask, close, rest=0.1)
    health.look([skill(f"skill-{number}") for number in range(limits.LAN_HEALTH_CHECKS + 1)])
    async with asyncio.timeout(20):
        while len(ended) <= limits.LAN_HEALTH_CHECKS:  # noqa: ASYNC110  # a fake has no event
            await asyncio.sleep(0.01)
    assert ended[-1] - ended[0] >= 0.09
    await health.close()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


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
