"""Agents on a network: what each does in its role, and what they agree on."""

import pytest
from tests.support.lan import ASKS, GROUP_KEY, OFFERS, REGISTRY, Lan

from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import decode, encode, encode_signed
from skillwire.protocols.skill_discovery.health import Change, ChangeKind
from skillwire.protocols.skill_discovery.messages import Endpoint, GroupEvent, HealthStatus, Outcome, Reason, SkillType
from skillwire.protocols.skill_discovery.node import Role
from skillwire.protocols.skill_discovery.route_agent import Acknowledged
from skillwire.protocols.skill_discovery.scenes import SceneJoined, SceneMissing
from skillwire.protocols.skill_discovery.search import Discovered, Found, not_yet_heard, one_provider
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.testing.fake_network import EPOCH
from skillwire.wire.node import Peer

R1, R2, A, B, C = "192.168.1.1", "192.168.1.2", "192.168.1.10", "192.168.1.11", "192.168.1.20"


@pytest.fixture
def lan():
    """Two registries, two agents that offer, one that asks."""
    lan = Lan()
    lan.node(R1, REGISTRY)
    lan.node(R2, REGISTRY)
    lan.node(A, OFFERS)
    lan.node(B, OFFERS)
    lan.node(C, ASKS)
    return lan


def sent(lan, host, *, seconds=1.0):
    """Return the messages that a host sends from now on for a while."""
    send, found = lan._send, lan.sent_from(host)
    lan.run(seconds)
    lan._send = send
    return [(to, decode(data)) for to, data in found]


@pytest.mark.spec("SDP-register-flow")
def test_a_skill_registers_is_acknowledged_joins_its_scene_and_beats(lan):
    lan.offer(A, "skill-org-feishu")
    lan.run(1)
    acks = lan.events(Acknowledged, A)
    assert {(ack.by.host, ack.status) for ack in acks} == {(R1, Outcome.SUCCESS), (R2, Outcome.SUCCESS)}
    assert lan.listed(R1) == lan.listed(R2) == {(f"agent-{A}", "skill-org-feishu"): "HEALTHY"}
    lan.nodes[A] = lan.node("192.168.1.30", ASKS, OFFERS)
    lan.do("192.168.1.30", lambda node, now: node.memberships.request("auth", (), now, is_join=True))
    lan.run(1)
    (joined,) = lan.events(SceneJoined)
    assert (joined.answer.scene_id, joined.answer.group_id) == ("auth-001", "group-auth-001")
    assert joined.answer.members == (m.GroupMember(f"agent-{A}", "skill-org-feishu", "PRIMARY"),)
    beats = [message for _, message in sent(lan, A, seconds=30) if isinstance(message, m.Heartbeat)]
    assert 6 <= len(beats) <= 7


@pytest.mark.spec("SDP-register-seen")
def test_a_skill_is_listed_elsewhere_within_150_milliseconds(lan):
    lan.offer(A, "skill-org-feishu")
    lan.run(0.15)
    assert lan.listed(R1)
    assert lan.listed(R2)


@pytest.mark.spec("SDP-announce-jitter")
def test_announcements_and_beats_are_spread():
    lan = Lan()
    lan.node(R1, REGISTRY)
    lan.node(A, OFFERS)
    for number in range(20):
        lan.offer(A, f"skill-{number}")
    lan.run(3)
    announced: list[tuple[str, float]] = []
    beats: list[tuple[str, float]] = []
    for _ in range(1300):
        for _, message in sent(lan, A, seconds=0.1):
            kind = beats if isinstance(message, m.Heartbeat) else announced
            kind.append((message.skill_id, round(lan.clock.steady, 1)))
    assert {skill for skill, _ in announced} == {f"skill-{number}" for number in range(20)}
    assert len({at for _, at in announced}) > 10
    gaps = {at for skill, at in beats if skill == "skill-1"}
    assert len({round(at % 5, 1) for at in gaps}) > 5


