"""Agents on loopback: found, asked, kept over a restart, and never without an answer to what goes wrong."""

import asyncio
import errno
import gc
import json
import socket
from contextlib import suppress
from secrets import token_hex
from typing import cast
from unittest.mock import Mock

import pytest
from tests.support.eventually import eventually_async
from tests.support.loopback_lan import accept_probes, given, own_lan

from skillwire import limits
from skillwire.adapters.lan import agent as agent_module
from skillwire.adapters.lan import sockets
from skillwire.adapters.lan.agent import LanAgent
from skillwire.adapters.lan.connection_secrets import SecretsClient
from skillwire.adapters.lan.link import Link
from skillwire.errors import FetchError, SourceLocation, TrustError, ValidationError
from skillwire.model.lan import REVOKED, REVOKED_FIX, LanChange
from skillwire.protocols.skill_discovery.credentials import ConnectionSecret
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, Outcome, SkillType
from skillwire.protocols.skill_discovery.node import Refused
from skillwire.protocols.skill_discovery.route_agent import Acknowledged, Offer
from skillwire.protocols.skill_discovery.settings import DiscoverySettings, LanSettings
from skillwire.wire.node import Peer

KEY = GroupKey(b"a secret that all of us share")
FIGURES = DiscoverySettings(patience=0.5, heartbeat_interval=0.3)


def offer(skill_id="skill-a", port=8080, host="", **facts):
    both = {"capabilities": ("user-auth",), "scenes": ("auth",)} | facts
    return Offer(skill_id, "1.0.0", SkillType.TOOL, Endpoint(host, port), **both)


@pytest.fixture
async def start():
    """Give what starts agents that hear each other, and nobody else."""
    lan, running = own_lan(), []

    async def started(name="", *, trust=None, keeps_state=False, **settings):
        chosen = {
            "agent_id": name or f"agent-{token_hex(4)}",
            "interfaces": ("127.0.0.1",),
            "group": lan.group,
            "port": lan.port,
            "mdns": False,
            "discovery": FIGURES,
        } | settings
        own = given(chosen["agent_id"], trust) if trust else None
        agent = LanAgent(LanSettings(**chosen), own=own, keeps_state=keeps_state)
        await agent.start()
        running.append(agent)
        return agent

    yield started
    for agent in running:
        await agent.stop()


def listed(agent):
    return {skill.skill_id: skill.status for skill in agent.snapshot().skills}


async def test_agents_find_what_the_others_offer_and_see_it_leave(start):
    first, second = await start(), await start()
    first.announce([offer(), offer("skill-b")])
    await eventually_async(lambda: listed(second) == {"skill-a": "HEALTHY", "skill-b": "HEALTHY"})
    assert {skill.endpoint for skill in second.snapshot().skills} == {"127.0.0.1:8080"}

    first.announce([offer("skill-b")])
    await eventually_async(lambda: listed(second) == {"skill-b": "HEALTHY"})
    first.report("skill-b", HealthStatus.MAINTENANCE, "new disks")
    await eventually_async(lambda: listed(second) == {"skill-b": "MAINTENANCE"})
    await first.stop()
    await eventually_async(lambda: listed(second) == {})


async def test_many_scenes_are_joined_as_fast_as_others_read_questions(start, caplog):
    caplog.set_level("DEBUG", "skillwire.lan.datagrams")
    scenes = {f"scene-{number}" for number in range(25)}
    await start()
    (await start()).announce([offer(scenes=tuple(sorted(scenes)))])

    def joins():
        sent = [(one.created, one.args[2].split(b";")) for one in caplog.records if one.args[0] == "sent"]
        return [(at, words[1].decode()) for at, words in sent if words[0].startswith(b"JOIN_SCENE:")]

    await eventually_async(lambda: {scene for _, scene in joins()} == scenes)
    times = [at for at, _ in joins()]
    assert max(sum(since <= at < since + 0.9 for at in times) for since in times) <= 20


@pytest.mark.parametrize("asked", [{"types": ("bogus",)}, {"capabilities": ("bad name",)}, {"scenes": ("b;d",)}])
async def test_what_cannot_be_asked_is_refused_and_nothing_is_left_of_it(start, asked):
    agent = await start()
    with pytest.raises(ValidationError, match=r"not an identifier|no type of skills"):
        await agent.discover(**asked)
    with pytest.raises(ValidationError, match="not an identifier"):
        await agent.request_scene("bad name")
    assert not agent._queries._searches
    assert not agent._queries._requests
    assert await agent.discover() == ()


