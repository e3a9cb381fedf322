"""The addresses at which serve listens with its options, and what it tells others and warns of."""

import socket
from contextlib import ExitStack

import pytest

from skillwire.adapters.lan import sockets
from skillwire.adapters.lan.sockets import LinkAddress
from skillwire.cli.serve import announced_at, base_url_warning, exposure_warning, read_dht, read_lan
from skillwire.errors import SkillwireError, UsageError
from skillwire.protocols.skill_discovery.settings import DhtSettings, LanSettings
from skillwire.server.run import listen_for

CONFIGURED = LanSettings(port=5001)
EVERY = "0.0.0.0"  # noqa: S104  # what is listened at
UNREACHED = "the server listens on 127.0.0.1 alone; unless a proxy listens there, add --host {}"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def hosts(lan, host, port=0):
    with ExitStack() as stack:
        return [stack.enter_context(one).getsockname()[0] for one in listen_for(lan, host, port)]


def test_it_listens_where_others_reach_it_only_with_lan():
    assert hosts(None, None) == ["127.0.0.1"]
    assert hosts(CONFIGURED, None)[0] == EVERY
    assert hosts(CONFIGURED, "127.0.0.1") == ["127.0.0.1"]
    assert hosts(None, EVERY) == [EVERY]


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_it_listens_in_both_families_at_one_port():
    with ExitStack() as stack:
        listeners = [stack.enter_context(one) for one in listen_for(CONFIGURED, None, 0)]
        assert [one.getsockname()[0] for one in listeners] == [EVERY, "::"]
        assert len({one.getsockname()[1] for one in listeners}) == 1
        with pytest.raises(SkillwireError, match="PORT_IN_USE"):
            listen_for(CONFIGURED, None, listeners[0].getsockname()[1])


HERE = (
    LinkAddress("lo", 1, "127.0.0.1", 0x49),
    LinkAddress("eth0", 2, "192.0.2.2"),
    LinkAddress("eth0", 2, "2001:db8::2"),
    LinkAddress("eth1", 3, "198.51.100.2"),
)


@pytest.mark.parametrize(
    ("host", "names", "told"),
    [
        (None, (), ["http://192.0.2.2:{}", "http://198.51.100.2:{}", "http://[2001:db8::2]:{}"]),
        (None, ("eth1",), ["http://198.51.100.2:{}"]),
        (EVERY, (), ["http://192.0.2.2:{}", "http://198.51.100.2:{}"]),
        ("127.0.0.1", (), ["http://127.0.0.1:{}"]),
        (None, ("nosuch",), []),
    ],
)
def test_where_others_are_told_that_it_is(monkeypatch, host, names, told):
    monkeypatch.setattr(sockets, "present", lambda: list(HERE))
    lan = read_lan(None, lan=True, interfaces=names, discovery=None)
    with ExitStack() as stack:
        listeners = [stack.enter_context(one) for one in listen_for(lan, host, 0)]
        port = listeners[0].getsockname()[1]
        has_ipv6 = host is not None or len(listeners) > 1
        wanted = [one.format(port) for one in told if has_ipv6 or "[" not in one]
        assert announced_at(lan, listeners) == wanted
        assert announced_at(None, listeners) == []


@pytest.mark.parametrize(
    ("host", "names", "warned"),
    [
        (None, (), "open to the network: "),
        ("127.0.0.1", (), "announced to this machine only: "),
        ("127.0.0.1", ("lo",), None),
        (EVERY, (), None),
    ],
)
def test_a_server_that_more_or_fewer_reach_than_is_usual_says_so(host, names, warned):
    lan = read_lan(None, lan=True, interfaces=names, discovery=None)
    with ExitStack() as stack:
        listeners = [stack.enter_context(one) for one in listen_for(lan, host, 0)]
        reach = exposure_warning(lan, host, listeners)
        assert (reach and reach[0]) == warned
        without_lan = exposure_warning(None, host, listeners)
        assert (without_lan and without_lan[0]) == (None if host == "127.0.0.1" else "open to the network: ")
        reach = exposure_warning(lan, host, listeners, is_dht=True)
        assert (reach is not None and reach[0] == "not announced to others: ") == (host == "127.0.0.1" and not names)


@pytest.mark.parametrize(
    ("base", "host", "fix"),
    [
        ("http://10.77.0.1:{0}", None, UNREACHED.format(EVERY)),
        ("http://[fd00::1]:{0}/team", None, UNREACHED.format("::")),
        ("https://10.77.0.1:{0}", None, None),
        ("http://10.77.0.1:{0}", EVERY, None),
        ("http://127.0.0.1:{0}", None, None),
        ("http://10.77.0.1", None, None),
        ("http://10.77.0.2:{0}", None, None),
        ("http://skills.example.com:{0}", None, None),
    ],
)
def test_a_base_url_at_which_this_machine_does_not_listen_is_told(monkeypatch, base, host, fix):
    ours = [sockets.LinkAddress("eth0", 2, host, 0, 24) for host in ("10.77.0.1", "fd00::1")]
    monkeypatch.setattr(sockets, "present", lambda: ours)
    with ExitStack() as stack:
        listeners = [stack.enter_context(one) for one in listen_for(None, host, 0)]
        base = base.format(listeners[0].getsockname()[1])
        assert base_url_warning(base, listeners) == ((f"not reached at {base}: ", fix) if fix else None)
        assert base_url_warning(None, listeners) is None


def test_interfaces_that_cannot_be_listed_keep_no_server_from_beginning(monkeypatch):
    def fail():
        raise UsageError("LAN_UNAVAILABLE", "the library that lists interfaces is missing")

    monkeypatch.setattr(sockets, "present", fail)
    lan = read_lan(None, lan=True, interfaces=(), discovery=None)
    with ExitStack() as stack:
        listeners = [stack.enter_context(one) for one in listen_for(lan, None, 0)]
        assert announced_at(lan, listeners) == []


def test_the_dht_is_for_the_option_or_the_configuration_of_the_server(tmp_path):
    enabled = LanSettings(dht=DhtSettings(enabled=True))
    assert read_dht(None, dht=False, discovery=None) is None
    assert read_dht(CONFIGURED, dht=False, discovery=None) is None
    assert read_dht(CONFIGURED, dht=True, discovery=None) is CONFIGURED
    assert read_dht(enabled, dht=False, discovery=None) is enabled
    own = tmp_path / "home" / "config" / "skillwire.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[discovery.dht]\nenabled = true\nk = 4\n")
    assert read_dht(None, dht=False, discovery=None) is None, "the user's own settings publish nothing"
    assert read_dht(None, dht=True, discovery=None) == LanSettings(dht=DhtSettings(enabled=True, k=4))
    (tmp_path / "named.yaml").write_text("dht:\n  port: 7000\n")
    named = read_dht(enabled, dht=True, discovery=str(tmp_path / "named.yaml"))
    assert named == LanSettings(dht=DhtSettings(port=7000))


def test_a_file_of_discovery_needs_the_lan_or_the_dht():
    with pytest.raises(UsageError, match="requires"):
        read_lan(None, lan=False, interfaces=(), discovery="x.yaml")
    assert read_lan(None, lan=False, interfaces=(), discovery="x.yaml", dht=True) is None
    with pytest.raises(UsageError, match="--interface"):
        read_lan(None, lan=False, interfaces=("eth0",), discovery=None, dht=True)
