"""The page of the local network over ASGI: who sees it, what it says without a network, and that it stays live."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.lan_site import OWN, home
from tests.support.virtual_time import virtual_loop

from skillwire.model.lan import LanSnapshot
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.server import console_pages
from skillwire.server.console_pages import with_refreshes
from skillwire.server.routes.console import ExecutionsConsole


class Network:
    """A local network that a test changes."""

    def __init__(self):
        self.settings = LanSettings(port=50123)
        self.trouble = ""
        self.number = 0
        self.known = LanSnapshot(OWN, time.time(), *home())
        self._changed = asyncio.Event()

    def snapshot(self):
        return self.known

    async def changed(self, since, seconds):
        if self.number <= since:
            self._changed.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self.number

    def show(self, known):
        self.known, self.number = known, self.number + 1
        self._changed.set()


@pytest.fixture
def network():
    return Network()


@pytest.fixture
def on_lan(site, network):
    """Put the site's console on a network."""
    site.console = ExecutionsConsole(site.desk, site.application.services.authentication, lan=network)
    return site


@pytest.mark.usefixtures("on_lan")
async def test_an_operator_sees_who_is_there_and_gets_there_by_a_link(enter):
    ann = await enter("ann", "operator")
    answer = await ann.get("/lan")
    assert (answer.status, answer.fields["cache-control"]) == (200, "no-store")
    assert "11 skills of 4 agents, 3 scenes" in answer.body.decode()
    assert 'href="./lan" aria-current="page"' in answer.body.decode()
    assert 'href="./lan"' in (await ann.get("/executions")).body.decode()
    assert (await ann.get("/lan?q=weather")).body.decode().count('class="c-health"') == 1


@pytest.mark.usefixtures("on_lan")
async def test_an_empty_network_names_the_port_of_the_settings(network, enter):
    network.known = LanSnapshot(OWN, time.time(), (), ())
    answer = await (await enter("ann", "operator")).get("/lan")
    assert "UDP port 50123 through" in answer.body.decode()


@pytest.mark.parametrize("scopes", [(), ("tasks",)])
@pytest.mark.usefixtures("on_lan")
async def test_other_keys_are_told_which_one_they_need(enter, scopes):
    tom = await enter("tom", *scopes)
    for target in ("/lan", "/lan/live"):
        answer = await tom.get(target)
        assert answer.status == 403
        assert "has the scope <code>operator</code>" in answer.body.decode()
    assert 'href="./lan"' not in (await tom.get("/executions")).body.decode()


@pytest.mark.usefixtures("on_lan")
async def test_a_stranger_is_led_to_sign_in_and_back(browser):
    answer = await browser.get("/lan?q=x")
    assert (answer.status, answer.fields["location"]) == (303, "/login?next=%2Flan%3Fq%3Dx")
    assert (await browser.get("/lan/live")).status == 403


async def test_a_server_that_is_on_no_network_says_how_it_would_be(enter):
    ann = await enter("ann", "operator")
    answer = await ann.get("/lan")
    assert answer.status == 404
    assert "skillwire serve FOLDER --lan" in answer.body.decode()
    assert 'href="./lan"' not in (await ann.get("/executions")).body.decode()


@pytest.mark.usefixtures("on_lan")
async def test_a_network_that_cannot_be_used_is_told_with_its_reason(network, enter):
    network.known, network.trouble = None, "no interface is up that takes multicast"
    answer = await (await enter("ann", "operator")).get("/lan")
    assert answer.status == 503
    assert "No interface is up that takes multicast." in answer.body.decode()


class Node:
    """A node of the DHT that has not started."""

    def status(self):
        return None

    def note(self):
        return "not in the DHT: UDP port 6881 is in use"


async def test_a_server_in_the_dht_alone_shows_its_node(site, enter):
    node: Any = Node()
    site.console = ExecutionsConsole(site.desk, site.application.services.authentication, dht=node)
    ann = await enter("ann", "operator")
    answer = await ann.get("/lan")
    assert answer.status == 200
    assert "Not in the DHT: UDP port 6881 is in use." in answer.body.decode()
    assert 'href="./lan"' in (await ann.get("/executions")).body.decode()
    assert (await (await enter("tom", "tasks")).get("/lan")).status == 403


@pytest.mark.usefixtures("on_lan")
async def test_nothing_is_changed_by_the_page(enter):
    answer = await (await enter("ann", "operator")).act("/lan")
    assert (answer.status, answer.fields["allow"]) == (405, "GET, HEAD")


@pytest.mark.virtual_time
async def test_a_live_page_is_made_anew_with_each_change_and_each_refresh(network, monkeypatch):
    monkeypatch.setattr(console_pages, "time", SimpleNamespace(monotonic=virtual_loop().time))
    changed, refreshing = with_refreshes(network.changed, 3600.0), with_refreshes(network.changed, 0.25)
    first = await changed(-1, 15.0)
    waiting = asyncio.create_task(changed(first, 15.0))
    await asyncio.sleep(0)
    network.show(LanSnapshot(OWN, time.time(), (), ()))
    assert await waiting > first
    number = await refreshing(-1, 15.0)
    assert await refreshing(number, 15.0) > number
