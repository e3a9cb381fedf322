"""Callers are told of the end of their executions, over real connections."""

import asyncio
import contextlib
import json
from dataclasses import dataclass

import pytest
from tests.support.eventually import eventually_async
from tests.support.executions import MemoryOffice, Office, claim_of
from tests.support.raw_server import answer
from tests.support.receiver import Receiver

from skillwire import limits
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.executions.webhooks import verify_webhook
from skillwire.model.execution import Failure, Webhook
from skillwire.model.url import parse_url
from skillwire.server.webhooks import WebhookSender
from skillwire.trust.address import AddressPolicy

KEY = b"k" * 32


@dataclass
class Hall:
    """The service of executions and its notifier, as far as webhooks use them."""

    office: Office

    def __post_init__(self):
        self.ledger = self.office.ledger.wrapped
        self.changes = self

    def clock(self):
        return self.office.clock.now

    async def sleep(self, _):
        await asyncio.sleep(0)

    async def beyond(self, since, seconds):
        await asyncio.sleep(min(seconds, 0.01))
        return since

    def due_at(self, execution):
        """Return in how many seconds a caller is told again, None for never."""
        at = self.ledger._rows[execution.execution_id].callback_at
        return None if at is None else at - self.office.clock.wall


@pytest.fixture
def hall(tmp_path):
    return Hall(MemoryOffice(tmp_path))


@contextlib.asynccontextmanager
async def telling(hall, *urls, policy=None):
    opened = policy or AddressPolicy()
    for url in urls:
        opened = opened.naming(parse_url(url))
    webhooks = WebhookSender(hall, AsyncDriver(opened), lambda: KEY)
    task = asyncio.create_task(webhooks.work())
    try:
        yield webhooks
    finally:
        await webhooks.stop(5.0)
        await task


async def test_a_caller_is_told_once_with_a_signature(hall):
    with Receiver() as receiver:
        url = receiver.url("/hook?for=anna")
        execution = hall.office.run(b'{"table":7}', webhook=Webhook(url))
        async with telling(hall, url) as webhooks:
            await eventually_async(lambda: hall.due_at(execution) is None)
            secret = webhooks.secret_of(execution)
        [(head, fields, body)] = receiver.taken
    assert head.startswith(b"POST /hook?for=anna HTTP/1.1\r\n")
    assert fields["content-type"] == "application/json"
    told = verify_webhook(secret, fields, body, now=hall.office.clock.wall)
    assert told["type"] == "execution.completed"
    assert told["data"]["execution_id"] == execution.execution_id
    assert told["data"]["output"] == {"table": 7}


async def test_a_failure_is_told_too(hall):
    with Receiver() as receiver:
        url = receiver.url()
        hall.office.accept(webhook=Webhook(url))
        held = hall.office.claim_one()
        hall.office.ledger.fail(claim_of(held), Failure("exception", "It broke"), hall.clock())
        async with telling(hall, url):
            await eventually_async(lambda: receiver.taken)
    told = json.loads(receiver.taken[0][2])
    assert told["type"] == "execution.failed"
    assert told["data"]["error"]["details"]["reason"] == "exception"


async def test_what_fails_is_told_again_with_the_same_id(hall):
    with Receiver(answer(status="500 Oops"), answer(status="302 Found"), answer()) as receiver:
        url = receiver.url()
        execution = hall.office.run(webhook=Webhook(url))
        async with telling(hall, url):
            for number, (least, most) in enumerate([(5, 6), (300, 360)], 1):
                await eventually_async(lambda number=number: len(receiver.taken) == number)
                await eventually_async(
                    lambda least=least, most=most: least <= (hall.due_at(execution) or 0) <= most and most != 60
                )
                hall.office.clock.pass_(most)
            await eventually_async(lambda: hall.due_at(execution) is None)
    assert len({fields["webhook-id"] for _, fields, _ in receiver.taken}) == 1
    assert len({fields["webhook-timestamp"] for _, fields, _ in receiver.taken}) == 3


async def test_one_that_wants_no_more_is_left_alone(hall):
    with Receiver(answer(status="410 Gone")) as receiver:
        url = receiver.url()
        execution = hall.office.run(webhook=Webhook(url))
        async with telling(hall, url):
            await eventually_async(lambda: hall.due_at(execution) is None)
    assert len(receiver.taken) == 1


