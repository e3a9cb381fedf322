"""Several registries seen as one: a skill is listed once, and what makes no difference is told to nobody."""

import pytest
from tests.support.lan import ReportingRegistry

from skillwire.adapters.lan.view import View
from skillwire.model.lan import FoundVia, LanChange
from skillwire.protocols.skill_discovery.messages import Endpoint, HealthStatus, Register, SkillType
from skillwire.testing.fake_network import VirtualClock

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
