"""What mDNS tells of skills: hints, which a registration replaces, and which answered probes alone keep alive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.datagrams import registration
from tests.support.lan import ASKS, OFFERS, REGISTRY, Lan

from skillwire import limits
from skillwire.protocols.skill_discovery.events import Discovered, SceneMissing
from skillwire.protocols.skill_discovery.listing import Change, What
from skillwire.protocols.skill_discovery.messages import Discover, Endpoint, HealthStatus, Outcome
from skillwire.protocols.skill_discovery.registry import Registry
from skillwire.protocols.skill_discovery.settings import DiscoverySettings

AT = 1_707_868_800_000
KEY = "agent-001", "skill-org-feishu"
HOST = "192.168.1.100"
SETTINGS = DiscoverySettings()


class Kept(Registry):
    """A registry that keeps what it tells, and whose probes are answered as long as ``answers``."""

    def __init__(self, *, answers=False):
        self.changes: list[Change] = []
        self.answers = answers
        super().__init__(SETTINGS, self.changes.append)

    def run(self, until):
        while (due := self.timer()) is not None and due <= until:
            told = len(self.changes)
            self.on_timer(due)
            for change in self.changes[told:]:
                if change.what is What.SUSPECTED and self.answers:
                    self.answered_probe(change.listed.key, due + 0.1)

    def kinds(self):
        return [change.what for change in self.changes]


@pytest.fixture
def registry():
    return Kept()


@pytest.mark.spec("SDP-mdns-hint")
def test_a_hint_is_listed_unknown_and_unverified_and_is_told_to_nobody_else(registry):
    assert registry.hint(registration(), 0.0, host=HOST)
    listed = registry.get(KEY)
    assert (listed.health.status, listed.is_verified, listed.is_hint) == (HealthStatus.UNKNOWN, False, True)
    assert registry.find(Discover("x", (), (), (), AT)) == []
    assert (registry.in_scene("auth"), registry.scenes()) == ([], [])
    assert (registry.owed_by("agent-001"), registry.owed_from(HOST)) == (0, 0), "a hint owes nothing, and lends nothing"


@pytest.mark.spec("SDP-mdns-hint")
def test_a_registration_takes_the_place_of_a_hint_and_is_never_replaced_by_one(registry):
    registry.hint(registration(at=AT + 99_999, version="9.0.0"), 0.0, host=HOST)
    assert not registry.told(KEY, HealthStatus.HEALTHY, AT + 1, 0.5), "a beat asks for the registration"
    assert registry.register(registration(), 1.0, is_verified=True, host=HOST)[0] is Outcome.SUCCESS
    assert not registry.hint(registration(version="9.0.0"), 2.0, host=HOST)
    assert not registry.unhint(KEY)
    listed = registry.get(KEY)
    assert (listed.registration.version, listed.is_hint, listed.is_verified) == ("0.7.0", False, True)
    assert registry.kinds() == [What.REGISTERED, What.REGISTERED]
    assert registry.changes[1].before.is_hint
    assert registry.scenes() == ["auth"]
    assert registry.owed_by("agent-001") == 1


@pytest.mark.spec("SDP-mdns-hint")
def test_a_hint_said_again_is_no_sign_of_life_and_said_otherwise_is_a_new_one(registry):
    registry.hint(registration(), 0.0, host=HOST)
    assert not registry.hint(registration(at=AT + 5), 20.0, host=HOST)
    assert registry.get(KEY).health.heard == 0.0
    assert registry.hint(registration(endpoint=Endpoint("192.168.1.7", 80)), 21.0, host=HOST)
    assert registry.get(KEY).health.heard == 21.0
    assert registry.kinds() == [What.REGISTERED, What.UPDATED]


@pytest.mark.spec("SDP-mdns-hint")
def test_a_hint_lives_as_long_as_its_endpoint_answers(registry):
    registry.hint(registration(), 0.0, host=HOST)
    registry.answers = True
    registry.run(600.0)
    assert registry.get(KEY).health.status is HealthStatus.UNKNOWN
    assert 15 <= registry.kinds().count(What.SUSPECTED) <= 21, "it is probed every 30 s"
    registry.answers = False
    heard = registry.get(KEY).health.heard
    registry.run(heard + 36.0)
    assert registry.get(KEY).health.status is HealthStatus.UNHEALTHY
    registry.run(heard + 51.0)
    assert registry.get(KEY) is None
    assert registry.kinds()[-1] is What.EVICTED
    registry.run(10_000.0)
    assert registry.timer() is None


@pytest.mark.spec("SDP-mdns-hint")
def test_a_hint_that_answers_again_may_be_called_again(registry):
    registry.hint(registration(), 0.0, host=HOST)
    registry.run(36.0)
    assert registry.get(KEY).health.status is HealthStatus.UNHEALTHY
    registry.answered_probe(KEY, 36.5)
    assert registry.get(KEY).health.status is HealthStatus.UNKNOWN


@pytest.mark.spec("SDP-mdns-hint")
def test_a_goodbye_by_mdns_takes_a_hint_back_and_one_by_multicast_stands_against_it(registry):
    registry.hint(registration(), 0.0, host=HOST)
    assert registry.unhint(KEY)
    assert (registry.get(KEY), registry.kinds()) == (None, [What.REGISTERED, What.LEFT])
    assert not registry.unhint(KEY)
    registry.hint(registration(at=AT + 99), 1.0, host=HOST)
    assert registry.unregister(KEY, AT + 1, 2.0) is Outcome.SUCCESS
    assert not registry.hint(registration(at=AT + 999), 3.0, host=HOST), "mDNS remembers longer than is true"
    registry.run(100.0)
    assert registry.hint(registration(), 100.0, host=HOST)


def test_hints_have_a_bound_and_take_no_room_from_registrations(registry, monkeypatch):
    monkeypatch.setattr(limits, "LAN_HINTS", 2)
    monkeypatch.setattr(limits, "LAN_SKILLS", 2)
    assert [registry.hint(registration(one), 0.0, host=HOST) for one in "abc"] == [True, True, False]
    taken = [registry.register(registration(one), 0.0, is_verified=False, host=HOST)[0] for one in "dae"]
    assert taken == [Outcome.SUCCESS, Outcome.SUCCESS, Outcome.INVALID]
    assert registry.hint(registration("f"), 0.0, host=HOST), "a hint that was registered made room"


@pytest.mark.spec("SDP-mass-expiry")
def test_made_up_hints_make_nobody_suspect_the_network():
    registry = Kept()
    for number in range(50):
        registry.hint(registration(f"hint-{number}"), 0.0, host=HOST)
    for number in range(20):
        registry.register(registration(f"agent-{number:02}"), 0.0, is_verified=False, host=HOST)
    for now in range(5, 121, 5):
        registry.run(now)
        for number in range(19):
            registry.told((f"agent-{number:02}", KEY[1]), HealthStatus.HEALTHY, AT + now, float(now))
    assert not registry.network_is_suspected(120.0)
    assert registry.get(("agent-19", KEY[1])) is None
    assert sum(listed.is_hint for listed in registry) == 50, "of hints so many at once are the network"
    assert all(listed.health.is_stale for listed in registry if listed.is_hint)


ACTS = st.sampled_from(["hint", "other hint", "unhint", "register", "goodbye", "probe", "wait"])


@pytest.mark.spec("SDP-mdns-hint")
@given(st.lists(st.tuples(ACTS, st.sampled_from(["a", "b"])), max_size=25))
def test_whatever_comes_a_registration_outlasts_hints_and_the_books_are_right(acts):
    registry, now, registered = Kept(answers=True), 0.0, {}
    for number, (act, agent) in enumerate(acts):
        key, now = (agent, KEY[1]), now + 1.0
        if act == "register":
            message = registration(agent, at=AT + number)
            assert registry.register(message, now, is_verified=False, host=HOST)[0] in {
                Outcome.SUCCESS,
                Outcome.DUPLICATE,
            }
            registered[key] = message
        elif act == "goodbye":
            registry.unregister(key, AT + number, now)
            registered.pop(key, None)
        elif act == "probe":
            registry.answered_probe(key, now)
        elif act == "wait":
            now += 9.0
            registry.run(now)
            for known in registered:
                registry.told(known, HealthStatus.HEALTHY, AT + number, now)
        elif act == "unhint":
            was_hint = (found := registry.get(key)) is not None and found.is_hint
            assert registry.unhint(key) is was_hint
        else:
            version = "2.0.0" if act == "other hint" else "1.0.0"
            registry.hint(registration(agent, at=AT + 10**6, version=version), now, host=HOST)
        listed = {one.key: one for one in registry}
        assert {key: one.registration for key, one in listed.items() if not one.is_hint} == registered
        assert {one.key for one in registry.find(Discover("x", (), (), (), AT))} == registered.keys()
        assert registry.owed_from(HOST) == len(registered)
        assert sum(change.after is None for change in registry.changes) + len(listed) == sum(
            change.before is None for change in registry.changes
        )


@pytest.mark.spec("SDP-mdns-hint")
def test_agents_tell_nobody_of_what_mdns_alone_told_them():
    lan = Lan()
    lan.node("10.0.0.1", REGISTRY)
    lan.node("10.0.0.3", ASKS)
    message = registration(endpoint=Endpoint("10.0.0.2", 8080))
    assert lan.do("10.0.0.1", lambda node, now: node.hint(message, "10.0.0.2", now))
    lan.do("10.0.0.3", lambda node, now: node.end_agent.discover(now))
    lan.do("10.0.0.3", lambda node, now: node.end_agent.want_scene("auth", (), now, is_request=True))
    lan.run(3)
    (found,) = lan.events(Discovered)
    assert found.skills == ()
    assert lan.events(SceneMissing) == [SceneMissing("auth", is_certain=True)]
    lan.node("10.0.0.2", OFFERS, agent_id="agent-001")
    lan.offer("10.0.0.2", "skill-org-feishu")
    lan.run(2)
    (listed,) = lan.nodes["10.0.0.1"].registry
    assert not listed.is_hint
    assert [change.what for change in lan.events(Change)] == [What.REGISTERED, What.REGISTERED]
    assert not lan.do("10.0.0.1", lambda node, now: node.unhint(KEY, now))
