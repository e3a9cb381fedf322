"""What members of a scene's group are told when little changes, and when much does."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.datagrams import registration
from tests.support.lan import ASKS, GROUP_KEY, OFFERS, REGISTRY, Lan, ReportingRegistry

from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import decode
from skillwire.protocols.skill_discovery.messages import GroupEvent, HealthStatus, Profile, Reason
from skillwire.protocols.skill_discovery.scenes import Groups, SceneJoined
from skillwire.protocols.skill_discovery.scheduling import Outbox
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.testing.fake_network import VirtualClock
from skillwire.wire.node import Peer

R, A, B, C = "192.168.1.1", "192.168.1.10", "192.168.1.11", "192.168.1.20"
AT = 1_707_868_800_000
MEMBER = Peer(C, 9)


def network(**options):
    """Return a network with one registry, two providers of a scene with many skills, and a member."""
    lan = Lan(**options)
    lan.node(R, REGISTRY)
    lan.node(C, ASKS)
    for host, count in ((A, 50), (B, 10)):
        lan.node(host, OFFERS)
        for number in range(count):
            lan.offer(host, f"skill-{number:02}")
    lan.run(10)
    lan.do(C, lambda node, now: node.memberships.request("auth", (), now, is_join=True))
    lan.run(2)
    assert lan.events(SceneJoined, C)
    return lan


@pytest.mark.spec("SDP-scene-notices")
def test_when_fifty_leave_at_once_each_is_told_once_and_the_new_primary_first():
    lan = network(seed=2)
    lan.do(A, lambda node, now: node.route_agent.close(Reason.SHUTDOWN, now))
    lan.run(1.5)
    first = {(one.event, one.agent_id) for _, one in lan.notices(C)[:9]}
    assert (GroupEvent.PRIMARY_CHANGED, f"agent-{B}") in first
    lan.run(14)
    told = [(one.event, one.agent_id, one.skill_id) for _, one in lan.notices(C)]
    assert len(told) == len(set(told)) == 51
    assert {skill for event, _, skill in told if event is GroupEvent.MEMBER_LEFT} == {
        f"skill-{n:02}" for n in range(50)
    }
    assert lan.nodes[C].ingress.stopped["rate"] == 0, "no faster than a member reads"


@pytest.mark.spec("SDP-scene-notices")
def test_members_are_told_of_a_single_change_at_once_and_once():
    lan = network(seed=3)
    report = HealthStatus.DEGRADED, "slow"
    lan.do(B, lambda node, now: node.route_agent.report("skill-03", *report, now))
    since = lan.clock.steady
    lan.run(0.1)
    ((at, told),) = lan.notices(C)
    assert at - since < 0.1
    assert (told.event, told.skill_id, told.status) == (GroupEvent.STATUS_CHANGED, "skill-03", HealthStatus.DEGRADED)
    lan.run(10)
    assert len(lan.notices(C)) == 1


class Watched(Lan):
    """A network that knows what was sent: who sent it, and how it begins."""

    def __init__(self, **options):
        self.kinds_sent: list[tuple[str, str]] = []
        super().__init__(**options)

    def _send(self, sender, datagram):
        self.kinds_sent.append((sender.peer.host, datagram.data.decode("ascii").partition(":")[0]))
        super()._send(sender, datagram)


@pytest.mark.spec("SDP-unregister-flow")
@pytest.mark.parametrize("number", range(20))
def test_members_are_told_of_a_goodbye_before_it_is_acknowledged(number):
    lan = Watched(seed=1)
    lan.node(R, REGISTRY, agent_id=f"registry-{number}")  # which waits for another time before it answers
    lan.node(C, ASKS)
    lan.node(A, OFFERS)
    lan.offer(A, "skill-a")
    lan.run(1)
    lan.do(C, lambda node, now: node.memberships.request("auth", (), now, is_join=True))
    lan.run(2)
    lan.kinds_sent.clear()
    lan.do(A, lambda node, now: node.route_agent.close(Reason.SHUTDOWN, now))
    lan.run(1)
    of_registry = [kind for host, kind in lan.kinds_sent if host == R]
    assert of_registry[0] == "SCENE_EVENT"
    assert "SKILL_UNREGISTER_ACK" in of_registry


class Told:
    """A group of one member, and what it is sent."""

    def __init__(self):
        self.clock = VirtualClock()
        self.sent_to: set[Peer | None] = set()
        self.outbox = Outbox("registry", GROUP_KEY, Profile.OPEN, DiscoverySettings(), Random(1))  # noqa: S311 - repeatable
        self.groups: Groups
        self.registry = ReportingRegistry(lambda change: self.groups.changed(change, self.now))
        self.groups = Groups(self.registry, self.outbox, DiscoverySettings())
        self.outbox.limit.prove(MEMBER, self.clock.steady)
        self.groups.add_member("auth", "member", MEMBER, self.now)

    @property
    def now(self):
        return self.clock.moment()

    def run(self, seconds):
        """Let time pass; return each second's datagrams."""
        end, found = self.clock.steady + seconds, []
        while self.clock.steady < end:
            self.clock.move_to(self.clock.steady + 0.01)
            self.groups.on_timer(self.now)
            due = self.outbox.due(self.now)
            self.sent_to.update(one.to for one in due)
            found += [(self.clock.steady, decode(one.data)) for one in due]
        return found

    def register(self, number, at=AT):
        message = registration(f"agent-{number:03}", at=at)
        self.registry.register(message, self.clock.steady, is_verified=False, host="192.168.1.100")
        return message.agent_id, message.skill_id


