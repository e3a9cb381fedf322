from __future__ import annotations

import socket

import pytest

from skillwire.adapters.http.names import known_addresses, look_up, socket_address
from skillwire.errors import FetchError


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("192.0.2.1", ("192.0.2.1",)),
        ("2001:db8::1", ("2001:db8::1",)),
        ("localhost", ("127.0.0.1", "::1")),
        ("a.localhost", ("127.0.0.1", "::1")),
        ("example.com", None),
        ("notlocalhost", None),
    ],
)
def test_what_needs_no_lookup(host, addresses):
    assert known_addresses(host) == addresses


def test_addresses_come_once_and_in_order(monkeypatch):
    found = [(socket.AF_INET6, 1, 6, "", ("::2", 0, 0, 0))] + [(socket.AF_INET, 1, 6, "", ("192.0.2.1", 0))] * 2
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert look_up("a.example") == ["::2", "192.0.2.1"]


@pytest.mark.parametrize("error", [socket.gaierror(-2, "unknown"), UnicodeError("label too long")])
def test_a_name_that_is_not_known(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(FetchError) as caught:
        look_up("a.example")
    assert caught.value.code == "HOST_NOT_FOUND"
    assert caught.value.retryable


def test_a_socket_is_told_the_number_of_the_interface_that_an_address_names():
    number, name = socket.if_nameindex()[0]
    assert socket_address("192.0.2.1", 80) == ("192.0.2.1", 80)
    assert socket_address("2001:db8::1", 80) == ("2001:db8::1", 80)
    assert socket_address(f"fe80::1%{name}", 80) == ("fe80::1", 80, 0, number)
    assert socket_address("fe80::1%7", 80) == ("fe80::1", 80, 0, 7)
    with pytest.raises(OSError, match="no interface nowhere"):
        socket_address("fe80::1%nowhere", 80)
