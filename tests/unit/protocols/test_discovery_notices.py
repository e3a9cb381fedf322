"""What members are told of a group by several agents: each change once, and none of those that follow is lost."""

from collections import Counter

import pytest
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.protocols.skill_discovery.events import GroupChanged, SceneJoined
from skillwire.protocols.skill_discovery.messages import GroupEvent, HealthStatus, Reason, SceneEvent
from skillwire.protocols.skill_discovery.notices import Notices
from skillwire.testing.virtual_clock import VirtualClock
from skillwire.wire.node import Peer

GROUP = "group-auth-001"
R1, R2 = Peer("192.168.1.1", 1), Peer("192.168.1.2", 2)
WINDOW = 30.0
JOINED, LEFT = GroupEvent.MEMBER_JOINED, GroupEvent.MEMBER_LEFT
STATUS, PRIMARY = GroupEvent.STATUS_CHANGED, GroupEvent.PRIMARY_CHANGED
WELL, ILL = HealthStatus.HEALTHY, HealthStatus.UNHEALTHY


class Member:
    """A member that is told: what is told it, it says whether that is news."""

    def __init__(self):
        self.clock = VirtualClock()
        self.notices = Notices(WINDOW)

    def clock_of(self, seconds=0.0):
        """Return the time of a clock that is so much ahead of ours."""
        return self.clock.moment().wall + seconds

    def told(self, event, at, by=R1, status=WELL, agent="agent-a"):
        """Tell of an agent's skill, with a time in seconds by the clock of who tells it."""
        message = SceneEvent(GROUP, event, agent, "skill-a", status, int(at * 1000))
        return self.notices.take(message, by, self.clock.moment())

    def waits(self, seconds):
        self.clock.move_to(self.clock.steady + seconds)


@pytest.fixture
def member():
    return Member()


@pytest.mark.spec("SDP-notice-once")
def test_a_skill_that_falls_silent_left_and_came_again_falls_silent_again(member):
    assert member.told(STATUS, 1, status=ILL)
    assert member.told(LEFT, 2)
    assert member.told(JOINED, 3)
    assert member.told(STATUS, 4, status=ILL)


@pytest.mark.spec("SDP-notice-once")
def test_a_primary_that_left_a_group_empty_is_its_primary_again(member):
    member.notices.begin(GROUP, ("agent-a", "skill-a"))
    assert not member.told(PRIMARY, 1), "so it was told by who let us in"
    assert member.told(LEFT, 2)
    assert member.told(JOINED, 3)
    assert member.told(PRIMARY, 3.001)
    assert member.told(PRIMARY, 4, agent="agent-b")
    assert member.told(PRIMARY, 5)


@pytest.mark.spec("SDP-notice-once")
def test_that_a_backup_left_says_nothing_of_the_primary(member):
    member.notices.begin(GROUP, ("agent-a", "skill-a"))
    assert member.told(LEFT, 1, agent="agent-b")
    assert not member.told(PRIMARY, 2)


@pytest.mark.spec("SDP-notice-once")
def test_what_one_agent_told_before_counts_no_more_whenever_it_comes(member):
    assert member.told(JOINED, 2)
    assert not member.told(LEFT, 1), "it was before"
    assert not member.told(JOINED, 2), "the same again"
    member.waits(60)
    assert not member.told(LEFT, 1)
    assert member.told(LEFT, 3)


@pytest.mark.spec("SDP-notice-once")
def test_the_same_change_comes_from_another_agent_late_and_by_another_clock(member):
    assert member.told(LEFT, 100)
    assert member.told(JOINED, 100.5)
    member.waits(1.5)
    assert not member.told(LEFT, 7, by=R2)
    assert not member.told(JOINED, 7.5, by=R2)
    assert member.told(LEFT, 102), "by the agent itself that is another"


