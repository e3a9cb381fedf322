"""The configuration of discovery: what the text writes, our keys beside, and what is said of mistakes."""

import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.datagrams import registration
from tests.support.lan import OFFERS, REGISTRY, Lan

from skillwire.errors import DecodeError, ValidationError
from skillwire.protocols.skill_discovery import messages as m
from skillwire.protocols.skill_discovery.codec import decode
from skillwire.protocols.skill_discovery.health import Change, ChangeKind
from skillwire.protocols.skill_discovery.messages import HealthStatus, Profile
from skillwire.protocols.skill_discovery.registry import Registry
from skillwire.protocols.skill_discovery.scheduling import SILENT_SKILL
from skillwire.protocols.skill_discovery.settings import (
    KEYS,
    CacheSettings,
    DhtSettings,
    DiscoverySettings,
    LanSettings,
    read_discovery,
    read_discovery_yaml,
)
from skillwire.trust.guarded_toml import toml_place

DOCS = Path(__file__).parents[4] / "docs"
#: SDP 13.2 as it is written.
REFERENCE = b"""\
discovery:
  udp:
    enabled: true
    multicastGroup: 224.0.0.1
    port: 54321
    broadcastInterval: 5000
    timeout: 30000
  
  dht:
    enabled: true
    bootstrapNodes:
      - host: dht1.ooder.net
        port: 6881
    replicationFactor: 3
  
  skillCenter:
    enabled: true
    url: https://skillcenter.ooder.net
    timeout: 10000
    cache:
      enabled: true
      ttl: 300000
  
  healthCheck:
    heartbeatInterval: 5000
    timeout: 30000
    retryCount: 3
    unhealthyThreshold: 3
"""  # noqa: W293 - the text's own bytes

#: A value for each key that is not its default, as TOML and JSON have it.
OTHER = {
    "agentId": "agent-009",
    "goodbye": "UPGRADE",
    "udp.enabled": False,
    "udp.multicastGroup": "239.1.2.3",
    "udp.multicastGroup6": "ff15::1",
    "udp.port": 12345,
    "udp.ttl": 4,
    "udp.interfaces": ["eth0", "192.168.1.5"],
    "udp.broadcastInterval": 4000,
    "udp.timeout": 40000,
    "udp.announceInterval": 30000,
    "udp.patience": 500,
    "udp.quiet": 200,
    "udp.quietAll": 900,
    "udp.datagramsPerSecond": 40,
    "mdns.enabled": False,
    "mdns.probeInterval": 10000,
    "trust.profile": "signed",
    "trust.useUnverified": True,
    "trust.roots": ["root.pem"],
    "trust.intermediates": ["center.pem"],
    "trust.revocations": ["https://example.com/revoked"],
    "trust.groupKeyFile": "key",
    "trust.renewFrom": "https://example.com",
    "trust.authority": "ca",
    "trust.tlsPort": 8443,
    "healthCheck.heartbeatInterval": 2000,
    "healthCheck.timeout": 60000,
    "healthCheck.retryCount": 5,
    "healthCheck.unhealthyThreshold": 5,
    "healthCheck.suspectThreshold": 1,
    "healthCheck.goodHeartbeats": 4,
    "healthCheck.flapLimit": 5.5,
    "healthCheck.flapHalfLife": 30000,
    "healthCheck.holdDown": 10000,
    "healthCheck.massShare": 0.5,
    "healthCheck.massLeast": 10,
    "healthCheck.staleTimeout": 300000,
    "cache.enabled": False,
    "cache.ttl": 100000,
    "cache.maxSize": 10,
    "cache.refreshBeforeExpiry": 5000,
    "skillCenter.cache.enabled": False,
    "skillCenter.cache.ttl": 1000,
    "hedge": True,
    "dht.enabled": True,
    "dht.replicationFactor": 2,
    "dht.port": 0,
    "dht.k": 16,
    "dht.announceRestricted": True,
}
#: What stands as it is written nowhere else, or has the value of the text already.
LATER = {
    "dht.bootstrapNodes": [{"host": "::1", "port": 1}],
    "skillCenter.enabled": True,
    "skillCenter.url": "https://example.com",
    "skillCenter.timeout": 1000,
}


def nested(values):
    document: dict[str, Any] = {}
    for path, value in values.items():
        *tables, name = path.split(".")
        table = document
        for one in tables:
            table = table.setdefault(one, {})
        table[name] = value
    return document


