"""When webhooks are sent, sent again and given up, over a driver in memory and in virtual time."""

import asyncio
import contextlib
import json
from collections import Counter
from typing import Any

import pytest
from tests.support.executions import NO_QUOTA, claim_of, make_execution
from tests.support.memory_ledger import MemoryLedger
from tests.support.virtual_time import virtual_loop

from skillwire import limits
from skillwire.errors import FetchError, TrustError
from skillwire.executions import webhooks
from skillwire.executions.webhooks import verify_webhook
from skillwire.model.execution import ExecutionSettings, Failure, NewExecution
from skillwire.server.execution_service import ExecutionService
from skillwire.server.webhooks import WebhookSender
from skillwire.wire.exchange import HttpResponse

pytestmark = pytest.mark.virtual_time

DAY = 86_400.0


class Receivers:
    """A driver that answers each request with the next of ``answers``, the last one for ever; hosts may be slow."""

    def __init__(self):
        self.answers: list[Any] = [200]
        self.slow: tuple[str, ...] = ()
        self.requests = []

    async def send(self, request):
        self.requests.append((virtual_loop().time(), request))
        if any(host in request.url for host in self.slow):
            await asyncio.sleep(DAY)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return HttpResponse(request.url, answer, {}, b"")

    async def close(self):
        """Nothing is open."""

    @property
    def paths(self):
        return [request.url.rpartition("/")[2] for _, request in self.requests]


class World:
    def __init__(self):
        self.ledger = MemoryLedger()
        self.receivers = Receivers()
        clock = virtual_loop().moment
        self.service = ExecutionService(self.ledger, settings=ExecutionSettings(), clock=clock)
        self.sender = WebhookSender(self.service, self.receivers, lambda: b"k" * 32)  # type: ignore[arg-type]  # it sends

    async def accept(self, url, trace_id=None):
        new = make_execution(virtual_loop().moment().wall, webhook=url, trace_id=trace_id)
        await self.ledger.accept_all([NewExecution(new)])
        return new

    async def end(self, url, output=b"{}", failure=None, trace_id=None):
        """Let an execution with this callback end; return it."""
        execution = await self.accept(url, trace_id)
        (claimed,) = await self.ledger.claim("w1", virtual_loop().moment(), NO_QUOTA)
        if failure:
            await self.service.fail(claim_of(claimed), failure)
        else:
            await self.service.complete(claim_of(claimed), output)
        return await self.ledger.find(execution.execution_id)


@pytest.fixture
async def world():
    return World()


@contextlib.asynccontextmanager
async def sending(world):
    task = asyncio.create_task(world.sender.work())
    try:
        yield
    finally:
        await world.sender.stop(0.0)
        await task


async def sent(world, seconds=60.0):
    """Return the requests that are made within some time."""
    async with sending(world):
        await asyncio.sleep(seconds)
    return world.receivers.requests


async def test_a_failed_delivery_is_repeated_with_the_same_id_until_it_is_given_up(world, monkeypatch):
    delays = (5.0, 10.0, 20.0)
    monkeypatch.setattr(webhooks, "DELAYS", delays)
    world.receivers.answers = [500, 302, FetchError("TIMEOUT", "too slow"), 500]
    execution = await world.end("https://a.example/hook")
    requests = await sent(world)
    times = [at for at, _ in requests]
    for before, after, delay in zip(times[:-1], times[1:], delays, strict=True):
        assert delay <= after - before <= delay * 1.2 + 2.0
    assert len({request.headers["webhook-id"] for _, request in requests}) == 1
    assert len({request.headers["webhook-timestamp"] for _, request in requests}) == len(delays) + 1
    _, last = requests[-1]
    secret, now = world.sender.secret_of(execution), float(last.headers["webhook-timestamp"])
    assert verify_webhook(secret, last.headers, last.body, now=now)["type"] == "execution.completed"


async def test_a_delivery_continues_the_trace_of_its_execution(world):
    traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
    await world.end("https://a.example/hook", trace_id=traceparent)
    await world.end("https://b.example/hook", trace_id="order 66")
    found = {request.url: request.headers.get("traceparent", "") for _, request in await sent(world)}
    assert found["https://a.example/hook"].startswith(traceparent[:36])
    assert found["https://b.example/hook"] == ""


@pytest.mark.parametrize("answer", [200, 204, 410, TrustError("ADDRESS_REFUSED", "this address is not allowed")])
async def test_a_delivery_that_succeeded_or_cannot_succeed_is_not_repeated(world, answer):
    world.receivers.answers = [answer]
    await world.end("https://a.example/hook")
    assert len(await sent(world)) == 1


@pytest.mark.parametrize(
    ("ending", "type_", "check"),
    [
        ({"output": b'{"table":7}'}, "execution.completed", lambda data: data["output"] == {"table": 7}),
        ({"output": json.dumps("x" * 101).encode()}, "execution.completed", lambda data: "output" not in data),
        (
            {"failure": Failure("exception", "It broke")},
            "execution.failed",
            lambda data: data["error"]["details"]["reason"] == "exception",
        ),
    ],
    ids=["output", "large output", "failure"],
)
async def test_a_payload_holds_the_end_without_a_large_output(world, ending, type_, check, monkeypatch):
    monkeypatch.setattr(limits, "WEBHOOK_BYTES", 100)
    await world.end("https://a.example/hook", **ending)
    [(_, request)] = await sent(world)
    payload = json.loads(request.body)
    assert payload["type"] == type_
    assert check(payload["data"])


async def test_an_execution_that_has_not_ended_has_no_delivery(world):
    await world.accept("https://a.example/hook")
    assert await sent(world) == []


async def test_slow_receivers_hold_up_no_other_host(world, monkeypatch):
    monkeypatch.setattr(limits, "WEBHOOK_CONCURRENCY", 3)
    monkeypatch.setattr(limits, "WEBHOOK_HOST_CONCURRENCY", 2)
    world.receivers.slow = ("slow.example",)
    slow = [await world.end(f"https://slow.example/slow-{number}") for number in range(5)]
    await world.end("https://quick.example/quick")
    async with sending(world):
        await asyncio.sleep(5.0)
        assert Counter(path.partition("-")[0] for path in world.receivers.paths) == {"slow": 2, "quick": 1}
        tries = [(await world.ledger.find(one.execution_id)).callbacks for one in slow]
        assert sorted(tries) == [0, 0, 0, 1, 1]
    assert not world.sender._under_way
