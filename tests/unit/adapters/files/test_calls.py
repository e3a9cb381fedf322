"""The record of calls: what is kept, taken up, held, forgotten; and what damage does."""

import pytest
from tests.support.call_book import URL, Book

from skillwire import limits
from skillwire.errors import DecodeError


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path / "state" / "calls.json")


def test_a_call_is_written_down_before_and_after(book):
    calls = book.open()
    begun = book.begin(calls=calls, context={"timeout": 3.0})
    (row,) = book.rows
    assert (row["key"], row["context"], len(row["fingerprint"])) == (begun.key, {"timeout": 3.0}, 64)
    answered = begun._replace(execution_id="exec-1", status_url=f"{URL}/exec-1")
    calls.answered(answered)
    calls.release(answered)
    (row,) = book.rows
    assert "fingerprint" not in row
    assert row["context"] == {}
    for text in ("exec-1", f"{URL}/exec-1"):
        assert [found.key for found in book.open().find(text)] == [begun.key]
    assert book.open().find("exec-2") == []
    assert book.path.stat().st_mode & 0o777 == 0o600


def test_the_same_call_is_taken_up_when_nobody_holds_it(book):
    first = book.open()
    begun = book.begin(calls=first)
    assert book.begin().key != begun.key, "its process may still be sending it"
    first.release(begun)
    assert book.begin().key == begun.key


@pytest.mark.parametrize("change", ["same", "time", "answered", "dropped", "forbidden"])
def test_another_one_is_not(book, change):
    calls = book.open()
    begun = book.begin(calls=calls)
    calls.release(begun)
    if change == "time":
        book.now += limits.CALL_TAKE_UP_SECONDS + 1
    elif change == "answered":
        calls.answered(begun._replace(execution_id="exec-1"))
    elif change == "dropped":
        calls.drop(begun)
    taken = book.begin(b"other" if change == "same" else b"same", may_take_up=change != "forbidden")
    assert taken.key != begun.key


def test_two_processes_never_take_up_the_same(book):
    for _ in range(2):
        calls = book.open()
        calls.release(book.begin(calls=calls, may_take_up=False))
    holders = [book.open() for _ in range(4)]
    keys = [book.begin(calls=calls).key for calls in holders]
    assert len(set(keys)) == 4
    assert {"key-0", "key-1"} < set(keys)


def test_an_id_of_another_provider_is_another_call(book):
    calls = book.open()
    for url in (URL, "https://other.example/call"):
        record = book.record("k")._replace(url=url, execution_id="exec-1")
        calls.answered(record)
    assert [found.url for found in calls.find("exec-1")] == ["https://other.example/call", URL]


def test_who_calls_is_one_name_for_each_origin(book):
    calls = book.open()
    name = calls.caller_id("https://a.example")
    assert name == book.open().caller_id("https://a.example")
    assert name != calls.caller_id("https://b.example")
    assert name.startswith("skillwire-")
    assert len(name) == len("skillwire-") + 24


def test_old_calls_are_forgotten(book):
    calls = book.open()
    calls.answered(book.record("old", execution_id="exec-old"))
    book.begin(b"lost", calls=calls)
    book.now += limits.CALL_TAKE_UP_SECONDS + 1
    calls.answered(book.record("new", execution_id="exec-new"))
    assert [row["key"] for row in book.rows] == ["old", "new"]
    book.now += limits.CALLS_KEPT_SECONDS - 1
    calls.answered(book.record("newest", execution_id="exec-newest"))
    assert [row["key"] for row in book.rows] == ["new", "newest"]


def test_no_more_are_kept_than_may_be(book, monkeypatch):
    monkeypatch.setattr("skillwire.adapters.files.calls.limits.CALLS_KEPT", 3)
    calls = book.open()
    for number in range(5):
        calls.answered(book.record(execution_id=f"exec-{number}"))
    assert [row["execution_id"] for row in book.rows] == ["exec-2", "exec-3", "exec-4"]
    monkeypatch.setattr("skillwire.adapters.files.calls.limits.STATE_FILE_BYTES", 1_000)
    calls.answered(book.record(execution_id="exec-5"))
    assert book.path.stat().st_size <= 1_000
    assert [row["execution_id"] for row in book.rows][-1] == "exec-5"


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"calls": []}',
        b'{"caller": "xy", "calls": []}',
        b'{"caller": "00", "calls": [{"key": 5}]}',
        b'{"caller": "00", "calls": [{"key": "k", "reference": "r", "skill_id": "s", "url": "u", "created": "now"}]}',
        b'{"caller": "00", "calls": [5]}',
    ],
)
def test_a_damaged_file_is_said_to_be(book, content):
    book.path.parent.mkdir()
    book.path.write_bytes(content)
    with pytest.raises(DecodeError):
        book.open().recent()


def test_nothing_is_left_of_locks(book):
    calls = book.open()
    begun = book.begin(calls=calls)
    calls.release(begun)
    assert list((book.path.parent / "calls").glob("*")) == []
    assert not book.path.with_suffix(".lock").exists()