def setting(made, name):
    """Return what a key sets."""
    table, _, attribute = name.rpartition(".")
    return getattr(getattr(made, table) if table else made, attribute)


def refused(text):
    with pytest.raises(ValidationError) as caught:
        read_discovery_yaml(text.encode(), "lan.yaml")
    assert caught.value.code == "DISCOVERY_CONFIGURATION"
    return caught.value


@pytest.mark.spec("SDP-configuration")
def test_the_reference_of_the_text_gives_our_defaults():
    made = read_discovery_yaml(REFERENCE, "lan.yaml")
    dht = DhtSettings(enabled=True, bootstrap=(("dht1.ooder.net", 6881),))
    assert made == LanSettings(dht=dht, center_url="https://skillcenter.ooder.net")
    assert (made.discovery.heartbeat_interval, made.discovery.timeout, made.discovery.unhealthy_missed) == (
        5.0,
        30.0,
        3,
    )


@pytest.mark.spec("SDP-configuration")
def test_every_configuration_that_the_text_shows_is_read():
    path = Path(__file__).parents[4] / "shared/specs/001_cf3e5e586131a6c7.txt"
    if not path.is_file():
        pytest.skip("the texts of the protocols are not beside the repository")
    shown = re.findall(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL)
    assert len(shown) == 5
    assert shown[-1].encode() == REFERENCE
    for text in shown:
        made = read_discovery_yaml(text.encode(), "lan.yaml")
        assert made == LanSettings(dht=made.dht, center_url=made.center_url)


@pytest.mark.spec("SDP-configuration-figures")
@pytest.mark.parametrize("path", OTHER)
def test_each_key_sets_what_it_says(path):
    made, name = read_discovery(nested({path: OTHER[path]}), "x"), KEYS[path].sets
    assert setting(made, name) != setting(LanSettings(), name)


def test_every_key_is_tested_here_and_every_setting_can_be_set():
    assert OTHER.keys() | LATER.keys() == KEYS.keys()
    settable = {key.sets for key in KEYS.values()}
    own = {one.name for one in fields(LanSettings)} - {"cache", "discovery", "dht", "places"}
    assert own | {f"cache.{one.name}" for one in fields(CacheSettings)} <= settable


@pytest.mark.spec("SDP-configuration-figures")
def test_every_figure_of_health_is_a_setting():
    health = {
        "heartbeat_interval", "suspect_missed", "unhealthy_missed", "retry_count", "timeout", "good_heartbeats",
        "flap_limit", "flap_half_life", "hold_down", "mass_share", "mass_least", "stale_timeout", "hint_interval",
    }  # fmt: skip
    assert {f"discovery.{name}" for name in health} <= {key.sets for key in KEYS.values()}
    assert health <= {one.name for one in fields(DiscoverySettings)}


def test_a_skill_center_alone_is_enough():
    off = {"udp": {"enabled": False}, "mdns": {"enabled": False}}
    made = read_discovery({**off, "skillCenter": {"url": "https://center.example"}}, "x")
    assert (made.multicast, made.mdns, made.dht.enabled, made.uses_center) == (False, False, False, True)
    with pytest.raises(ValidationError, match="all turned off"):
        read_discovery({**off, "skillCenter": {"url": "https://center.example", "enabled": False}}, "x")


@pytest.mark.spec("SDP-configuration")
def test_yaml_and_toml_say_the_same():
    together = {path: value for path, value in OTHER.items() if path not in {"udp.timeout", "mdns.enabled"}}
    together = {path: value for path, value in together.items() if not path.startswith("skillCenter.cache")}
    made = read_discovery({"discovery": nested(together)}, "x")
    text = "discovery:\n"
    for path, value in sorted(together.items()):
        *tables, name = path.split(".")
        written = str(value).lower() if isinstance(value, bool) else value
        text += f"  {tables[0]}:\n" if tables and f"\n  {tables[0]}:\n" not in text else ""
        text += f"{'    ' if tables else '  '}{name}: {written}\n"
    assert read_discovery_yaml(text.encode(), "x") == made
    assert made.profile is Profile.SIGNED
    assert made.discovery.heartbeat_interval == 2.0, "healthCheck wins"
    assert made.interfaces == ("eth0", "192.168.1.5")


@pytest.mark.spec("SDP-configuration")
def test_the_nodes_and_the_center_are_read_and_validated():
    made = read_discovery(nested(LATER), "x")
    assert made == LanSettings(
        dht=DhtSettings(bootstrap=(("::1", 1),)), center_url="https://example.com", center_timeout=1.0
    )
    for path in LATER:
        with pytest.raises(ValidationError):
            read_discovery(nested({path: "?"}), "x")