@pytest.mark.spec("SDP-answer-delay")
def test_answers_wait_20_to_120_milliseconds_and_go_to_who_asked(lan):
    source = Peer(C, 5555)
    lan.offer(A, "skill-org-feishu")
    lan.run(2)
    for number in range(20):
        question = m.Discover(f"x.{number}", ("user-auth",), (), (), int(EPOCH * 1000))
        lan.inject(encode(question), source, R1)
        waits = lan.nodes[R1]._outbox.timer() - lan.clock.steady  # beats wait, too, and are no answer
        assert 0.02 <= waits <= 0.12
        (answer,) = sent(lan, R1, seconds=0.2)
        assert (answer[0], answer[1].requester_id) == (source, f"x.{number}")


@pytest.mark.spec("SDP-discover-flow")
def test_who_asks_is_answered_by_all_and_given_each_skill_once(lan):
    lan.offer(A, "skill-org-feishu")
    lan.offer(B, "skill-org-dingding")
    lan.offer(B, "skill-scan", capabilities=("scan",), scenes=())
    lan.run(2)
    request = lan.do(C, lambda node, now: node.searches.discover(now, capabilities=("user-auth",), scenes=("auth",)))
    lan.do(C, lambda node, now: node.searches.discover(now, skill_types=(SkillType.ENTERPRISE,)))
    lan.run(3)
    first, second = lan.events(Discovered, C)
    assert first.request == request
    assert {(one.record.skill_id, str(one.record.endpoint)) for one in first.skills} == {
        ("skill-org-feishu", f"{A}:8080"),
        ("skill-org-dingding", f"{B}:8080"),
    }
    assert second.skills == ()


@pytest.mark.spec("SDP-response-asked-for")
def test_an_answer_to_nothing_that_was_asked_is_dropped_and_counted(lan):
    record = m.SkillRecord("evil", "1.0.0", Endpoint(A, 1), (), ())
    response = m.DiscoverResponse(f"agent-{C}.1", (record,), int(EPOCH * 1000))
    lan.inject(encode(response), Peer(A, 1), C)
    assert lan.nodes[C].ingress.stopped == {"not for us": 1}


@pytest.mark.spec("SDP-unregister-flow")
def test_a_goodbye_is_sent_three_times_acknowledged_and_told(lan):
    lan.offer(A, "skill-org-feishu")
    lan.run(2)
    lan.do(C, lambda node, now: node.memberships.request("auth", (), now, is_join=True))
    lan.run(1)
    lan.do(A, lambda node, now: node.route_agent.close(Reason.SHUTDOWN, now))
    said = sent(lan, A, seconds=0.02)
    assert [type(message) for _, message in said] == [m.Unregister]
    assert lan.listed(R1) == lan.listed(R2) == {}
    said += sent(lan, A, seconds=20)
    assert [type(message) for _, message in said] == [m.Unregister] * 3
    changed = [(event.event, event.status) for _, event in lan.notices(C, R1)]
    assert changed == [(GroupEvent.MEMBER_LEFT, HealthStatus.OFFLINE)]


@pytest.mark.spec("SDP-status-flow")
def test_a_change_of_status_is_told_at_once_and_by_every_beat_after(lan):
    lan.offer(A, "skill-org-feishu")
    lan.run(2)
    report = HealthStatus.MAINTENANCE, "back at noon"
    lan.do(A, lambda node, now: node.route_agent.report("skill-org-feishu", *report, now))
    lan.run(0.1)
    assert set(lan.listed(R1).values()) == {"MAINTENANCE"}
    lan.run(20)
    assert set(lan.listed(R2).values()) == {"MAINTENANCE"}


@pytest.mark.spec("SDP-heartbeat-callback")
def test_what_a_heartbeat_says_is_decided_by_the_health_of_the_skill():
    lan, health = Lan(), {"skill": HealthStatus.HEALTHY}
    lan.node(R1, REGISTRY)
    lan.node(A, OFFERS, health=health.__getitem__)
    lan.offer(A, "skill")
    lan.run(2)
    health["skill"] = HealthStatus.DEGRADED
    lan.run(6)
    assert set(lan.listed(R1).values()) == {"DEGRADED"}


