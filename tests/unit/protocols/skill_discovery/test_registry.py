"""The registry of a local network: who is listed, who is newer, who is silent, and when it is the network."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.datagrams import registration
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.protocols.skill_discovery.health import Change, ChangeKind
from skillwire.protocols.skill_discovery.messages import Discover, Endpoint, HealthStatus, Outcome
from skillwire.protocols.skill_discovery.registry import Registry, Tombstones
from skillwire.protocols.skill_discovery.scenes import SceneMissing
from skillwire.protocols.skill_discovery.search import Discovered
from skillwire.protocols.skill_discovery.settings import DiscoverySettings

AT = 1_707_868_800_000
KEY = "agent-001", "skill-org-feishu"
SETTINGS = DiscoverySettings()
HOST = "192.168.1.100"


class Kept(Registry):
    """A registry that keeps what it tells, and whose probes are answered as long as ``answers``."""

    def __init__(self, *, answers=False):
        self.told: list[Change] = []
        self.answers = answers
        super().__init__(SETTINGS)

    def _report(self, change):
        super()._report(change)
        self.told += self.changes()

    def __getitem__(self, key):
        return self.get(key)

    def take(self, message, now=0.0, *, is_verified=False, host=HOST):
        return self.register(message, now, is_verified=is_verified, host=host)[0]

    def run(self, until):
        while (due := self.timer()) is not None and due <= until:
            before = len(self.told)
            self.on_timer(due)
            for change in self.told[before:]:
                if change.kind is ChangeKind.SUSPECTED and self.answers:
                    self.answered_probe(change.listed.key, due + 0.1)

    def beat(self, *agents, until, since=5):
        """Let time pass until then, with a heartbeat of these agents every five seconds."""
        for now in range(since, until, 5):
            self.run(now)
            for agent in agents:
                self.on_heartbeat((agent, KEY[1]), HealthStatus.HEALTHY, AT + now, float(now))

    def kinds(self):
        return [change.kind for change in self.told]


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
    assert registry.kinds() == [ChangeKind.REGISTERED, ChangeKind.UPDATED]
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
    assert (len(registry), registry.kinds()) == (0, [ChangeKind.REGISTERED, ChangeKind.LEFT])
    assert registry.unregister(KEY, AT + 2, 1.0) is Outcome.DUPLICATE
    assert registry.take(registration(at=AT + 1), 2.0) is Outcome.INVALID
    assert registry.on_heartbeat(KEY, HealthStatus.HEALTHY, AT + 1, 2.0), "an old beat asks for no registration"
    assert not registry.on_heartbeat(KEY, HealthStatus.HEALTHY, AT + 3, 2.0)
    assert registry.take(registration(at=AT + 3), 3.0) is Outcome.SUCCESS
    registry.run(100.0)
    assert registry.timer() is None, "tombstones end"


@pytest.mark.spec("SDP-health-annotates")
def test_health_annotates_and_puts_behind_but_never_hides(registry):
    registry.take(registration())
    registry.take(registration("agent-002"))
    registry.on_heartbeat(KEY, HealthStatus.UNHEALTHY, AT + 1, 1.0)
    found = registry.find(wanted(("user-auth",)))
    assert [(one.key[0], one.health.status) for one in found] == [("agent-002", "HEALTHY"), ("agent-001", "UNHEALTHY")]


@pytest.mark.spec("SDP-heartbeat-newer")
def test_a_beat_that_is_no_newer_is_passed_over(registry):
    registry.take(registration())
    assert registry.on_heartbeat(KEY, HealthStatus.DEGRADED, AT + 2, 1.0)
    assert registry.on_heartbeat(KEY, HealthStatus.HEALTHY, AT + 1, 2.0)
    assert registry[KEY].health.status is HealthStatus.DEGRADED
    assert not registry.on_heartbeat(("agent-009", "x"), HealthStatus.HEALTHY, AT, 0.0)


@pytest.mark.spec("SDP-health-silence")
def test_a_silent_skill_is_suspected_unhealthy_and_forgotten(registry):
    registry.take(registration())
    for number in range(9):
        registry.take(registration(f"agent-1{number}"))
    for now in range(5, 41, 5):
        registry.run(now)
        for number in range(9):
            registry.on_heartbeat((f"agent-1{number}", KEY[1]), HealthStatus.HEALTHY, AT + now, float(now))
        assert (KEY in [one.key for one in registry]) == (now < 30)
    assert registry.kinds()[10:] == [ChangeKind.SUSPECTED, ChangeKind.STATUS, ChangeKind.SUSPECTED, ChangeKind.EVICTED]
    assert len(registry) == 9


@pytest.mark.spec("SDP-health-restart")
def test_what_is_restored_is_unknown_until_a_beat(registry):
    registry.restore(registration(), 0.0)
    assert registry[KEY].health.status is HealthStatus.UNKNOWN
    registry.on_heartbeat(KEY, HealthStatus.HEALTHY, AT + 1, 2.0)
    assert registry[KEY].health.status is HealthStatus.HEALTHY


@pytest.mark.spec("SDP-mass-expiry")
@pytest.mark.parametrize(("alive", "silent", "evicted"), [(20, 2, 2), (20, 3, 3), (16, 3, 0), (0, 3, 0), (0, 2, 2)])
def test_when_many_expire_the_network_is_suspected_and_nothing_evicted(alive, silent, evicted):
    """The live ones are our own, which need no network."""
    registry = Kept()
    registry.set_own_host(HOST)
    for number in range(alive + silent):
        registry.take(registration(f"agent-{number:02}"), host=HOST if number < alive else "192.168.1.66")
    registry.beat(*(f"agent-{number:02}" for number in range(alive)), until=121)
    assert len(registry) == alive + silent - evicted
    assert registry.network_is_suspected(120.0) is (evicted == 0)
    assert sum(listed.health.is_stale for listed in registry) == silent - evicted


@pytest.mark.spec("SDP-mass-expiry")
def test_when_the_network_heals_the_dead_are_forgotten_and_nobody_else(registry):
    for number in range(10):
        registry.take(registration(f"agent-{number}"))
    registry.run(100.0)
    assert len(registry) == 10
    registry.beat(*(f"agent-{number}" for number in range(9)), since=100, until=200)
    assert sorted(one.key[0][-1] for one in registry) == list("012345678")
    assert all(one.health.status is HealthStatus.HEALTHY and not one.health.is_stale for one in registry)
    assert registry.kinds().count(ChangeKind.EVICTED) == 1


@pytest.mark.spec("SDP-mass-expiry")
def test_a_crashed_host_is_forgotten_at_thirty_seconds_while_another_is_heard(registry):
    for number in range(10):
        registry.take(registration(f"agent-{number}"), host="192.168.1.66" if number else HOST)
    registry.beat("agent-0", until=36)
    assert [one.key[0] for one in registry] == ["agent-0"]
    assert ChangeKind.STALE not in registry.kinds()


@pytest.mark.spec("SDP-mass-expiry")
def test_a_sign_of_life_ends_an_outage_and_a_later_death_counts_alone(registry):
    for number in range(5):
        registry.take(registration(f"agent-{number}"))
    registry.run(100.0)
    assert registry.network_is_suspected(100.0)
    registry.beat("agent-0", since=100, until=101)
    assert not registry.network_is_suspected(100.0)
    registry.beat("agent-0", "agent-1", since=105, until=126)
    assert sorted(one.key[0] for one in registry) == ["agent-0", "agent-1"], "the others had time to be heard"
    registry.beat("agent-0", since=130, until=161)
    assert [one.key[0] for one in registry] == ["agent-0"]
    assert ChangeKind.STALE not in registry.kinds()[-4:]


@pytest.mark.spec("SDP-mass-expiry")
def test_a_single_sign_of_life_in_an_outage_forgets_nobody(registry):
    for number in range(5):
        registry.take(registration(f"agent-{number}"))
    registry.run(100.0)
    registry.beat("agent-0", since=100, until=101)
    registry.run(150.0)
    assert len(registry) == 5
    assert registry.network_is_suspected(150.0)


@pytest.mark.spec("SDP-health-refused")
def test_an_endpoint_that_refuses_is_forgotten_at_thirty_seconds_however_many_are_silent(registry):
    for number in range(10):
        registry.take(registration(f"agent-{number}"))
    registry.run(10.0)
    for number in range(10):
        registry.refused_probe((f"agent-{number}", KEY[1]))
    registry.run(29.9)
    assert len(registry) == 10
    registry.run(30.0)
    assert len(registry) == 0
    assert ChangeKind.STALE not in registry.kinds()


@pytest.mark.spec("SDP-health-refused")
def test_an_endpoint_that_refuses_is_last_in_its_scenes_until_it_answers(registry):
    registry.take(registration("agent-a"))
    registry.take(registration("agent-b"))
    first = "agent-a", KEY[1]
    registry.refused_probe(first)
    registry.refused_probe(("agent-x", "skill-x"))
    registry.beat("agent-a", "agent-b", until=61)
    assert [one.key[0] for one in registry.providers("auth", 9)] == ["agent-b", "agent-a"]
    assert registry[first].health.status is HealthStatus.HEALTHY
    registry.answered_probe(first, 62.0)
    assert registry.provider("auth").key == first


@pytest.mark.spec("SDP-mass-expiry")
def test_who_makes_up_skills_that_fall_silent_keeps_no_certified_one_listed(registry):
    for number in range(10):
        registry.take(registration(f"agent-{number}"), is_verified=True)
    for number in range(40):
        registry.take(registration(f"made-up-{number}"))
    registry.set_own_host(HOST)
    registry.beat(*(f"agent-{number}" for number in range(1, 10)), until=61)
    left = {one.key[0] for one in registry if one.is_verified}
    assert left == {f"agent-{number}" for number in range(1, 10)}
    assert sum(one.health.is_stale for one in registry) == 40, "of their own kind they may be"


@pytest.mark.spec("SDP-mass-expiry")
def test_that_a_skill_is_stale_is_told_once_however_long_the_network_is_silent(registry):
    for number in range(5):
        registry.take(registration(f"agent-{number}"))
    registry.run(SETTINGS.timeout * 5)
    stale = [change.listed.key[0] for change in registry.told if change.kind is ChangeKind.STALE]
    assert sorted(stale) == [f"agent-{number}" for number in range(5)]


def test_what_stays_silent_is_forgotten_in_the_end(registry):
    for number in range(5):
        registry.take(registration(f"agent-{number}"))
    registry.run(SETTINGS.stale_timeout + 2 * SETTINGS.timeout)
    assert len(registry) == 0
    assert registry.timer() is None


def test_bounds_stand_for_the_skills_of_one_agent_and_of_all(registry, monkeypatch):
    monkeypatch.setattr(limits, "LAN_SKILLS_PER_AGENT", 2)
    monkeypatch.setattr(limits, "LAN_SKILLS", 3)
    taken = [registry.take(registration(agent, skill)) for agent, skill in map(tuple, ["aa", "ab", "ac", "ba", "ca"])]
    assert taken == [Outcome.SUCCESS, Outcome.SUCCESS, Outcome.INVALID, Outcome.SUCCESS, Outcome.INVALID]
    registry.unregister(("a", "a"), AT + 1, 0.0)
    assert registry.take(registration("c", "a")) is Outcome.SUCCESS
    assert registry.count_of_agent("a") == 1


def test_a_moved_skill_is_another_fact(registry):
    registry.take(registration())
    assert registry.take(registration(at=AT + 1, endpoint=Endpoint("192.168.1.7", 80))) is Outcome.SUCCESS
    assert registry.take(registration(at=AT + 2, endpoint=Endpoint("192.168.1.7", 80)), host="::1") is Outcome.SUCCESS


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
    assert registry.count_of_host("::66") == 3


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
    gone = [change.listed.key[0] for change in registry.told if change.kind is ChangeKind.EVICTED]
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


GONE, OTHER = ("agent-001", "a"), ("agent-001", "b")


@pytest.mark.spec("SDP-unregister-at-once")
def test_a_goodbye_is_remembered_for_its_time_since_it_was_said_last():
    tombstones = Tombstones(60)
    assert (tombstones.timer(), tombstones.of(GONE)) == (None, -1)
    tombstones.add(GONE, 1, 0.0)
    tombstones.add(OTHER, 2, 10.0)
    tombstones.add(GONE, 3, 20.0)
    assert (tombstones.timer(), tombstones.of(GONE)) == (70.0, 3)

    tombstones.on_timer(70.0)
    assert (OTHER in tombstones, GONE in tombstones, tombstones.timer()) == (False, True, 80.0)
    tombstones.on_timer(80.0)
    assert (GONE in tombstones, tombstones.timer()) == (False, None)


def test_there_is_a_bound(monkeypatch):
    monkeypatch.setattr(limits, "LAN_SKILLS", 2)
    tombstones = Tombstones(60)
    for number in range(5):
        tombstones.add(("agent-001", str(number)), number, 0.0)
    assert [number for number in range(5) if ("agent-001", str(number)) in tombstones] == [0, 1]
    tombstones.add(("agent-001", "0"), 9, 1.0)
    assert tombstones.of(("agent-001", "0")) == 9


@pytest.fixture
def hints():
    return Kept()


@pytest.mark.spec("SDP-mdns-hint")
def test_a_hint_is_listed_unknown_and_unverified_and_is_told_to_nobody_else(hints):
    assert hints.hint(registration(), 0.0, host=HOST)
    listed = hints.get(KEY)
    assert (listed.health.status, listed.is_verified, listed.is_hint) == (HealthStatus.UNKNOWN, False, True)
    assert hints.find(Discover("x", (), (), (), AT)) == []
    assert (hints.in_scene("auth"), hints.scenes()) == ([], [])
    assert (hints.count_of_agent("agent-001"), hints.count_of_host(HOST)) == (0, 0), (
        "a hint owes nothing, and lends nothing"
    )


@pytest.mark.spec("SDP-mdns-hint")
def test_a_registration_takes_the_place_of_a_hint_and_is_never_replaced_by_one(hints):
    hints.hint(registration(at=AT + 99_999, version="9.0.0"), 0.0, host=HOST)
    assert not hints.on_heartbeat(KEY, HealthStatus.HEALTHY, AT + 1, 0.5), "a beat asks for the registration"
    assert hints.register(registration(), 1.0, is_verified=True, host=HOST)[0] is Outcome.SUCCESS
    assert not hints.hint(registration(version="9.0.0"), 2.0, host=HOST)
    assert not hints.unhint(KEY)
    listed = hints.get(KEY)
    assert (listed.registration.version, listed.is_hint, listed.is_verified) == ("0.7.0", False, True)
    assert hints.kinds() == [ChangeKind.REGISTERED, ChangeKind.REGISTERED]
    assert hints.told[1].before.is_hint
    assert hints.scenes() == ["auth"]
    assert hints.count_of_agent("agent-001") == 1


@pytest.mark.spec("SDP-mdns-hint")
def test_a_hint_said_again_is_no_sign_of_life_and_said_otherwise_is_a_new_one(hints):
    hints.hint(registration(), 0.0, host=HOST)
    assert not hints.hint(registration(at=AT + 5), 20.0, host=HOST)
    assert hints.get(KEY).health.heard == 0.0
    assert hints.hint(registration(endpoint=Endpoint("192.168.1.7", 80)), 21.0, host=HOST)
    assert hints.get(KEY).health.heard == 21.0
    assert hints.kinds() == [ChangeKind.REGISTERED, ChangeKind.UPDATED]


@pytest.mark.spec("SDP-mdns-hint")
def test_a_hint_lives_as_long_as_its_endpoint_answers(hints):
    hints.hint(registration(), 0.0, host=HOST)
    hints.answers = True
    hints.run(600.0)
    assert hints.get(KEY).health.status is HealthStatus.UNKNOWN
    assert 15 <= hints.kinds().count(ChangeKind.SUSPECTED) <= 21, "it is probed every 30 s"
    hints.answers = False
    heard = hints.get(KEY).health.heard
    hints.run(heard + 36.0)
    assert hints.get(KEY).health.status is HealthStatus.UNHEALTHY
    hints.run(heard + 51.0)
    assert hints.get(KEY) is None
    assert hints.kinds()[-1] is ChangeKind.EVICTED
    hints.run(10_000.0)
    assert hints.timer() is None


@pytest.mark.spec("SDP-mdns-hint")
def test_a_hint_that_answers_again_may_be_called_again(hints):
    hints.hint(registration(), 0.0, host=HOST)
    hints.run(36.0)
    assert hints.get(KEY).health.status is HealthStatus.UNHEALTHY
    hints.answered_probe(KEY, 36.5)
    assert hints.get(KEY).health.status is HealthStatus.UNKNOWN


@pytest.mark.spec("SDP-mdns-hint")
def test_a_goodbye_by_mdns_takes_a_hint_back_and_one_by_multicast_stands_against_it(hints):
    hints.hint(registration(), 0.0, host=HOST)
    assert hints.unhint(KEY)
    assert (hints.get(KEY), hints.kinds()) == (None, [ChangeKind.REGISTERED, ChangeKind.LEFT])
    assert not hints.unhint(KEY)
    hints.hint(registration(at=AT + 99), 1.0, host=HOST)
    assert hints.unregister(KEY, AT + 1, 2.0) is Outcome.SUCCESS
    assert not hints.hint(registration(at=AT + 999), 3.0, host=HOST), "mDNS remembers longer than is true"
    hints.run(100.0)
    assert hints.hint(registration(), 100.0, host=HOST)


def test_hints_have_a_bound_and_take_no_room_from_registrations(hints, monkeypatch):
    monkeypatch.setattr(limits, "LAN_HINTS", 2)
    monkeypatch.setattr(limits, "LAN_SKILLS", 2)
    assert [hints.hint(registration(one), 0.0, host=HOST) for one in "abc"] == [True, True, False]
    taken = [hints.register(registration(one), 0.0, is_verified=False, host=HOST)[0] for one in "dae"]
    assert taken == [Outcome.SUCCESS, Outcome.SUCCESS, Outcome.INVALID]
    assert hints.hint(registration("f"), 0.0, host=HOST), "a hint that was registered made room"


@pytest.mark.spec("SDP-mass-expiry")
def test_made_up_hints_make_nobody_suspect_the_network():
    hints = Kept()
    hints.set_own_host(HOST)
    for number in range(50):
        hints.hint(registration(f"hint-{number}"), 0.0, host=HOST)
    for number in range(20):
        hints.register(registration(f"agent-{number:02}"), 0.0, is_verified=False, host=HOST)
    hints.beat(*(f"agent-{number:02}" for number in range(19)), until=121)
    assert not hints.network_is_suspected(120.0)
    assert hints.get(("agent-19", KEY[1])) is None
    assert sum(listed.is_hint for listed in hints) == 50, "of hints so many at once are the network"
    assert all(listed.health.is_stale for listed in hints if listed.is_hint)


ACTS = st.sampled_from(["hint", "other hint", "unhint", "register", "goodbye", "probe", "wait"])


@pytest.mark.spec("SDP-mdns-hint")
@given(st.lists(st.tuples(ACTS, st.sampled_from(["a", "b"])), max_size=25))
def test_whatever_comes_a_registration_outlasts_hints_and_the_books_are_right(acts):
    hints, now, registered = Kept(answers=True), 0.0, {}
    for number, (act, agent) in enumerate(acts):
        key, now = (agent, KEY[1]), now + 1.0
        if act == "register":
            message = registration(agent, at=AT + number)
            assert hints.register(message, now, is_verified=False, host=HOST)[0] in {Outcome.SUCCESS, Outcome.DUPLICATE}
            registered[key] = message
        elif act == "goodbye":
            hints.unregister(key, AT + number, now)
            registered.pop(key, None)
        elif act == "probe":
            hints.answered_probe(key, now)
        elif act == "wait":
            now += 9.0
            hints.run(now)
            for known in registered:
                hints.on_heartbeat(known, HealthStatus.HEALTHY, AT + number, now)
        elif act == "unhint":
            was_hint = (found := hints.get(key)) is not None and found.is_hint
            assert hints.unhint(key) is was_hint
        else:
            version = "2.0.0" if act == "other hint" else "1.0.0"
            hints.hint(registration(agent, at=AT + 10**6, version=version), now, host=HOST)
        listed = {one.key: one for one in hints}
        assert {key: one.registration for key, one in listed.items() if not one.is_hint} == registered
        assert {one.key for one in hints.find(Discover("x", (), (), (), AT))} == registered.keys()
        assert hints.count_of_host(HOST) == len(registered)
        assert sum(change.after is None for change in hints.told) + len(listed) == sum(
            change.before is None for change in hints.told
        )


@pytest.mark.spec("SDP-mdns-hint")
def test_agents_tell_nobody_of_what_mdns_alone_told_them():
    lan = Lan()
    lan.node("10.0.0.1", REGISTRY)
    lan.node("10.0.0.3", ASKS)
    message = registration(endpoint=Endpoint("10.0.0.2", 8080))
    assert lan.do("10.0.0.1", lambda node, now: node.hint(message, "10.0.0.2", now))
    lan.do("10.0.0.3", lambda node, now: node.searches.discover(now))
    lan.do("10.0.0.3", lambda node, now: node.memberships.request("auth", (), now, is_join=False))
    lan.run(3)
    (found,) = lan.events(Discovered)
    assert found.skills == ()
    assert lan.events(SceneMissing) == [SceneMissing("auth", is_certain=True)]
    lan.node("10.0.0.2", OFFERS, agent_id="agent-001")
    lan.offer("10.0.0.2", "skill-org-feishu")
    lan.run(2)
    (listed,) = lan.nodes["10.0.0.1"].registry
    assert not listed.is_hint
    assert [change.kind for change in lan.events(Change)] == [ChangeKind.REGISTERED, ChangeKind.REGISTERED]
    assert not lan.do("10.0.0.1", lambda node, now: node.unhint(KEY, now))
