"""mDNS beside Avahi: each sees what the other publishes, and its goodbye; a name that one has is left to it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
from tests.interop.avahi import Avahi, wait_for_row
from tests.interop.peers import PATIENCE, find_peer
from tests.support.lan_agents import on_host
from tests.support.namespaces import network

US, THEM = 1, 2
TYPES = ("_agent-skills._tcp", "_ooder-skill._tcp")
MDNS_ONLY = {"mdns": True, "multicast": False}
OFFER = {
    "skill": "skill-org-feishu",
    "port": 8123,
    "version": "0.7.0",
    "skill_type": "enterprise-skill",
    "capabilities": ["org-data-read", "user-auth"],
}
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def lan():
    for program in ("avahi-daemon", "avahi-browse", "avahi-publish", "dbus-daemon", "unshare"):
        find_peer(program)
    with network(2) as made:
        yield made


@pytest.fixture(scope="module")
def avahi(lan):
    with tempfile.TemporaryDirectory(prefix="avahi") as folder:
        yield Avahi(lan, THEM, Path(folder))


@pytest.fixture
def agent(lan):
    """Give what starts our agent, which only speaks mDNS."""
    started = []

    def start(**settings):
        started.append(on_host(lan, US, settings=MDNS_ONLY | settings).started())
        return started[0]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.stop()


@pytest.mark.parametrize("service_type", TYPES)
def test_avahi_sees_our_instances_with_all_their_facts_and_their_goodbye(avahi, agent, lan, service_type):
    rows = avahi.browse(service_type)
    ours = agent()
    ours.ask("announce", offers=[OFFER])
    name = "skill-org-feishu @ agent-1"
    for family in ("IPv4", "IPv6"):
        found = wait_for_row(rows, lambda row, family=family: (row.what, row.name, row.family) == ("=", name, family))
        assert found.port == 8123
        assert found.address in {lan.address(US), lan.address(US, 6)}
        assert found.text >= {
            "txtvers=1",
            "id=agent-1/skill-org-feishu",
            "v=0.7.0",
            "t=enterprise-skill",
            "cap=org-data-read,user-auth",
            "sc=auth",
            "p=/.well-known/skill-discovery",
            "st=HEALTHY",
        }
    own = wait_for_row(rows, lambda row: (row.what, row.name) == ("=", "agent-1"))
    assert own.text >= {"txtvers=1", "id=agent-1", "t=agent"}
    rows.forget()
    ours.stop()
    for name in ("skill-org-feishu @ agent-1", "agent-1"):
        wait_for_row(rows, lambda row, name=name: (row.what, row.name) == ("-", name))
    rows.end()


@pytest.mark.parametrize("service_type", TYPES)
def test_what_avahi_publishes_is_a_hint_here_and_gone_with_its_goodbye(avahi, agent, lan, service_type):
    ours = agent()
    text = ["txtvers=1", "id=agent-9/skill-y", "v=1.2.3", "t=tool-skill", "cap=user-auth,mail", "sc=auth", "p=/x"]
    theirs = avahi.publish("A skill. With dots & ümlauts", service_type, 9000, *text)
    found = ours.wait_for_change("registered", "skill-y")["skill"]
    theirs.end()
    assert found["host"] in {lan.address(THEM), lan.address(THEM, 6)}
    assert (found["agent_id"], found["version"], found["port"]) == ("agent-9", "1.2.3", 9000)
    assert (found["capabilities"], found["scenes"]) == (["user-auth", "mail"], ["auth"])
    assert (found["found_via"], found["is_verified"]) == ("mdns", False)
    ours.wait_for_change("left", "skill-y")


def test_a_name_that_avahi_has_is_left_to_it(avahi, agent):
    theirs = avahi.publish("agent-1", TYPES[0], 9000, "txtvers=1", "id=agent-9", "t=agent")
    rows = avahi.browse(TYPES[0])
    agent().ask("announce", offers=[OFFER])
    wait_for_row(rows, lambda row: (row.what, row.name) == ("=", "skill-org-feishu @ agent-1-2"))
    own = wait_for_row(rows, lambda row: (row.what, row.name) == ("=", "agent-1-2"))
    assert "id=agent-1" in own.text
    kept = wait_for_row(rows, lambda row: (row.what, row.name) == ("=", "agent-1"))
    assert "id=agent-9" in kept.text
    rows.end()
    theirs.end()


def test_a_name_that_we_have_is_left_to_us(avahi, agent):
    rows = avahi.browse(TYPES[0])
    agent().ask("announce", offers=[OFFER])
    wait_for_row(rows, lambda row: (row.what, row.name) == ("=", "agent-1"))
    theirs = avahi.publish("agent-1", TYPES[0], 9000, "txtvers=1", "id=agent-9", "t=agent")
    theirs.wait_for(lambda line: line.startswith("Name collision"))
    renamed = wait_for_row(rows, lambda row: row.what == "=" and "id=agent-9" in row.text)
    assert renamed.name == "agent-1 #2"
    theirs.end()
    rows.end()


def test_avahi_sees_that_our_skill_is_otherwise_than_before(avahi, agent):
    ours = agent()
    ours.ask("announce", offers=[OFFER])
    assert "st=HEALTHY" in _facts(avahi)
    ours.ask("report", skill="skill-org-feishu", status="DEGRADED")
    ends = time.monotonic() + PATIENCE
    while "st=DEGRADED" not in (facts := _facts(avahi)):
        assert time.monotonic() < ends, facts


def _facts(avahi):
    """Return what Avahi knows of our skill now; it tells each browser of a service once."""
    rows = avahi.browse(TYPES[0])
    found = wait_for_row(rows, lambda row: (row.what, row.name) == ("=", "skill-org-feishu @ agent-1"))
    rows.end()
    return found.text