@pytest.mark.spec("SDP-heartbeat-callback")
def test_a_skill_whose_health_cannot_be_told_is_not_well_and_goes_on_beating():
    lan, health = Lan(), {"skill": HealthStatus.HEALTHY}
    lan.node(R1, REGISTRY)
    lan.node(A, OFFERS, health=health.__getitem__)
    lan.offer(A, "skill")
    lan.run(2)
    del health["skill"]
    lan.run(40)
    assert set(lan.listed(R1).values()) == {"UNHEALTHY"}
    assert lan.clock.steady - lan.heard(R1, (f"agent-{A}", "skill")) <= 6
    health["skill"] = HealthStatus.HEALTHY
    lan.run(12)
    assert set(lan.listed(R1).values()) == {"HEALTHY"}


@pytest.mark.spec("SDP-heartbeat-unknown")
def test_an_agent_that_starts_late_asks_for_what_it_hears_beating(lan):
    lan.offer(A, "skill-org-feishu")
    lan.run(30)
    lan.node("192.168.1.3", REGISTRY)
    lan.run(6)
    assert lan.listed("192.168.1.3") == lan.listed(R1)


@pytest.mark.spec("SDP-scene-request")
def test_a_scene_that_is_there_is_joined_and_one_that_is_not_is_missing_until_somebody_provides_it(lan):
    lan.offer(A, "skill-org-feishu", capabilities=("org-data-read", "user-auth"))
    lan.offer(B, "skill-mail", capabilities=("mail",))
    lan.run(2)

    def request(scene, *capabilities):
        lan.told.clear()
        lan.do(C, lambda node, now: node.memberships.request(scene, capabilities, now, is_join=False))
        lan.run(3)
        (event,) = lan.events((SceneJoined, SceneMissing), C)
        return event

    joined = request("auth", "org-data-read", "user-auth")
    assert joined.answer.connection_info == m.ConnectionInfo("http", A, 8080, endpoint=f"{A}:8080")
    assert joined.answer.skill_info.skill_id == "skill-org-feishu"
    assert request("auth", "mail").answer.skill_info.skill_id == "skill-mail"
    assert request("auth", "mail", "user-auth") == SceneMissing("auth", is_certain=True)
    assert request("print") == SceneMissing("print", is_certain=True)
    lan.offer(B, "skill-print", scenes=("print",))  # somebody installed one, and the group is there
    lan.run(1)
    assert isinstance(request("print"), SceneJoined)


def test_when_nobody_answers_nothing_is_certain():
    lan = Lan()
    lan.node(C, ASKS)
    lan.do(C, lambda node, now: node.memberships.request("auth", (), now, is_join=False))
    lan.run(3)
    assert lan.events(SceneMissing) == [SceneMissing("auth", is_certain=False)]


@pytest.mark.spec("SDP-scene-failover")
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_when_the_primary_dies_the_backup_takes_over_and_each_registry_tells_its_members_once(loss):
    lan = Lan(seed=7, loss=loss, duplication=loss / 3)
    lan.node(R1, REGISTRY)
    lan.node(R2, REGISTRY)
    members = [C, "192.168.1.21", "192.168.1.22"]
    for host in members:
        lan.node(host, ASKS)
    for host in (A, B):
        lan.node(host, OFFERS)
        lan.offer(host, "skill-org-feishu")
    lan.run(3)
    for host in members:
        lan.do(host, lambda node, now: node.memberships.request("auth", ("user-auth",), now, is_join=False))
    lan.run(3)
    assert {event.answer.connection_info.host for event in lan.events(SceneJoined)} == {A}
    lan.crash(A)
    lan.run(20)
    for host in members:
        heard = [[(one.event, one.agent_id) for _, one in lan.notices(host, registry)] for registry in (R1, R2)]
        told = max(heard, key=len)  # the other registry may not know the member yet
        assert told.count((GroupEvent.PRIMARY_CHANGED, f"agent-{B}")) == 1
        assert told.count((GroupEvent.STATUS_CHANGED, f"agent-{A}")) == 1
        assert all(len(one) == len(set(one)) for one in heard)
    lan.do(C, lambda node, now: node.memberships.request("auth", ("user-auth",), now, is_join=False))
    lan.run(3)
    assert lan.events(SceneJoined, C)[-1].answer.connection_info.host == B


