"""Agents with very many skills: whoever starts later learns all of them soon, and a goodbye of all acts soon."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.certificates import NOW
from tests.support.lan import ASKS, GROUP_KEY, OFFERS, REGISTRY, Lan
from tests.unit.protocols.skill_discovery.test_identity import AUTHORITY

from skillwire import limits
from skillwire.errors import SourceLocation, ValidationError
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery import scenes
from skillwire.protocols.skill_discovery.codec import encode
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.protocols.skill_discovery.messages import Outcome, Profile, Reason
from skillwire.protocols.skill_discovery.node import Role
from skillwire.protocols.skill_discovery.route_agent import Acknowledged, SendQueue
from skillwire.protocols.skill_discovery.scenes import SceneJoined, SceneMissing
from skillwire.protocols.skill_discovery.search import Discovered
from skillwire.protocols.skill_discovery.settings import read_discovery
from skillwire.testing.fake_network import EPOCH
from skillwire.trust.ecdsa import new_key, self_signed
from skillwire.wire.node import Peer

PUBLISHER, LATER = "10.0.0.1", "10.0.0.2"
#: ChangeKind `serve --lan` is, and what `skillwire lan` is.
SERVES, LOOKS = (REGISTRY, OFFERS, ASKS), (ASKS, Role.OBSERVER)


def start(lan, host, *roles):
    """Start an agent with a key of its own, which nobody certified."""
    name = f"agent-{host}"
    lan.node(host, *roles, agent_id=name, identity=self_signed(name, new_key(), NOW), authority=AUTHORITY)


def published(skills, seconds, **options):
    """Return a network with an agent that has offered very many skills for a while."""
    lan = Lan(seed=3, **options)
    start(lan, PUBLISHER, *SERVES)
    for number in range(skills):
        lan.offer(PUBLISHER, f"thing-{number}", capabilities=(f"capability-{number}",), scenes=())
    lan.run(seconds)
    return lan


def healthy(lan, host):
    return list(lan.listed(host).values()).count("HEALTHY")


@pytest.mark.spec("SDP-heartbeat-unknown")
@pytest.mark.parametrize("roles", [LOOKS, SERVES], ids=["looks", "serves"])
@pytest.mark.parametrize(
    ("skills", "seconds", "loss"),
    [(300, 3, 0.0), (300, 15, 0.3), pytest.param(1000, 8, 0.0, marks=pytest.mark.deep)],
)
def test_who_starts_later_lists_every_skill_of_an_agent_with_very_many(skills, seconds, loss, roles):
    lan = published(skills, 30)
    lan.loss = loss
    start(lan, LATER, *roles)
    lan.run(seconds)
    lan.loss = 0.0
    lan.run(6 if loss else 0)  # beats that were lost are no matter of this
    assert healthy(lan, LATER) == skills


@pytest.mark.spec("SDP-register-flow")
@pytest.mark.parametrize("skills", [300, pytest.param(1000, marks=pytest.mark.deep)])
def test_who_is_there_when_very_many_skills_are_offered_lists_all_of_them(skills):
    lan = Lan(seed=3)
    start(lan, LATER, *SERVES)
    start(lan, PUBLISHER, *SERVES)
    for number in range(skills):
        lan.offer(PUBLISHER, f"thing-{number}", capabilities=(), scenes=())
    lan.run(20)
    assert healthy(lan, LATER) == skills


@pytest.mark.spec("SDP-unregister-at-once")
@pytest.mark.parametrize(("skills", "seconds"), [(300, 1.0), pytest.param(1000, 2.5, marks=pytest.mark.deep)])
def test_a_goodbye_of_very_many_skills_acts_soon(skills, seconds):
    lan = published(skills, 20)
    start(lan, LATER, *LOOKS)
    lan.run(10)
    assert healthy(lan, LATER) == skills
    node = lan.nodes[PUBLISHER]
    lan.do(PUBLISHER, lambda node, now: node.route_agent.close(Reason.SHUTDOWN, now))
    assert node.route_agent.is_leaving
    lan.run(seconds)
    assert lan.listed(LATER) == {}
    lan.run(5)
    assert not node.route_agent.is_leaving, "each was said three times by now"


@pytest.mark.spec("SDP-rate-bound")
def test_who_has_shown_no_key_is_read_20_times_a_second_whatever_it_calls_its_datagrams():
    lan = published(300, 20)
    start(lan, LATER, *SERVES)
    ingress = lan.nodes[LATER].ingress
    stranger = Peer("10.0.0.66", 9)
    at = int(EPOCH * 1000)
    words = [
        m.Heartbeat("nobody", "skill", m.HealthStatus.HEALTHY, at, signature="AAAA"),
        m.Register(
            "nobody", "skill", "1.0.0", m.SkillType.TOOL, m.Endpoint(stranger.host, 1), (), (), at, signature="AAAA"
        ),
        m.ChallengeResponse("nobody", bytes(32), b"x", at, signature="AAAA"),
        m.RegisterAck("agent-10.0.0.2", Outcome.SUCCESS, "skill registered", at),
        m.UnregisterAck("agent-10.0.0.2", "skill", Outcome.SUCCESS, at),
    ]
    before = ingress.stopped["rate"]
    for _ in range(10):
        for word in words:
            for _ in range(100):
                lan.inject(encode(word), stranger, LATER)
        lan.run(1)
    passed = 10 * 500 - (ingress.stopped["rate"] - before)
    assert passed <= 2 * (60 + 10 * 20), "proofs of its own challenge have as much again"


def test_an_answer_lets_two_more_go_and_silence_leaves_the_pace_of_strangers():
    line = SendQueue(pace=16, most=200, burst=30)
    went, now = 0, 100.0
    while line.free_at(now) <= now:
        line.count_sent(now)
        went += 1
    assert went in {30, 31}
    assert 0 < line.free_at(now) - now <= 1 / 16
    line.acknowledged()
    now += 0.01
    assert line.free_at(now) <= now
    for _ in range(1000):
        line.acknowledged()
    went = 0
    while line.free_at(now) <= now:
        line.count_sent(now)
        went += 1
    assert went <= 32, "no more than the bound allows, however many are answered"


R, A, B, C = "192.168.1.1", "192.168.1.10", "192.168.1.11", "192.168.1.20"
PROFILES = pytest.mark.parametrize("profile", Profile)


def network(profile=Profile.OPEN):
    lan = Lan(seed=1)
    lan.node(R, REGISTRY, profile=profile)
    lan.node(C, ASKS, agent_id="c" * 118, profile=profile)
    for host in (A, B):
        lan.node(host, OFFERS, profile=profile)
    return lan


def asked(lan):
    lan.do(C, lambda node, now: node.searches.discover(now))
    lan.run(3)
    return {one.record.skill_id for one in lan.events(Discovered, C)[-1].skills}


def joined(lan, scene="auth"):
    lan.do(C, lambda node, now: node.memberships.request(scene, (), now, is_join=False))
    lan.run(3)
    return [one.answer for one in lan.events(SceneJoined, C)]


LONG = {"capabilities": tuple(f"capability-{number:02}-{'x' * 40}" for number in range(17)), "scenes": ("auth",)}
UNTELLABLE = pytest.mark.parametrize(
    ("facts", "why"),
    [
        (LONG, "too long for an answer to a discovery"),
        ({"scenes": ("auth", "s" * 119)}, "a scene has a name of 119 letters, and up to 118 are allowed"),
    ],
)


@pytest.fixture
def careless(monkeypatch):
    """Let agents offer what nobody can tell of, as another implementation may."""
    monkeypatch.setattr("skillwire.protocols.skill_discovery.route_agent.check_record_size", lambda _: None)


@pytest.mark.spec("SDP-hostile")
@pytest.mark.spec("SDP-tellable")
@PROFILES
@UNTELLABLE
@pytest.mark.usefixtures("careless")
def test_a_skill_that_nobody_could_tell_of_is_refused_and_keeps_no_other_from_being_told(facts, why, profile):
    lan = network(profile)
    lan.offer(A, "long", **facts)
    lan.offer(B, "fine")
    lan.run(3)
    refused = {(one.status, one.message) for one in lan.events(Acknowledged, A)}
    assert (m.Outcome.INVALID, why) in refused
    assert asked(lan) == {"fine"}


@pytest.mark.spec("SDP-tellable")
@UNTELLABLE
def test_a_skill_that_nobody_could_tell_of_is_not_offered(facts, why, monkeypatch):
    lan, said = network(), list[bytes]()
    receive = lan.nodes[R].receive

    def hear(data, *rest):
        said.append(data)
        receive(data, *rest)

    monkeypatch.setattr(lan.nodes[R], "receive", hear)
    lan.offer(A, "fine")
    with pytest.raises(ValidationError, match=why) as raised:
        lan.offer(A, "long", **facts)
    lan.do(A, lambda node, now: node.route_agent.report("long", m.HealthStatus.DEGRADED, "", now))
    assert raised.value.code in {"DATAGRAM_SIZE", "DATAGRAM_FIELD"}
    assert raised.value.place == SourceLocation("long")
    lan.run(3)
    assert [one.skill_id for one in lan.events(Acknowledged, A)] == ["fine"]
    assert not [data for data in said if b";long;" in data]
    assert asked(lan) == {"fine"}


@pytest.mark.spec("SDP-tellable")
def test_a_hint_at_a_scene_whose_group_has_no_name_counts_for_nothing():
    lan = network()

    def hinted(skill, **facts):
        named = {"capabilities": (), "scenes": ()} | facts
        place = m.Endpoint(A, 8080)
        message = m.Register("agent-x", skill, "1.0.0", m.SkillType.TOOL, place, **named, timestamp=0)
        return lan.do(R, lambda node, now: node.hint(message, A, now))

    assert not hinted("long", scenes=("s" * 119,))
    assert hinted("fits", scenes=("s" * 118,))
    assert hinted("able", **LONG)  # it is told to nobody, so no datagram has to hold it
    assert {key[1] for key in lan.listed(R)} == {"fits", "able"}


@pytest.mark.spec("SDP-scene-groups")
@PROFILES
def test_who_can_do_very_much_is_joined_all_the_same(profile):
    lan = network(profile)
    lan.offer(A, "able", capabilities=tuple(f"capability-{number}" for number in range(52)))
    lan.offer(B, "fine")
    lan.run(3)
    (answer,) = joined(lan)
    assert answer.skill_info.skill_id == "able"
    assert answer.skill_info.capabilities[0] == "capability-0"
    assert asked(lan) == {"able", "fine"}


@pytest.mark.spec("SDP-scene-untellable")
def test_the_primary_is_named_as_long_as_anything_else_can_go():
    info = m.ConnectionInfo("http", A, 8080)
    members = [m.GroupMember(f"agent-{n}", "s", "BACKUP" if n else "PRIMARY") for n in range(3)]
    told: m.SceneAnswer | None = m.SceneAnswer(
        "auth-001", "group-auth-001", info, m.SkillInfo("s", "1.0.0", ("a", "b", "c")), tuple(members)
    )
    said = []
    while told is not None:
        said.append((len(told.members), told.skill_info.capabilities))
        assert told.members == tuple(members[: len(told.members)])
        told = scenes.shorter(told)
    assert said == [(3, ("a", "b", "c")), (2, ("a", "b", "c")), (1, ("a", "b", "c")), (1, ("a",)), (1, ()), (0, ())]


class AnyHost(GroupKey):
    """A key whose holders may announce endpoints on one host more."""

    def judge(self, agent_id, certificate, now):
        return super().judge(agent_id, certificate, now)._replace(hosts=frozenset({LONG_HOST}))


LONG_HOST = "h" * 62 + ".h" * 95


@pytest.mark.spec("SDP-scene-untellable")
def test_who_asks_for_a_scene_that_no_answer_can_tell_of_is_told_that_it_is_not_there():
    lan, scene = Lan(seed=1), "c" * 118
    trust = dict.fromkeys(("identity", "authority"), AnyHost(b"a secret that all of us share"))
    for host, role in ((R, REGISTRY), (C, ASKS), (A, OFFERS)):
        lan.node(host, role, agent_id=host[-1] * 118, **trust)
    lan.offer(A, "s" * 128, scenes=(scene,), endpoint=m.Endpoint(LONG_HOST, 65535), version="1.0.0-" + "v" * 58)
    lan.run(3)
    assert {key[1] for key in lan.listed(R)} == asked(lan) == {"s" * 128}
    assert not joined(lan, scene)
    assert SceneMissing(scene, is_certain=True) in lan.events(SceneMissing, C)


@pytest.mark.spec("SDP-scene-groups")
def test_of_members_with_long_names_as_many_are_told_as_fit():
    lan = network()
    for number in range(6):
        lan.offer(A, f"skill-{number}-{'x' * 100}")
    lan.run(3)
    (answer,) = joined(lan)
    assert 1 <= len(answer.members) < 6
    assert answer.members[0].role == "PRIMARY"


@pytest.mark.spec("SDP-hostile")
def test_the_group_of_the_longest_scene_has_a_name():
    lan = network()
    lan.offer(A, "fits", scenes=("s" * 118,))
    lan.run(3)
    (answer,) = joined(lan, "s" * 118)
    assert len(answer.group_id) == limits.LAN_IDENTIFIER_LENGTH


def test_an_agent_with_a_name_too_long_for_its_questions_is_refused():
    assert read_discovery({"agentId": "a" * 118}, "skillwire.toml").agent_id == "a" * 118
    with pytest.raises(ValidationError, match="at most 118"):
        read_discovery({"agentId": "a" * 119}, "skillwire.toml")


NAMES = st.text("abc-", min_size=1, max_size=128)


@pytest.mark.spec("SDP-hostile")
@given(
    st.lists(NAMES, max_size=64).map(tuple),
    st.lists(st.text("abc-", min_size=1, max_size=118), min_size=1, max_size=8).map(tuple),
    NAMES,
    st.sampled_from(Profile),
)
def test_whatever_was_registered_who_asks_is_answered(capabilities, scenes, skill, profile):
    lan = network(profile)
    lan.offer(B, "fine", scenes=("auth",))
    try:
        lan.offer(A, skill, capabilities=capabilities, scenes=scenes)
    except ValidationError:  # larger than a datagram
        return
    lan.run(2)
    listed = {key[1] for key in lan.listed(R)}
    assert skill in listed
    assert asked(lan) == listed >= {"fine"}
    assert joined(lan, scenes[0])


@pytest.mark.spec("SDP-heartbeat-callback")
@pytest.mark.parametrize("said", [None, "fine", m.HealthStatus.UNKNOWN])
def test_a_skill_that_cannot_say_how_it_is_beats_as_unhealthy(said):
    lan = Lan(seed=2)
    lan.node(R, REGISTRY)
    lan.node(A, OFFERS, identity=GROUP_KEY, health=lambda _: said)
    lan.offer(A, "skill-a")
    lan.run(8)
    assert lan.listed(R) == {(f"agent-{A}", "skill-a"): "UNHEALTHY"}
