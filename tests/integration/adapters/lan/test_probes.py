"""Probes of endpoints: answered, refused, shared, and bounded."""

import asyncio
import socket

import pytest

from skillwire.adapters.lan.probes import Prober


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_an_endpoint_that_takes_a_connection_answers(listening):
    async def main():
        return await Prober().answers("127.0.0.1", listening)

    assert asyncio.run(main())


@pytest.mark.parametrize(
    ("host", "answer"), [("127.0.0.1", False), ("no such host", None), ("::ffff:0:0:0:1%nowhere", None)]
)
def test_an_endpoint_that_takes_none_refuses_or_is_not_reached(host, answer):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    async def main():
        return await Prober().answers(host, port)

    assert asyncio.run(main()) is answer


def test_who_asks_for_the_same_endpoint_at_once_gets_one_connection(listening, monkeypatch):
    connected = []
    connect = asyncio.open_connection

    async def counting(*place):
        connected.append(place)
        return await connect(*place)

    monkeypatch.setattr(asyncio, "open_connection", counting)

    async def main():
        prober = Prober()
        return await asyncio.gather(*(prober.answers("127.0.0.1", listening) for _ in range(20)))

    assert all(asyncio.run(main()))
    assert connected == [("127.0.0.1", listening)]


@pytest.mark.virtual_time
@pytest.mark.parametrize(("hosts", "most"), [(1, 4), (100, 32)])
async def test_a_stranger_cannot_have_more_connections_made_than_a_few_at_once(monkeypatch, hosts, most):
    running, seen = 0, 0

    async def slow(*_):
        nonlocal running, seen
        running += 1
        seen = max(seen, running)
        await asyncio.sleep(0.001)
        running -= 1
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio, "open_connection", slow)
    prober = Prober()
    places = [(f"192.0.2.{port % hosts}", port) for port in range(1, 3000)]

    assert not any(await asyncio.gather(*(prober.answers(*place) for place in places)))
    assert seen == most


async def test_a_suspect_does_not_wait_behind_what_another_host_announces(listening, monkeypatch):
    connect, asked = asyncio.open_connection, []

    async def black_hole(host, port):
        asked.append(host)
        if host != "127.0.0.1":
            await asyncio.Event().wait()
        return await connect(host, port)

    monkeypatch.setattr(asyncio, "open_connection", black_hole)
    prober = Prober()
    others = [asyncio.ensure_future(prober.answers("192.0.2.1", port)) for port in range(1, 5000)]
    await asyncio.sleep(0)

    assert await prober.answers("127.0.0.1", listening)
    assert asked.count("192.0.2.1") == 4

    await prober.stop()
    await asyncio.gather(*others, return_exceptions=True)


def test_what_is_under_way_ends_with_the_prober(monkeypatch):
    async def never(*_):
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", never)

    async def main():
        prober = Prober()
        asking = asyncio.ensure_future(prober.answers("127.0.0.1", 1))
        await asyncio.sleep(0)
        await prober.stop()
        return await asyncio.gather(asking, return_exceptions=True)

    [outcome] = asyncio.run(main())
    assert isinstance(outcome, asyncio.CancelledError)