@pytest.mark.spec("SDP-health-refused")
def test_a_primary_whose_endpoint_refuses_is_not_handed_out_until_it_listens():
    lan = Lan()
    lan.node(R1, REGISTRY)
    lan.node(C, ASKS)
    lan.refusing.add(A)
    for host in (A, B):
        lan.node(host, OFFERS)
        lan.offer(host, "skill-org-feishu")

    def handed_out():
        lan.do(C, lambda node, now: node.memberships.request("auth", (), now, is_join=False))
        lan.run(3)
        return lan.events(SceneJoined, C)[-1].answer.connection_info.host

    lan.run(3)
    assert handed_out() == B
    assert set(lan.listed(R1).values()) == {"HEALTHY"}
    lan.refusing.clear()
    lan.run(6)
    assert handed_out() == A


@pytest.mark.spec("SDP-mass-expiry")
@pytest.mark.spec("SDP-health-annotates")
def test_stale_skills_come_last_in_answers_and_are_marked():
    lan = Lan()
    lan.node(R1, REGISTRY, OFFERS).registry.set_own_host(R1)
    lan.node(A, OFFERS)
    lan.node(C, ASKS)
    lan.offer(R1, "skill-z")
    longest = f"1.0.0+{'b' * 58}"
    for name, version in (
        ("skill-0", "1.0.0"),
        ("skill-1", "1.0.0+7"),
        ("skill-2", longest),
        ("skill-3", "1.0.0-stale"),
    ):
        lan.offer(A, name, version=version)
    lan.run(3)
    lan.crash(A)
    lan.run(40)
    lan.do(C, lambda node, now: node.searches.discover(now))
    answers = [one.skills for _, one in sent(lan, R1, seconds=3) if isinstance(one, m.DiscoverResponse)]
    records = max(answers, key=len)
    assert [one.version for one in records] == ["0.7.0", "1.0.0+stale", "1.0.0+7.stale", longest, "1.0.0-stale+stale"]
    assert [(one.plain_version, one.is_stale) for one in records] == [
        *[("0.7.0", False), ("1.0.0", True), ("1.0.0+7", True), (longest, False), ("1.0.0-stale", True)]
    ]


@pytest.mark.spec("SDP-mass-expiry")
def test_a_search_does_not_wait_for_stale_skills():
    fresh, stale = (
        Found(m.SkillRecord("skill-a", version, Endpoint(A, 80), (), ()), Peer(R1, 1), f"agent-{R1}")
        for version in ("1.0.0", "1.0.0+stale")
    )
    condition = one_provider(DiscoverySettings(), use_unverified=False)
    assert condition.is_met([stale, fresh], None)
    assert not condition.is_met([stale], None)
    assert not_yet_heard([stale, fresh], []) == [fresh]


@pytest.mark.spec("SDP-scene-incumbent")
@pytest.mark.parametrize("alone", [0.3, 3, 20])
@pytest.mark.parametrize("skills", [1, 3])
@pytest.mark.parametrize("asks", [False, True])
def test_registries_that_start_one_after_the_other_agree_about_the_primary(alone, skills, asks):
    lan = Lan()
    for host in (B, A):  # the name of the second is the first
        lan.node(host, OFFERS, REGISTRY)
        for number in range(skills):
            lan.offer(host, f"skill-{number}")
        lan.run(alone if host == B else 0.3)
    if asks:  # a command has both register anew, before the second has heard a heartbeat of the first
        lan.node(C, ASKS, Role.OBSERVER)
        lan.do(C, lambda node, now: node.searches.discover(now))
    lan.run(20)
    first, other = (lan.nodes[host].registry.provider("auth") for host in (A, B))
    assert first
    assert other
    assert first.key == other.key == (f"agent-{A if alone < 1 else B}", "skill-0")


@pytest.mark.spec("SDP-scene-incumbent")
def test_a_primary_keeps_its_role_against_newcomers_and_gets_it_back_after_a_silence():
    lan = Lan()
    lan.node(R1, REGISTRY)
    lan.node(B, OFFERS)
    lan.offer(B, "skill-org-feishu")
    lan.run(10)
    lan.node(A, OFFERS)  # whose name is the first
    lan.offer(A, "skill-org-feishu")
    lan.run(10)

    def first():
        provider = lan.nodes[R1].registry.provider("auth")
        return provider and provider.key[0]

    assert first() == f"agent-{B}"
    lan.partition([R1, A])
    lan.run(60)
    assert first() == f"agent-{A}"
    lan.heal()
    lan.run(20)
    assert first() == f"agent-{B}"
    lan.do(B, lambda node, now: node.route_agent.withdraw("skill-org-feishu", m.Reason.UPGRADE, now))
    lan.run(3)
    lan.offer(B, "skill-org-feishu")
    lan.run(10)
    assert first() == f"agent-{A}", "after a goodbye it is a newcomer"


