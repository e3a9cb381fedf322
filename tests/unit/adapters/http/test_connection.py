import socket

import pytest

from skillwire import limits
from skillwire.adapters.http.connection import ConnectionPool, known_addresses, resolve_host, socket_address
from skillwire.errors import FetchError
from skillwire.model.url import parse_url
from skillwire.trust.address import AddressPolicy


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


A, B = parse_url("https://a.example/"), parse_url("https://b.example/")
PUBLIC = AddressPolicy()


class Connection:
    def __init__(self, address="192.88.98.1", *, quiet=True):
        self.address = address
        self.quiet = quiet
        self.closed = False

    def is_quiet(self):
        return self.quiet

    def close(self):
        self.closed = True


@pytest.fixture
def kept():
    return ConnectionPool()


def test_the_one_used_last_is_taken_first_and_by_its_origin_only(kept):
    first, second = Connection(), Connection()
    kept.keep(A.origin, first)
    kept.keep(A.origin, second)
    assert kept.take(PUBLIC, B) is None
    assert [kept.take(PUBLIC, A) for _ in range(3)] == [second, first, None]


@pytest.mark.parametrize("unusable", [Connection(quiet=False), Connection("127.0.0.1")])
def test_one_that_has_ended_or_is_no_longer_allowed_is_closed(kept, unusable):
    usable = Connection()
    for connection in (usable, unusable):
        kept.keep(A.origin, connection)
    assert kept.take(PUBLIC, A) is usable
    assert unusable.closed
    assert not usable.closed


def test_the_oldest_goes_when_there_are_too_many_and_closing_closes_all(kept):
    connections = [Connection() for _ in range(limits.HTTP_KEPT + 1)]
    for connection in connections:
        kept.keep(A.origin, connection)
    assert [connection.closed for connection in connections] == [True] + [False] * limits.HTTP_KEPT
    kept.close()
    assert all(connection.closed for connection in connections)
    assert kept.take(PUBLIC, A) is None
