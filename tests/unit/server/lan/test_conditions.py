"""How skills are: what the server knows, and what their publisher's function says, the worse of the two."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from skillwire.protocols.skill_discovery.messages import HealthStatus
from skillwire.server.lan.conditions import BROKEN, GOOD, Conditions

KNOWN: dict[str, Any] = {
    "notes": SimpleNamespace(name="notes", action=None),
    "adder": SimpleNamespace(name="adder", action=object()),
}


def conditions(checks=None, obstacles=None, patience=5.0):
    return Conditions(lambda _: obstacles or {}, checks or {}, patience)


async def test_all_is_well_unless_something_is_known():
    assert await conditions().look(KNOWN, ()) == {"notes": GOOD, "adder": GOOD}


async def test_an_older_version_of_a_broken_skill_is_degraded():
    broken: list[Any] = [SimpleNamespace(name="notes"), SimpleNamespace(name="another")]
    found = await conditions().look(KNOWN, broken)
    assert found == {"notes": (HealthStatus.DEGRADED, BROKEN), "adder": GOOD}


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
    known.close()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task() and not task.cancelling()]


async def test_a_check_of_a_skill_that_is_not_published_is_not_asked():
    def never():
        pytest.fail("asked")

    assert await conditions({"gone": never}).look(KNOWN, ()) == {"notes": GOOD, "adder": GOOD}
