"""Beats that wait to be verified: they count when they are good, from when they came, and never before."""

from __future__ import annotations

import base64
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.lan import GROUP_KEY, OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import encode, encode_signed
from skillwire.protocols.skill_discovery.health import Change, What
from skillwire.protocols.skill_discovery.identity import Judgement
from skillwire.protocols.skill_discovery.limits import ReplayGuard
from skillwire.protocols.skill_discovery.liveness import DeferredHeartbeats
from skillwire.wire.node import Peer

HERE, THERE = "192.168.1.10", "192.168.1.20"
AGENT = f"agent-{HERE}"
KEY = AGENT, "skill-a"


class CountingKey:
    """The group's key, which counts how often it is used."""

    digest = GROUP_KEY.digest

    def __init__(self):
        self.verified = 0

    def verifies(self, data, signature):
        self.verified += 1
        return GROUP_KEY.verifies(data, signature)


class Counting:
    """An authority whose key counts."""

    def __init__(self):
        self.key = CountingKey()

    def shared_key(self):
        return self.key

    def judge(self, agent_id, certificate, now):
        return Judgement(self.key, *GROUP_KEY.judge(agent_id, certificate, now)[1:])


@pytest.fixture
def lan():
    """Give an agent with one skill, and a registry that has listed it for a minute."""
    network: Any = Lan()
    network.authority = Counting()
    network.node(THERE, REGISTRY, authority=network.authority)
    network.node(HERE, OFFERS)
    network.offer(HERE, "skill-a")
    network.run(60)
    return network


def beat(lan, ahead=0.0, *, signature=""):
    """Return a beat of the skill as of now; forged when it is given a signature."""
    stamp = int((lan.moment(THERE).wall + ahead) * 1000)
    message = m.Heartbeat(AGENT, "skill-a", m.HealthStatus.HEALTHY, stamp, signature)
    return encode(message) if signature else encode_signed(message, GROUP_KEY.sign)


def forge(lan):
    """Let a forged beat be seen to be forged."""
    inject(lan, beat(lan, 25, signature="QUJD"))
    lan.nodes[THERE].gate.held_beats.settle(KEY)
    assert lan.nodes[THERE].gate.stopped["forged"]


def inject(lan, data):
    lan.inject(data, Peer("192.168.1.66", 40_000), THERE)


@pytest.mark.spec("SDP-heartbeat-held")
@pytest.mark.parametrize(("is_forged", "least", "most"), [(False, 1 / 4, 0.45), (True, 1 / 3, 0.6)])
def test_of_three_beats_one_is_verified_and_of_two_once_one_was_forged(lan, is_forged, least, most):
    if is_forged:
        forge(lan)
    before = lan.authority.key.verified

    lan.run(300)

    assert lan.listed(THERE) == {KEY: "HEALTHY"}
    beats = 300 / 4.75
    assert beats * least < lan.authority.key.verified - before < beats * most, "beside five registrations"


@pytest.mark.spec("SDP-heartbeat-held")
def test_who_falls_silent_is_missed_as_soon_as_if_all_were_verified(lan):
    lan.crash(HERE)
    lan.run(4)
    assert lan.listed(THERE) == {KEY: "HEALTHY"}

    lan.run(16)  # the last beat may have come right before; 15 s after it at the latest
    assert lan.listed(THERE) == {KEY: "UNHEALTHY"}


@pytest.mark.spec("SDP-heartbeat-held")
def test_forged_beats_keep_nobody_alive(lan):
    lan.crash(HERE)

    for _ in range(40):
        inject(lan, beat(lan, signature="QUJD"))
        lan.run(0.5)

    assert lan.listed(THERE) == {KEY: "UNHEALTHY"}
    assert lan.nodes[THERE].gate.stopped["forged"]


@pytest.mark.spec("SDP-heartbeat-held")
def test_forged_beats_of_the_future_put_no_good_one_aside(lan):
    for _ in range(40):
        inject(lan, beat(lan, 25, signature="QUJD"))
        inject(lan, beat(lan, 26, signature="QUJD"))
        lan.run(1)
        assert lan.listed(THERE) == {KEY: "HEALTHY"}


