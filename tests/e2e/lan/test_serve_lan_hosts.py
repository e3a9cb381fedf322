"""``skillwire serve --lan`` on hosts of a network: seen from others, reached there, missed when it crashes."""

import contextlib
import json
import sys
from functools import partial

import pytest
from tests.support.lan_agents import on_host
from tests.support.lan_server import LanServer
from tests.support.namespaces import network
from tests.support.publishing import write_skill

FETCH = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())"
pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def lan():
    """Give three hosts."""
    with network(3) as made:
        yield made


@pytest.fixture
def serve(lan, tmp_path):
    """Give what serves one skill on a host, at every address of it, as ``serve --lan`` does by default."""
    with contextlib.ExitStack() as stack:

        def begin(host, *arguments, is_there=True, **options):
            folder = tmp_path / f"skills-{host}"
            write_skill(folder, f"skill-{host}", {"skill.toml": 'scenes = ["auth"]\n'})
            start = partial(start_on, lan, host)
            server = LanServer(folder, tmp_path / f"home-{host}", *arguments, start=start, **options)
            stack.callback(server.end)
            return server.started() if is_there else server

        yield begin


def start_on(lan, host, command, **options):
    """Start a process on a host, with the environment that a test says."""
    return lan.start(host, *command, stdin=None, **options)


@pytest.fixture
def observer(lan):
    agent = on_host(lan, 3).started()
    yield agent
    agent.stop()


def fetch(lan, host, url):
    return lan.run(host, sys.executable, "-c", FETCH, url)


@pytest.mark.parametrize("family", [4, 6])
def test_what_is_announced_is_reached_where_it_is_announced(lan, serve, family):
    server = serve(1, "--interface", lan.address(1, family))
    agent = on_host(lan, 3, settings={"interfaces": [lan.address(3, family)]}).started()
    agent.wait_for(lambda found: "skill-1" in found, "the skill was not found")
    (skill,) = agent.ask("snapshot")["skills"]
    assert skill["host"] == lan.address(1, family)
    place = f"[{skill['host']}]" if family == 6 else skill["host"]
    origin = f"http://{place}:{skill['port']}"
    assert json.loads(fetch(lan, 3, f"{origin}/.well-known/skill-discovery"))["agentId"] == server.agent
    assert "skill-1" in fetch(lan, 3, f"{origin}/.well-known/agent-skills/index.json")
    agent.stop()


def test_one_that_crashes_is_missed_and_one_that_ends_is_gone_at_once(serve, observer):
    first, second = serve(1), serve(2)
    observer.wait_for(lambda found: set(found) == {"skill-1", "skill-2"}, "not both were found")

    first.kill()
    assert second.end() == 0
    observer.wait_for_change("left", "skill-2")
    assert "skill-2" not in [one["skill"]["skill_id"] for one in observer.changes if one["kind"] == "status"]

    assert observer.wait_for_change("status", "skill-1")["skill"]["status"] == "UNHEALTHY"
    observer.wait_for_change("evicted", "skill-1")
    observer.was_heard_first(("left", "skill-2"), ("evicted", "skill-1"))
    again = serve(1)
    assert again.agent == first.agent
    observer.wait_for(lambda found: found == {"skill-1": "HEALTHY"}, "it was not found again")


def test_a_server_without_a_network_finds_one_when_it_comes(lan, serve, observer):
    lan.linkdown(1)
    try:
        server = serve(1, "--interface", "eth0", is_there=False)
        told = server.event("lan")
        assert (told["agent"], "eth0" in told["reason"]) == (None, True)
    finally:
        lan.linkup(1)
    assert server.event("lan")["agent"]
    observer.wait_for(lambda found: "skill-1" in found, "it was not found when the network was there")
