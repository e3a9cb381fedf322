"""What ``tests/unit/conftest.py`` refuses to unit tests, and what it lets them do."""

import asyncio
import os
import queue
import select
import selectors
import socket
import subprocess
import threading
import time
from concurrent.futures import Future
from multiprocessing import util

import pytest

_SHORT = 0.001


def send():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"", ("127.0.0.1", 9))


def wait_for_descriptor(wait):
    ours, other = socket.socketpair()
    with ours, other:
        wait(ours)


def poll(kind, one, timeout):
    kind.register(one, select.POLLIN)
    kind.poll(timeout)


def wait_for_selector(one):
    with selectors.DefaultSelector() as selector:
        selector.register(one, selectors.EVENT_READ)
        selector.select(_SHORT)


def join():
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        thread.join(_SHORT)
    finally:
        end.set()
        thread.join()


async def sleep():
    await asyncio.sleep(_SHORT)


async def wait_for():
    await asyncio.wait_for(asyncio.Event().wait(), _SHORT)


async def run_out():
    async with asyncio.timeout(_SHORT):
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    "do",
    [
        lambda: time.sleep(_SHORT),
        lambda: threading.Event().wait(_SHORT),
        lambda: queue.Queue().get(timeout=_SHORT),
        lambda: Future().result(_SHORT),
        lambda: queue.SimpleQueue().get(timeout=_SHORT),
        lambda: wait_for_descriptor(lambda one: select.select([one], [], [], _SHORT)),
        lambda: wait_for_descriptor(lambda one: poll(select.poll(), one, 1)),
        lambda: wait_for_descriptor(lambda one: poll(select.epoll(), one, _SHORT)),
        lambda: wait_for_descriptor(wait_for_selector),
        join,
        lambda: asyncio.run(sleep()),
        lambda: asyncio.run(run_out()),
        lambda: asyncio.run(wait_for()),
        send,
        lambda: socket.getaddrinfo("localhost", 80),
        lambda: subprocess.run(["true"], check=True),
        lambda: util.spawnv_passfds(b"/bin/true", [b"true"], ()),
        lambda: os.system("true"),  # noqa: S605  # it is refused
    ],
)
def test_a_unit_test_sleeps_opens_and_starts_nothing(do):
    with pytest.raises(pytest.fail.Exception, match="move it to tests/integration"):
        do()


def test_a_background_thread_of_a_test_does_not_sleep_either():
    refused = []

    def wait():
        try:
            queue.Queue().get(timeout=_SHORT)
        except pytest.fail.Exception as error:
            refused.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert refused


async def test_a_wait_for_what_has_come_is_no_sleep():
    come = threading.Event()
    come.set()
    assert come.wait(_SHORT)
    assert not threading.Event().wait(0)
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    waiting.put("come")
    assert waiting.get(timeout=60) == "come"
    with pytest.raises(queue.Empty):
        waiting.get(block=False)
    thread = threading.Thread(target=come.wait)
    thread.start()
    thread.join(60)
    ours, other = socket.socketpair()
    with ours, other:
        assert select.select([ours], [], [], 0) == ([], [], [])
        other.send(b"come")
        assert select.select([ours], [], [], 60)[0] == [ours]
    async with asyncio.timeout(60) as timeout:
        assert await asyncio.wait_for(asyncio.sleep(0, "come"), 60) == "come"
    assert not timeout.expired()


@pytest.mark.virtual_time
async def test_in_virtual_time_nothing_is_waited_for():
    await asyncio.sleep(60)
    for wait in (run_out, wait_for):
        with pytest.raises(TimeoutError):
            await wait()