@pytest.mark.spec("SDP-heartbeat-held")
def test_a_held_beat_that_is_sent_again_later_is_no_sign_of_life(lan):
    lan.crash(HERE)
    lan.run(4)
    last = beat(lan)
    inject(lan, last)

    for _ in range(28):
        lan.run(0.5)
        inject(lan, last)

    lan.run(2)
    assert lan.listed(THERE) == {KEY: "UNHEALTHY"}


@pytest.mark.spec("SDP-heartbeat-held")
def test_what_a_skill_says_of_itself_counts_while_beats_are_held(lan):
    lan.do(HERE, lambda node, now: node.route_agent.report("skill-a", m.HealthStatus.DEGRADED, "slow", now))
    lan.run(1)
    assert lan.listed(THERE) == {KEY: "DEGRADED"}
    lan.run(60)
    assert lan.listed(THERE) == {KEY: "DEGRADED"}


@pytest.mark.spec("SDP-heartbeat-held")
def test_what_is_too_large_for_a_datagram_is_never_held(lan):
    large = beat(lan, 5.0).rpartition(b";")[0] + b";" + b"A" * 1200
    inject(lan, large)
    assert lan.nodes[THERE].gate.stopped["malformed"] == 1
    held = lan.nodes[THERE].gate.held_beats._skills.values()
    assert all(len(one.data) < 1200 for skill in held for one in skill.beats)


@pytest.mark.spec("SDP-heartbeat-held")
@pytest.mark.spec("SDP-hostile")
def test_what_is_longer_than_a_beat_can_be_is_not_held(lan):
    lan.crash(HERE)
    lan.run(1)
    lan.nodes[THERE].gate.held_beats.settle(KEY)
    data = beat(lan, 1, signature="QUJD")
    assert len(data + b"A" * 600) < limits.DATAGRAM_BYTES
    inject(lan, data + b"A" * 600)
    assert held(lan) == 0
    inject(lan, data)
    assert held(lan) == 1


@pytest.mark.spec("SDP-heartbeat-held")
def test_the_longest_beat_is_held():
    agent_id, skill_id = "a" * limits.LAN_IDENTIFIER_LENGTH, "s" * limits.LAN_IDENTIFIER_LENGTH
    signature = base64.b64encode(bytes(72)).decode()  # of P-256, as DER
    data = encode(m.Heartbeat(agent_id, skill_id, m.HealthStatus.HEALTHY, 10**13, signature))
    judgement: Any = SimpleNamespace(standing_of=lambda *_: "unverified")
    beats = DeferredHeartbeats(
        lambda _: True,
        lambda *_: None,
        ring=SimpleNamespace(judgement_of=lambda *_: judgement),  # type: ignore[arg-type]  # as far as it is used
        replay=ReplayGuard(60.0),
        window=60.0,
        stopped=Counter(),
    )
    assert beats.takes(data, Peer(HERE, 40_000), Moment(10.0**10, 0.0))


def held(lan):
    """Return how many beats of the skill wait."""
    skill = lan.nodes[THERE].gate.held_beats._skills.get(KEY)
    return 0 if skill is None else len(skill.beats)


@pytest.mark.spec("SDP-heartbeat-held")
@pytest.mark.parametrize(("is_forged", "places"), [(False, 3), (True, 2)])
def test_so_many_beats_wait_at_most_and_the_newest_counts_from_when_it_came(lan, is_forged, places):
    lan.crash(HERE)
    lan.run(1)
    if is_forged:
        forge(lan)
    lan.nodes[THERE].gate.held_beats.settle(KEY)
    before = lan.authority.key.verified

    for number in range(places):
        assert held(lan) == number
        inject(lan, beat(lan))
        lan.run(0.2)
        came = lan.moment(THERE).steady - 0.2
    assert lan.authority.key.verified == before

    lan.run(0.3)
    assert (held(lan), lan.authority.key.verified) == (0, before + 1)
    assert came - 0.01 <= lan.nodes[THERE].registry.get(KEY).health.heard <= came + 0.1


