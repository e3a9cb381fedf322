"""The record of calls: what is kept, taken up, held, forgotten; and what damage does."""

import multiprocessing

import pytest
from tests.support.call_book import URL, Book
from tests.support.eventually import PATIENCE

from skillwire.adapters.files.calls import FileCalls
from skillwire.model.remote_execution import CallRecord


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path / "state" / "calls.json")


def _begin_and_die(path, ready):
    calls = FileCalls(path)
    calls.begin(CallRecord("theirs", "r", "s", URL, calls._clock()), b"same", may_take_up=True)
    ready.set()
    ready.wait()
    __import__("time").sleep(60)


def test_what_a_killed_process_was_sending_is_taken_up(book):
    book.now = __import__("time").time()
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=_begin_and_die, args=(book.path, ready), daemon=True)
    process.start()
    assert ready.wait(PATIENCE)
    assert book.begin().key != "theirs", "it lives"
    process.kill()
    process.join()
    book.open().drop(book.record("key-0"))
    assert book.begin().key == "theirs"