@pytest.mark.spec("SDP-configuration")
def test_the_tables_of_single_sections_may_stand_beside_discovery():
    text = "discovery:\n  udp:\n    port: 1\nhealthCheck:\n  goodHeartbeats: 3\n"
    text += "cache:\n  maxSize: 7\ndht:\n  enabled: true\n"
    made = read_discovery_yaml(text.encode(), "x")
    assert (made.port, made.discovery.good_heartbeats, made.cache.max_size, made.dht.enabled) == (1, 3, 7, True)
    error = refused("discovery:\n  cache:\n    ttl: 1000\ncache:\n  ttl: 1000\n")
    assert "twice" in error.message


@pytest.mark.spec("SDP-configuration-errors")
@pytest.mark.parametrize(
    ("text", "line", "column", "fix"),
    [
        ("discovery:\n  upd:\n    port: 1\n", 2, 3, "Did you mean udp?"),
        ("discovery:\n  udp:\n    prot: 1\n", 3, 5, "Did you mean port?"),
        ("discovery:\n  port: 1\n", 2, 3, "It stands at dht.port or udp.port, below discovery."),
        ("discovery:\n  udp:\n    multicast_group: 224.0.0.1\n", 3, 5, "Did you mean multicastGroup?"),
        ("discovery:\n  udp:\n    x: 1\n", 3, 5, "Known are enabled, multicastGroup"),
        ("discoverie:\n  udp:\n", 1, 1, "Did you mean discovery?"),
        ("discovery:\n  udp: 5\n", 2, 3, "Write its keys below it."),
        ("discovery:\n  udp:\nudp: 3\n", 3, 1, "It stands at udp, below discovery."),
        ("healthCheck:\n  timeout: 3000\n", 2, 3, "which is 15000 ms"),
        ("healthCheck:\n  suspectThreshold: 4\n", 2, 3, "which is 3"),
        ("healthCheck:\n  staleTimeout: 10\n", 2, 3, "which is 30000 ms"),
        ("udp:\n  enabled: false\nmdns:\n  enabled: false\n", 4, 3, "in udp, in mdns or in dht, or a url"),
        ("cache:\n  ttl: 1000\n  refreshBeforeExpiry: 1000\n", 3, 3, "which is 1000 ms"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_to_write(text, line, column, fix):
    error = refused(text)
    assert (error.place.line, error.place.column) == (line, column)
    assert fix in error.fix


@pytest.mark.spec("SDP-configuration-errors")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("udp.enabled", "yes"),
        ("udp.enabled", 1),
        ("udp.multicastGroup", "192.168.1.1"),
        ("udp.multicastGroup", "ff12::1"),
        ("udp.multicastGroup", ""),
        ("udp.multicastGroup6", "224.0.0.1"),
        ("udp.multicastGroup6", "ff12::1%eth0"),
        ("udp.port", 0),
        ("udp.port", 65536),
        ("udp.port", True),
        ("udp.port", "54321"),
        ("udp.ttl", 256),
        ("udp.interfaces", [1]),
        ("udp.interfaces", [""]),
        ("udp.interfaces", ["x"] * 65),
        ("udp.broadcastInterval", 5.5),
        ("udp.broadcastInterval", 10),
        ("agentId", "agent 1"),
        ("goodbye", "ERROR"),
        ("goodbye", "upgrade"),
        ("agentId", ""),
        ("trust.profile", "OPEN"),
        ("trust.roots", {"a": 1}),
        ("trust.groupKeyFile", "a\nb"),
        ("healthCheck.massShare", 1.5),
        ("healthCheck.massShare", float("nan")),
        ("healthCheck.flapLimit", float("inf")),
        ("healthCheck.retryCount", -1),
        ("cache.maxSize", 10**9),
        ("dht.bootstrapNodes", [{"host": "a"}]),
        ("dht.bootstrapNodes", [{"host": "a b", "port": 1}]),
        ("dht.bootstrapNodes", ["a:1"]),
        ("dht.bootstrapNodes", [{"host": "a", "port": 0}]),
        ("dht.port", 65_536),
        ("dht.k", 21),
        ("skillCenter.url", "ftp:/x"),
    ],
)
def test_a_value_that_cannot_be_is_refused_and_named(path, value):
    with pytest.raises(ValidationError) as caught:
        read_discovery(nested({path: value}), "skillwire.toml")
    assert path.rpartition(".")[2] in caught.value.message
    assert caught.value.fix


def test_a_place_in_toml_is_told_where_the_reader_knows_it():
    text = "[discovery.udp]\nport = 1\nttl = 999\n"

    def place(path):
        return toml_place(text, path, "skillwire.toml")

    with pytest.raises(ValidationError) as caught:
        read_discovery(tomllib.loads(text), "skillwire.toml", place=place)
    assert str(caught.value.place).startswith("skillwire.toml:3")


@pytest.mark.spec("SDP-configuration-errors")
@pytest.mark.parametrize(
    ("text", "table"),
    [
        ('[discovery]\nudp = ""\n', "udp"),
        ("[discovery]\nmdns = []\n", "mdns"),
        ('[discovery]\ntrust = false\ngoodbye = "SHUTDOWN"\n', "trust"),
        ('discovery = ""\n', "discovery"),
        ('cache = ""\n\n[discovery]\n', "cache"),
    ],
)
def test_an_empty_text_is_no_table_in_toml(text, table):
    def place(path):
        return toml_place(text, path, "skillwire.toml")

    with pytest.raises(ValidationError) as caught:
        read_discovery(tomllib.loads(text), "skillwire.toml", place=place)
    assert caught.value.code == "DISCOVERY_CONFIGURATION"
    assert caught.value.message == f"{table} must be a table"
    assert caught.value.fix == "Write its keys below it."
    assert str(caught.value.place).startswith(f"skillwire.toml:{text[: text.index(table)].count(chr(10)) + 1}")


@pytest.mark.spec("SDP-configuration")
@pytest.mark.parametrize(
    "text",
    [
        "discovery:\n",
        "discovery:\n  udp:\n  mdns:\ncache:\n",
        'discovery:\n  trust: ""\n',
        "udp:\nhealthCheck:\n",
        "\n",
    ],
)
def test_a_section_of_yaml_with_nothing_below_it_sets_nothing(text):
    assert read_discovery_yaml(text.encode(), "lan.yaml") == LanSettings()


def test_paths_begin_at_the_folder_of_the_file_and_urls_stay():
    values = {"trust.roots": ["a.pem", "/b.pem"], "trust.revocations": ["https://x/y"], "trust.renewFrom": "ca"}
    made = read_discovery(nested(values), "x", folder="/etc/lan")
    assert made.roots == ("/etc/lan/a.pem", "/b.pem")
    assert made.revocations == ("https://x/y",)
    assert made.renew_from == "/etc/lan/ca"


def test_a_threshold_that_comes_early_moves_the_suspicion_before_it():
    made = read_discovery({"healthCheck": {"unhealthyThreshold": 1}}, "x")
    assert (made.discovery.suspect_missed, made.discovery.unhealthy_missed) == (1, 1)
    made = read_discovery({"cache": {"ttl": 10_000}}, "x")
    assert made.cache.refresh_before_expiry == 2.0


def test_what_is_no_yaml_is_told_as_that():
    for data in (b"\xff", b"a: &x 1\n", b"discovery: [1", b"- 1\n"):
        with pytest.raises(DecodeError):
            read_discovery_yaml(data, "lan.yaml")
    assert read_discovery_yaml(b"", "lan.yaml") == LanSettings()
    assert read_discovery_yaml(b"discovery:\n  udp:\n", "lan.yaml") == LanSettings()


AT = 1_707_868_800_000
SKILL = "skill-org-feishu"
KEY = "agent-00", SKILL
HEALTHY, UNHEALTHY, OFFLINE = HealthStatus.HEALTHY, HealthStatus.UNHEALTHY, HealthStatus.OFFLINE


class Watch:
    """A registry with figures, which keeps what it tells and when."""

    def __init__(self, figures, count=1):
        self.told: list[tuple[float, Change]] = []
        self.now = 0.0
        self.registry = Registry(figures)
        for number in range(count):
            message = registration(f"agent-{number:02}", at=AT)
            self.registry.register(
                message, 0.0, is_verified=False, host="192.168.1.100" if number < 6 else "192.168.1.7"
            )
        self._note()

    def _note(self):
        self.told += [(self.now, change) for change in self.registry.changes()]

    def run(self, until):
        while (due := self.registry.timer()) is not None and due <= until:
            self.now = due
            self.registry.on_timer(due)
            self._note()
        self.now = until

    def beat(self, at, status=HEALTHY, key=KEY):
        self.run(at)
        self.registry.on_heartbeat(key, status, AT + int(at * 1000), at)
        self._note()

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
                if change.kind is what
                and (status is None or (change.after is not None and change.after.health.status is status))
            ),
            None,
        )


