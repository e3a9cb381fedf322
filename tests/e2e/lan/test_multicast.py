"""Multicast between processes on five hosts: found, cut off, healed, crashed, without a link, and agreed upon."""

import pytest
from tests.support.lan_agents import Agent, on_host
from tests.support.namespaces import network

HOSTS = range(1, 6)
ALL = {f"skill-{host}": "HEALTHY" for host in HOSTS}
pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def lan():
    """Give five hosts."""
    with network() as made:
        yield made


@pytest.fixture
def hosts(lan):
    """Give what starts agents on all hosts, each with one skill; they are crashed afterwards, and the network whole."""
    started: list[Agent] = []

    def start(**options):
        agents = {host: on_host(lan, host, [f"skill-{host}"], **options) for host in HOSTS}
        started.extend(agent.started() for agent in agents.values())
        for agent in agents.values():
            agent.wait_for(lambda found: found == ALL, "not all were found")
        return agents

    yield start
    lan.join()
    for host in HOSTS:
        lan.crash(host)


@pytest.mark.parametrize("family", [4, 6])
def test_every_host_finds_all_skills_over_one_family(lan, family):
    agents = [
        on_host(lan, host, [f"skill-{host}"], settings={"interfaces": [lan.address(host, family)]}) for host in HOSTS
    ]
    for agent in agents:
        agent.started()

    for agent in agents:
        agent.wait_for(lambda found: found == ALL, "not all were found")
        places = {skill["skill_id"]: skill["host"] for skill in agent.ask("snapshot")["skills"]}
        assert places == {f"skill-{host}": lan.address(host, family) for host in HOSTS}
    for agent in agents:
        agent.stop()


def test_who_speaks_on_an_interface_that_was_not_chosen_is_not_heard(lan):
    """The system would let a socket hear its group wherever anybody of the machine has joined it."""
    chosen = on_host(lan, 1, settings={"interfaces": ["eth0"]}).started()
    other = on_host(lan, 1, ["skill-other"], settings={"interfaces": ["lo"], "agent_id": "agent-other"}).started()
    other.wait_for(lambda found: "skill-other" in found, "it does not hear itself")
    later = on_host(lan, 2, ["skill-2"]).started()

    chosen.wait_for(lambda found: "skill-2" in found, "nothing is heard where it was chosen")
    assert "skill-other" not in chosen.skills()
    for agent in (chosen, other, later):
        agent.stop()


def test_who_is_cut_off_is_missed_and_misses_and_is_found_again(lan, hosts):
    agents = hosts()

    lan.cut(3)
    for host in (1, 2, 4, 5):
        agents[host].wait_for(lambda found: "skill-3" not in found, "skill-3 was not forgotten")
        assert agents[host].wait_for_change("status", "skill-3")["skill"]["status"] == "UNHEALTHY"
    # For the host that was cut off everybody else is silent: it is the network, and it forgets nobody.
    agents[3].wait_for_change("stale", "skill-1")
    assert set(agents[3].skills()) == set(ALL)
    assert agents[3].ask("snapshot")["is_suspected"]

    lan.heal(3)
    for agent in agents.values():
        agent.wait_for(lambda found: found == ALL, "not all were found again")


def test_two_halves_go_on_and_agree_when_they_are_joined(lan, hosts):
    agents = hosts()

    lan.split(4, 5)
    for host, mine, other in ((1, "skill-2", "skill-4"), (4, "skill-5", "skill-1")):
        agents[host].wait_for(
            lambda found, mine=mine, other=other: found[mine] == "HEALTHY" and found.get(other) != "HEALTHY",
            "the other half is not missed",
        )
    lan.join()

    for agent in agents.values():
        agent.wait_for(lambda found: found == ALL, "not all were found again")
    members = [agent.ask("snapshot")["scenes"] for agent in agents.values()]
    assert [scene["name"] for scene in members[0]] == ["auth"]
    # The order is that of the first registrations, which may be of two seconds.
    assert sorted(member["skill_id"] for member in members[0][0]["members"]) == sorted(ALL)
    assert all(told == members[0] for told in members)


def test_a_crash_is_noticed_and_a_goodbye_acts_at_once(lan, hosts):
    agents = hosts()

    agents[2].stop()
    left = agents[1].wait_for_change("left", "skill-2")
    assert left["skill"]["status"] == "HEALTHY"  # gone before it was missed

    lan.crash(5)
    assert agents[1].wait_for_change("status", "skill-5")["skill"]["status"] == "UNHEALTHY"
    agents[1].wait_for_change("evicted", "skill-5")
    assert agents[1].skills().keys() == {"skill-1", "skill-3", "skill-4"}


def test_an_agent_outlives_its_interface(lan, hosts):
    agents = hosts()

    lan.linkdown(2)
    agents[1].wait_for(lambda found: "skill-2" not in found, "skill-2 was not forgotten")
    agents[2].wait_for_change("stale", "skill-1")
    lan.linkup(2)

    for agent in agents.values():
        agent.wait_for(lambda found: found == ALL, "not all were found again")
