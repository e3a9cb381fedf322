"""What others tell of our groups is told to the user where the network does not look so from here, and only then."""

from __future__ import annotations

import asyncio

import pytest

from skillwire.adapters.clock import moment
from skillwire.adapters.lan.hearsay import Hearsay
from skillwire.model.lan import LanChange, LanMember, LanNotice, LanScene, LanSkill
from skillwire.protocols.skill_discovery.events import GroupChanged
from skillwire.protocols.skill_discovery.messages import GroupEvent, HealthStatus

JOINED, LEFT = GroupEvent.MEMBER_JOINED, GroupEvent.MEMBER_LEFT
STATUS, PRIMARY = GroupEvent.STATUS_CHANGED, GroupEvent.PRIMARY_CHANGED
PATIENCE = 0.02
SKILL = LanSkill("agent-a", "skill-a", "1.0.0", "tool-skill", "192.0.2.1", 80, scenes=("auth",), status="HEALTHY")


class Here:
    """What one agent lists, and what it tells its user."""

    def __init__(self):
        self.skills = [SKILL]
        self.ranked = 0  # how often all providers of a scene were looked at
        self.told: list[LanChange] = []
        self.hearsay = Hearsay(self, self.told.append, moment, PATIENCE)  # type: ignore[arg-type]  # as far as it is used

    def skill(self, key):
        return next((one for one in self.skills if (one.agent_id, one.skill_id) == key), None)

    def scene(self, name):
        self.ranked += 1
        able = [one for one in self.skills if name in one.scenes]
        return LanScene(name, "group", tuple(LanMember(one.agent_id, one.skill_id, "PRIMARY") for one in able))

    def take(self, event, status="HEALTHY", agent="agent-a", scene="auth"):
        self.hearsay.take(GroupChanged(scene, "group", event, agent, "skill-a", HealthStatus(status)))

    async def wait(self):
        await asyncio.sleep(PATIENCE * 2)


@pytest.fixture
def here():
    return Here()


@pytest.mark.spec("SDP-notice-hint")
@pytest.mark.parametrize("event", [JOINED, STATUS, PRIMARY])
async def test_what_is_seen_here_too_is_not_told_twice(here, event):
    here.take(event)
    await here.wait()
    assert here.told == []


@pytest.mark.spec("SDP-notice-hint")
@pytest.mark.parametrize(
    ("event", "status", "agent"),
    [
        (JOINED, "HEALTHY", "agent-b"),
        (STATUS, "HEALTHY", "agent-b"),
        (PRIMARY, "HEALTHY", "agent-b"),
        (LEFT, "OFFLINE", "agent-a"),
        (STATUS, "UNHEALTHY", "agent-a"),
    ],
)
async def test_what_is_not_seen_here_is_told_as_a_hint(here, event, status, agent):
    here.take(event, status, agent)
    assert here.told == [], "it may be seen in a moment"
    await here.wait()
    [change] = here.told
    assert (change.kind, change.notice) == ("notice", LanNotice("auth", "group", str(event), agent, "skill-a", status))
    assert change.skill == (SKILL if agent == "agent-a" else None)
    assert change.scene is None, "its members are many"


@pytest.mark.spec("SDP-notice-hint")
async def test_what_is_seen_a_moment_later_is_not_told(here):
    here.take(LEFT)
    here.skills = []
    here.hearsay.gone(("agent-a", "skill-a"))
    await here.wait()
    assert here.told == []


@pytest.mark.spec("SDP-notice-hint")
async def test_that_one_left_that_was_never_here_is_told(here):
    here.take(LEFT, agent="agent-b")
    await here.wait()
    assert [change.notice.agent_id for change in here.told] == ["agent-b"]


@pytest.mark.spec("SDP-notice-hint")
async def test_that_one_left_that_came_again_elsewhere_only_is_told(here):
    here.skills = []
    here.hearsay.gone(("agent-a", "skill-a"))
    here.take(JOINED)
    await here.wait()
    here.take(LEFT)
    await here.wait()
    assert [change.notice.event for change in here.told] == [JOINED, LEFT]


@pytest.mark.spec("SDP-notice-hint")
async def test_a_skill_that_is_here_and_in_another_scene_is_no_member(here):
    here.skills = [SKILL._replace(scenes=("paper",))]
    here.take(JOINED)
    await here.wait()
    assert [change.notice.event for change in here.told] == [JOINED]


@pytest.mark.spec("SDP-notice-hint")
async def test_of_what_changes_again_only_the_newest_counts(here):
    here.take(LEFT)
    here.take(JOINED)
    here.take(PRIMARY, agent="agent-b")
    here.take(PRIMARY)
    await here.wait()
    assert here.told == []


@pytest.mark.spec("SDP-notice-hint")
async def test_many_made_up_notices_are_forgotten(here):
    for number in range(1000):
        here.take(STATUS, agent=f"agent-{number}")
        here.take(PRIMARY, agent=f"agent-{number}")
    await here.wait()
    assert len(here.told) == 256
    assert here.ranked == 1
    assert here.hearsay._timer is None


async def test_nothing_is_told_after_the_end(here):
    here.take(LEFT)
    here.hearsay.end()
    await here.wait()
    assert here.told == []
