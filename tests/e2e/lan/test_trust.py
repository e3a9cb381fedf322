"""Certificates on a real network, on loopback: who is verified, who is refused, and who is not any more."""

import asyncio
import dataclasses
import time
from datetime import UTC, datetime
from secrets import token_hex

import pytest
from tests.support.authorities import World
from tests.support.eventually import PATIENCE, eventually_async
from tests.support.loopback_lan import accept_probes, given, own_lan

from skillwire.adapters.files.authority import AuthorityFolder
from skillwire.adapters.lan import connection_secrets
from skillwire.adapters.lan.agent import LanAgent
from skillwire.adapters.lan.connection_secrets import SecretsServer
from skillwire.protocols.skill_discovery.credentials import ConnectionSecret
from skillwire.protocols.skill_discovery.messages import Endpoint, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.protocols.skill_discovery.settings import DiscoverySettings, LanSettings
from skillwire.trust.ecdsa import new_key, self_signed

FIGURES = DiscoverySettings(heartbeat_interval=0.5, timeout=3.0, announce_interval=2.0)


@pytest.fixture
def settings():
    """Give settings of agents on loopback, on a network that nobody else has."""
    return LanSettings(interfaces=("127.0.0.1",), mdns=False, **own_lan()._asdict(), discovery=FIGURES)


@pytest.fixture
async def start(settings, tmp_path, monkeypatch):
    """Give what starts agents, each with a home of its own; they are stopped afterwards."""
    started = []

    async def start(name, *skills, identity=None, authority=None, host="", on_trouble=lambda _: None, **changes):
        monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / name))
        own = dataclasses.replace(settings, agent_id=name, **changes)
        by = given(name, identity, authority) if identity else None
        agent = LanAgent(own, own=by, keeps_state=False, on_trouble=on_trouble)
        agent.announce(offer(skill, host) for skill in skills)
        await agent.start()
        started.append(agent)
        return agent

    yield start
    await asyncio.gather(*(agent.stop() for agent in started))


def offer(skill, host=""):
    return Offer(skill, "1.0.0", SkillType.TOOL, Endpoint(host, 8080), ("user-auth",), ("auth",))


def _same(one, other):
    return one.read_bytes() == other.read_bytes()


def verified(agent):
    """Return what an agent lists: skill → whether somebody vouches for it."""
    return {skill.skill_id: skill.is_verified for skill in agent.snapshot().skills}


async def until(condition, what):
    await eventually_async(condition, what=what, patience=PATIENCE)


@pytest.mark.spec("SDP-certificate-chain")
async def test_who_is_certified_is_verified_and_who_is_not_is_listed_all_the_same(start, tmp_path):
    folder = AuthorityFolder.create(tmp_path / "authority", "Test", time.time())
    trust = {"roots": (str(folder.root_file),), "intermediates": (str(folder.center_file),)}
    registry = await start("registry", **trust)
    provider = await start("agent-001", "skill-a", renew_from=str(folder.folder))  # which certifies it at once
    await start("agent-002", "skill-b", **trust)
    await until(lambda: verified(registry) == {"skill-a": True, "skill-b": False}, "not all are listed")
    await until(lambda: verified(provider) == {"skill-a": True, "skill-b": False}, "the provider sees it otherwise")
    assert [row.agents for row in folder.book().rows[1:]] == [("agent-001",)]


@pytest.mark.spec("SDP-revocation")
async def test_who_is_revoked_is_forgotten_and_refused_at_once_without_a_restart(start, tmp_path):
    folder = AuthorityFolder.create(tmp_path / "authority", "Test", time.time())
    files = {
        "roots": (str(folder.root_file),),
        "intermediates": (str(folder.center_file),),
        "revocations": (str(folder.revocations_file),),
    }
    registry = await start("registry", **files)
    for name, skill in (("agent-001", "skill-a"), ("agent-002", "skill-b")):
        await start(name, skill, renew_from=str(folder.folder))
    await until(lambda: verified(registry) == {"skill-a": True, "skill-b": True}, "not all are listed")

    folder.revoke("agent-001", time.time())

    await until(lambda: verified(registry) == {"skill-b": True}, "the revoked one is still listed")
    await until(lambda: registry.counters["certificate"] > 0, "it was not refused when it came again")
    assert verified(registry) == {"skill-b": True}
    assert _same(registry.trust.keys.revocations_file, folder.revocations_file)
    await registry.stop()
    anew = await start("registry", **{**files, "revocations": ()})  # its home is the same
    await until(lambda: verified(anew) == {"skill-b": True}, "what was kept counts after a restart")


def _own(name, key, world):
    return self_signed(name, key, datetime.fromtimestamp(world.now, UTC))


async def test_a_member_of_a_scene_is_handed_a_key_that_nobody_else_could_read(start):
    """Between two agents and both ends of TLS; the door that tells the port is a server's, and has tests there."""
    world, key = World(), f"sw_{token_hex(8)}"
    identity = world.identity("agent-001")
    asked = []

    async def give(request, _):
        asked.append(request)
        return ConnectionSecret(key, time.time() + 3600)

    doors = SecretsServer(identity, world.authority(), give)
    port = await doors.start("127.0.0.1")

    async def find_port(_):
        return port

    patch = pytest.MonkeyPatch()
    patch.setattr(connection_secrets, "find_port", find_port)
    accept_probes(patch)
    try:
        await start("agent-001", "skill-a", identity=identity, authority=world.authority())
        member = await start("agent-002", identity=world.identity("agent-002"), authority=world.authority())
        await until(lambda: verified(member) == {"skill-a": True}, "the provider is not listed")
        result = await member.request_scene("auth")
        assert result.is_joined
        assert result.connection_info["apiKey"] == key
        assert str(result.connection_info["expiresAt"]).endswith("Z")
        assert [(one.scene, one.skill_id, one.agent_id) for one in asked] == [("auth", "skill-a", "agent-002")]
    finally:
        patch.undo()
        await doors.stop()


@pytest.mark.parametrize("is_same_key", [True, False])
async def test_of_who_nobody_certified_a_key_comes_from_the_one_that_has_registered(start, *, is_same_key, monkeypatch):
    world = World()
    identity = _own("agent-001", new_key(), world)
    other = identity if is_same_key else _own("agent-001", new_key(), world)  # who got between, with the same name
    asked = []

    async def give(request, _):
        asked.append(request)
        return ConnectionSecret("sw_key", time.time() + 3600)

    doors = SecretsServer(other, world.authority(), give, use_unverified=True)
    port = await doors.start("127.0.0.1")

    async def find_port(_):
        return port

    monkeypatch.setattr(connection_secrets, "find_port", find_port)
    accept_probes(monkeypatch)
    try:
        await start("agent-001", "skill-a", identity=identity, authority=world.authority())
        member = await start("agent-002", identity=world.identity("agent-002"), authority=world.authority())
        await until(lambda: verified(member) == {"skill-a": False}, "the provider is not listed")
        result = await member.request_scene("auth", use_unverified=True)
        assert result.is_joined
        assert ("apiKey" in result.connection_info, len(asked)) == (is_same_key, int(is_same_key))
    finally:
        await doors.stop()
