"""Files that are announced one by one belong to their account, have bounds, and end."""

import pytest
from tests.support.opened import Blocking

from skillwire import limits
from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sql.uploads import SqlAnnouncedFiles
from skillwire.adapters.sqlite.database import AsyncDatabase, Database
from skillwire.model.digest import Digest
from skillwire.model.package import AnnouncedFile


@pytest.fixture(params=["sqlite", "postgres"])
def announced(request, tmp_path):
    if request.param == "sqlite":
        yield Blocking(SqlAnnouncedFiles(AsyncDatabase(Database(tmp_path / "state.db"))))
    else:
        database = Blocking(PostgresDatabase(request.getfixturevalue("postgres_url")))
        yield Blocking(SqlAnnouncedFiles(database.wrapped))
        database.close()


def file(ticket, account="ann", size=10, ends=900.0):
    return AnnouncedFile(ticket, account, f"notes/{ticket}.md", size, Digest.of(ticket.encode()), ends)


def test_a_file_is_found_by_its_ticket_and_its_account_until_it_is_removed(announced):
    first, second = file("one"), file("two")
    for one in (first, second, file("of bob", "bob")):
        assert announced.announce(one) is None
    assert sorted(announced.find("ann", ["two", "one", "of bob", "none"], 1.0)) == [first, second]
    announced.remove(["one", "none"])
    assert announced.find("ann", ["one", "two"], 1.0) == [second]
    announced.remove([])
    assert announced.find("ann", [], 1.0) == []


def test_a_file_that_has_ended_is_not_found_and_is_removed_once(announced):
    early = file("early", ends=100.0)
    for one in (early, file("late", ends=200.0)):
        assert announced.announce(one) is None
    assert [one.ticket for one in announced.find("ann", ["early", "late"], 150.0)] == ["late"]
    assert announced.remove_ended(150.0) == [early]
    assert announced.remove_ended(150.0) == []
    assert [one.ticket for one in announced.find("ann", ["late"], 150.0)] == ["late"]


def test_bounds_are_kept_for_each_account(announced, monkeypatch):
    monkeypatch.setattr(limits, "ARCHIVE_ENTRIES", 2)
    monkeypatch.setattr(limits, "ARCHIVE_TOTAL_BYTES", 30)
    assert announced.announce(file("one", ends=800.0)) is None
    assert announced.announce(file("large", size=21)) == 800.0, "more bytes than an account may have"
    assert announced.announce(file("two")) is None
    assert announced.announce(file("three")) == 800.0, "more files than an account may have"
    for number in range(5):
        assert announced.announce(file(f"of {number}", f"bob{number}", size=30)) is None, "what others announced"
    announced.remove(["one"])
    assert announced.announce(file("three")) is None


def test_files_of_no_bytes_are_counted(announced, monkeypatch):
    monkeypatch.setattr(limits, "ARCHIVE_ENTRIES", 1)
    assert announced.announce(file("one", size=0)) is None
    assert announced.announce(file("two", size=0)) == 900.0
