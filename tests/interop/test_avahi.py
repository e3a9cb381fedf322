"""mDNS beside Avahi: each sees what the other publishes, and its goodbye; a name that one has is left to it."""

import re
import tempfile
from pathlib import Path
from secrets import token_hex

import pytest
from tests.interop.avahi import Avahi, wait_for_row
from tests.interop.peers import find_peer
from tests.support.eventually import eventually
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
pytestmark = pytest.mark.deep


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
def name():
    """Give a name that neither side has in its cache from another test."""
    return f"agent-{token_hex(4)}"


@pytest.fixture
def agent(lan, name):
    """Give what starts our agent, which only speaks mDNS."""
    started = []

    def start():
        started.append(on_host(lan, US, settings=MDNS_ONLY | {"agent_id": name}).started())
        return started[0]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.stop()


@pytest.mark.parametrize("service_type", TYPES)
def test_avahi_sees_our_instances_with_all_their_facts_and_their_goodbye(avahi, agent, name, lan, service_type):
    rows = avahi.browse(service_type)
    ours = agent()
    ours.ask("announce", offers=[OFFER])
    label = f"skill-org-feishu @ {name}"
    for family in ("IPv4", "IPv6"):
        found = wait_for_row(rows, lambda row, family=family: (row.what, row.name, row.family) == ("=", label, family))
        assert found.port == 8123
        assert found.address in {lan.address(US), lan.address(US, 6)}
        assert found.text >= {
            "txtvers=1",
            f"id={name}/skill-org-feishu",
            "v=0.7.0",
            "t=enterprise-skill",
            "cap=org-data-read,user-auth",
            "sc=auth",
            "p=/.well-known/skill-discovery",
            "st=HEALTHY",
        }
        assert any(re.fullmatch("kid=[0-9a-f]{16}", string) for string in found.text)
    own = wait_for_row(rows, lambda row: (row.what, row.name) == ("=", name))
    assert own.text >= {"txtvers=1", f"id={name}", "t=agent"}
    rows.forget()
    ours.stop()
    for gone in (label, name):
        wait_for_row(rows, lambda row, gone=gone: (row.what, row.name) == ("-", gone))
    rows.end()


@pytest.mark.parametrize("service_type", TYPES)
def test_what_avahi_publishes_is_a_hint_here_and_gone_with_its_goodbye(avahi, agent, name, lan, service_type):
    ours = agent()
    skill = f"skill-{name}"
    text = ["txtvers=1", f"id=agent-9/{skill}", "v=1.2.3", "t=tool-skill", "cap=user-auth,mail", "sc=auth", "p=/x"]
    theirs = avahi.publish(f"A skill. With dots, ümlauts & {name}", service_type, 9000, *text)
    found = ours.wait_for_change("registered", skill)["skill"]
    theirs.end()
    assert found["host"] in {lan.address(THEM), lan.address(THEM, 6)}
    assert (found["agent_id"], found["version"], found["port"]) == ("agent-9", "1.2.3", 9000)
    assert (found["capabilities"], found["scenes"]) == (["user-auth", "mail"], ["auth"])
    assert (found["found_via"], found["is_verified"]) == ("mdns", False)
    ours.wait_for_change("left", skill)


def test_a_name_that_avahi_has_is_left_to_it(avahi, agent, name):
    theirs = avahi.publish(name, TYPES[0], 9000, "txtvers=1", "id=agent-9", "t=agent")
    rows = avahi.browse(TYPES[0])
    agent().ask("announce", offers=[OFFER])
    wait_for_row(rows, lambda row: (row.what, row.name) == ("=", f"skill-org-feishu @ {name}-2"))
    own = wait_for_row(rows, lambda row: (row.what, row.name) == ("=", f"{name}-2"))
    assert f"id={name}" in own.text
    kept = wait_for_row(rows, lambda row: (row.what, row.name) == ("=", name))
    assert "id=agent-9" in kept.text
    rows.end()
    theirs.end()


def test_a_name_that_we_have_is_left_to_us(avahi, agent, name):
    rows = avahi.browse(TYPES[0])
    agent().ask("announce", offers=[OFFER])
    wait_for_row(rows, lambda row: (row.what, row.name) == ("=", name))
    theirs = avahi.publish(name, TYPES[0], 9000, "txtvers=1", f"id={name}-theirs", "t=agent")
    theirs.wait_for(lambda line: line.startswith("Name collision"))
    renamed = wait_for_row(rows, lambda row: row.what == "=" and f"id={name}-theirs" in row.text)
    assert renamed.name == f"{name} #2"
    theirs.end()
    rows.end()


def test_avahi_sees_that_our_skill_is_otherwise_than_before(avahi, agent, name):
    ours = agent()
    ours.ask("announce", offers=[OFFER])
    assert "st=HEALTHY" in _facts(avahi, name)
    ours.ask("report", skill="skill-org-feishu", status="DEGRADED")
    eventually(lambda: _facts(avahi, name), lambda facts: "st=DEGRADED" in facts)


def _facts(avahi, name):
    """Return what Avahi knows of our skill now; it tells each browser of a service once."""
    rows = avahi.browse(TYPES[0])
    found = wait_for_row(rows, lambda row: (row.what, row.name) == ("=", f"skill-org-feishu @ {name}"))
    rows.end()
    return found.text
