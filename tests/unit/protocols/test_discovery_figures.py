"""Each figure of health is a setting: with another one something else happens, at another time."""

from dataclasses import replace

import pytest
from tests.support.datagrams import registration
from tests.support.lan import OFFERS, REGISTRY, Lan

from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import decode
from skillwire.protocols.skill_discovery.doubts import SILENT_SKILL
from skillwire.protocols.skill_discovery.listing import Change, What
from skillwire.protocols.skill_discovery.messages import HealthStatus
from skillwire.protocols.skill_discovery.registry import Registry
from skillwire.protocols.skill_discovery.settings import DiscoverySettings

AT = 1_707_868_800_000
SKILL = "skill-org-feishu"
KEY = "agent-00", SKILL
HEALTHY, UNHEALTHY, OFFLINE = HealthStatus.HEALTHY, HealthStatus.UNHEALTHY, HealthStatus.OFFLINE


class Watch:
    """A registry with figures, which keeps what it tells and when."""

    def __init__(self, figures, count=1):
        self.told: list[tuple[float, Change]] = []
        self.now = 0.0
        self.registry = Registry(figures, lambda change: self.told.append((self.now, change)))
        for number in range(count):
            message = registration(f"agent-{number:02}", at=AT)
            self.registry.register(message, 0.0, is_verified=False, host="192.168.1.100")

    def run(self, until):
        while (due := self.registry.timer()) is not None and due <= until:
            self.now = due
            self.registry.on_timer(due)
        self.now = until

    def beat(self, at, status=HEALTHY, key=KEY):
        self.run(at)
        self.registry.told(key, status, AT + int(at * 1000), at)

    def status(self):
        """Return how the skill is."""
        listed = self.registry.get(KEY)
        assert listed is not None
        return listed.health.status

    def first(self, what, status=None):
        """Return when something was told first; None when it was not."""
        return next(
            (
                at
                for at, change in self.told
                if change.what is what
                and (status is None or (change.after is not None and change.after.health.status is status))
            ),
            None,
        )


def suspected(figures):
    watch = Watch(figures)
    watch.run(1000)
    return watch.first(What.SUSPECTED)


def unhealthy(figures):
    watch = Watch(figures)
    watch.run(1000)
    return watch.first(What.STATUS, UNHEALTHY)


def evicted(figures):
    watch = Watch(figures)
    watch.run(1000)
    return watch.first(What.EVICTED)


def recovered(figures):
    """Return after how many good beats a skill that fell is well."""
    watch = Watch(figures)
    watch.beat(1, OFFLINE)
    for number in range(20):
        watch.beat(2 + number)
    return watch.first(What.STATUS, HEALTHY) - 1


def held_down(figures, pause=2.0, falls=6):
    """Return when a skill that fell so often is well again after the last time."""
    watch, now = Watch(figures), 0.0
    for _ in range(falls):
        watch.beat(now := now + pause, OFFLINE)
        for _ in range(figures.good_beats):
            watch.beat(now := now + pause)
    since = now
    while watch.status() is not HEALTHY:
        watch.beat(now := now + 1)
    return now - since


def kept(figures):
    """Return how many of ten are left when four have been silent for long, and the others have not."""
    watch = Watch(figures, 10)
    for now in range(2, 90, 2):
        for number in range(6):
            watch.beat(float(now), key=(f"agent-{number:02}", SKILL))
    return len(watch.registry)


def stale(figures):
    """Return when the last of those is forgotten who were all silent at once."""
    watch = Watch(figures, 10)
    watch.run(5000)
    return max(at for at, change in watch.told if change.what is What.EVICTED)


def probed(figures):
    """Return when a hint is probed."""
    watch = Watch(figures, 0)
    watch.registry.hint(registration(), 0.0, host="192.168.1.100")
    watch.run(100)
    return watch.first(What.SUSPECTED)


def sent_in_a_minute(lan):
    """Return what everybody sends in the next minute; nothing of it arrives."""
    found: list[m.Message] = []
    lan._send = lambda sender, datagram: found.append(decode(datagram.data))  # noqa: ARG005 - the form of a network
    lan.run(60)
    return found