@pytest.mark.spec("SDP-rate-bound")
def test_a_source_is_read_20_datagrams_a_second_and_others_are_not_held_up(lan):
    flood, quiet = Peer("192.168.1.66", 6), Peer("192.168.1.67", 6)
    question = encode(m.Discover("x", (), (), (), int(EPOCH * 1000)))
    ingress = lan.nodes[R1].ingress
    for _ in range(10):
        for _ in range(2000):
            lan.inject(question, flood, R1)
        lan.run(1)
    passed = 20_000 - ingress.stopped["rate"]
    assert passed <= ingress.stopped["rate"]
    assert passed <= 60 + 10 * 20
    before = ingress.stopped["rate"]
    lan.inject(question, quiet, R1)
    assert ingress.stopped["rate"] == before


@pytest.mark.spec("SDP-amplification")
def test_answers_are_no_larger_than_three_times_the_question_until_the_address_is_proven(lan):
    for number in range(30):
        lan.offer(A, f"skill-org-feishu-{number}")
    lan.run(10)
    question, victim = encode(m.Discover("x", (), (), (), int(EPOCH * 1000))), Peer("192.168.1.99", 9)
    lan.inject(question, victim, R1)
    answers = [encode(message) for to, message in sent(lan, R1) if to == victim]
    assert answers
    assert sum(map(len, answers)) <= 3 * len(question)
    request = lan.do(C, lambda node, now: node.searches.discover(now))
    lan.run(3)
    (found,) = lan.events(Discovered, C)
    assert (found.request, len(found.skills)) == (request, 30)


@pytest.mark.spec("SDP-register-again")
def test_a_skill_that_moves_is_registered_anew_and_listed_once(lan):
    lan.offer(A, "skill-org-feishu")
    lan.run(2)
    lan.offer(A, "skill-org-feishu", version="0.8.0", scenes=("auth", "mail"))
    lan.run(2)
    (listed,) = lan.nodes[R1].registry
    assert listed.registration.version == "0.8.0"
    assert [change.kind for change in lan.events(Change, R1)] == [ChangeKind.REGISTERED, ChangeKind.UPDATED]


def test_a_node_in_the_profile_signed_talks_to_its_like_alone(lan):
    host, registry = "192.168.1.40", "192.168.1.41"
    lan.node(registry, REGISTRY, profile=m.Profile.SIGNED)
    lan.node(host, OFFERS, ASKS, profile=m.Profile.SIGNED)
    lan.offer(host, "skill-org-feishu")
    lan.run(2)
    assert {ack.by.host for ack in lan.events(Acknowledged, host)} == {registry}
    lan.do(host, lambda node, now: node.searches.discover(now))
    lan.run(3)
    (found,) = lan.events(Discovered, host)
    assert {one.source.host for one in found.skills} == {registry}
    assert lan.nodes[host].ingress.stopped["another profile"] > 0


@pytest.mark.spec("SDP-endpoint")
def test_agents_talk_over_ipv6_as_they_do_over_ipv4():
    lan = Lan()
    lan.node("fd00::1", REGISTRY)
    lan.node("fd00::2", OFFERS)
    lan.node("fd00::3", ASKS)
    lan.offer("fd00::2", "skill-org-feishu")
    lan.run(2)
    lan.do("fd00::3", lambda node, now: node.searches.discover(now))
    lan.run(3)
    (found,) = lan.events(Discovered)
    assert [str(one.record.endpoint) for one in found.skills] == ["[fd00::2]:8080"]


