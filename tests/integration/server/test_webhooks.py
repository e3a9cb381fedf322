"""Callers are told of the end of their executions, over real connections."""

import asyncio
import contextlib
from dataclasses import dataclass

import pytest
from tests.support.eventually import eventually_async
from tests.support.executions import MemoryOffice, Office
from tests.support.receiver import Receiver

from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.executions.webhooks import verify_webhook
from skillwire.model.url import parse_url
from skillwire.server.background import BackgroundTasks
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
        self.background = BackgroundTasks()

    def clock(self):
        return self.office.clock.now

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
        execution = hall.office.run(b'{"table":7}', webhook=url)
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
        execution = hall.office.run(webhook=url.format(port=receiver.port))
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
        execution = hall.office.run(webhook=url)
        async with telling(hall, url):
            await eventually_async(lambda: 4 < (hall.due_at(execution) or 0) < 7)
