"""What an agent keeps over a restart.

Several registries seen as one: a skill is listed once, and what makes no difference is told to nobody.
"""

import asyncio
import sqlite3
from collections import Counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from tests.support.authorities import World
from tests.support.certificates import NOW
from tests.support.lan import OFFERS, REGISTRY, Lan, ReportingRegistry

from skillwire.adapters.clock import moment
from skillwire.adapters.lan.state import LanState, SavedState, StateWriter, StoredRegistration
from skillwire.adapters.lan.view import View
from skillwire.model.lan import FoundVia, LanChange
from skillwire.protocols.skill_discovery.codec import decode, encode
from skillwire.protocols.skill_discovery.health import Change
from skillwire.protocols.skill_discovery.limits import ReplayGuard
from skillwire.protocols.skill_discovery.messages import (
    Endpoint,
    HealthStatus,
    Outcome,
    Profile,
    Reason,
    Register,
    SkillType,
    UnregisterAck,
)
from skillwire.testing.fake_network import EPOCH, VirtualClock
from skillwire.trust.authority import CertificateAuthority
from skillwire.trust.ecdsa import new_key, self_signed
from skillwire.trust.revocations import CertificateHolder, Revocations, RevokedCertificate

STREAM = ("Heartbeat", "agent-001", "skill-a")


def registration(skill="skill-a", version="1.0.0"):
    place = Endpoint("192.168.1.10", 8080)
    return Register(
        "agent-001", skill, version, SkillType.TOOL, place, ("user-auth",), ("auth",), 1000, signature="QUJD"
    )


def row(message):
    return "eth0/4", message.agent_id, message.skill_id, "192.168.1.10", encode(message), bytes(32), b"by whom", 5


@pytest.fixture
def state(tmp_path):
    return LanState(tmp_path / "lan", Profile.OPEN)


def test_nothing_was_kept_before_the_first_time(state):
    assert state.load() == SavedState()
    assert not state.path.exists()


def test_what_was_written_is_read_by_the_next_one(state, tmp_path):
    state.write(heard=(row(registration()), row(registration("skill-b"))), timestamps=((STREAM, 7),))
    state.write(heard=(row(registration(version="1.0.1")),), gone=(("eth0/4", ("agent-001", "skill-b")),))

    kept = LanState(tmp_path / "lan", Profile.OPEN).load()

    assert kept.heard == (
        StoredRegistration("eth0/4", "192.168.1.10", registration(version="1.0.1"), bytes(32), b"by whom", 5),
    )
    assert kept.timestamps == ((STREAM, 7),)


def test_only_the_owner_may_read_it(state):
    state.write(timestamps=((STREAM, 7),))
    assert state.path.stat().st_mode & 0o077 == 0


def test_it_is_never_there_for_others_to_read(state, monkeypatch):
    connect, modes = sqlite3.connect, []

    def looking(path, **named):
        modes.append(path.stat().st_mode & 0o777)
        return connect(path, **named)

    monkeypatch.setattr(sqlite3, "connect", looking)
    state.write(timestamps=((STREAM, 7),))
    assert set(modes) == {0o600}