def seen(*what):
    """Return what tells when a silent skill is first reported so."""

    def first(figures):
        watch = Watch(figures)
        watch.run(1000)
        return watch.first(*what)

    return first


def recovered(figures):
    """Return after how many good beats a skill that fell is well."""
    watch = Watch(figures)
    watch.beat(1, OFFLINE)
    for number in range(20):
        watch.beat(2 + number)
    return watch.first(ChangeKind.STATUS, HEALTHY) - 1


def held_down(figures, pause=2.0, falls=6):
    """Return when a skill that fell so often is well again after the last time."""
    watch, now = Watch(figures), 0.0
    for _ in range(falls):
        watch.beat(now := now + pause, OFFLINE)
        for _ in range(figures.good_heartbeats):
            watch.beat(now := now + pause)
    since = now
    while watch.status() is not HEALTHY:
        watch.beat(now := now + 1)
    return now - since


def kept(figures):
    """Return how many of ten are left when four have been silent for long, and our own have not."""
    watch = Watch(figures, 10)
    watch.registry.set_own_host("192.168.1.100")
    for now in range(2, 90, 2):
        for number in range(6):
            watch.beat(float(now), key=(f"agent-{number:02}", SKILL))
    return len(watch.registry)


def stale(figures):
    """Return when the last of those is forgotten who were all silent at once."""
    watch = Watch(figures, 10)
    watch.run(5000)
    return max(at for at, change in watch.told if change.kind is ChangeKind.EVICTED)