@pytest.mark.spec("SDP-notice-once")
def test_what_another_agent_tells_after_a_while_is_another_change(member):
    assert member.told(LEFT, 1)
    assert member.told(JOINED, 2)
    member.waits(3)
    assert member.told(LEFT, 5, by=R2)


@pytest.mark.spec("SDP-notice-once")
def test_how_a_skill_is_that_just_came_is_no_news(member):
    assert member.told(JOINED, 1, status=WELL)
    assert not member.told(STATUS, 1.5, status=WELL, by=R2)
    assert member.told(STATUS, 2, status=ILL)


@pytest.mark.spec("SDP-notice-once")
def test_of_a_group_that_was_left_nothing_is_known(member):
    assert member.told(JOINED, 1)
    member.notices.forget("group-other")
    assert not member.told(JOINED, 1)
    member.notices.forget(GROUP)
    assert member.told(JOINED, 1)


@pytest.mark.spec("SDP-notice-once")
def test_who_told_with_a_clock_far_ahead_is_heard_when_it_is_right_again(member):
    assert member.told(STATUS, member.clock_of(3600), status=ILL)
    assert member.told(STATUS, member.clock_of(), status=WELL)
    assert not member.told(STATUS, member.clock_of() - 1, status=ILL)
    assert member.told(STATUS, member.clock_of(WINDOW), status=ILL), "this far they may differ"
    assert not member.told(STATUS, member.clock_of(), status=WELL)


@pytest.mark.spec("SDP-notice-once")
def test_what_only_one_of_two_tells_again_is_told_by_what_it_repeats(member):
    assert member.told(STATUS, 1, status=ILL)
    assert not member.told(STATUS, 1, by=R2, status=ILL)
    assert member.told(STATUS, 2, status=WELL)
    member.waits(1.5)
    assert not member.told(STATUS, 2.5, by=R2, status=ILL), "it may have come late"
    member.waits(1.0)
    assert member.told(STATUS, 2.5, by=R2, status=ILL)


@pytest.mark.spec("SDP-notice-once")
def test_who_is_primary_is_known_however_many_members_there_are(member):
    member.notices.begin(GROUP, ("agent-a", "skill-a"))
    for number in range(5000):
        assert member.told(JOINED, 1, agent=f"agent-{number}")
    assert not member.told(PRIMARY, 2)


@pytest.mark.spec("SDP-notice-once")
def test_strangers_cannot_make_it_grow(member):
    for number in range(6000):
        member.told(STATUS, number, by=Peer(f"10.0.{number % 250}.{number // 250}", number), agent=f"agent-{number}")
    assert member.told(PRIMARY, 6000)
    held = [len(one) for one in (member.notices._says, member.notices._heard, member.notices._told)]
    assert max(held) <= limits.LAN_NOTICES
    assert len(member.notices._first) == 1


@pytest.mark.spec("SDP-notice-once")
@pytest.mark.parametrize("seed", range(8))
def test_with_three_registries_and_loss_each_change_of_a_restart_is_told_once(seed):
    lan, host, member = Lan(seed, loss=0.3, duplication=0.1, latency=(0.001, 0.15)), "192.168.1.10", "192.168.1.20"
    for number in (1, 2, 3):
        lan.node(f"192.168.1.{number}", REGISTRY, skew=number * 3.0)
    lan.node(member, ASKS)

    def start(since=0):
        lan.node(host, OFFERS, agent_id=f"agent-{host}")
        lan.offer(host, "skill-a")
        lan.run(6 - since)

    start()
    lan.do(member, lambda node, now: node.end_agent.want_scene("auth", (), now, is_request=False))
    lan.run(6)
    assert lan.events(SceneJoined, member)
    lan.told.clear()
    for _ in range(4):
        lan.do(host, lambda node, now: node.route_agent.close(Reason.UPGRADE, now))
        lan.run(0.7)
        lan.crash(host)
        start()
    told = Counter(one.event for one in lan.events(GroupChanged, member))
    assert told == {LEFT: 4, JOINED: 4, PRIMARY: 4}