async def test_after_the_last_try_a_caller_is_given_up(hall):
    with Receiver(answer(status="500 Oops")) as receiver:
        url = receiver.url()
        execution = hall.office.run(webhook=Webhook(url))
        async with telling(hall, url):
            for number in range(1, 8):
                await eventually_async(lambda number=number: len(receiver.taken) == number)
                await eventually_async(lambda: (at := hall.due_at(execution)) is None or at not in {0, 60.0})
                hall.office.clock.pass_(50_000)
            await eventually_async(lambda: hall.due_at(execution) is None)
    assert len(receiver.taken) == 7


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "https://127.0.0.1:{port}/",
        "http://169.254.169.254/latest/meta-data/",
        "http://example.com/hook",
        "https://[::ffff:127.0.0.1]:{port}/",
    ],
)
async def test_where_the_policy_leads_nobody_is_told(hall, url):
    with Receiver() as receiver:
        execution = hall.office.run(webhook=Webhook(url.format(port=receiver.port)))
        async with telling(hall):
            await eventually_async(lambda: hall.due_at(execution) is None)
        assert receiver.connections == 0


def _endless(peer):
    peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    with contextlib.suppress(OSError):
        while True:
            peer.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")


async def test_an_endless_answer_ends(hall):
    with Receiver(_endless) as receiver:
        url = receiver.url()
        execution = hall.office.run(webhook=Webhook(url))
        async with telling(hall, url):
            await eventually_async(lambda: 4 < (hall.due_at(execution) or 0) < 7)


async def test_a_slow_receiver_holds_up_nobody_else(hall, monkeypatch):
    monkeypatch.setattr(limits, "WEBHOOK_CONCURRENCY", 2)
    with Receiver(lambda peer: peer.drip(b"HTTP/1.1 200 OK\r\n" * 100, 0.5)) as slow, Receiver() as quick:
        held = hall.office.run(webhook=Webhook(slow.url()))
        others = [hall.office.run(webhook=Webhook(quick.url(f"/{number}"))) for number in range(5)]
        async with telling(hall, slow.url(), quick.url()) as webhooks:
            await eventually_async(lambda: all(hall.due_at(one) is None for one in others))
            assert hall.due_at(held) == 60.0
            await eventually_async(lambda: len(webhooks._under_way) == 1)
            await webhooks.stop(0.0)
            assert not webhooks._under_way
        assert hall.due_at(held) == 60.0


async def test_one_receiver_never_holds_all_places(hall, monkeypatch):
    monkeypatch.setattr(limits, "WEBHOOK_HOST_CONCURRENCY", 2)
    with Receiver(lambda peer: peer.drip(b"HTTP/1.1 200 OK\r\n" * 100, 0.5)) as slow, Receiver() as quick:
        there = quick.url().replace("127.0.0.1", "localhost")
        held = [hall.office.run(webhook=Webhook(slow.url(f"/{number}"))) for number in range(5)]
        other = hall.office.run(webhook=Webhook(there))
        async with telling(hall, slow.url(), there) as webhooks:
            # The quick one may be told before all of the others were looked at.
            await eventually_async(
                lambda: hall.due_at(other) is None and [hall.due_at(one) for one in held].count(3.0) == 3
            )
            await eventually_async(
                lambda: len(webhooks._under_way) == 2
            )  # that of the quick one ends a moment after it was told
            assert sorted(hall.due_at(one) for one in held) == [3.0] * 3 + [60.0] * 2
            assert sorted(hall.office.ledger.find(one.execution_id).callbacks for one in held) == [0] * 3 + [1] * 2
            await webhooks.stop(0.0)
        assert not webhooks._under_way


async def test_an_output_that_is_large_is_left_for_the_caller_to_fetch(hall, monkeypatch):
    monkeypatch.setattr(limits, "WEBHOOK_BYTES", 100)
    with Receiver() as receiver:
        url = receiver.url()
        hall.office.run(json.dumps("x" * 101).encode(), webhook=Webhook(url))
        async with telling(hall, url):
            await eventually_async(lambda: receiver.taken)
    told = json.loads(receiver.taken[0][2])
    assert told["data"]["status"] == "completed"
    assert "output" not in told["data"]


async def test_nobody_is_told_of_an_execution_that_has_not_ended(hall):
    with Receiver() as receiver:
        hall.office.accept(webhook=Webhook(receiver.url()))
        async with telling(hall, receiver.url()):
            await asyncio.sleep(0.1)
        assert receiver.connections == 0
