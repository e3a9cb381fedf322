"""mDNS between processes on several hosts: found and left, crashed, and with links that come and go."""

import time

import pytest
from tests.support.lan_agents import FAST, on_host
from tests.support.namespaces import network

HOSTS = (1, 2, 3)
MDNS_ONLY = {"mdns": True, "multicast": False}
#: What is known by mDNS alone is probed each second in place of every thirty.
PROBING = FAST | {"hint_interval": 1.0}
pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def lan():
    with network(len(HOSTS)) as made:
        yield made


@pytest.fixture(autouse=True)
def _ended(lan):
    yield
    for host in HOSTS:
        lan.crash(host)
        lan.linkup(host)


def start(lan, host, skills=(), **settings):
    return on_host(lan, host, skills, settings=MDNS_ONLY | settings, figures=PROBING).started()


def found(agent, skill):
    """Wait until an agent tells of a skill; return it as it was told."""
    return agent.wait_for_change("registered", skill)["skill"]


@pytest.mark.parametrize("family", [4, 6])
def test_every_host_finds_the_skills_of_the_others_over_one_family_and_their_goodbye(lan, family):
    agents = {host: start(lan, host, [f"skill-{host}"], interfaces=[lan.address(host, family)]) for host in HOSTS}
    for host, agent in agents.items():
        for other in set(HOSTS) - {host}:
            skill = found(agent, f"skill-{other}")
            assert (skill["host"], skill["found_via"]) == (lan.address(other, family), "mdns")
            assert (skill["agent_id"], skill["is_verified"]) == (f"agent-{other}", False)
    agents[3].stop()
    for host in (1, 2):
        agents[host].wait_for_change("left", "skill-3")


def test_of_who_crashed_nothing_is_listed_for_long_and_who_comes_back_is_listed_again(lan):
    looks = start(lan, 1)
    start(lan, 2, ["skill-2"])
    assert found(looks, "skill-2")["status"] == "UNKNOWN"
    lan.crash(2)
    looks.wait_for_change("evicted", "skill-2")  # its endpoint answers no probe, whatever the records say
    looks.changes.clear()
    start(lan, 2, ["skill-2"])
    found(looks, "skill-2")


def test_an_interface_that_comes_later_is_published_on(lan):
    looks = start(lan, 1)
    lan.linkdown(2)
    offers = start(lan, 2, ["skill-2"])
    lan.linkup(2)
    assert found(looks, "skill-2")["host"] in {lan.address(2), lan.address(2, 6)}
    start(lan, 3, ["skill-3"])
    found(offers, "skill-3")


def test_an_interface_that_was_gone_is_published_on_again(lan):
    looks = start(lan, 1)
    offers = start(lan, 2, ["skill-2"])
    found(looks, "skill-2")
    lan.linkdown(2)
    looks.wait_for_change("evicted", "skill-2")
    looks.changes.clear()
    lan.linkup(2)
    found(looks, "skill-2")
    offers.stop()
    looks.wait_for_change("left", "skill-2")


def test_of_two_hosts_with_one_agent_id_no_skill_is_told_of_at_the_other(lan, tmp_path, monkeypatch):
    for host in (1, 2):
        monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / f"home-{host}"))  # two machines know nothing of each other
        start(lan, host, [f"skill-{host}"], agent_id="agent-of-both")
    looks = start(lan, 3)
    for host in (1, 2):
        found(looks, f"skill-{host}")
    time.sleep(2.0)  # the records of the one are there when those of the other come
    hosts = {skill["skill_id"]: skill["host"] for skill in looks.ask("snapshot")["skills"]}
    assert hosts == {"skill-1": lan.address(1), "skill-2": lan.address(2)}
