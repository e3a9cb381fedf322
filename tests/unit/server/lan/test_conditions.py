"""How skills are: what the server knows, and what their publisher's function says, the worse of the two."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from skillwire.protocols.skill_discovery.messages import HealthStatus
from skillwire.server.lan.conditions import BROKEN, FAILED, GOOD, UNCHECKABLE, Condition, Conditions

KNOWN: dict[str, Any] = {
    "notes": SimpleNamespace(name="notes", action=None),
    "adder": SimpleNamespace(name="adder", action=SimpleNamespace(health=None)),
}


def conditions(checks=None, obstacles=None, patience=5.0, folders=None):
    return Conditions(lambda _: obstacles or {}, checks or {}, folders, patience)


async def test_all_is_well_unless_something_is_known():
    assert await conditions().look(KNOWN, ()) == {"notes": GOOD, "adder": GOOD}


async def test_an_older_version_of_a_broken_skill_is_degraded():
    broken: list[Any] = [SimpleNamespace(name="notes"), SimpleNamespace(name="another")]
    found = await conditions().look(KNOWN, broken)
    assert found == {"notes": BROKEN, "adder": GOOD}


async def test_what_cannot_run_is_degraded_and_only_what_runs_is_asked_about():
    asked: list[str] = []

    def obstacles(skills):
        asked.extend(skill.name for skill in skills)
        assert threading.current_thread() is not threading.main_thread()
        return {"adder": "nobody granted it here"}

    found = await Conditions(obstacles, {}).look(KNOWN, ())
    assert (asked, found["adder"]) == (["adder"], (HealthStatus.DEGRADED, "nobody granted it here"))


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


async def test_the_worse_is_told_and_maintenance_above_all():
    obstacles = {"adder": "nobody granted it here"}
    for said, told in (("HEALTHY", "DEGRADED"), ("UNHEALTHY", "UNHEALTHY"), ("MAINTENANCE", "MAINTENANCE")):
        found = await conditions({"adder": lambda said=said: said}, obstacles).look(KNOWN, ())
        assert found["adder"].status == told


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


async def test_a_check_of_a_skill_that_is_not_published_is_not_asked():
    def never():
        pytest.fail("asked")

    assert await conditions({"gone": never}).look(KNOWN, ()) == {"notes": GOOD, "adder": GOOD}


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
    folders.said["adder"] = Condition(HealthStatus.MAINTENANCE)
    assert (await known.look(KNOWN, broken))["adder"].status == "MAINTENANCE"
    await known.close()
    assert folders.is_closed


async def test_nothing_of_a_folder_is_checked_while_something_is_in_its_way():
    folders = Folders(adder=GOOD)
    found = await conditions(folders=folders, obstacles={"adder": "nobody granted it here"}).look(KNOWN, ())
    assert folders.asked == []
    assert found["adder"] == (HealthStatus.DEGRADED, "nobody granted it here")


async def test_where_nothing_of_a_folder_runs_it_is_said_that_its_health_is_not_known():
    checked = KNOWN | {"looked": SimpleNamespace(name="looked", action=SimpleNamespace(health=object()))}
    found = await conditions().look(checked, ())
    assert found == {"notes": GOOD, "adder": GOOD, "looked": UNCHECKABLE}
