"""The registry of a local network: who is listed, who is newer, who is silent, and when it is the network."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.datagrams import registration

from skillwire import limits
from skillwire.protocols.skill_discovery.listing import Change, What
from skillwire.protocols.skill_discovery.messages import Discover, Endpoint, HealthStatus, Outcome, SkillType
from skillwire.protocols.skill_discovery.registry import Registry
from skillwire.protocols.skill_discovery.settings import DiscoverySettings

AT = 1_707_868_800_000
KEY = "agent-001", "skill-org-feishu"
SETTINGS = DiscoverySettings()


class Kept(Registry):
    """A registry that keeps what it tells."""

    def __init__(self):
        self.changes: list[Change] = []
        super().__init__(SETTINGS, self.changes.append)

    def __getitem__(self, key):
        return self.get(key)

    def take(self, message, now=0.0, *, is_verified=False, host="192.168.1.100"):
        return self.register(message, now, is_verified=is_verified, host=host)[0]

    def run(self, until):
        while (due := self.timer()) is not None and due <= until:
            self.on_timer(due)

    def kinds(self):
        return [change.what for change in self.changes]


def wanted(capabilities=(), scenes=(), types=()):
    return Discover("agent-002", capabilities, scenes, types, AT)


@pytest.fixture
def registry():
    return Kept()


@pytest.mark.spec("SDP-register-status")
def test_a_registration_is_success_and_the_same_again_duplicate(registry):
    assert registry.take(registration()) is Outcome.SUCCESS
    assert registry.take(registration(at=AT + 1)) is Outcome.DUPLICATE
    assert registry.take(registration(at=AT + 2, version="0.8.0")) is Outcome.SUCCESS
    assert registry.kinds() == [What.REGISTERED, What.UPDATED]
    assert registry[KEY].registration.version == "0.8.0"


@pytest.mark.spec("SDP-register-status")
def test_an_older_registration_is_invalid_and_one_by_a_lesser_key_unauthorized(registry):
    registry.take(registration(), is_verified=True)
    assert registry.take(registration(at=AT - 1), is_verified=True) is Outcome.INVALID
    assert registry.take(registration(at=AT + 1), is_verified=False) is Outcome.UNAUTHORIZED
    assert registry[KEY].registration.timestamp == AT


@pytest.mark.spec("SDP-newest-wins")
@given(st.permutations([("register", 1), ("register", 3), ("unregister", 2), ("unregister", 4), ("register", 5)]))
def test_whatever_the_order_in_which_they_come_the_newest_wins(order):
    registry = Kept()
    for what, at in order:
        if what == "register":
            registry.take(registration(at=AT + at))
        else:
            registry.unregister(KEY, AT + at, 0.0)
    assert registry[KEY].registration.timestamp == AT + 5


@pytest.mark.spec("SDP-unregister-at-once")
def test_a_goodbye_acts_at_once_and_stands_against_what_is_older(registry):
    registry.take(registration())
    assert registry.unregister(KEY, AT + 2, 1.0) is Outcome.SUCCESS
    assert (len(registry), registry.kinds()) == (0, [What.REGISTERED, What.LEFT])
    assert registry.unregister(KEY, AT + 2, 1.0) is Outcome.DUPLICATE
    assert registry.take(registration(at=AT + 1), 2.0) is Outcome.INVALID
    assert registry.told(KEY, HealthStatus.HEALTHY, AT + 1, 2.0), "an old beat asks for no registration"
    assert not registry.told(KEY, HealthStatus.HEALTHY, AT + 3, 2.0)
    assert registry.take(registration(at=AT + 3), 3.0) is Outcome.SUCCESS
    registry.run(100.0)
    assert registry.timer() is None, "tombstones end"


@pytest.mark.spec("SDP-discover-filters")
def test_skills_are_found_by_capability_scene_and_type(registry):
    registry.take(registration())
    registry.take(registration("agent-002", "skill-scan", skill_type=SkillType.TOOL, capabilities=("scan",), scenes=()))
    registry.take(registration("agent-003", "skill-mail", capabilities=("user-auth",), scenes=("auth", "mail")))

    def names(*filters):
        return [listed.registration.skill_id for listed in registry.find(wanted(*filters))]

    assert names() == ["skill-org-feishu", "skill-scan", "skill-mail"]
    assert names(("user-auth",)) == ["skill-org-feishu", "skill-mail"]
    assert names(("user-auth", "org-data-read")) == ["skill-org-feishu"]
    assert names((), ("mail", "auth")) == ["skill-org-feishu", "skill-mail"]
    assert names((), (), (SkillType.TOOL,)) == ["skill-scan"]
    assert names(("scan",), ("auth",)) == []
    assert names(("nothing",)) == []
    registry.take(registration("agent-003", "skill-mail", at=AT + 1, capabilities=(), scenes=("mail",)))
    assert names(("user-auth",)) == ["skill-org-feishu"]
    assert registry.scenes() == ["auth", "mail"]


@pytest.mark.spec("SDP-health-annotates")
def test_health_annotates_and_puts_behind_but_never_hides(registry):
    registry.take(registration())
    registry.take(registration("agent-002"))
    registry.told(KEY, HealthStatus.UNHEALTHY, AT + 1, 1.0)
    found = registry.find(wanted(("user-auth",)))
    assert [(one.key[0], one.health.status) for one in found] == [("agent-002", "HEALTHY"), ("agent-001", "UNHEALTHY")]


@pytest.mark.spec("SDP-heartbeat-newer")
def test_a_beat_that_is_no_newer_is_passed_over(registry):
    registry.take(registration())
    assert registry.told(KEY, HealthStatus.DEGRADED, AT + 2, 1.0)
    assert registry.told(KEY, HealthStatus.HEALTHY, AT + 1, 2.0)
    assert registry[KEY].health.status is HealthStatus.DEGRADED
    assert not registry.told(("agent-009", "x"), HealthStatus.HEALTHY, AT, 0.0)


@pytest.mark.spec("SDP-health-silence")
def test_a_silent_skill_is_suspected_unhealthy_and_forgotten(registry):
    registry.take(registration())
    for number in range(9):
        registry.take(registration(f"agent-1{number}"))
    for now in range(5, 41, 5):
        registry.run(now)
        for number in range(9):
            registry.told((f"agent-1{number}", KEY[1]), HealthStatus.HEALTHY, AT + now, float(now))
        assert (KEY in [one.key for one in registry]) == (now < 30)
    assert registry.kinds()[10:] == [What.SUSPECTED, What.STATUS, What.SUSPECTED, What.EVICTED]
    assert len(registry) == 9


@pytest.mark.spec("SDP-health-restart")
def test_what_is_restored_is_unknown_until_a_beat(registry):
    registry.restore([registration()], 0.0)
    assert registry[KEY].health.status is HealthStatus.UNKNOWN
    registry.told(KEY, HealthStatus.HEALTHY, AT + 1, 2.0)
    assert registry[KEY].health.status is HealthStatus.HEALTHY


@pytest.mark.spec("SDP-mass-expiry")
@pytest.mark.parametrize(("alive", "silent", "evicted"), [(20, 2, 2), (20, 3, 3), (16, 3, 0), (0, 3, 0), (0, 2, 2)])
def test_when_many_expire_the_network_is_suspected_and_nothing_evicted(alive, silent, evicted):
    registry = Kept()
    for number in range(alive + silent):
        registry.take(registration(f"agent-{number:02}"))
    for now in range(5, 121, 5):
        registry.run(now)
        for number in range(alive):
            registry.told((f"agent-{number:02}", KEY[1]), HealthStatus.HEALTHY, AT + now, float(now))
    assert len(registry) == alive + silent - evicted
    assert registry.network_is_suspected(120.0) is (evicted == 0)
    assert sum(listed.health.is_stale for listed in registry) == silent - evicted


@pytest.mark.spec("SDP-mass-expiry")
def test_when_the_network_heals_the_dead_are_forgotten_and_nobody_else(registry):
    for number in range(10):
        registry.take(registration(f"agent-{number}"))
    registry.run(100.0)
    assert len(registry) == 10
    for now in range(100, 200, 5):
        registry.run(now)
        for number in range(9):
            registry.told((f"agent-{number}", KEY[1]), HealthStatus.HEALTHY, AT + now, float(now))
    assert sorted(one.key[0][-1] for one in registry) == list("012345678")
    assert all(one.health.status is HealthStatus.HEALTHY and not one.health.is_stale for one in registry)
    assert registry.kinds().count(What.EVICTED) == 1


@pytest.mark.spec("SDP-mass-expiry")
def test_who_makes_up_skills_that_fall_silent_keeps_no_certified_one_listed(registry):
    certified = [registration(f"agent-{number}") for number in range(10)]
    for message in certified:
        registry.take(message, is_verified=True)
    for number in range(40):
        registry.take(registration(f"made-up-{number}"))
    for now in range(5, 61, 5):
        registry.run(now)
        for message in certified[1:]:
            registry.told((message.agent_id, message.skill_id), HealthStatus.HEALTHY, AT + now, float(now))
    left = {one.key[0] for one in registry if one.is_verified}
    assert left == {f"agent-{number}" for number in range(1, 10)}
    assert sum(one.health.is_stale for one in registry) == 40, "of their own kind they may be"


@pytest.mark.spec("SDP-mass-expiry")
def test_that_a_skill_is_stale_is_told_once_however_long_the_network_is_silent(registry):
    for number in range(5):
        registry.take(registration(f"agent-{number}"))
    registry.run(SETTINGS.eviction * 5)
    stale = [change.listed.key[0] for change in registry.changes if change.what is What.STALE]
    assert sorted(stale) == [f"agent-{number}" for number in range(5)]


def test_what_stays_silent_is_forgotten_in_the_end(registry):
    for number in range(5):
        registry.take(registration(f"agent-{number}"))
    registry.run(SETTINGS.stale + 2 * SETTINGS.eviction)
    assert len(registry) == 0
    assert registry.timer() is None


def test_bounds_stand_for_the_skills_of_one_agent_and_of_all(registry, monkeypatch):
    monkeypatch.setattr(limits, "LAN_SKILLS_PER_AGENT", 2)
    monkeypatch.setattr(limits, "LAN_SKILLS", 3)
    taken = [registry.take(registration(agent, skill)) for agent, skill in map(tuple, ["aa", "ab", "ac", "ba", "ca"])]
    assert taken == [Outcome.SUCCESS, Outcome.SUCCESS, Outcome.INVALID, Outcome.SUCCESS, Outcome.INVALID]
    registry.unregister(("a", "a"), AT + 1, 0.0)
    assert registry.take(registration("c", "a")) is Outcome.SUCCESS
    assert registry.owed_by("a") == 1


def test_a_moved_skill_is_another_fact(registry):
    registry.take(registration())
    assert registry.take(registration(at=AT + 1, endpoint=Endpoint("192.168.1.7", 80))) is Outcome.SUCCESS
    assert registry.take(registration(at=AT + 2, endpoint=Endpoint("192.168.1.7", 80)), host="::1") is Outcome.SUCCESS


def test_a_search_ends_when_there_are_enough_that_may_be_called(registry):
    for number in range(50):
        registry.take(registration(f"agent-{number:02}"))
        if number < 45:
            registry.told((f"agent-{number:02}", KEY[1]), HealthStatus.OFFLINE, AT + 1, 0.0)
    assert [one.key[0] for one in registry.find(wanted(), 3)] == ["agent-45", "agent-46", "agent-47"]
    assert [one.health.is_usable for one in registry.find(wanted(), 7)] == [True] * 5 + [False] * 2


@pytest.mark.spec("SDP-places")
def test_a_bound_stands_for_what_nobody_certified_on_one_host(registry, monkeypatch):
    monkeypatch.setattr(limits, "LAN_SKILLS_PER_HOST", 2)
    taken = [registry.take(registration(f"agent-{number}"), host="::66") for number in range(4)]
    assert taken == [Outcome.SUCCESS] * 2 + [Outcome.INVALID] * 2
    assert registry.take(registration("agent-7"), host="::66", is_verified=True) is Outcome.SUCCESS
    assert registry.take(registration("agent-8"), host="::7") is Outcome.SUCCESS
    assert registry.take(registration("agent-8", at=AT + 1), host="::66") is Outcome.INVALID, "nor may it move there"
    assert registry.take(registration("agent-0", at=AT + 1), host="::66", is_verified=True) is Outcome.SUCCESS
    assert registry.take(registration("agent-8", at=AT + 1), host="::66") is Outcome.SUCCESS, "a place was left"
    registry.distrust(("agent-7", KEY[1]))
    registry.unregister(("agent-8", KEY[1]), AT + 2, 0.0)
    assert registry.take(registration("agent-9"), host="::66") is Outcome.INVALID, "who is certified no more counts"
    assert registry.owed_from("::66") == 3


@pytest.mark.spec("SDP-places")
def test_when_all_places_are_taken_who_is_certified_has_that_of_one_who_is_not(registry, monkeypatch):
    monkeypatch.setattr(limits, "LAN_SKILLS", 5)
    registry.take(registration("honest"), host="::1")
    registry.take(registration("certified"), host="::2", is_verified=True)
    for number in range(3):
        registry.take(registration(f"made-up-{number}"), host="::66")
    assert registry.take(registration("late"), host="::3") is Outcome.INVALID
    for number in range(4):
        assert registry.take(registration(f"new-{number}"), host="::4", is_verified=True) is Outcome.SUCCESS
    gone = [change.listed.key[0] for change in registry.changes if change.what is What.EVICTED]
    assert gone[:2] == ["made-up-2", "made-up-1"], "first of the host that has the most"
    assert sorted(gone[2:]) == ["honest", "made-up-0"]
    assert registry.take(registration("more"), host="::4", is_verified=True) is Outcome.INVALID, "all are certified"
    assert len(registry) == 5


@pytest.mark.spec("SDP-places")
def test_who_has_as_many_as_one_agent_may_have_displaces_nobody(registry, monkeypatch):
    monkeypatch.setattr(limits, "LAN_SKILLS", 2)
    monkeypatch.setattr(limits, "LAN_SKILLS_PER_AGENT", 1)
    registry.take(registration("a", "one"), is_verified=True)
    registry.take(registration("b", "one"))
    assert registry.take(registration("a", "two"), is_verified=True) is Outcome.INVALID
    assert len(registry) == 2
