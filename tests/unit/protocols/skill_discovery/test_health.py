"""The health of a skill: what it says, what its silence comes to, and how it gets well again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire.protocols.skill_discovery.health import (
    Health,
    Overdue,
    after_heartbeat,
    answered_probe,
    next_step,
    silent,
)
from skillwire.protocols.skill_discovery.messages import HealthStatus
from skillwire.protocols.skill_discovery.node import Role
from skillwire.protocols.skill_discovery.scenes import SceneJoined, SceneMissing
from skillwire.protocols.skill_discovery.search import Discovered
from skillwire.protocols.skill_discovery.settings import DiscoverySettings

S = HealthStatus
SETTINGS = DiscoverySettings()
TOLD = [status for status in S if status is not S.UNKNOWN]


def beat(health, now, status=S.HEALTHY):
    return after_heartbeat(health, status, now, SETTINGS)


@pytest.mark.spec("SDP-health-told")
@pytest.mark.parametrize("status", [S.DEGRADED, S.MAINTENANCE, S.UNHEALTHY, S.OFFLINE])
def test_what_a_skill_says_of_itself_counts_at_once(status):
    assert beat(Health(S.HEALTHY, 0.0), 1.0, status).status is status


@pytest.mark.spec("SDP-health-silence")
def test_silence_makes_suspect_after_two_beats_unhealthy_after_three_and_ends_after_thirty_seconds():
    health, seen = Health(S.HEALTHY, 100.0), []
    while True:
        at = next_step(health, SETTINGS)
        assert silent(health, at - 0.01, SETTINGS) == (health, Overdue.NOTHING)
        health, silence = silent(health, at, SETTINGS)
        seen.append((at - 100.0, silence, health.status, health.is_suspect))
        if silence is Overdue.TIMEOUT:
            break
    assert seen == [
        (10.0, Overdue.SUSPECTED, S.HEALTHY, True),
        (15.0, Overdue.MISSED, S.UNHEALTHY, True),
        (30.0, Overdue.TIMEOUT, S.UNHEALTHY, True),
    ]


@pytest.mark.spec("SDP-health-refuted")
def test_a_newer_heartbeat_refutes_a_suspicion():
    suspected, _ = silent(Health(S.HEALTHY, 0.0), 10.0, SETTINGS)
    assert suspected.is_suspect
    refuted = beat(suspected, 11.0)
    assert (refuted.status, refuted.is_suspect, refuted.heard) == (S.HEALTHY, False, 11.0)


@pytest.mark.spec("SDP-health-probe")
def test_an_answer_to_the_probe_puts_off_the_next_step_of_silence_once():
    suspected, _ = silent(Health(S.HEALTHY, 0.0), 10.0, SETTINGS)
    excused = answered_probe(suspected, 10.1)
    assert silent(excused, 15.0, SETTINGS)[1] is Overdue.NOTHING
    assert answered_probe(excused, 20.0) is excused
    fallen, silence = silent(excused, 25.1, SETTINGS)
    assert silence is Overdue.MISSED
    excused = answered_probe(fallen, 25.2)
    assert (excused.status, next_step(excused, SETTINGS)) == (S.UNHEALTHY, 55.2)
    assert answered_probe(excused, 50.0) is excused
    assert answered_probe(Health(S.HEALTHY, 0.0), 5.0).heard == 0.0, "nobody asked"


@pytest.mark.spec("SDP-health-recovery")
def test_two_good_heartbeats_make_an_unhealthy_skill_healthy_again():
    fallen, _ = silent(Health(S.HEALTHY, 0.0, is_suspect=True), 15.0, SETTINGS)
    once = beat(fallen, 16.0)
    assert (fallen.status, once.status) == (S.UNHEALTHY, S.UNHEALTHY)
    assert beat(beat(once, 17.0, S.UNHEALTHY), 18.0).status is S.UNHEALTHY, "in a row"
    assert beat(once, 21.0).status is S.HEALTHY


@pytest.mark.spec("SDP-health-flapping")
def test_a_skill_that_flaps_is_held_down():
    health, now = Health(S.HEALTHY, 0.0), 0.0
    for _ in range(4):
        health = beat(health, now := now + 1, S.UNHEALTHY)
        health = beat(health, now := now + 1)
        health = beat(health, now := now + 1)
    assert health.status is S.UNHEALTHY
    assert now < health.held_until <= now + SETTINGS.hold_down
    assert beat(health, health.held_until - 0.1).status is S.UNHEALTHY
    assert beat(health, health.held_until).status is S.HEALTHY


def test_falling_now_and_then_is_no_flapping():
    health, now = Health(S.HEALTHY, 0.0), 0.0
    for _ in range(20):
        health = beat(health, now := now + 300, S.UNHEALTHY)
        health = beat(beat(health, now + 5), now + 10)
        assert health.status is S.HEALTHY


@given(st.lists(st.tuples(st.floats(0, 40), st.sampled_from([*TOLD, "silent", "probe"])), max_size=30))
def test_whatever_happens_time_goes_on(events):
    health, now = Health(S.HEALTHY, 0.0), 0.0
    for pause, what in events:
        now += pause
        if what == "silent":
            health, silence = silent(health, now, SETTINGS)
            assert silence is Overdue.TIMEOUT or next_step(health, SETTINGS) > now or silence is not Overdue.NOTHING
        elif what == "probe":
            health = answered_probe(health, now)
        else:
            health = beat(health, now, what)
            assert health.heard == now
            assert not health.is_suspect
            assert health.status is what or what is S.HEALTHY
        assert health.heard <= now


@pytest.mark.spec("SDP-health-recovery")
def test_good_heartbeats_before_a_silence_are_none_in_a_row():
    settings = DiscoverySettings()
    fallen = Health(HealthStatus.UNHEALTHY, 0.0)
    once = after_heartbeat(fallen, HealthStatus.HEALTHY, 1.0, settings)
    assert once.status is HealthStatus.UNHEALTHY
    missed, _ = silent(once, 12.0, settings)
    assert after_heartbeat(missed, HealthStatus.HEALTHY, 13.0, settings).status is HealthStatus.UNHEALTHY
    assert after_heartbeat(once, HealthStatus.HEALTHY, 6.0, settings).status is HealthStatus.HEALTHY


OBSERVER = Role.OBSERVER


def want(lan, host, scene):
    lan.do(host, lambda node, now: node.memberships.request(scene, (), now, is_join=False))


def test_it_lists_what_it_hears():
    lan = Lan()
    lan.node("192.0.2.1", OFFERS, REGISTRY)
    lan.node("192.0.2.2", OBSERVER, ASKS)
    lan.offer("192.0.2.1", "skill-a")
    lan.run(2.0)
    assert lan.listed("192.0.2.2") == {("agent-192.0.2.1", "skill-a"): "HEALTHY"}


def test_it_does_not_tell_itself_or_others_that_a_scene_is_missing():
    lan = Lan()
    for host in ("192.0.2.1", "192.0.2.2"):
        lan.node(host, OBSERVER, ASKS)
    want(lan, "192.0.2.1", "auth")
    lan.run(5.0)
    assert [event.is_certain for event in lan.events(SceneMissing)] == [False]
    lan.node("192.0.2.3", REGISTRY)
    want(lan, "192.0.2.1", "auth")
    lan.run(5.0)
    assert [event.is_certain for event in lan.events(SceneMissing)] == [False, True]


def test_it_answers_nothing_of_what_it_lists():
    lan = Lan()
    lan.node("192.0.2.1", OBSERVER)
    lan.node("192.0.2.2", OFFERS)
    lan.node("192.0.2.3", ASKS)
    lan.offer("192.0.2.2", "skill-a")
    lan.run(2.0)
    assert lan.listed("192.0.2.1")
    lan.do("192.0.2.3", lambda node, now: node.searches.discover(now))
    want(lan, "192.0.2.3", "auth")
    lan.run(5.0)
    assert [event.skills for event in lan.events(Discovered)] == [()]
    assert not lan.events(SceneJoined)
