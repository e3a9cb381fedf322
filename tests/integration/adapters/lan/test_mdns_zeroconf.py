"""mDNS between publishers and browsers of this process, over loopback.

Port 5353 is shared with whoever else is there, so every test has names of its own.
"""

import asyncio
from secrets import token_hex
from typing import Any

import pytest
from tests.support.eventually import PATIENCE
from zeroconf import ServiceStateChange
from zeroconf._dns import DNSPointer
from zeroconf._protocol.outgoing import DNSOutgoing
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from skillwire import limits
from skillwire.adapters.lan import mdns_zeroconf
from skillwire.adapters.lan.mdns import DnsSd
from skillwire.protocols.skill_discovery.dnssd import SERVICE_TYPES
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer

LOOPBACK = ["127.0.0.1"]
_RESPONSE = 0x8400  # flags of an authoritative answer
_PTR, _IN = 12, 1


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Probe for a name in 0.2 seconds in place of 1.2."""
    monkeypatch.setattr("zeroconf._core._CHECK_TIME", 80)
    monkeypatch.setattr("zeroconf._core._PROBE_RANDOM_DELAY_INTERVAL", (10, 20))


@pytest.fixture
def agent_id():
    return f"agent-{token_hex(6)}"


class Seen:
    """What a browser was told of one agent: the hints that stand, and everything in its order."""

    def __init__(self, agent_id):
        self.agent_id = agent_id
        self.browser: Any = None
        self.hints = {}
        self.told = []
        self._news = asyncio.Event()

    def found(self, hint, ours, _path):
        if hint.agent_id == self.agent_id:
            self.hints[hint.skill_id] = hint
            self.told.append((hint, ours))
            self._news.set()

    def gone(self, key):
        if key[0] == self.agent_id:
            del self.hints[key[1]]
            self._news.set()

    async def until(self, is_so):
        async with asyncio.timeout(PATIENCE):
            while not is_so(self):
                self._news.clear()
                await self._news.wait()


@pytest.fixture
async def seen(agent_id):
    seen = Seen(agent_id)
    seen.browser = DnsSd(LOOPBACK, f"browser-{token_hex(6)}", seen.found, seen.gone)
    await seen.browser.start()
    assert seen.browser.note == ""
    yield seen
    await seen.browser.stop()


@pytest.fixture
async def publisher(agent_id):
    publisher = DnsSd(LOOPBACK, agent_id, lambda *_: None, lambda _: None)
    await publisher.start()
    yield publisher
    await publisher.stop()


@pytest.fixture
async def stranger():
    """The library itself, as another implementation uses it."""
    stranger = AsyncZeroconf(interfaces=LOOPBACK)
    await stranger.zeroconf.async_wait_for_start()
    yield stranger
    await stranger.async_close()


def offer(skill_id="skill-x", host="", **changes):
    return Offer(skill_id, "1.2.3", SkillType.TOOL, Endpoint(host, 8123), ("user-auth",), ("auth",))._replace(**changes)


async def publish_strangely(stranger, agent_id, text, *, label="odd", address="127.0.0.1", ttl=120):
    """Publish an instance whose TXT record is any bytes; return when it was announced for the last time."""
    name = f"{label} @ {agent_id}.{SERVICE_TYPES[0]}"
    info = AsyncServiceInfo(
        SERVICE_TYPES[0],
        name,
        port=9,
        properties=text,
        server=f"{agent_id}.local.",
        parsed_addresses=[address],
        host_ttl=ttl,
    )
    await (await stranger.async_register_service(info, cooperating_responders=True))


def names(publisher):
    """Return the full names of the instances that are published, as the library has them."""
    return {info.name for info in publisher._zeroconf.zeroconf.registry.async_get_service_infos()}


def txt(*strings):
    return b"".join(bytes((len(string),)) + string.encode() for string in strings)


async def test_a_skill_is_found_and_gone_with_the_goodbye(seen, publisher, agent_id):
    await publisher.publish([offer()])
    await seen.until(lambda seen: seen.hints)
    hint, ours = seen.told[0]
    assert (hint.agent_id, hint.skill_id, hint.version) == (agent_id, "skill-x", "1.2.3")
    assert (hint.capabilities, hint.scenes, hint.signature) == (("user-auth",), ("auth",), "")
    assert (hint.endpoint, ours) == (Endpoint("127.0.0.1", 8123), "127.0.0.1")
    await publisher.stop()
    await seen.until(lambda seen: not seen.hints)


@pytest.mark.spec("SDP-mdns-services")
async def test_both_service_types_have_the_agent_and_each_skill(publisher, agent_id):
    await publisher.publish([offer("skill-x"), offer("Skill.Y")])
    labels = {name.split(".")[0] for name in names(publisher)}
    assert len(labels) == 3
    assert {agent_id, f"skill-x @ {agent_id}"} < labels
    assert len(names(publisher)) == len(SERVICE_TYPES) * 3
    assert all(name.count(".") == SERVICE_TYPES[0].count(".") + 1 for name in names(publisher))


async def test_what_changes_is_told_and_what_is_withdrawn_is_gone(seen, publisher):
    await publisher.publish([offer("skill-x"), offer("skill-y")])
    await seen.until(lambda seen: len(seen.hints) == 2)
    await publisher.publish([offer("skill-x", version="2.0.0")], {"skill-x": HealthStatus.DEGRADED})
    await seen.until(lambda seen: seen.hints.keys() == {"skill-x"} and seen.hints["skill-x"].version == "2.0.0")
    await publisher.publish([])
    await seen.until(lambda seen: not seen.hints)
    assert names(publisher) == set()


async def test_what_was_there_before_is_found_by_who_comes_later(publisher, agent_id):
    await publisher.publish([offer(f"skill-{number}") for number in range(20)])
    seen = Seen(agent_id)
    late = DnsSd(LOOPBACK, f"late-{token_hex(6)}", seen.found, seen.gone)
    await late.start()
    try:
        await seen.until(lambda seen: len(seen.hints) == 20)
    finally:
        await late.stop()


@pytest.mark.spec("SDP-mdns-services")
async def test_a_name_that_is_taken_gets_a_number_and_the_skill_is_still_told(seen, stranger, publisher, agent_id):
    await publish_strangely(stranger, "somebody", txt("txtvers=1", "id=other/one"), label=f"skill-x @ {agent_id}")
    taken = AsyncServiceInfo(
        SERVICE_TYPES[0], f"{agent_id}.{SERVICE_TYPES[0]}", port=9, server="other.local.", parsed_addresses=LOOPBACK
    )
    await stranger.async_register_service(taken, cooperating_responders=True)
    await publisher.publish([offer()])
    assert f"{agent_id}.{SERVICE_TYPES[0]}" not in names(publisher)
    assert any(name.startswith("skill-x @ ") and name.endswith(f"-2.{SERVICE_TYPES[0]}") for name in names(publisher))
    await seen.until(lambda seen: seen.hints)


@pytest.mark.spec("SDP-mdns-services")
async def test_two_hundred_skills_are_published_and_the_others_counted(seen, publisher):
    await publisher.publish([offer(f"skill-{number}") for number in range(limits.LAN_MDNS_SKILLS + 5)])
    await seen.until(lambda seen: len(seen.hints) == limits.LAN_MDNS_SKILLS)
    assert publisher.counters["mdns left out"] == 5


@pytest.mark.parametrize("host", ["127.0.0.9", "printer.example"])
async def test_an_endpoint_that_others_cannot_reach_is_not_published(publisher, host):
    await publisher.publish([offer(host=host)])
    assert names(publisher) == set()
    assert publisher.counters["mdns no address"] > 0


async def test_an_address_outside_of_our_networks_is_no_hint(seen, stranger, publisher, agent_id):
    await publish_strangely(stranger, agent_id, txt("txtvers=1", f"id={agent_id}/far"), address="192.0.2.7")
    await publisher.publish([offer()])
    await seen.until(lambda seen: seen.hints)
    assert seen.hints.keys() == {"skill-x"}
    assert seen.browser.counters["mdns off link"] > 0


@pytest.mark.parametrize("text", [b"\xff", txt("txtvers=2", "id=a/b"), txt("id=;"), b"\x00" * 60, b"\x01a" * 800])
async def test_unreadable_records_are_counted_and_hinder_nobody(seen, stranger, publisher, agent_id, text):
    await publish_strangely(stranger, agent_id, text)
    await publisher.publish([offer()])
    await seen.until(lambda seen: seen.hints and seen.browser.counters["mdns unreadable"])
    assert seen.hints.keys() == {"skill-x"}


async def test_invented_names_take_no_turn_of_those_who_tell_everything(seen, stranger, publisher):
    for begin in range(0, 300, 30):
        out = DNSOutgoing(_RESPONSE)
        for number in range(begin, begin + 30):
            name = f"invented-{number}-{token_hex(4)}.{SERVICE_TYPES[0]}"
            out.add_answer_at_time(DNSPointer(SERVICE_TYPES[0], _PTR, _IN, 4500, name), 0)
        stranger.zeroconf.async_send(out)
    await publisher.publish([offer()])
    await seen.until(lambda seen: seen.hints)


async def test_more_names_than_are_followed_are_passed_over_while_all_are_of_use(
    seen, stranger, publisher, monkeypatch, agent_id
):
    await publisher.publish([offer()])
    await seen.until(lambda seen: seen.hints)
    followed = seen.browser._browser._types
    for useless in list(seen.browser._browser._useless):
        seen.browser._browser._forget(useless)
    monkeypatch.setattr(limits, "LAN_MDNS_INSTANCES", len(followed))
    await publish_strangely(stranger, agent_id, txt("txtvers=1", f"id={agent_id}/b"))
    await publisher.publish([offer(version="2.0.0")])
    await seen.until(lambda seen: seen.hints["skill-x"].version == "2.0.0")
    assert seen.browser.counters["mdns no room"] > 0
    assert seen.hints.keys() == {"skill-x"}


async def test_names_of_no_use_make_room_for_others(seen, stranger, publisher, monkeypatch):
    monkeypatch.setattr(limits, "LAN_MDNS_INSTANCES", 20)
    out = DNSOutgoing(_RESPONSE)
    for number in range(60):
        name = f"invented-{number}-{token_hex(4)}.{SERVICE_TYPES[0]}"
        out.add_answer_at_time(DNSPointer(SERVICE_TYPES[0], _PTR, _IN, 4500, name), 0)
    stranger.zeroconf.async_send(out)
    await publisher.publish([offer()])
    await seen.until(lambda seen: seen.hints)
    assert seen.browser.counters["mdns no room"] > 0
    assert len(seen.browser._browser._types) <= 20


async def test_who_crashed_and_comes_back_the_same_is_told_again(seen, agent_id, monkeypatch):
    monkeypatch.setattr(mdns_zeroconf, "_AGAIN", 0.0)
    first, second = (AsyncZeroconf(interfaces=LOOPBACK) for _ in range(2))
    try:
        await publish_strangely(first, agent_id, txt("txtvers=1", f"id={agent_id}/b"))
        await seen.until(lambda seen: seen.told)
        await first.zeroconf._async_close()  # without a goodbye
        told = len(seen.told)
        # Another lifetime, since the library takes equal packets within 0.8 seconds for one.
        await publish_strangely(second, agent_id, txt("txtvers=1", f"id={agent_id}/b"), ttl=100)
        await seen.until(lambda seen: len(seen.told) > told)
        assert seen.hints.keys() == {"b"}
    finally:
        await second.async_close()


async def test_of_two_instances_of_one_skill_one_may_go(seen, stranger, publisher, agent_id):
    await publish_strangely(stranger, agent_id, txt("txtvers=1", f"id={agent_id}/skill-x"))
    await seen.until(lambda seen: seen.hints)
    await publisher.publish([offer()])
    await seen.until(lambda seen: seen.hints["skill-x"].version == "1.2.3")
    await publisher.stop()
    await stranger.async_unregister_all_services()
    await seen.until(lambda seen: not seen.hints)


async def test_our_own_instances_are_no_news(agent_id):
    seen = Seen(agent_id)
    alone = DnsSd(LOOPBACK, agent_id, seen.found, seen.gone)
    watcher = Seen(agent_id)
    other = DnsSd(LOOPBACK, f"other-{token_hex(6)}", watcher.found, watcher.gone)
    await alone.start()
    await other.start()
    try:
        await alone.publish([offer()])
        await watcher.until(lambda seen: seen.hints)
        assert seen.told == []
    finally:
        await alone.stop()
        await other.stop()


async def test_a_port_that_cannot_be_had_turns_mdns_off_with_the_reason(monkeypatch, agent_id):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("zeroconf.asyncio.AsyncZeroconf", refuse)
    dnssd = DnsSd(LOOPBACK, agent_id, lambda *_: None, lambda _: None)
    await dnssd.start()
    await dnssd.stop()
    assert dnssd.note == "mDNS is off: Permission denied"


@pytest.mark.parametrize("way", ["goodbye", "makes room", "fails"])
async def test_a_turn_that_is_not_taken_to_its_end_is_free_again(seen, monkeypatch, way):
    """A name is forgotten before its question takes the first step, or the question fails."""
    monkeypatch.setattr(limits, "LAN_MDNS_RESOLVING", 1)
    browser = seen.browser._browser
    browser._waiting.clear()
    while browser._asking:
        await asyncio.wait(browser._asking.values())
    asked, is_second_asked = [], asyncio.Event()

    async def request(info, *_):
        asked.append(info.name)
        if info.name == second:
            is_second_asked.set()
        if way == "fails" and len(asked) == 1:
            raise RuntimeError("a fault of the library")
        return False

    monkeypatch.setattr(AsyncServiceInfo, "async_request", request)
    monkeypatch.setattr(browser._loop, "call_exception_handler", lambda _: None)
    first, second = (f"{word}-{token_hex(4)}.{SERVICE_TYPES[0]}" for word in ("first", "second"))
    browser._changed(None, SERVICE_TYPES[0], first, ServiceStateChange.Added)
    assert first in browser._asking
    if way == "goodbye":
        browser._changed(None, SERVICE_TYPES[0], first, ServiceStateChange.Removed)
    elif way == "makes room":
        monkeypatch.setattr(limits, "LAN_MDNS_INSTANCES", 1)
    browser._changed(None, SERVICE_TYPES[0], second, ServiceStateChange.Added)
    async with asyncio.timeout(PATIENCE):
        await is_second_asked.wait()
        while browser._asking:
            await asyncio.wait(browser._asking.values())
    assert asked.count(second) == 1
