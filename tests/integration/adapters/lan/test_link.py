"""What drives a node: everything is read, and the loop has time for other things."""

import asyncio
import contextlib
import operator
import socket
from collections import Counter
from functools import partial

import pytest
from tests.support.eventually import PATIENCE, eventually_async
from tests.support.loopback_lan import given, own_lan

from skillwire.adapters.clock import moment
from skillwire.adapters.lan.agent import LanAgent
from skillwire.adapters.lan.link import Driver
from skillwire.adapters.lan.sockets import LinkAddress, LinkSockets
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.protocols.skill_discovery.messages import Endpoint, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.wire.node import Datagram, Peer

GROUP = "239.255.83.70"


class Node:
    """Takes what comes, sends what it is told to, and wants to be told the time when it says so."""

    def __init__(self):
        self.heard: list[tuple[bytes, Peer]] = []
        self.to_send: list[Datagram] = []
        self.to_tell: list[str] = []
        self.asked = 0
        self.due: float | None = None
        self.fired: list[float] = []

    def receive(self, data, source, now):  # noqa: ARG002 - the form of a node
        self.heard.append((data, source))

    def datagrams_to_send(self, now):  # noqa: ARG002 - the form of a node
        self.asked += 1
        sends, self.to_send = self.to_send, []
        return sends

    def events(self, now):  # noqa: ARG002 - the form of a node
        events, self.to_tell = self.to_tell, []
        return events

    def timer(self):
        return self.due

    def on_timer(self, now):
        self.fired.append(now.steady)
        self.due = None


@pytest.fixture
async def driven():
    """Give a node, its driver, and the port of its group."""
    port = own_lan().port
    node = Node()
    driver: Driver[object] = Driver(node, lambda _: None, moment)  # as far as it is used
    settings = LanSettings(group=GROUP, port=port)
    driver.open(LinkSockets(LinkAddress("lo", 1, "127.0.0.1"), settings, Counter()))
    yield node, driver, port
    driver.end()


def sender():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
    return sock


async def test_a_burst_is_read_whole_in_few_wakes(driven):
    node, _, port = driven
    with sender() as sock:
        for number in range(1000):
            sock.sendto(b"%d" % number, (GROUP, port))
        await eventually_async(lambda: len(node.heard) == 1000)
    assert [data for data, _ in node.heard] == [b"%d" % number for number in range(1000)]
    assert node.asked < 20


async def test_what_is_due_is_done_with_what_comes_and_without_anything_more(driven):
    node, driver, port = driven
    with sender() as sock:
        sock.sendto(b"first", (GROUP, port))
        await eventually_async(lambda: node.heard)
        node.due = moment().steady + 0.01
        driver.tend()
        due = node.due
        await eventually_async(lambda: node.fired)
        assert due <= node.fired[0] < due + PATIENCE


@pytest.fixture
async def told():
    """Collect the errors that the loop is told of, in place of having them end the test."""
    errors: list[dict] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: errors.append(context))
    yield errors
    loop.set_exception_handler(before)


async def test_a_timer_that_fails_fires_again(driven, told):
    node, driver, _ = driven
    works, calls = node.on_timer, []

    def fail(now):
        calls.append(now)
        raise RuntimeError

    node.on_timer = fail
    node.due = moment().steady
    driver.tend()
    await eventually_async(lambda: len(calls) > 2)
    assert len(told) > 1
    node.on_timer = works
    await eventually_async(lambda: node.fired)


@pytest.mark.parametrize("fails_at", ["receive", "datagrams_to_send", "events"])
async def test_after_an_error_it_goes_on_to_hear_and_the_timer_fires(driven, told, fails_at):
    node, driver, port = driven
    works, calls = getattr(node, fails_at), []

    def fail(*_):
        calls.append(fails_at)
        raise RuntimeError(fails_at)

    with sender() as sock:
        sock.sendto(b"first", (GROUP, port))
        await eventually_async(lambda: node.heard)
        setattr(node, fails_at, fail)
        for number in range(6):
            before = len(calls)
            sock.sendto(b"%d" % number, (GROUP, port))
            await eventually_async(lambda: len(calls), partial(operator.lt, before))
        setattr(node, fails_at, works)
        assert told

        node.heard.clear()
        sock.sendto(b"and now", (GROUP, port))
        await eventually_async(lambda: b"and now" in [data for data, _ in node.heard])
    node.fired.clear()
    node.due = moment().steady + 0.05
    driver.tend()
    await eventually_async(lambda: node.fired)


