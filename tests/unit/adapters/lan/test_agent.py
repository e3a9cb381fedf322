"""Agents on loopback: found, asked, kept over a restart, and never without an answer to what goes wrong."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from secrets import token_hex

import pytest
from tests.support.loopback_lan import own_lan

from skillwire.adapters.lan.agent import LanAgent
from skillwire.adapters.lan.secrets_client import SecretsClient
from skillwire.errors import FetchError, Place, TrustError, ValidationError
from skillwire.protocols.skill_discovery.configuration import LanSettings
from skillwire.protocols.skill_discovery.connection_secrets import ConnectionSecret
from skillwire.protocols.skill_discovery.identity import GroupKey
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.protocols.skill_discovery.settings import DiscoverySettings

PATIENCE = 20.0
KEY = GroupKey(b"a secret that all of us share")
FIGURES = DiscoverySettings(patience=0.5, heartbeat_interval=0.3)


def offer(skill_id="skill-a", port=8080, host="", **facts):
    both = {"capabilities": ("user-auth",), "scenes": ("auth",)} | facts
    return Offer(skill_id, "1.0.0", SkillType.TOOL, Endpoint(host, port), **both)


async def until(condition):
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - some of it is told by no event
            await asyncio.sleep(0.02)


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
            "figures": FIGURES,
        } | settings
        agent = LanAgent(LanSettings(**chosen), identity=trust, authority=trust, keeps_state=keeps_state)
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
    await until(lambda: listed(second) == {"skill-a": "HEALTHY", "skill-b": "HEALTHY"})
    assert {skill.endpoint for skill in second.snapshot().skills} == {"127.0.0.1:8080"}

    first.announce([offer("skill-b")])
    await until(lambda: listed(second) == {"skill-b": "HEALTHY"})
    first.report("skill-b", HealthStatus.MAINTENANCE, "new disks")
    await until(lambda: listed(second) == {"skill-b": "MAINTENANCE"})
    await first.stop()
    await until(lambda: listed(second) == {})


async def test_who_comes_later_finds_by_asking_what_was_announced_before(start):
    first = await start("agent-first")
    first.announce([offer(), offer("skill-b", capabilities=("org-data-read",))])
    await until(lambda: len(listed(first)) == 2)
    late = await start()

    found = await late.discover(capabilities=["user-auth"])

    assert [(skill.agent_id, skill.skill_id, skill.status) for skill in found] == [
        ("agent-first", "skill-a", "HEALTHY")
    ]


async def test_many_scenes_are_joined_as_fast_as_others_read_questions(start, caplog):
    caplog.set_level("DEBUG", "skillwire.lan.datagrams")
    scenes = {f"scene-{number}" for number in range(25)}
    (await start()).announce([offer(scenes=tuple(sorted(scenes)))])

    def joins():
        sent = [(one.created, one.args[2].split(b";")) for one in caplog.records if one.args[0] == "sent"]
        return [(at, words[1].decode()) for at, words in sent if words[0].startswith(b"JOIN_SCENE:")]

    await until(lambda: {scene for _, scene in joins()} == scenes)
    times = [at for at, _ in joins()]
    assert max(sum(since <= at < since + 0.9 for at in times) for since in times) <= 20


@pytest.mark.parametrize("asked", [{"types": ("bogus",)}, {"capabilities": ("bad name",)}, {"scenes": ("b;d",)}])
async def test_what_cannot_be_asked_is_refused_and_nothing_is_left_of_it(start, asked):
    agent = await start()
    with pytest.raises(ValidationError, match=r"not an identifier|no type of skills"):
        await agent.discover(**asked)
    with pytest.raises(ValidationError, match="not an identifier"):
        await agent.request_scene("bad name")
    assert not agent._questions._searches
    assert not agent._questions._wishes
    assert await agent.discover() == ()


async def test_scenes_that_no_datagram_can_name_keep_no_others_from_being_joined(start):
    first, second = await start(), await start(use_unverified=True)
    first.announce([offer("bad", scenes=("a scene",)), offer()])
    await until(lambda: listed(second) == {"skill-a": "HEALTHY"})
    assert first._counters["not announced: DATAGRAM_FIELD"]
    await until(lambda: [link._joined for link in first._links] == [{"auth"}])


@pytest.mark.spec("SDP-tellable")
async def test_a_skill_that_can_be_announced_no_more_is_taken_back_and_the_others_stay(start):
    first, second = await start(), await start()
    first.announce([offer("grows"), offer()])
    await until(lambda: listed(second) == {"skill-a": "HEALTHY", "grows": "HEALTHY"})
    first.announce([offer("grows", scenes=("s" * 119,)), offer()])
    await until(lambda: listed(second) == {"skill-a": "HEALTHY"})


async def test_an_offer_elsewhere_is_not_made_here(start):
    first = await start()
    first.announce([offer("here", host="127.0.0.1"), offer("any", host="::"), offer("there", host="127.0.0.9")])
    await until(lambda: len(listed(first)) == 2)
    await first.discover()
    assert listed(first) == {"here": "HEALTHY", "any": "HEALTHY"}


async def test_a_scene_is_joined_where_somebody_vouches_for_its_provider(start):
    provider = await start("agent-provider", trust=KEY)
    provider.announce([offer()])
    await until(lambda: listed(provider))
    asking = await start(trust=KEY)

    result = await asking.request_scene("auth", ["user-auth"])

    assert result.is_joined
    assert (result.skill_id, result.connection_info["endpoint"]) == ("skill-a", "127.0.0.1:8080")
    assert [(member.agent_id, member.role) for member in result.members] == [("agent-provider", "PRIMARY")]
    missing = await asking.request_scene("payments")
    assert not missing.is_joined
    assert missing.is_missing


async def test_a_scene_of_somebody_whom_nobody_vouches_for_is_joined_by_who_says_so(start):
    provider = await start()
    provider.announce([offer()])
    await until(lambda: listed(provider))

    with pytest.raises(TrustError) as caught:
        await (await start()).request_scene("auth")
    assert caught.value.code == "DISC_004"
    assert (await (await start(use_unverified=True)).request_scene("auth")).is_joined


async def test_no_key_is_asked_of_somebody_whom_nobody_vouches_for_unless_each_question_says_so(start, monkeypatch):
    asked = []

    async def ask(_, skill, scene, **__):
        asked.append((skill.agent_id, scene))
        return ConnectionSecret("sw_key", 2e9)

    monkeypatch.setattr(SecretsClient, "ask_provider", ask)
    provider, careful, careless = await start("agent-provider"), await start(), await start(use_unverified=True)
    provider.announce([offer()])
    await until(lambda: listed(careful) and listed(careless))

    for asking, says in ((careful, {}), (careful, {"use_unverified": False}), (careless, {"use_unverified": False})):
        with pytest.raises(TrustError) as caught:
            await asking.request_scene("auth", **says)
        assert caught.value.place == Place("127.0.0.1:8080")
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
    await until(lambda: listed(asking))
    result = await asking.request_scene("auth")
    assert result.is_joined
    assert "apiKey" not in result.connection_info
    assert result.no_key is not None
    assert (result.no_key.code, str(result.no_key.place)) == ("DISC_005", f"127.0.0.1:{dead}")
    assert f"no key for the scene auth: no TLS with agent-provider on port {dead}: " in result.no_key.message
    assert "a key that you were given before is good until it ends" in result.no_key.fix


async def test_what_was_heard_before_a_restart_is_unknown_after_it(start):
    provider, listener = await start(), await start("agent-listener", keeps_state=True)
    provider.announce([offer()])
    await until(lambda: listed(listener) == {"skill-a": "HEALTHY"})
    await listener.stop()
    provider._links.end()  # no goodbye: its power failed

    again = await start("agent-listener", keeps_state=True)
    assert listed(again) == {"skill-a": "UNKNOWN"}


async def test_a_replayed_datagram_is_refused_after_a_restart_too(start):
    provider, listener = await start(), await start("agent-listener", keeps_state=True)
    provider.announce([offer()])
    await until(lambda: listed(listener) == {"skill-a": "HEALTHY"})
    [link] = listener._links
    replay = link.node.gate.replay
    before = {stream: replay.newest_of(stream) for stream in replay._newest}
    await listener.stop()

    again = await start("agent-listener", keeps_state=True)
    [link] = again._links
    replay = link.node.gate.replay
    assert before
    assert all(replay.newest_of(stream) >= at for stream, at in before.items())


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

    await until(lambda: listed(second) == {"skill-a": "HEALTHY"})
    assert first._links.open_links()[0].driver.sockets is not sender


async def test_who_listens_is_told_until_the_agent_stops(start):
    first = await start()
    changes = first.listen()
    first.announce([offer()])
    await until(lambda: listed(first))
    await first.stop()
    kinds = [change.kind async for change in changes]
    assert kinds[0] == "registered"
    assert "left" in kinds