@pytest.mark.spec("SDP-heartbeat-held")
@pytest.mark.spec("SDP-hostile")
def test_of_many_forged_beats_no_more_wait_and_good_ones_count(lan):
    lan.crash(HERE)
    lan.run(1)
    inject(lan, beat(lan))
    came = lan.moment(THERE).steady
    for number in range(30):
        inject(lan, beat(lan, 1 + number / 100, signature="QUJD"))
        assert held(lan) <= 3
    assert came - 0.01 <= lan.heard(THERE, KEY) <= came + 0.1
    stopped = lan.nodes[THERE].gate.stopped
    assert stopped["forged"] + stopped["another group key"] == 30


@pytest.mark.spec("SDP-heartbeat-held")
def test_a_registration_makes_held_beats_worthless(lan):
    lan.crash(HERE)
    lan.run(1)
    inject(lan, beat(lan))
    assert held(lan)

    again = m.Register(
        AGENT,
        "skill-a",
        "0.7.0",
        m.SkillType.TOOL,
        m.Endpoint(HERE, 8080),
        ("user-auth",),
        ("auth",),
        int((lan.moment(THERE).wall + 1) * 1000),
    )
    lan.inject(encode_signed(again, GROUP_KEY.sign), Peer(HERE, 40_000), THERE)
    assert held(lan) == 0


@pytest.mark.spec("SDP-heartbeat-held")
def test_a_skill_that_is_gone_is_forgotten(lan):
    assert lan.nodes[THERE].gate.held_beats._skills
    lan.do(HERE, lambda node, now: node.route_agent.close(m.Reason.SHUTDOWN, now))
    lan.run(2)
    beats = lan.nodes[THERE].gate.held_beats
    assert (beats._skills, beats._heads) == ({}, {})


@pytest.mark.spec("SDP-heartbeat-held")
@pytest.mark.spec("SDP-health-asked")
def test_once_a_beat_was_forged_others_leave_the_time_in_which_a_suspect_is_asked(lan):
    forge(lan)
    lan.crash(HERE)
    heard = lan.heard(THERE, KEY)
    since, told = lan.clock.steady, len(lan.told)
    for _ in range(8):
        inject(lan, beat(lan, 25, signature="QUJD"))
        lan.run(4)
    changes = [(at, one) for at, host, one in lan.told[told:] if host == THERE and isinstance(one, Change)]
    suspected, unhealthy = (at for at, one in changes if one.what is What.SUSPECTED)
    assert [one.what for _, one in changes] == [What.SUSPECTED, What.STATUS, What.SUSPECTED, What.EVICTED]
    assert suspected <= max(heard, since) + 10.1
    assert suspected + 4.9 <= unhealthy <= max(heard, since) + 15.1


@pytest.mark.spec("SDP-heartbeat-held")
@pytest.mark.spec("SDP-health-asked")
@pytest.mark.parametrize("seed", [1, 2])
def test_under_loss_forged_beats_make_nobody_unhealthy(seed):
    def fallen(is_forging):
        network = Lan(seed)
        network.node(THERE, REGISTRY)
        network.node(HERE, OFFERS)
        for number in range(20):
            network.offer(HERE, f"skill-{number}")
        network.run(5)
        network.loss = 0.3

        def forge():
            at = int((network.moment(THERE).wall + 25) * 1000)
            for number in range(20):
                inject(network, f"SKILL_HEARTBEAT:{AGENT};skill-{number};HEALTHY;{at};QUJD".encode())
            network.at(4.0, forge)

        if is_forging:
            forge()
        network.run(600)
        changes = network.events(Change, THERE)
        return sum(one.what is What.STATUS and one.after.health.status == "UNHEALTHY" for one in changes)

    assert fallen(is_forging=True) <= fallen(is_forging=False) + 1