@pytest.mark.spec("SDP-amplification")
def test_no_address_that_is_not_proven_makes_an_agent_work_for_a_list_that_it_may_not_send(lan, monkeypatch):
    for number in range(40):
        lan.offer(A, f"skill-{number}")
    lan.run(10)
    asked = []
    find = lan.nodes[R1].registry.find

    def spy(*arguments):
        asked.append(arguments)
        return find(*arguments)

    monkeypatch.setattr(lan.nodes[R1].registry, "find", spy)
    question = encode(m.Discover("x", (), (), (), int(EPOCH * 1000)))
    lan.inject(question, Peer("192.168.1.99", 9), R1)
    ((_, most),) = asked
    assert most <= 3 * len(question) // 14 + 1
    assert lan.nodes[R1]._challenges._pending


@pytest.mark.spec("SDP-scene-proof")
def test_nobody_joins_a_scene_for_an_address_that_is_not_proven(lan):
    lan.offer(A, "skill-org-feishu")
    lan.run(2)
    victim, stamp = Peer("192.168.1.99", 9), int(lan.moment(R1).wall * 1000)
    lan.inject(encode_signed(m.JoinScene("agent-x", "auth", (), stamp), GROUP_KEY.sign), victim, R1)
    lan.crash(A)
    told = [message for to, message in sent(lan, R1, seconds=20) if to == victim]
    assert [type(message) for message in told] == [m.Challenge]


@pytest.mark.spec("SDP-scene-groups")
def test_a_group_has_one_primary_and_backups_in_the_order_in_which_they_take_over():
    lan = Lan()
    lan.node(R1, REGISTRY)
    lan.node(C, ASKS)
    hosts = [f"192.168.1.{number}" for number in (12, 10, 13, 11)]
    for host in hosts:
        lan.node(host, OFFERS)
        lan.offer(host, "skill")
    lan.run(2)
    lan.do("192.168.1.11", lambda node, now: node.route_agent.report("skill", HealthStatus.MAINTENANCE, "", now))
    lan.run(1)
    lan.do(C, lambda node, now: node.memberships.request("auth", (), now, is_join=True))
    lan.run(2)
    (joined,) = lan.events(SceneJoined)
    assert [(one.agent_id[-2:], one.role) for one in joined.answer.members] == [
        ("10", "PRIMARY"),
        ("12", "BACKUP"),
        ("13", "BACKUP"),
    ]
    for gone, primary in (("192.168.1.10", "12"), ("192.168.1.12", "13")):
        lan.do(gone, lambda node, now: node.route_agent.close(Reason.MAINTENANCE, now))
        lan.run(2)
        changed = [event for _, event in lan.notices(C) if event.event is GroupEvent.PRIMARY_CHANGED]
        assert changed[-1].agent_id[-2:] == primary


@pytest.mark.spec("SDP-unregister-flow")
@pytest.mark.parametrize("reason", Reason)
def test_a_goodbye_that_nobody_acknowledges_is_sent_three_times(lan, reason):
    lan.offer(A, "skill-org-feishu")
    lan.run(2)
    lan.partition([A])
    lan.do(A, lambda node, now: node.route_agent.withdraw("skill-org-feishu", reason, now))
    said = [message for _, message in sent(lan, A, seconds=60)]
    assert {(type(message), message.reason) for message in said} == {(m.Unregister, reason)}
    assert len(said) == 3
    assert sent(lan, A, seconds=60) == []
    lan.heal()


@pytest.mark.spec("SDP-register-ack")
def test_every_goodbye_is_acknowledged_with_what_became_of_it(lan):
    lan.offer(A, "skill-org-feishu")
    lan.run(2)
    acks = []
    for at, source in ((0, Peer("192.168.1.50", 5)), (1, Peer("192.168.1.51", 5))):
        stamp = int(lan.moment(R1).wall * 1000) + at
        goodbye = m.Unregister(f"agent-{A}", "skill-org-feishu", Reason.UPGRADE, stamp)
        lan.inject(encode_signed(goodbye, GROUP_KEY.sign), source, R1)
        acks += [message.status for to, message in sent(lan, R1, seconds=0.3) if to == source]
    assert acks == [Outcome.SUCCESS, Outcome.DUPLICATE]


