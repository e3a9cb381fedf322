"""Certificates on a real network, on loopback: who is verified, who is refused, and who is not any more."""

import asyncio
import dataclasses
import socket
import struct
import time
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.authorities import World
from tests.support.certificates import serial
from tests.support.eventually import PATIENCE, eventually_async
from tests.support.loopback_lan import accept_probes, own_lan

from skillwire.adapters.files.authority import AuthorityFolder
from skillwire.adapters.lan import connection_secrets
from skillwire.adapters.lan.agent import LanAgent
from skillwire.adapters.lan.connection_secrets import SecretsServer
from skillwire.protocols.skill_discovery.connection_secrets import ConnectionSecret
from skillwire.protocols.skill_discovery.messages import Endpoint, SkillType
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.protocols.skill_discovery.settings import DiscoverySettings, LanSettings
from skillwire.trust.authority import CertificateAuthority
from skillwire.trust.certificates import RequestedNames
from skillwire.trust.ecdsa import EcdsaIdentity, new_key, self_signed

DAY = 86_400.0
FIGURES = DiscoverySettings(heartbeat_interval=0.5, timeout=3.0, announce_interval=2.0)
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def settings():
    """Give settings of agents on loopback, on a network that nobody else has."""
    return LanSettings(interfaces=("127.0.0.1",), mdns=False, **own_lan()._asdict(), figures=FIGURES)


@pytest.fixture
async def start(settings, tmp_path, monkeypatch):
    """Give what starts agents, each with a home of its own; they are stopped afterwards."""
    started = []

    async def start(name, *skills, identity=None, authority=None, host="", on_trouble=lambda _: None, **changes):
        monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / name))
        own = dataclasses.replace(settings, agent_id=name, **changes)
        agent = LanAgent(own, identity=identity, authority=authority, keeps_state=False, on_trouble=on_trouble)
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


def _revoked(world):
    identity = world.identity("agent-666")
    world.revocations.take(world.revoke(serial(identity)), world.now)
    return identity


def _by_a_leaf(world):
    holder, key = world.identity("agent-001"), new_key()
    below = CertificateAuthority(holder.key, holder.certificate)
    return EcdsaIdentity(key, below.issue(RequestedNames(("agent-666",)), key.public_key(), world.now))


#: Who wants to be taken for agent-666, certified.
HOSTILE = {
    "expired": lambda world: world.identity("agent-666", days=1, at=world.now - 3 * DAY),
    "revoked": _revoked,
    "other root": lambda _: World().identity("agent-666"),
    "for another agent": lambda world: world.identity("agent-001"),
    "certificate without its key": lambda world: EcdsaIdentity(new_key(), world.identity("agent-666").certificate),
    "own key under another name": lambda world: _own("agent-001", new_key(), world),
    "by a leaf": _by_a_leaf,
    "other curve": lambda world: _own("agent-666", ec.generate_private_key(ec.SECP256K1()), world),
}


def _own(name, key, world):
    return self_signed(name, key, datetime.fromtimestamp(world.now, UTC))


@pytest.mark.spec("SDP-certificate-chain")
@pytest.mark.parametrize("flaw", HOSTILE)
async def test_a_registration_by_what_is_no_good_is_refused(start, flaw):
    world = World(time.time() - 30 * DAY)
    world.now = time.time()
    registry = await start("registry", identity=world.identity("registry"), authority=world.authority())
    honest = world.identity("agent-002")
    await start("agent-002", "skill-b", identity=honest, authority=world.authority())
    await start("agent-666", "skill-x", identity=HOSTILE[flaw](world), authority=world.authority())

    def is_refused():
        counters = registry.counters
        return counters["certificate"] + counters["forged"] > 0

    await until(is_refused, "it was not refused")
    await until(lambda: verified(registry) == {"skill-b": True}, "the honest one is not listed, or the other is")


async def test_an_endpoint_of_somebody_else_is_refused_unless_it_is_certified(start):
    world = World()
    registry = await start("registry", identity=world.identity("registry"), authority=world.authority())
    thief = world.identity("agent-001")
    told: list[Any] = []
    place = {"authority": world.authority(), "host": "192.0.2.7", "on_trouble": told.append}
    await start("agent-001", "skill-a", identity=thief, **place)
    allowed = world.identity("agent-002", hosts=["192.0.2.8"])
    await start("agent-002", "skill-b", identity=allowed, authority=world.authority(), host="192.0.2.8")
    await until(lambda: verified(registry) == {"skill-b": True}, "who is certified for the host is not listed")
    await until(lambda: told, "the other one was not told no")
    assert {error.code for error in told} == {"DISC_003"}
    assert verified(registry) == {"skill-b": True}
    (skill,) = registry.snapshot().skills
    assert skill.host == "192.0.2.8"


async def test_what_was_said_is_worth_nothing_when_others_say_it_again(start, settings):
    world = World()
    group = settings.group, settings.port
    heard, ear = await _endpoint(group, is_member=True)
    answers, thief = await _endpoint(("127.0.0.1", 0))
    try:
        registry = await start("registry", identity=world.identity("registry"), authority=world.authority())
        identity = world.identity("agent-001")
        provider = await start("agent-001", "skill-a", identity=identity, authority=world.authority())
        await until(lambda: verified(registry) == {"skill-a": True}, "it is not listed")
        await provider.stop()
        await until(lambda: verified(registry) == {}, "it is listed after its goodbye")
        registration = next(data for data in heard if data.startswith(b"SKILL_REGISTER:agent-001;"))
        thief.sendto(registration, group)
        await until(lambda: any(b";INVALID;" in answer for answer in answers), "it was not refused")
        assert verified(registry) == {}
    finally:
        ear.close()
        thief.close()


async def _endpoint(address, *, is_member=False):
    heard = []

    class Ear(asyncio.DatagramProtocol):
        def datagram_received(self, data, _):
            heard.append(data)

    ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_member:
        ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    ear.bind(address)
    local = socket.inet_aton("127.0.0.1")
    if is_member:
        membership = struct.pack("4s4s", socket.inet_aton(address[0]), local)
        ear.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    ear.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, local)
    ear.setblocking(False)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(Ear, sock=ear)
    return heard, transport


async def test_a_member_of_a_scene_is_handed_a_key_that_nobody_else_could_read(start):
    """Between two agents and both ends of TLS; the door that tells the port is a server's, and has tests there."""
    world, key = World(), f"sw_{token_hex(8)}"
    identity = world.identity("agent-001")
    asked = []

    async def give(request, _):
        asked.append(request)
        return ConnectionSecret(key, time.time() + 3600)

    doors = SecretsServer(identity, world.authority(), world.authorities, give)
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

    doors = SecretsServer(other, world.authority(), world.authorities, give, use_unverified=True)
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