def asked(figures):
    """Return how often a dead skill is asked whether it is there."""
    lan = Lan()
    lan.node("10.0.0.1", REGISTRY, settings=figures)
    lan.node("10.0.0.2", OFFERS)
    lan.offer("10.0.0.2", "skill")
    lan.run(3)
    lan.crash("10.0.0.2")
    answers = [one for one in sent_in_a_minute(lan) if isinstance(one, m.RegisterAck)]
    return len([one for one in answers if one.message.endswith(SILENT_SKILL)])


def beats(figures):
    """Return how many heartbeats a skill sends in a minute."""
    lan = Lan()
    lan.node("10.0.0.2", OFFERS, settings=figures)
    lan.offer("10.0.0.2", "skill")
    lan.run(10)
    return len([one for one in sent_in_a_minute(lan) if isinstance(one, m.Heartbeat)])


@pytest.mark.spec("SDP-configuration-figures")
@pytest.mark.parametrize(
    ("seen", "figures", "by_default", "otherwise"),
    [
        (suspected, {"heartbeat_interval": 2.0}, 10.0, 4.0),
        (beats, {"heartbeat_interval": 2.0}, (12, 14), (30, 34)),
        (suspected, {"suspect_missed": 1}, 10.0, 5.0),
        (unhealthy, {"unhealthy_missed": 4}, 15.0, 20.0),
        (asked, {"retry_count": 1}, 3, 1),
        (evicted, {"eviction": 60.0}, 30.0, 60.0),
        (recovered, {"good_beats": 5}, 2.0, 5.0),
        (held_down, {"flap_limit": 100.0}, (8, 40), 0.0),
        (held_down, {"hold_down": 100.0}, (8, 40), (80, 110)),
        (held_down, {"flap_half_life": 0.5}, (8, 40), 0.0),
        (kept, {"mass_share": 0.5}, 10, 6),
        (kept, {"mass_least": 5}, 10, 6),
        (stale, {"stale": 100.0}, (600, 660), (100, 160)),
        (probed, {"hint_interval": 60.0}, 30.0, 60.0),
    ],
    ids=lambda value: getattr(value, "__name__", None) or "-".join(value) if isinstance(value, dict) else None,
)
def test_another_figure_makes_another_thing_happen(seen, figures, by_default, otherwise):
    for settings, expected in (
        (DiscoverySettings(), by_default),
        (replace(DiscoverySettings(), **figures), otherwise),
    ):
        found = seen(settings)
        if isinstance(expected, tuple):
            assert expected[0] <= found <= expected[1]
        else:
            assert found == pytest.approx(expected, abs=0.05)


@pytest.mark.spec("SDP-clock")
@pytest.mark.parametrize("host", ["10.0.0.1", "10.0.0.2"])
def test_whoever_sets_a_clock_makes_nobody_suspect(host):
    """Timers run by the steady clock; timestamps of an agent whose clock was set back still rise."""
    lan = Lan()
    lan.node("10.0.0.1", REGISTRY)
    lan.node("10.0.0.2", OFFERS)
    lan.offer("10.0.0.2", "skill")
    for skew in (0.0, -25.0, 25.0, -20.0, 0.0):
        lan._hosts[host].skew = skew
        lan.run(20)
        assert lan.listed("10.0.0.1") == {("agent-10.0.0.2", "skill"): "HEALTHY"}
    assert {change.what for change in lan.events(Change)} == {What.REGISTERED}


@pytest.mark.spec("SDP-clock")
@pytest.mark.parametrize("skew", [3600.0, -3600.0])
@pytest.mark.parametrize("host", ["10.0.0.1", "10.0.0.2"])
def test_whose_clock_was_wrong_is_heard_as_soon_as_it_is_right(host, skew):
    lan = Lan()
    lan.node("10.0.0.1", REGISTRY, skew=skew if host == "10.0.0.1" else 0.0)
    lan.node("10.0.0.2", OFFERS, skew=skew if host == "10.0.0.2" else 0.0)
    lan.offer("10.0.0.2", "skill")
    lan.run(20)
    assert lan.listed("10.0.0.1") == {}
    lan._hosts[host].skew = 0.0
    lan.run(7)
    assert lan.listed("10.0.0.1") == {("agent-10.0.0.2", "skill"): "HEALTHY"}
