"""Addresses of the local network in commands: where ``share`` listens, and what a login there tells the network."""

import io
from types import SimpleNamespace

import pytest

from skillwire.adapters.lan import sockets
from skillwire.adapters.lan.sockets import LinkAddress
from skillwire.cli import auth, share
from skillwire.cli.auth import LoginPlan
from skillwire.cli.main import run

UP = 0x1 | 0x1000 | 0x40  # up, with multicast and running


class NoRoute(io.BytesIO):
    def connect(self, _):
        raise OSError("network is unreachable")


@pytest.mark.parametrize(
    ("present", "address"),
    [
        ([LinkAddress("lo", 1, "127.0.0.1", 0x49, 8), LinkAddress("eth0", 2, "10.0.0.7", UP, 24)], "10.0.0.7"),
        ([LinkAddress("lo", 1, "127.0.0.1", 0x49, 8)], "127.0.0.1"),
        ([], "127.0.0.1"),
    ],
)
def test_without_a_default_route_a_skill_is_shared_at_the_address_of_an_interface(monkeypatch, present, address):
    monkeypatch.setattr(share, "socket", SimpleNamespace(socket=lambda *_: NoRoute(), AF_INET=2, SOCK_DGRAM=2))
    monkeypatch.setattr(sockets, "present", lambda: present)
    assert share._own_address() == address


@pytest.mark.parametrize(
    ("origin", "is_warned"),
    [("http://10.0.0.3:9000", True), ("http://127.0.0.1:9000", False), ("https://example.com", False)],
)
def test_a_login_that_the_network_can_read_is_warned_of(monkeypatch, tmp_path, capsys, origin, is_warned):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    monkeypatch.setattr(auth, "log_in", lambda *_: LoginPlan(origin, "api_key", None, (), ()))
    assert run(["auth", "login", origin, "--dry-run"]) == 0
    warned = "not encrypted: others on the network can read the token for 10.0.0.3" in capsys.readouterr().err
    assert warned is is_warned