async def test_scenes_that_no_datagram_can_name_keep_no_others_from_being_joined(start):
    first, second = await start(), await start(use_unverified=True)
    first.announce([offer("bad", scenes=("a scene",)), offer()])
    await eventually_async(lambda: listed(second) == {"skill-a": "HEALTHY"})
    assert first._counters["not announced: DATAGRAM_FIELD"]
    await eventually_async(lambda: [link._joined for link in first._links] == [{"auth"}])


@pytest.mark.spec("SDP-tellable")
async def test_a_skill_that_can_be_announced_no_more_is_taken_back_and_the_others_stay(start):
    first, second = await start(), await start()
    first.announce([offer("grows"), offer()])
    await eventually_async(lambda: listed(second) == {"skill-a": "HEALTHY", "grows": "HEALTHY"})
    first.announce([offer("grows", scenes=("s" * 119,)), offer()])
    await eventually_async(lambda: listed(second) == {"skill-a": "HEALTHY"})


async def test_an_offer_elsewhere_is_not_made_here(start):
    first = await start()
    first.announce([offer("here", host="127.0.0.1"), offer("any", host="::"), offer("there", host="127.0.0.9")])
    await eventually_async(lambda: len(listed(first)) == 2)
    await first.discover()
    assert listed(first) == {"here": "HEALTHY", "any": "HEALTHY"}


@pytest.fixture
def _listening(monkeypatch):
    accept_probes(monkeypatch)


@pytest.mark.usefixtures("_listening")
async def test_a_scene_is_joined_where_somebody_vouches_for_its_provider(start):
    provider = await start("agent-provider", trust=KEY)
    provider.announce([offer()])
    await eventually_async(lambda: listed(provider))
    asking = await start(trust=KEY)

    result = await asking.request_scene("auth", ["user-auth"])

    assert result.is_joined
    assert (result.skill_id, result.connection_info["endpoint"]) == ("skill-a", "127.0.0.1:8080")
    assert [(member.agent_id, member.role) for member in result.members] == [("agent-provider", "PRIMARY")]
    missing = await asking.request_scene("payments")
    assert not missing.is_joined
    assert missing.is_missing


@pytest.mark.usefixtures("_listening")
async def test_a_scene_of_somebody_whom_nobody_vouches_for_is_joined_by_who_says_so(start):
    provider = await start()
    provider.announce([offer()])
    await eventually_async(lambda: listed(provider))

    with pytest.raises(TrustError) as caught:
        await (await start()).request_scene("auth")
    assert caught.value.code == "DISC_004"
    assert (await (await start(use_unverified=True)).request_scene("auth")).is_joined


@pytest.mark.usefixtures("_listening")
async def test_no_key_is_asked_of_somebody_whom_nobody_vouches_for_unless_each_question_says_so(start, monkeypatch):
    asked = []

    async def ask(_, skill, scene, **__):
        asked.append((skill.agent_id, scene))
        return ConnectionSecret("sw_key", 2e9)

    monkeypatch.setattr(SecretsClient, "ask_provider", ask)
    provider, careful, careless = await start("agent-provider"), await start(), await start(use_unverified=True)
    provider.announce([offer()])
    await eventually_async(lambda: listed(careful) and listed(careless))

    for asking, says in ((careful, {}), (careful, {"use_unverified": False}), (careless, {"use_unverified": False})):
        with pytest.raises(TrustError) as caught:
            await asking.request_scene("auth", **says)
        assert caught.value.place == SourceLocation("127.0.0.1:8080")
    assert asked == []
    result = await careful.request_scene("auth", use_unverified=True)
    assert result.connection_info["apiKey"] == "sw_key"
    assert asked == [("agent-provider", "auth")]


@pytest.fixture
async def door():
    """Give the port of a server that tells of a port for keys where nobody listens, and that port."""
    with socket.socket() as dead:  # nobody else has it, and it takes no connection
        dead.bind(("127.0.0.1", 0))
        document = json.dumps({"agentId": "agent-provider", "tlsPort": dead.getsockname()[1]}).encode()

        async def tell(reader, writer):
            with suppress(asyncio.IncompleteReadError):  # a check of health only connects
                line = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0]
                assert line == b"GET /.well-known/skill-discovery HTTP/1.1"
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                writer.write(head % len(document) + document)
            writer.close()

        async with await asyncio.start_server(tell, "127.0.0.1") as server:
            yield server.sockets[0].getsockname()[1], dead.getsockname()[1]