@pytest.mark.spec("SDP-scene-request")
@pytest.mark.parametrize("order", [("auth", "auth-admin"), ("auth-admin", "auth")])
def test_scenes_whose_names_begin_alike_are_not_mixed_up(order):
    lan = Lan()
    lan.node(R1, REGISTRY)
    lan.node(C, ASKS)
    for host, scene in ((A, "auth"), (B, "auth-admin")):
        lan.node(host, OFFERS)
        lan.offer(host, f"skill-{scene}", scenes=(scene,))
    lan.run(2)
    for scene in order:
        lan.do(C, lambda node, now, scene=scene: node.memberships.request(scene, (), now, is_join=False))
    lan.run(4)
    joined = {one.scene: one.answer.skill_info.skill_id for one in lan.events(SceneJoined, C)}
    assert joined == {"auth": "skill-auth", "auth-admin": "skill-auth-admin"}


@pytest.mark.spec("SDP-scene-request")
def test_what_is_told_of_another_scene_than_was_asked_for_counts_for_nothing():
    lan = Lan()
    lan.node(C, ASKS)
    lan.do(C, lambda node, now: node.memberships.request("auth", (), now, is_join=False))
    other, stamp, node = Peer(B, 5), int(lan.moment(C).wall * 1000), lan.nodes[C]
    info, skill = m.ConnectionInfo("http", B, 80, endpoint=f"{B}:80"), m.SkillInfo("skill", "1.0.0")

    def tell(scene, group):
        lan.inject(encode(m.SceneJoinResponse(f"agent-{C}", m.SceneAnswer(scene, group, info, skill), stamp)), other, C)

    tell("auth-admin-001", "group-auth-admin-001")
    lan.run(0.5)
    assert node.ingress.stopped["not for us"] == 1
    tell("auth-7", "group-7")  # by another's rule
    lan.run(2)
    assert [one.answer.scene_id for one in lan.events(SceneJoined, C)] == ["auth-7"]
    lan.run(2)
    tell("auth-7", "group-7")
    assert node.ingress.stopped["not for us"] == 2


@pytest.mark.spec("SDP-notice-ignored")
def test_a_member_ignores_notices_and_lists_what_it_hears_itself():
    lan = Lan()
    lan.node(C)
    lan.node(A, OFFERS)
    lan.offer(A, "skill-a")
    lan.run(2)
    lan.do(C, lambda node, now: node.memberships.request("auth", (), now, is_join=True))
    lan.run(2)
    before, listed = len(lan.told), lan.listed(C)
    facts = GroupEvent.MEMBER_LEFT, f"agent-{A}", "skill-a", HealthStatus.OFFLINE
    notice = m.SceneEvent("group-auth-001", *facts, int(lan.moment(C).wall * 1000))
    lan.inject(encode(notice), Peer(A, 5), C)
    assert (len(lan.told), lan.listed(C)) == (before, listed)
    assert lan.nodes[C].ingress.stopped["not for us"] == 1


@pytest.mark.spec("SDP-notice-ignored")
def test_a_member_has_the_next_provider_register_when_that_says_that_it_took_over():
    lan = Lan()
    for host in (A, B):
        lan.node(host)
        lan.offer(host, "skill")
    lan.run(4.5)
    lan.node(C, Role.END_AGENT, Role.OBSERVER)
    lan.do(C, lambda node, now: node.memberships.request("auth", (), now, is_join=True))
    lan.run(0.5)
    assert lan.events(SceneJoined, C)
    assert (f"agent-{B}", "skill") not in lan.listed(C)
    asked = lan.sent_from(C)
    lan.do(A, lambda node, now: node.route_agent.withdraw("skill", Reason.SHUTDOWN, now))
    lan.run(0.2)
    assert {to.host for to, data in asked if b" unknown, register again" in data} == {B}
    assert lan.listed(C) == {(f"agent-{B}", "skill"): "HEALTHY"}


@pytest.mark.spec("SDP-unknown-type")
def test_a_message_of_another_type_is_counted_and_answered_by_nobody():
    lan = Lan()
    node = lan.node(R1, REGISTRY)
    lan.inject(b"SKILL_DANCE:agent-001;slowly", Peer(B, 5), R1)
    sent = lan.sent
    lan.run(1)
    assert dict(node.ingress.stopped) == {"unknown type": 1}
    assert lan.sent == sent
