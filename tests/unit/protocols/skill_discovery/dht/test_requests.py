"""Requests of the DHT under way."""

from random import Random

import pytest

from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery.dht import messages as m
from skillwire.protocols.skill_discovery.dht.requests import Requests
from skillwire.testing.fake_network import EPOCH
from skillwire.wire.node import Peer

PEER = Peer("10.0.0.2", 4000)


def at(seconds):
    return Moment(EPOCH + seconds, seconds)


class Asker:
    """Asks one node, and keeps what becomes of it."""

    def __init__(self):
        self.settled: list[bool] = []
        self.done: list[tuple[float, object]] = []
        self.slow: list[float] = []
        random = Random(1)  # noqa: S311 - a simulation has to be repeatable
        self.requests = Requests(b"o" * 32, 0, random, lambda _, is_answered, __: self.settled.append(is_answered))

    def ask(self, seconds, **options):
        """Ask at a time; return the transaction."""
        fields = bytes(32), False, 0
        done, slow = (
            lambda answer, now: self.done.append((now.steady, answer)),
            lambda now: self.slow.append(now.steady),
        )
        self.requests.ask(PEER, b"n" * 32, m.Find, fields, at(seconds), done, slow, **options)
        return self.requests.outbox[-1].data[m.TRANSACTION]

    def answer(self, transaction, seconds, *, sender=b"n" * 32):
        return self.requests.take(m.Found(transaction, sender, 0, [], 0, 0, b""), PEER, at(seconds))

    def until(self, seconds):
        """Let time pass."""
        while (due := self.requests.timer()) is not None and due <= seconds:
            self.requests.on_timer(at(due))


@pytest.mark.spec("SDP-dht-find")
def test_a_request_is_sent_twice_and_then_given_up():
    asker = Asker()
    asker.ask(0.0)
    asker.until(5.0)
    assert [datagram.to for datagram in asker.requests.outbox] == [PEER, PEER]
    assert asker.requests.outbox[0] == asker.requests.outbox[1]
    assert asker.slow == [0.4]
    assert asker.done == [(0.8, None)]
    assert asker.settled == [False]
    asker.ask(10.0, is_once=True)
    asker.until(15.0)
    assert asker.done[1:] == [(10.4, None)]
    assert len(asker.requests.outbox) == 3


def test_the_timeout_follows_the_measured_round_trips():
    asker = Asker()
    for number in range(20):
        transaction = asker.ask(float(number))
        assert asker.answer(transaction, number + 0.1)
    asker.ask(30.0)
    asker.until(40.0)
    assert 30.1 < asker.slow[0] < 30.25
    for number in range(50, 70):
        asker.answer(asker.ask(float(number)), number + 0.001)
    asker.ask(80.0)
    asker.until(90.0)
    assert asker.slow[1] == pytest.approx(80.08)


def test_a_trip_that_needed_two_requests_is_not_measured():
    asker = Asker()
    transaction = asker.ask(0.0)
    asker.until(0.5)
    assert asker.answer(transaction, 0.7)
    asker.ask(1.0)
    asker.until(1.5)
    assert asker.slow == [0.4, 1.4]


@pytest.mark.spec("SDP-dht-find")
def test_a_node_that_answers_too_late_has_the_time_that_it_needs_from_then_on():
    asker = Asker()
    transaction = asker.ask(0.0)
    asker.until(1.0)
    assert asker.done == [(0.8, None)]
    assert asker.answer(transaction, 1.2)
    assert asker.settled == [False, True]
    assert not asker.answer(transaction, 1.3)
    transaction = asker.ask(2.0)
    asker.until(3.5)
    assert asker.answer(transaction, 3.6)
    assert [seconds for seconds, _ in asker.done] == [0.8, 3.6]
    assert asker.slow == [0.4]
    transaction = asker.ask(10.0)
    asker.until(16.0)
    assert not asker.answer(transaction, 16.0), "much too late"


@pytest.mark.spec("SDP-dht-proof")
def test_an_answer_of_another_node_counts_as_none_and_a_second_one_is_not_asked_for():
    asker = Asker()
    transaction = asker.ask(0.0)
    assert asker.answer(transaction, 0.1, sender=b"x" * 32)
    assert (asker.settled, asker.done) == ([False], [(0.1, None)])
    assert not asker.answer(transaction, 0.2)
    other = asker.ask(1.0)
    assert not asker.requests.take(m.Stored(other, b"n" * 32, 0, "stored", []), PEER, at(1.1)), "another type"