async def test_a_scene_whose_key_cannot_be_fetched_is_joined_and_says_so(start, door):
    port, dead = door
    provider, asking = await start("agent-provider"), await start(use_unverified=True)
    provider.announce([offer(port=port)])
    await eventually_async(lambda: listed(asking))
    result = await asking.request_scene("auth")
    assert result.is_joined
    assert "apiKey" not in result.connection_info
    assert result.no_key is not None
    assert (result.no_key.code, str(result.no_key.place)) == ("DISC_005", f"127.0.0.1:{dead}")
    assert f"no key for the scene auth: no TLS with agent-provider on port {dead}: " in result.no_key.message
    assert "an earlier key is valid until it expires" in result.no_key.fix


async def test_what_was_heard_before_a_restart_is_unknown_after_it(start):
    provider, listener = await start(), await start("agent-listener", keeps_state=True)
    provider.announce([offer()])
    await eventually_async(lambda: listed(listener) == {"skill-a": "HEALTHY"})
    await listener.stop()
    provider._links.end()  # no goodbye: its power failed

    again = await start("agent-listener", keeps_state=True)
    assert listed(again) == {"skill-a": "UNKNOWN"}


async def test_without_an_interface_there_is_no_local_network(start):
    with pytest.raises(FetchError) as caught:
        await start(interfaces=("eth-nowhere",))
    assert caught.value.code == "LAN_UNAVAILABLE"
    assert "eth-nowhere" in caught.value.message
    assert "--interface" in caught.value.diagnostics().fix


async def test_a_network_that_fails_is_counted_and_looked_at_again(start, monkeypatch):
    first, second = await start(), await start()
    sender = first._links.open_links()[0].driver.sockets

    def fail(*_):
        raise OSError(errno.ENODEV, "No such device")

    with monkeypatch.context() as failing:
        failing.setattr(sender, "_sender", type("Failing", (), {"sendto": fail})())
        first.announce([offer()])
    assert first.counters["send: No such device"]

    await eventually_async(lambda: listed(second) == {"skill-a": "HEALTHY"})
    assert first._links.open_links()[0].driver.sockets is not sender


async def test_who_listens_is_told_until_the_agent_stops(start):
    first = await start()
    changes = first.listen()
    first.announce([offer()])
    await eventually_async(lambda: listed(first))
    await first.stop()
    kinds = [change.kind async for change in changes]
    assert kinds[0] == "registered"
    assert "left" in kinds


GROUP = "239.255.83.71"
OFFER = Offer("skill-a", "1.0.0", SkillType.TOOL, Endpoint("", 8080), ("user-auth",), ("auth",))


def agent_at(**settings):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    place = {"group": GROUP, "port": port, "interfaces": ("127.0.0.1",), "agent_id": "agent-a"}
    return LanAgent(LanSettings(**{"mdns": False} | place | settings), own=given("agent-a", KEY), keeps_state=False)


def timers():
    """Return what the loop is about to call of ours."""
    loop = asyncio.get_running_loop()
    handles = [handle for handle in loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]  # of asyncio's own loops
    return [handle for handle in handles if "skillwire" in repr(handle)]


async def test_an_agent_that_cannot_look_at_interfaces_leaves_no_timer(monkeypatch):
    def fail():
        raise FetchError("LAN_UNAVAILABLE", "a library is missing")

    monkeypatch.setattr(sockets, "present", fail)
    with pytest.raises(FetchError):
        await agent_at().start()
    assert timers() == []


async def test_an_agent_that_fails_after_its_links_are_open_closes_them(monkeypatch):
    opened = []

    def fail(_, __, links):
        opened.extend(links.open_links())
        raise RuntimeError

    monkeypatch.setattr(agent_module, "Hints", fail)
    agent = agent_at(mdns=True)
    agent.announce([OFFER])
    with pytest.raises(RuntimeError):
        await agent.start()
    [link] = opened
    assert not link.is_open
    assert timers() == []
    await agent.stop()  # as one that has never begun


async def test_why_a_link_cannot_be_opened_is_told_with_its_name_and_counted_without(monkeypatch):
    def fail(*_):
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr("skillwire.adapters.lan.sockets.LinkSockets", fail)
    agent = agent_at()
    with pytest.raises(FetchError) as caught:
        await agent.start()
    assert "open lo/4: EADDRINUSE" in caught.value.message
    assert agent.counters == {"open: EADDRINUSE": 1}


