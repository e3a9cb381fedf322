from __future__ import annotations

import socket

import pytest

from skillwire import limits
from skillwire.adapters.http.connection import ConnectionPool, known_addresses, resolve_host, socket_address
from skillwire.errors import FetchError
from skillwire.model.url import Origin


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
    assert resolve_host("a.example") == ["::2", "192.0.2.1"]


@pytest.mark.parametrize("error", [socket.gaierror(-2, "unknown"), UnicodeError("label too long")])
def test_a_name_that_is_not_known(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(FetchError) as caught:
        resolve_host("a.example")
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


A, B = Origin("https://a.example"), Origin("https://b.example")


class Connection:
    closed = False

    def close(self) -> None:
        self.closed = True


def test_the_one_used_last_is_taken_first():
    kept: ConnectionPool[Connection] = ConnectionPool()
    first, second = Connection(), Connection()
    kept.keep(A, first)
    kept.keep(A, second)
    assert [kept.take(A) for _ in range(3)] == [second, first, None]


def test_an_origin_gets_its_own_only():
    kept: ConnectionPool[Connection] = ConnectionPool()
    kept.keep(A, Connection())
    assert kept.take(B) is None


def test_the_oldest_goes_when_there_are_too_many():
    kept: ConnectionPool[Connection] = ConnectionPool()
    connections = [Connection() for _ in range(limits.HTTP_KEPT + 1)]
    for connection in connections:
        kept.keep(A, connection)
    assert [connection.closed for connection in connections] == [True] + [False] * limits.HTTP_KEPT


def test_closing_closes_all():
    kept: ConnectionPool[Connection] = ConnectionPool()
    connection = Connection()
    kept.keep(A, connection)
    kept.close()
    assert connection.closed
    assert kept.take(A) is None