def probed(figures):
    watch = Watch(figures, 0)
    watch.registry.hint(registration(), 0.0, host="192.168.1.100")
    watch.run(100)
    return watch.first(ChangeKind.SUSPECTED)


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
    ("read", "figures", "by_default", "otherwise"),
    [
        (seen(ChangeKind.SUSPECTED), {"heartbeat_interval": 2.0}, 10.0, 4.0),
        (beats, {"heartbeat_interval": 2.0}, (12, 14), (30, 34)),
        (seen(ChangeKind.SUSPECTED), {"suspect_missed": 1}, 10.0, 5.0),
        (seen(ChangeKind.STATUS, UNHEALTHY), {"unhealthy_missed": 4}, 15.0, 20.0),
        (asked, {"retry_count": 1}, 3, 1),
        (seen(ChangeKind.EVICTED), {"timeout": 60.0}, 30.0, 60.0),
        (recovered, {"good_heartbeats": 5}, 2.0, 5.0),
        (held_down, {"flap_limit": 100.0}, (8, 40), 0.0),
        (held_down, {"hold_down": 100.0}, (8, 40), (80, 110)),
        (held_down, {"flap_half_life": 0.5}, (8, 40), 0.0),
        (kept, {"mass_share": 0.5}, 10, 6),
        (kept, {"mass_least": 5}, 10, 6),
        (stale, {"stale_timeout": 100.0}, (600, 660), (100, 160)),
        (probed, {"hint_interval": 60.0}, 30.0, 60.0),
    ],
    ids=lambda value: getattr(value, "__name__", None) or "-".join(value) if isinstance(value, dict) else None,
)
def test_another_figure_makes_another_thing_happen(read, figures, by_default, otherwise):
    for settings, expected in ((DiscoverySettings(), by_default), (replace(DiscoverySettings(), **figures), otherwise)):
        found = read(settings)
        if isinstance(expected, tuple):
            assert expected[0] <= found <= expected[1]
        else:
            assert found == pytest.approx(expected, abs=0.05)


def test_the_pages_state_the_default_deadlines():
    default, words = DiscoverySettings(), ["no", "one", "two", "three", "four", "five"]
    topic = (DOCS / "topics/lan.md").read_text()
    for missed in (default.suspect_missed, default.unhealthy_missed):
        assert f"| {missed * default.heartbeat_interval:g} s ({words[missed]} heartbeats) |" in topic
    assert f"a heartbeat every {default.heartbeat_interval:g} seconds" in topic
    assert f"| {default.timeout:g} s | removed |" in topic
    assert f"{default.unhealthy_missed} missed" in topic
    assert f"{words[default.good_heartbeats]} good heartbeats" in topic


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
    assert {change.kind for change in lan.events(Change)} == {ChangeKind.REGISTERED}


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