async def test_what_is_counted_does_not_become_less_when_a_link_is_forgotten(monkeypatch):
    agent = agent_at(discovery=DiscoverySettings(stale_timeout=-1.0))
    await agent.start()
    try:
        assert agent._links is not None
        [link] = agent._links
        link.driver.received = 7
        link.node.ingress.stopped["forged"] = 2
        monkeypatch.setattr(sockets, "present", list)
        agent._links.look()  # which closes it
        agent._links.look()  # and forgets it
        assert list(agent._links) == []
        assert agent.received == 7
        assert agent.counters["forged"] == 2
    finally:
        await agent.stop()


async def test_an_interface_that_goes_and_comes_is_told_once_each(monkeypatch, caplog):
    caplog.set_level("INFO", "skillwire.lan")
    agent = agent_at()
    await agent.start()
    try:
        assert agent._links is not None
        assert "interface" not in caplog.text
        with monkeypatch.context() as unplugged:
            unplugged.setattr(sockets, "present", list)
            agent._links.look()
            agent._links.look()
        agent._links.look()
        agent._links.look()
        told = [message for message in caplog.messages if "interface" in message]
        assert told == ["lo/4: the interface is gone", "lo/4: the interface is there again"]
    finally:
        await agent.stop()


async def test_a_link_that_is_used_no_more_is_told_in_the_right_words(monkeypatch, caplog):
    caplog.set_level("INFO", "skillwire.lan")
    agent = agent_at()
    await agent.start()
    try:
        assert agent._links is not None
        [link] = agent._links
        loopback = link.address
        for address in (loopback, loopback._replace(host="192.0.2.1")):
            with monkeypatch.context() as elsewhere:
                link.address = address
                elsewhere.setattr("skillwire.adapters.lan.link.links", lambda *_, **__: [])
                agent._links.look()
            agent._links.look()
        told = [message for message in caplog.messages if "again" not in message]
        assert told == [
            "lo/4: not needed any more, there is a network",
            "lo/4: its address of IPv4 is gone, or not used any more",
        ]
        caplog.clear()
        monkeypatch.setattr(
            "skillwire.adapters.lan.link.links", lambda *_, **__: [loopback, loopback._replace(interface="lo2")]
        )
        agent._links.look()
        assert "lo2/4: takes part from now on, at 127.0.0.1" in caplog.messages
    finally:
        await agent.stop()


def test_each_listener_is_told_what_happens_from_then_on():
    async def main():
        agent = agent_at()
        agent._put(LanChange("left", 1.0))
        first, second = agent.listen(), agent.listen()
        agent._put(LanChange("status", 2.0))
        agent._put(None)
        return [[change async for change in one] for one in (first, second)]

    assert asyncio.run(main()) == [[LanChange("status", 2.0)]] * 2


def test_who_waits_is_woken():
    async def main():
        agent = agent_at()
        waiting = asyncio.ensure_future(anext(aiter(agent.listen())))
        await asyncio.sleep(0)
        agent._put(LanChange("status", 2.0))
        async with asyncio.timeout(10):
            return await waiting

    assert asyncio.run(main()).kind == "status"


def test_who_does_not_keep_up_is_told_so_once_and_costs_no_memory():
    async def main():
        agent = agent_at()
        slow = agent.listen()
        for number in range(10_000):
            agent._put(LanChange("status", float(number)))
        agent._put(None)
        return [change async for change in slow]

    found = asyncio.run(main())
    assert len(found) < 5_000
    assert found[0].kind == "missed"
    assert [change.kind for change in found].count("missed") == 1
    assert found[-1] == LanChange("status", 9_999.0)


def test_who_is_forgotten_elsewhere_is_told_nothing():
    agent = agent_at()
    agent.listen()
    gc.collect()
    assert not agent._listeners


def test_a_registration_that_is_refused_here_is_reported_with_address_name_and_reason():
    reported: list[TrustError] = []
    settings = LanSettings(agent_id="agent-001")
    agent = LanAgent(settings, own=given(settings.agent_id, KEY), keeps_state=False, on_trouble=reported.append)
    by, said = Peer("192.0.2.1", 54321), "not a version: '1\x1b[2J'"
    refused = [
        Refused(by, "agent-2", "skill-a", Outcome.INVALID, said),
        Refused(by, "", "", Outcome.INVALID, said),
    ]
    agent._router.take(cast("Link", None), refused)
    assert {error.code for error in reported} == {"LAN_REFUSED"}
    assert [error.message for error in reported] == [
        "192.0.2.1: the registration of skill-a by agent-2 is refused: INVALID, not a version: '1\\x1b[2J'",
        "192.0.2.1: the registration of a skill by an agent is refused: INVALID, not a version: '1\\x1b[2J'",
    ]


