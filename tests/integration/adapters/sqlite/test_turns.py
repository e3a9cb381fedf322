"""Turns: one that is stopped in its turn stops nobody else for long."""

import fcntl
import threading
import time

import pytest

from skillwire.adapters.sqlite import database
from skillwire.adapters.sqlite.database import write_turn


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "_TURN_SECONDS", 0.2, raising=False)
    return tmp_path / "a.db"


@pytest.fixture
def stopped(path):
    with path.with_name("a.db-turn").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def take_turns(path, number, seconds=10.0):
    """Return how long ``number`` turns one after the other take."""
    taken = []

    def take():
        for _ in range(number):
            with write_turn(path):
                taken.append(1)

    thread = threading.Thread(target=take, daemon=True)
    began = time.monotonic()
    thread.start()
    thread.join(seconds)
    assert len(taken) == number
    return time.monotonic() - began


def test_one_that_is_stopped_costs_the_others_one_wait(path, stopped):
    assert take_turns(path, 5) < 0.9
    fcntl.flock(stopped, fcntl.LOCK_UN)
    deadline = time.monotonic() + 5
    while path in database._overdue and time.monotonic() < deadline:
        time.sleep(0.01)
    with write_turn(path), path.with_name("a.db-turn").open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # turns are taken again


def test_one_at_a_time_has_the_turn(path):
    having, most = [], []

    def take():
        for _ in range(20):
            with write_turn(path):
                having.append(1)
                most.append(len(having))
                time.sleep(0.0005)
                having.pop()

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (max(most), len(most)) == (1, 80)