async def test_an_answer_goes_to_who_asked_from_a_port_of_its_own(driven):
    node, driver, port = driven
    with sender() as sock:
        sock.sendto(b"question", (GROUP, port))
        await eventually_async(lambda: node.heard)
        [(_, source)] = node.heard
        node.to_send.append(Datagram(b"answer", source))
        driver.tend()
        sock.settimeout(PATIENCE)
        data, place = await asyncio.to_thread(sock.recvfrom, 2048)
        assert data == b"answer"
        assert place[1] != port
        sock.sendto(b"thanks", place)
        await eventually_async(lambda: len(node.heard) == 2)


async def test_what_goes_to_the_group_is_heard_by_other_processes_of_this_machine(driven):
    node, driver, _ = driven
    node.to_send.append(Datagram(b"to all"))
    driver.tend()
    await eventually_async(lambda: node.heard)
    assert node.heard[0][0] == b"to all"


async def test_a_unicast_to_the_groups_port_does_not_get_in(driven):
    node, _, port = driven
    with sender() as sock:
        sock.sendto(b"from elsewhere", ("127.0.0.1", port))
        sock.sendto(b"to the group", (GROUP, port))
        await eventually_async(lambda: node.heard)
        assert [data for data, _ in node.heard] == [b"to the group"]


async def test_the_timer_fires_when_it_is_due_and_goes_on_without_sockets(driven):
    node, driver, _ = driven
    driver.close()
    due = node.due = moment().steady + 0.05
    driver.tend()
    await eventually_async(lambda: node.fired)
    assert node.fired[0] >= due
    node.to_send.append(Datagram(b"to nobody"))
    driver.tend()
    assert not node.to_send


async def test_after_its_end_no_timer_is_left_whatever_is_told_yet(driven):
    node, driver, _ = driven
    driver.end()
    node.due = moment().steady + 0.01
    driver.tend()
    assert driver._timer is None


KEY = GroupKey(b"a secret that all of us share")


class Later:
    """The clock of every agent, put forward by hand."""

    def __init__(self):
        self._seconds = 0.0

    def __call__(self):
        now = moment()
        return now._replace(wall=now.wall + self._seconds, steady=now.steady + self._seconds)

    def pass_by(self, seconds, agent):
        """Let so much time pass, and an agent do what is due then."""
        self._seconds += seconds
        for link in agent._links:
            link.act()


@pytest.fixture
def later():
    return Later()


def agent(name, lan, clock):
    settings = LanSettings(agent_id=name, interfaces=("127.0.0.1",), group=lan.group, port=lan.port, mdns=False)
    return LanAgent(settings, own=given(name, KEY), keeps_state=False, clock=clock)


def offer(skill_id, port):
    return Offer(skill_id, "1.0.0", SkillType.TOOL, Endpoint("", port), ("user-auth",), ("auth",))


def listed(registry):
    return {skill.skill_id: skill.status for skill in registry.snapshot().skills}


def excused(registry):
    [link] = registry._links
    return [listed.key[1] for listed in link.node.registry if listed.health.is_excused]


@pytest.mark.spec("SDP-health-probe")
async def test_who_beats_no_more_is_kept_for_longer_where_its_endpoint_takes_connections(later):
    lan = own_lan()
    async with agent("agent-registry", lan, later) as registry:
        with socket.create_server(("127.0.0.1", 0)) as there, closing_port() as closed:
            provider = agent("agent-provider", lan, later)
            await provider.start()
            provider.announce([offer("there", there.getsockname()[1]), offer("closed", closed)])
            await eventually_async(lambda: len(listed(registry)) == 2)
            provider._links.end()  # no goodbye: it hangs, and what it offers goes on or does not
            await provider.stop()

            later.pass_by(10.5, registry)  # two beats and a little: both are suspected, and probed
            await eventually_async(lambda: excused(registry) == ["there"])
            later.pass_by(5, registry)
            assert listed(registry) == {"there": "HEALTHY", "closed": "UNHEALTHY"}
            later.pass_by(12, registry)
            await eventually_async(lambda: excused(registry) == ["there"])
            assert listed(registry) == {"there": "UNHEALTHY", "closed": "UNHEALTHY"}
            later.pass_by(4, registry)
            assert listed(registry) == {"there": "UNHEALTHY"}
            later.pass_by(30, registry)
            assert listed(registry) == {}


@contextlib.contextmanager
def closing_port():
    """Give a port at which nobody listens, and which nobody else is given."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
