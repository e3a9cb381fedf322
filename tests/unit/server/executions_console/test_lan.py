"""The page of the local network over ASGI: who sees it, what it says without a network, and that it stays live."""

import asyncio
import time

import pytest
from tests.support.lan_site import OWN, home

from skillwire.model.lan import LanSnapshot
from skillwire.server.console_pages import LanPages
from skillwire.server.console_request import ConsoleRequest
from skillwire.server.routes.console import ExecutionsConsole
from skillwire.web.environment import Frame


class Network:
    """A local network that a test changes."""

    def __init__(self):
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


@pytest.mark.usefixtures("on_lan")
async def test_nothing_is_changed_by_the_page(enter):
    answer = await (await enter("ann", "operator")).act("/lan")
    assert (answer.status, answer.fields["allow"]) == (405, "GET, HEAD")


class Stream:
    """What a page reads of its stream; it ends as soon as it has read enough."""

    def __init__(self):
        self.parts: asyncio.Queue[str] = asyncio.Queue()
        self.is_gone = asyncio.Event()

    async def send(self, message):
        body = message.get("body", b"").decode()
        if body.startswith("event: part"):
            self.parts.put_nowait(body)

    async def receive(self):
        await self.is_gone.wait()
        return {"type": "http.disconnect"}

    async def next(self):
        async with asyncio.timeout(15):
            return await self.parts.get()


async def follow(pages, stream):
    """Have somebody look at the live page."""

    async def is_good():
        return True

    scope = {"query_string": b"", "headers": [], "method": "GET"}
    frame = Frame("http://localhost", "../")
    await pages.follow(ConsoleRequest("/lan/live", scope, stream.receive, stream.send, frame), is_good)


async def test_a_change_makes_the_live_page_anew(network):
    stream, pages = Stream(), LanPages(network, beat=3600.0)
    task = asyncio.create_task(follow(pages, stream))
    assert "light-switch" in await stream.next()
    skills, scenes = home()
    network.show(LanSnapshot(OWN, time.time(), skills[1:], scenes))
    assert "light-switch" not in (await stream.next()).partition('id="scenes-title"')[0]
    stream.is_gone.set()
    async with asyncio.timeout(15):
        await task


async def test_a_page_is_made_anew_with_each_beat_so_that_it_says_when_a_skill_was_heard(network):
    stream, pages = Stream(), LanPages(network, beat=0.2)
    task = asyncio.create_task(follow(pages, stream))
    first = await stream.next()
    assert await stream.next() != first  # nothing has changed but the time
    pages.close()
    async with asyncio.timeout(15):
        await task
