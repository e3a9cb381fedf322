"""What others tell of skills: where we connect to because of it, and where not."""

from __future__ import annotations

import asyncio
import time

import pytest

from skillwire.adapters.lan import told
from skillwire.adapters.lan.told import told_skills
from skillwire.protocols.skill_discovery.events import Found
from skillwire.protocols.skill_discovery.messages import Endpoint, SkillRecord
from skillwire.wire.node import Peer

HERE = "192.168.1.10"


class Link:
    """Reaches an address as it is, but for one that is of an interface."""

    def __init__(self, name="eth0/4"):
        self.name = name

    def reached(self, host):
        return f"{host}%eth0" if host.startswith("fe80:") else host


class Prober:
    """Says where it was sent; nothing answers."""

    def __init__(self):
        self.asked = []

    async def answers(self, host, port):
        self.asked.append((host, port))
        return False


def found(host, port=80, source=HERE, agent_id="", skill="skill-a"):
    return Link(), Found(SkillRecord(skill, "1.0.0", Endpoint(host, port), (), ()), Peer(source, 5000), agent_id)


async def status_of(*one, **named):
    prober = Prober()
    [skill] = await told_skills([found(*one, **named)], prober)  # type: ignore[arg-type]  # as far as it is used
    return skill.status, prober.asked


@pytest.mark.spec("SDP-found-probe")
@pytest.mark.parametrize("host", ["192.168.1.99", "8.8.8.8", "::1", "127.0.0.1", "files.example.com"])
async def test_nobody_sends_us_elsewhere(host):
    assert await status_of(host) == ("UNKNOWN", [])


async def test_the_host_that_answers_is_probed():
    assert await status_of(HERE) == ("UNHEALTHY", [(HERE, 80)])
    assert await status_of("fe80::1", source="fe80::1%3") == ("UNHEALTHY", [("fe80::1%eth0", 80)])


async def test_what_somebody_vouches_for_is_probed_but_no_name_is_looked_up():
    assert await status_of("192.168.1.99", agent_id="agent-a") == ("UNHEALTHY", [("192.168.1.99", 80)])
    assert await status_of("files.example.com", agent_id="agent-a") == ("UNKNOWN", [])


@pytest.mark.spec("SDP-answer-proof")
async def test_a_certified_agent_vouches_for_nothing_that_it_merely_tells_of():
    link, one = found(HERE, 8001, agent_id="agent-a")
    [skill] = await told_skills([(link, one._replace(is_verified=True))], Prober())  # type: ignore[arg-type]  # as far as it is used
    assert (skill.agent_id, skill.is_verified, skill.trust) == ("", False, "not known")


async def test_a_source_that_may_be_forged_has_few_of_its_ports_tried():
    prober = Prober()
    skills = await told_skills([found(HERE, port) for port in range(1, 1000)], prober)  # type: ignore[arg-type]  # as far as it is used
    assert len(skills) == 999
    assert len(prober.asked) == 4


async def test_all_probes_together_take_a_bounded_time(monkeypatch):
    class Never(Prober):
        async def answers(self, host, port):  # noqa: ARG002 - the form of a prober
            if port > 1:
                await asyncio.Event().wait()
            return False

    monkeypatch.setattr(told, "_SECONDS", 0.05)
    began = time.monotonic()
    records = [found(HERE, port, agent_id="agent-a", skill=f"skill-{port}") for port in range(1, 500)]
    skills = await told_skills(records, Never())  # type: ignore[arg-type]  # as far as it is used
    assert time.monotonic() - began < 10
    assert [skill.status for skill in skills] == ["UNHEALTHY"] + ["UNKNOWN"] * 498


async def test_what_is_told_at_two_addresses_of_one_network_is_one():
    at4, at6, of6 = found("10.99.0.2"), found("fd99::2"), found("fd99::2", skill="skill-b")
    elsewhere = Link("wlan0/6"), at6[1]
    here = [at4, (Link("eth0/6"), at6[1]), of6, elsewhere]
    told = await told_skills(here, Prober())  # type: ignore[arg-type]  # as far as it is used
    assert [(one.skill_id, one.host) for one in told] == [
        ("skill-a", "10.99.0.2"),
        ("skill-b", "fd99::2"),
        ("skill-a", "fd99::2"),
    ]