@pytest.mark.spec("SDP-scene-notices")
def test_of_what_changes_again_while_it_waits_only_the_newest_is_told():
    told = Told()
    keys = [told.register(number) for number in range(40)]
    for number in range(30):
        status = HealthStatus.DEGRADED if number % 2 else HealthStatus.MAINTENANCE
        told.registry.on_heartbeat(keys[39], status, AT + 1 + number, told.clock.steady)
    sent = told.run(20)
    of_last = {(one.event, one.status) for _, one in sent if one.agent_id == "agent-039"}
    assert of_last == {
        (GroupEvent.MEMBER_JOINED, HealthStatus.HEALTHY),
        (GroupEvent.STATUS_CHANGED, HealthStatus.DEGRADED),
    }
    assert len({(one.agent_id, one.event) for _, one in sent if one.event is not GroupEvent.PRIMARY_CHANGED}) == 41
    for second in range(20):
        assert len([at for at, _ in sent if second <= at - sent[0][0] < second + 1]) <= 25


@pytest.mark.spec("SDP-scene-notices")
@pytest.mark.parametrize(("changes", "seconds"), [(1, {0: 1}), (4, {0: 4}), (10, {0: 4, 1: 4, 2: 2})])
def test_each_change_is_told_five_times_and_of_many_four_begin_each_second(changes, seconds):
    told = Told()
    for number in range(changes):
        told.register(number)
    firsts: dict[str, float] = {}
    times: Counter[object] = Counter()
    for at, one in told.run(10):
        times[one.event, one.agent_id] += 1
        firsts.setdefault(one.agent_id, at)
    assert times == {
        (GroupEvent.PRIMARY_CHANGED, "agent-000"): 5,
        **{(GroupEvent.MEMBER_JOINED, f"agent-{number:03}"): 5 for number in range(changes)},
    }
    began = min(firsts.values())
    assert Counter(round(at - began) for at in firsts.values()) == seconds
    told.register(20)
    (first, _), *_ = told.run(5)
    assert first <= told.clock.steady - 5 + 0.05, "after that a single change is told at once"


@pytest.mark.spec("SDP-scene-notices")
def test_who_flaps_between_two_tellings_is_told_as_it_is():
    told = Told()
    keys = [told.register(number) for number in range(2)]
    told.run(2)
    told.registry.on_heartbeat(keys[0], HealthStatus.OFFLINE, AT + 1, told.clock.steady)
    told.registry.on_heartbeat(keys[0], HealthStatus.DEGRADED, AT + 2, told.clock.steady)
    sent = {(one.event, one.agent_id, one.status) for _, one in told.run(2)}
    assert sent == {(GroupEvent.STATUS_CHANGED, "agent-000", HealthStatus.DEGRADED)}, "the PRIMARY is who it was"
    told.registry.unregister(keys[1], AT + 5, told.clock.steady)
    told.registry.on_heartbeat(keys[0], HealthStatus.MAINTENANCE, AT + 6, told.clock.steady)
    told.registry.unregister(keys[0], AT + 7, told.clock.steady)
    assert {one.event for _, one in told.run(2)} == {GroupEvent.MEMBER_LEFT}