def test_the_refusal_of_another_agents_revoked_key_has_its_own_fix():
    told: list[TrustError] = []
    settings = LanSettings(agent_id="agent-001")
    agent = LanAgent(settings, own=given(settings.agent_id, KEY), keeps_state=False, on_trouble=told.append)
    why = f"the certificate is refused: {REVOKED}"
    refused = Refused(Peer("192.0.2.1", 54321), "agent-2", "skill-a", Outcome.UNAUTHORIZED, why)
    agent._router.take(cast("Link", None), [refused])
    agent._router.take(cast("Link", None), [refused._replace(status=Outcome.INVALID)])  # quoted of a malformed one
    assert [error.fix for error in told] == [REVOKED_FIX.format(agent="agent-2"), None]
    assert "key new --replace --agent ID" in str(told[1].diagnostics().fix), "a machine may have several agents"


@pytest.mark.parametrize(
    ("status", "codes"),
    [
        (Outcome.SUCCESS, []),
        (Outcome.DUPLICATE, []),
        (Outcome.INVALID, ["DISC_003"]),
        (Outcome.UNAUTHORIZED, ["DISC_003"]),
    ],
)
def test_a_refusal_is_told(status, codes):
    told: list[TrustError] = []
    settings = LanSettings(agent_id="agent-001")
    agent = LanAgent(settings, own=given(settings.agent_id, KEY), keeps_state=False, on_trouble=told.append)
    agent._router.take(
        Mock(spec=Link), [Acknowledged("skill-a", Peer("192.0.2.1", 54321), status, "the clock\x1b[2J is wrong")]
    )
    assert [error.code for error in told] == codes
    assert all("192.0.2.1 does not register skill-a" in error.message for error in told)
    assert not any("\x1b" in error.message for error in told)


def test_a_registration_after_a_refusal_is_told_once():
    told: list[tuple[str, str, str]] = []
    settings = LanSettings(agent_id="agent-001")
    own = given(settings.agent_id, KEY)
    agent = LanAgent(settings, own=own, keeps_state=False, on_recovery=lambda *of: told.append(of))

    def answer(host, status):
        agent._router.take(Mock(spec=Link), [Acknowledged("skill-a", Peer(host, 54321), status, "")])

    answer("192.0.2.1", Outcome.SUCCESS)
    answer("192.0.2.1", Outcome.UNAUTHORIZED)
    answer("192.0.2.2", Outcome.SUCCESS)
    assert told == []
    answer("192.0.2.1", Outcome.SUCCESS)
    answer("192.0.2.1", Outcome.DUPLICATE)
    assert told == [("192.0.2.1", "skill-a", "192.0.2.1 does not register skill-a: UNAUTHORIZED")]


def test_the_end_of_a_refusal_is_told_for_every_skill_of_an_agent_that_offers_many():
    told: list[tuple[str, ...]] = []
    settings = LanSettings(agent_id="agent-001")
    own = given(settings.agent_id, KEY)
    agent = LanAgent(settings, own=own, keeps_state=False, on_recovery=lambda *of: told.append(of))
    skills = [f"skill-{number}" for number in range(limits.LAN_SKILLS_PER_AGENT)]
    for status in (Outcome.UNAUTHORIZED, Outcome.SUCCESS):
        events = [Acknowledged(skill, Peer("192.0.2.1", 54321), status, "") for skill in skills]
        agent._router.take(Mock(spec=Link), events)
    assert [skill for _, skill, _ in told] == skills


def test_a_refusal_that_any_host_can_forge_does_not_advise_to_replace_the_key():
    told: list[TrustError] = []
    settings = LanSettings(agent_id="agent-001")
    agent = LanAgent(settings, own=given(settings.agent_id, KEY), keeps_state=False, on_trouble=told.append)
    why = f"no certificate for this skill: {REVOKED}"
    agent._router.take(Mock(spec=Link), [Acknowledged("skill-a", Peer("192.0.2.1", 54321), Outcome.UNAUTHORIZED, why)])
    (error,) = told
    assert error.fix is not None
    assert "skillwire doctor" in error.fix
    assert "key new" not in error.fix
