from __future__ import annotations

from skillwire import limits
from skillwire.adapters.http.kept import Kept
from skillwire.model.url import Origin

A, B = Origin("https://a.example"), Origin("https://b.example")


class Connection:
    closed = False

    def close(self) -> None:
        self.closed = True


def test_the_one_used_last_is_taken_first():
    kept: Kept[Connection] = Kept()
    first, second = Connection(), Connection()
    kept.keep(A, first)
    kept.keep(A, second)
    assert [kept.take(A) for _ in range(3)] == [second, first, None]


def test_an_origin_gets_its_own_only():
    kept: Kept[Connection] = Kept()
    kept.keep(A, Connection())
    assert kept.take(B) is None


def test_the_oldest_goes_when_there_are_too_many():
    kept: Kept[Connection] = Kept()
    connections = [Connection() for _ in range(limits.HTTP_KEPT + 1)]
    for connection in connections:
        kept.keep(A, connection)
    assert [connection.closed for connection in connections] == [True] + [False] * limits.HTTP_KEPT


def test_closing_closes_all():
    kept: Kept[Connection] = Kept()
    connection = Connection()
    kept.keep(A, connection)
    kept.close()
    assert connection.closed
    assert kept.take(A) is None