@pytest.mark.spec("SDP-scene-notices")
def test_whose_membership_has_ended_is_told_nothing_and_forgotten():
    told = Told()
    told.clock.move_to(told.clock.steady + 400)
    told.register(1)
    assert told.run(2) == []
    assert told.groups._groups == {}
    told.register(2)
    assert told.groups.timer() is None


ACTS = st.tuples(
    st.sampled_from(["register", "leave", *(status for status in HealthStatus if status is not HealthStatus.UNKNOWN)]),
    st.integers(0, 12),
    st.sampled_from([0.0, 0.0, 0.02, 0.5]),
)


@pytest.mark.spec("SDP-scene-notices")
@given(st.lists(ACTS, max_size=60))
def test_whatever_changes_a_member_knows_in_the_end_how_it_is(acts):
    told, at = Told(), AT
    known: dict[str, HealthStatus] = {}
    primary = None
    sent: list[tuple[float, Any]] = []
    for act, number, pause in acts:
        at += 1
        key = f"agent-{number:03}", "skill-org-feishu"
        if act == "register":
            told.register(number, at)
        elif act == "leave":
            told.registry.unregister(key, at, told.clock.steady)
        else:
            told.registry.on_heartbeat(key, act, at, told.clock.steady)
        sent += told.run(pause) if pause else []
    sent += told.run(10)
    for _, one in sorted(sent, key=lambda item: item[1].timestamp):
        if one.event is GroupEvent.PRIMARY_CHANGED:
            primary = one.agent_id
        elif one.event is GroupEvent.MEMBER_LEFT:
            known.pop(one.agent_id, None)
        else:
            known[one.agent_id] = one.status
    listed = {one.key[0]: one.health.status for one in told.registry}
    assert known == listed
    provider = told.registry.provider("auth")
    assert provider is None or provider.health.status not in {"HEALTHY", "DEGRADED"} or primary == provider.key[0]
    assert all(isinstance(one, m.SceneEvent) for _, one in sent)


@pytest.mark.spec("SDP-hostile")
def test_who_makes_members_up_leaves_others_their_places():
    told = Told()
    for number in range(400):
        told.groups.add_member("auth", f"made-up-{number}", Peer("192.168.1.66", number + 1), told.now)
    honest = Peer("192.168.1.30", 9)
    told.outbox.limit.prove(honest, told.clock.steady)
    told.groups.add_member("auth", "honest", honest, told.now)
    told.register(1)
    told.run(0.1)
    assert honest in told.sent_to


@pytest.mark.spec("SDP-hostile")
def test_members_that_say_no_more_that_they_are_there_make_room():
    told = Told()
    for number in range(400):
        told.groups.add_member("auth", f"a-{number}", Peer(f"10.0.{number // 250}.{number % 250}", 9), told.now)
    late = Peer("192.168.1.30", 9)
    told.clock.move_to(told.clock.steady + 361)
    told.outbox.limit.prove(late, told.clock.steady)
    told.groups.add_member("auth", "late", late, told.now)
    told.register(1)
    told.run(0.1)
    assert told.sent_to == {late}


@pytest.mark.spec("SDP-hostile")
def test_the_group_of_a_scene_that_nobody_is_in_is_forgotten():
    told = Told()
    told.clock.move_to(told.clock.steady + 200)
    told.groups.add_member("auth", "member", MEMBER, told.now)
    told.clock.move_to(told.clock.steady + 200)
    told.groups.on_timer(told.now)
    told.groups.add_member("print", "other", MEMBER, told.now)
    assert told.groups.timer() is not None
    for _ in range(2):
        told.clock.move_to(told.clock.steady + 400)
        told.groups.on_timer(told.now)
    assert told.groups.timer() is None


@pytest.mark.spec("SDP-mdns-hint")
def test_a_hint_is_in_no_group_and_its_members_hear_nothing_of_it():
    told = Told()
    told.registry.hint(registration("agent-001", at=AT), told.clock.steady, host="192.168.1.100")
    assert len(list(told.registry)) == 1
    assert told.run(3) == []