def test_what_was_heard_on_a_link_that_is_gone_for_a_month_is_forgotten(state):
    on_other = ("wlan0/4", *row(registration("skill-b"))[1:])
    state.write(heard=(row(registration()), on_other), now=int(EPOCH * 1000))
    month = 30 * 86_400_000
    later = int(EPOCH * 1000) + 2 * month // 3
    state.write(timestamps=((STREAM, 7),), links=("eth0/4",), now=later)
    assert {heard.link for heard in state.load().heard} == {"eth0/4", "wlan0/4"}

    state.write(timestamps=((STREAM, 8),), now=later + 2 * month // 3)
    assert {heard.link for heard in state.load().heard} == {"eth0/4"}


def test_of_two_timestamps_the_newest_is_kept_and_old_ones_are_not(state):
    old = ("Register", "agent-001", "skill-a")
    state.write(timestamps=((STREAM, 700), (old, 50)))
    state.write(timestamps=((STREAM, 600),), edge=100)
    assert state.load().timestamps == ((STREAM, 700),)


def test_what_is_no_registration_any_more_is_passed_over(state):
    state.write(heard=(row(registration()), ("eth0/4", "x", "y", "1.2.3.4", b"\xff garbage", b"", b"", 0)))
    assert [heard.message.skill_id for heard in state.load().heard] == ["skill-a"]


def test_a_file_that_cannot_be_read_is_made_anew(state):
    state.write(timestamps=((STREAM, 7),))
    state.path.write_bytes(b"no database " * 1000)

    assert state.load() == SavedState(is_broken=True)
    state.write(timestamps=((STREAM, 8),))
    assert state.load().timestamps == ((STREAM, 8),)


def test_a_file_that_is_broken_in_the_midst_is_made_anew(tmp_path):
    state = LanState(tmp_path / "lan", Profile.OPEN)
    state.write(heard=tuple(row(registration(f"skill-{number}")) for number in range(500)))
    with sqlite3.connect(state.path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    data = bytearray(state.path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    state.path.write_bytes(data)

    again = LanState(tmp_path / "lan", Profile.OPEN)
    assert again.load() == SavedState(is_broken=True)
    again.write(timestamps=((STREAM, 8),))
    assert LanState(tmp_path / "lan", Profile.OPEN).load().timestamps == ((STREAM, 8),)


def test_a_file_of_another_version_is_made_anew(state):
    state.write(timestamps=((STREAM, 7),))
    with sqlite3.connect(state.path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()

    assert state.load() == SavedState()
    state.write(timestamps=((STREAM, 8),))
    assert state.load().timestamps == ((STREAM, 8),)


R, A, B, EVIL = "192.168.1.1", "192.168.1.7", "192.168.1.8", "192.168.1.66"


def no_goodbyes(guard):
    """Return a node that was sent no goodbye."""
    mcp_agent = SimpleNamespace(take_goodbyes=list)
    return SimpleNamespace(ingress=SimpleNamespace(replay=guard), ring=None, mcp_agent=mcp_agent)


class Disk:
    """Takes what is written, but for the first time."""

    def __init__(self):
        self.tries = 0
        self.written = []

    def write(self, **changes):
        self.tries += 1
        if self.tries == 1:
            raise sqlite3.OperationalError("disk I/O error at /a/path")
        self.written.append(SimpleNamespace(**changes))


async def test_timestamps_that_could_not_be_written_are_written_the_next_time():
    disk, counters = Disk(), Counter[str]()
    keeping = StateWriter(disk, "agent-self", Profile.OPEN, 60.0, counters=counters, clock=moment)  # type: ignore[arg-type]  # as far as it is used
    guard = ReplayGuard(60.0)
    link = SimpleNamespace(name="eth0/4", is_open=True, node=no_goodbyes(guard))
    keeping.start(lambda: [link])  # type: ignore[list-item]  # as far as it is used
    now = moment().wall
    guard.keep(STREAM, int(now * 1000), b"a beat", now)
    await keeping._write()
    assert (disk.tries, disk.written) == (1, [])
    assert counters == {"state: OperationalError": 1}  # a label of metrics, which no path belongs in

    await keeping._write()
    [changes] = disk.written
    assert changes.timestamps == [(STREAM, int(now * 1000))]
    assert changes.links == ["eth0/4"]
    async with asyncio.timeout(20):
        await keeping.stop()
    assert disk.tries == 2  # and it is not written again


async def test_who_begins_again_keeps_again():
    disk = Disk()
    disk.tries = 1
    keeping = StateWriter(disk, "agent-self", Profile.OPEN, 60.0, counters=Counter(), clock=moment)  # type: ignore[arg-type]  # as far as it is used
    guard = ReplayGuard(60.0)
    link: Any = SimpleNamespace(name="eth0/4", is_open=True, node=no_goodbyes(guard))
    for life in range(2):
        keeping.start(lambda: [link])
        now = moment().wall
        guard.keep(STREAM, int(now * 1000) + life, f"beat {life}".encode(), now)
        await asyncio.sleep(0)
        async with asyncio.timeout(20):
            await keeping.stop()
        assert len(disk.written) == life + 1


class Place(NamedTuple):
    """A registry and its keeping."""

    lan: Any
    keeping: StateWriter


@pytest.fixture
def begin(tmp_path):
    """Give what starts a registry in virtual time, which keeps what it hears in one and the same file."""

    async def begin(world, *roles):
        lan: Any = Lan()
        keeping = StateWriter(
            LanState(tmp_path / "lan", Profile.OPEN), "registry", Profile.OPEN, 60.0, counters=Counter(), clock=moment
        )
        await keeping.load()
        trust = {"identity": world.identity("registry"), "authority": world.authority()}
        node = lan.node(R, REGISTRY, *roles, agent_id="registry", **trust)
        keeping.restore("eth0/4", node)
        link: Any = SimpleNamespace(name="eth0/4", is_open=True, node=node, act=lambda: lan.tend(R))
        keeping._links = lambda: [link]
        return Place(lan, keeping)

    return begin


def join(lan, world, host, identity, agent="agent-001"):
    lan.node(host, OFFERS, agent_id=agent, identity=identity, authority=world.authority())
    lan.offer(host, "skill-a")
    lan.run(3)
    return {listed.registration.skill_id: listed.host for listed in lan.nodes[R].registry}


async def kept(place):
    for change in place.lan.events(Change, R):
        place.keeping.changed("eth0/4", change)
    await place.keeping._write()


def own(key):
    return self_signed("agent-001", key, NOW)


@pytest.mark.spec("SDP-key-stays")
@pytest.mark.parametrize("is_certified", [True, False])
async def test_nobody_takes_a_name_while_the_registry_starts_anew(begin, is_certified):
    world = World(EPOCH)
    identity = world.identity("agent-001") if is_certified else own(new_key())
    first = await begin(world)
    assert join(first.lan, world, A, identity) == {"skill-a": A}
    await kept(first)

    second = await begin(world)
    assert join(second.lan, world, EVIL, own(new_key())) == {"skill-a": A}
    assert second.lan.nodes[R].ingress.stopped["another key"] > 0
    second.lan.crash(EVIL)
    assert join(second.lan, world, A, identity) == {"skill-a": A}
    (listed,) = second.lan.nodes[R].registry
    assert listed.is_verified is is_certified


@pytest.mark.spec("SDP-key-stays")
async def test_who_has_lost_its_key_comes_back_when_nothing_of_it_is_there_any_more(begin):
    world = World(EPOCH)
    first = await begin(world)
    join(first.lan, world, A, own(new_key()))
    await kept(first)

    second = await begin(world)
    second.lan.run(40)  # it has said nothing for so long
    assert join(second.lan, world, A, own(new_key())) == {"skill-a": A}
    await kept(second)
    third = await begin(world)
    assert third.lan.nodes[R].ring.digest_of("agent-001") == second.lan.nodes[R].ring.digest_of("agent-001")


@pytest.mark.spec("SDP-scene-incumbent")
async def test_the_incumbent_that_registers_anew_is_primary_after_a_restart_of_the_registry(begin):
    world = World(EPOCH)
    first = await begin(world)
    join(first.lan, world, A, world.identity("z-old"), "z-old")
    join(first.lan, world, EVIL, world.identity("a-new"), "a-new")
    first.lan.offer(A, "skill-a", version="0.7.1")
    first.lan.run(3)
    assert first.lan.nodes[R].registry.provider("auth").key == ("z-old", "skill-a")
    await kept(first)
    second = await begin(world)
    assert second.lan.nodes[R].registry.provider("auth").key == ("z-old", "skill-a")


@pytest.mark.spec("SDP-scene-incumbent")
@pytest.mark.parametrize("is_killed", [True, False])
async def test_a_server_keeps_the_rank_of_its_own_skills_unless_they_said_goodbye(begin, is_killed):
    async def since(wait):
        place = await begin(World(EPOCH), OFFERS)
        place.lan.run(wait)
        place.lan.offer(R, "skill-own")
        place.lan.run(3)
        found = place.lan.nodes[R].registry.since(("registry", "skill-own"))
        if not is_killed:
            place.lan.do(R, lambda node, now: node.route_agent.close(Reason.SHUTDOWN, now))
            place.lan.run(3)
        await kept(place)
        return found

    assert (await since(100) == await since(200)) is is_killed


async def test_that_only_the_health_is_otherwise_is_not_written(begin):
    place = await begin(World(EPOCH))
    join(place.lan, World(EPOCH), A, own(new_key()))
    await kept(place)
    place.lan.told.clear()
    place.lan.crash(A)
    place.lan.run(20)

    written = []
    place.keeping._state.write = lambda changes: written.extend(changes.heard)
    await kept(place)
    assert [one.health.status for one in place.lan.nodes[R].registry] == [HealthStatus.UNHEALTHY]
    assert written == []


async def test_a_certified_one_takes_the_place_of_a_key_that_was_kept(begin):
    world = World(EPOCH)
    first = await begin(world)
    join(first.lan, world, A, own(new_key()))
    await kept(first)

    second = await begin(world)
    identity = world.identity("agent-001")
    join(second.lan, world, B, identity)
    (listed,) = second.lan.nodes[R].registry
    assert (listed.is_verified, listed.host) == (True, B)
    await kept(second)
    third = await begin(world)
    assert third.lan.nodes[R].ring.digest_of("agent-001")[1]


async def test_a_key_ends_with_the_last_registration_by_it(begin):
    world = World(EPOCH)
    first = await begin(world)
    join(first.lan, world, A, own(new_key()))
    await kept(first)
    first.lan.do(A, lambda node, now: node.route_agent.close(Reason.SHUTDOWN, now))
    first.lan.run(3)
    await kept(first)

    second = await begin(world)
    assert second.lan.nodes[R].ring.digest_of("agent-001") == (b"", b"")


@pytest.mark.spec("SDP-unregister-flow")
async def test_a_goodbye_is_stored_before_it_is_acknowledged(begin, monkeypatch):
    world = World(EPOCH)
    place = await begin(world)
    join(place.lan, world, A, own(new_key()))
    await kept(place)
    place.keeping._clock = lambda: place.lan.moment(R)
    goodbyes, sent = place.lan.sent_from(A), place.lan.sent_from(R)

    def acknowledged():
        place.lan.run(0.5)
        return {message.status for _, data in sent if isinstance(message := decode(data), UnregisterAck)}

    place.lan.do(A, lambda node, now: node.route_agent.close(Reason.SHUTDOWN, now))
    assert acknowledged() == set(), "it is not stored yet"
    assert place.lan.listed(R) == {}, "and acts nevertheless"
    with monkeypatch.context() as patch:
        patch.setattr(place.keeping._state, "write", Disk().write)
        await kept(place)
        assert place.keeping._wakes.is_set(), "it is written at once"
    assert acknowledged() == set(), "the disk failed"
    place.keeping._wakes.clear()
    place.lan.inject(goodbyes[-1][1], place.lan._hosts[A].peer, R)
    assert place.keeping._wakes.is_set(), "a repeated one, too, is written at once"
    await place.keeping._write()
    assert (await begin(world)).lan.listed(R) == {}, "as after a kill of the registry"
    assert acknowledged() == {Outcome.DUPLICATE}


async def test_what_cannot_be_read_is_said_and_nobody_is_known(begin, tmp_path, caplog):
    world = World(EPOCH)
    first = await begin(world)
    join(first.lan, world, A, own(new_key()))
    await kept(first)
    (tmp_path / "lan" / "lan.db").write_bytes(b"no database " * 1000)

    second = await begin(world)
    assert second.lan.nodes[R].ring.digest_of("agent-001") == (b"", b"")
    assert second.keeping._counters == {"state: made anew": 1}
    assert "was replaced" in caplog.text


@pytest.mark.spec("SDP-revocation")
@pytest.mark.parametrize("is_known_at_once", [True, False])
async def test_who_was_taken_back_meanwhile_is_not_listed_after_a_restart(begin, is_known_at_once):
    world = World(EPOCH)
    identity = world.identity("agent-001")
    first = await begin(world)
    join(first.lan, world, A, identity)
    await kept(first)
    taken = world.revoke(identity)
    if is_known_at_once:
        world.revocations.take(taken, EPOCH)
    second = await begin(world)
    node = second.lan.nodes[R]
    assert len(node.registry) == (0 if is_known_at_once else 1)
    if not is_known_at_once:
        world.revocations.take(taken, EPOCH)
        second.lan.do(R, lambda node, now: node.review(now))
    assert len(node.registry) == 0


async def test_who_was_certified_anew_stays_known_by_its_new_key(begin):
    world = World(EPOCH)
    world.revocations.take(world.revoke(world.identity("agent-001")), EPOCH)
    first = await begin(world)
    join(first.lan, world, A, world.identity("agent-001"))
    await kept(first)
    second = await begin(world)
    assert len(second.lan.nodes[R].registry) == 1
    assert second.lan.nodes[R].ring.digest_of("agent-001")[1]


@pytest.mark.spec("SDP-key-stays")
async def test_another_authority_that_lists_a_key_takes_no_name_from_its_holder(begin):
    world = World(EPOCH)
    key = new_key()
    other = CertificateAuthority(key, world.root.issue_authority("Another CA", key.public_key(), world.now))
    world.revocations = Revocations([*world.authorities, other.certificate])
    identity = world.identity("agent-001")
    first = await begin(world)
    join(first.lan, world, A, identity)
    await kept(first)
    digest = first.lan.nodes[R].ring.digest_of("agent-001")[0]
    listed = [RevokedCertificate(123, EPOCH, CertificateHolder(digest, frozenset()))]
    world.revocations.take(other.revocations(listed, EPOCH, number=2), EPOCH)
    assert world.authority().judge("agent-001", identity.certificate, EPOCH) is not None

    second = await begin(world)
    assert join(second.lan, world, EVIL, own(new_key())) == {"skill-a": A}
    assert second.lan.nodes[R].ingress.stopped["another key"] > 0


FOUR, SIX = "192.168.1.10", "fd00::10"
KEY = "agent-001", "skill-a"


class Seen:
    """Registries of two links, one view, and what it told."""

    def __init__(self):
        self.clock = VirtualClock()
        self.told: list[LanChange] = []
        self.view = View(self.told.append, lambda: self.clock.moment(0.0))
        self.links = {FOUR: self._registry(), SIX: self._registry()}
        self.view.add("eth0/6", self.links[SIX], "eth0")
        self.view.add("eth0/4", self.links[FOUR], "eth0")

    def register(self, host, *, skill="skill-a", is_verified=False):
        message = self.message(host, skill)
        self.links[host].register(message, self.clock.steady, is_verified=is_verified, host=host)

    def message(self, host, skill="skill-a"):
        stamp = int(self.clock.steady * 1000) + 1000
        place = Endpoint(host, 8080)
        return Register(
            "agent-001", skill, "1.0.0", SkillType.TOOL, place, ("user-auth",), ("auth",), stamp, signature="QUJD"
        )

    def beat(self, host, status=HealthStatus.HEALTHY):
        stamp = int(self.clock.steady * 1000) + 2000
        self.links[host].on_heartbeat(KEY, status, stamp, self.clock.steady)

    def leave(self, host):
        self.links[host].unregister(KEY, 10**12, self.clock.steady, "upgrade")

    def run(self, seconds):
        ends = self.clock.steady + seconds
        while (due := min(registry.timer() or ends for registry in self.links.values())) < ends:
            self.clock.move_to(max(due, self.clock.steady))
            for registry in self.links.values():
                registry.on_timer(self.clock.steady)
            self.view.report_rest()
        self.clock.move_to(ends)

    @property
    def kinds(self):
        return [change.kind for change in self.told]

    def _registry(self):
        return ReportingRegistry(self.view.changed)


@pytest.fixture
def seen():
    """Give two links with the same skill, IPv4 and IPv6."""
    made = Seen()
    made.register(SIX)
    made.register(FOUR)
    return made


def test_a_skill_of_two_addresses_is_listed_once_by_its_ipv4_address(seen):
    [skill] = seen.view.skills()
    assert (skill.host, skill.status, skill.found_via) == (FOUR, "HEALTHY", FoundVia.MULTICAST)
    assert seen.kinds == ["registered", "updated"]  # by IPv6 first, as it came


def test_a_goodbye_that_comes_by_two_ways_is_told_once(seen):
    seen.view.report_rest()
    seen.told.clear()

    seen.leave(FOUR)
    seen.leave(SIX)
    seen.view.report_rest()

    assert seen.kinds == ["left", "scene"]
    left, scene = seen.told
    assert left.skill
    assert left.skill.host == FOUR
    assert left.reason == "upgrade"
    assert scene.scene
    assert scene.scene.members == ()


def test_a_skill_that_leaves_one_address_goes_on_at_the_other(seen):
    seen.told.clear()
    seen.leave(FOUR)
    seen.view.report_rest()
    assert [(change.kind, change.skill.host) for change in seen.told if change.skill] == [("updated", SIX)]


def test_silence_on_all_links_is_one_silence(seen):
    seen.told.clear()
    seen.run(2.5)
    seen.beat(SIX)  # so that the two do not fall silent in the same moment

    seen.run(60)

    told = [(change.kind, change.skill.status) for change in seen.told if change.skill]
    assert told == [("suspected", "HEALTHY"), ("status", "UNHEALTHY"), ("evicted", "UNHEALTHY")]
    assert seen.told[-1].reason == "silent"


@pytest.mark.parametrize("first", [FOUR, SIX])
def test_an_outage_that_one_link_alone_can_tell_is_told_of_every_skill(first):
    """Cut off at the start, one link has heard too few to suspect the network: it evicts them, the other keeps them."""
    seen = Seen()
    everyone = {"skill-a", "skill-b", "skill-c", "skill-d"}
    for skill in sorted(everyone):
        seen.register(SIX, skill=skill)
    for skill in ("skill-a", "skill-b"):
        seen.register(FOUR, skill=skill)
    seen.told.clear()
    if first == SIX:
        seen.run(1)
        seen.register(FOUR, skill="skill-a")  # heard once more, so that this link judges last
        seen.register(FOUR, skill="skill-b")

    seen.run(45)

    assert {one.skill.skill_id for one in seen.told if one.skill and one.kind == "stale"} == everyone
    assert {(one.host, one.status, one.is_stale) for one in seen.view.skills()} == {(SIX, "UNHEALTHY", True)}
    assert not {"updated", "evicted"} & set(seen.kinds)


def test_that_a_certificate_was_taken_back_is_told(seen):
    seen.told.clear()
    for registry in seen.links.values():
        registry.evict({"agent-001"})
    seen.view.report_rest()
    (gone,) = [change for change in seen.told if change.skill]
    assert (gone.kind, gone.reason) == ("evicted", "revoked")


def test_a_skill_that_is_heard_on_another_link_only_is_reached_there(seen):
    seen.told.clear()
    for _ in range(4):
        seen.run(4)
        seen.beat(SIX)

    [skill] = seen.view.skills()
    assert (skill.host, skill.status) == (SIX, "HEALTHY")
    assert "status" not in seen.kinds


def test_a_hint_stands_behind_a_registration_and_is_in_no_scene():
    seen = Seen()
    seen.links[FOUR].hint(seen.message(FOUR), 0.0, host=FOUR)
    [skill] = seen.view.skills()
    assert (skill.found_via, skill.status) == (FoundVia.MDNS, "UNKNOWN")
    assert seen.view.scenes() == ()

    seen.register(SIX)
    [skill] = seen.view.skills()
    assert (skill.found_via, skill.host) == (FoundVia.MULTICAST, SIX)
    assert [scene.name for scene in seen.view.scenes()] == ["auth"]


def test_the_members_of_a_scene_are_ranked_as_all_agents_rank_them():
    seen = Seen()
    seen.register(FOUR, skill="skill-b")
    seen.register(FOUR, skill="skill-c", is_verified=True)
    seen.register(FOUR, skill="skill-a")
    seen.view.report_rest()

    [scene] = [change.scene for change in seen.told if change.scene]
    assert [(member.skill_id, member.role) for member in scene.members] == [
        ("skill-c", "PRIMARY"),
        ("skill-a", "BACKUP"),
        ("skill-b", "BACKUP"),
    ]


def test_an_address_that_means_nothing_alone_is_told_with_its_interface():
    seen = Seen()
    message = seen.message("fe80::10")
    seen.links[SIX].register(message, 0.0, is_verified=False, host="fe80::10%2")
    [skill] = seen.view.skills()
    assert skill.host == "fe80::10%eth0"


def test_a_link_that_is_forgotten_takes_along_what_it_alone_listed(seen):
    seen.register(SIX, skill="skill-b")
    seen.told.clear()

    seen.view.remove("eth0/6")

    assert [skill.skill_id for skill in seen.view.skills()] == ["skill-a"]
    assert [(change.kind, change.skill.skill_id) for change in seen.told if change.skill] == [("evicted", "skill-b")]


def test_a_link_that_is_forgotten_tells_of_scenes_and_moves_without_waiting_for_another_change(seen):
    seen.register(SIX, skill="skill-b")
    seen.view.report_rest()
    seen.told.clear()

    seen.view.remove("eth0/4")

    assert [(change.kind, change.skill.host) for change in seen.told if change.skill] == [("updated", SIX)]
    assert not seen.view.has_more
    seen.told.clear()
    seen.view.remove("eth0/6")
    [scene] = [change.scene for change in seen.told if change.scene]
    assert scene.members == ()
    assert not seen.view.has_more
