"""What is nearly as large as a datagram: told as far as it fits, refused where it never would, and in nobody's way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.lan import ASKS, GROUP_KEY, OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.configuration import read_discovery
from skillwire.protocols.skill_discovery.events import Acknowledged, Discovered, SceneJoined
from skillwire.protocols.skill_discovery.messages import Profile

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
    lan.do(C, lambda node, now: node.end_agent.discover(now))
    lan.run(3)
    return {one.record.skill_id for one in lan.events(Discovered, C)[-1].skills}


def joined(lan, scene="auth"):
    lan.do(C, lambda node, now: node.end_agent.want_scene(scene, (), now, is_request=True))
    lan.run(3)
    return [one.answer for one in lan.events(SceneJoined, C)]


@pytest.mark.spec("SDP-hostile")
@PROFILES
def test_a_skill_that_is_too_long_to_be_told_is_refused_and_keeps_no_other_from_being_told(profile):
    lan = network(profile)
    names = tuple(f"capability-{number:02}-{'x' * 40}" for number in range(17))
    lan.offer(A, "long", capabilities=names)
    lan.offer(B, "fine")
    lan.run(3)
    refused = {(one.status, one.message) for one in lan.events(Acknowledged, A)}
    assert (m.Outcome.INVALID, "too long to be told to who asks") in refused
    assert asked(lan) == {"fine"}


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
def test_a_scene_whose_group_has_no_name_is_refused():
    lan = network()
    lan.offer(A, "fits", scenes=("s" * 118,))
    lan.offer(B, "does-not", scenes=("s" * 119,))
    lan.run(3)
    assert set(lan.listed(R)) == {(f"agent-{A}", "fits")}
    (answer,) = joined(lan, "s" * 118)
    assert len(answer.group_id) == limits.LAN_IDENTIFIER_LENGTH


def test_an_agent_with_a_name_too_long_for_its_questions_is_refused():
    assert read_discovery({"agentId": "a" * 118}, "skillwire.toml").agent_id == "a" * 118
    with pytest.raises(ValidationError, match="at most 118"):
        read_discovery({"agentId": "a" * 119}, "skillwire.toml")


NAMES = st.text("abc-", min_size=1, max_size=128)


@pytest.mark.spec("SDP-hostile")
@settings(max_examples=60)
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
    assert asked(lan) == listed >= {"fine"}
    if skill in listed:
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
