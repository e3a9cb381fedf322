"""The database: its schema grows by steps, once each, and whatever is wrong with the file is told."""

import resource
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from tests.support.eventually import PATIENCE

from skillwire import limits
from skillwire.adapters.sql import Migration, read_migrations
from skillwire.adapters.sqlite.database import Database, _Turn
from skillwire.errors import SourceLocation, StorageError

FIRST = Migration(
    1, "0001_a.sql", "-- a comment; with a semicolon\nCREATE TABLE a (x TEXT);\nINSERT INTO a VALUES (';');\n"
)
SECOND = Migration(2, "0002_b.sql", "CREATE TABLE b (x TEXT);")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "skillwire.db"


def tables(path):
    with sqlite3.connect(path) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def open_with(path, *migrations):
    database = Database(path, migrations=migrations)
    with database.reading() as connection:
        connection.execute("SELECT 1")
    database.close()


def test_steps_are_run_once_and_in_order(path):
    open_with(path, FIRST)
    open_with(path, FIRST)
    assert tables(path) == {"migrations", "a"}
    open_with(path, FIRST, SECOND)
    assert tables(path) == {"migrations", "a", "b"}
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT x FROM a").fetchall() == [(";",)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_only_the_owner_may_read_it(path):
    open_with(path, FIRST)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_step_that_fails_leaves_what_was_before(path):
    open_with(path, FIRST)
    broken = Migration(2, "0002_b.sql", "CREATE TABLE b (x TEXT);\nCREATE TABLE a (x TEXT);")
    with pytest.raises(sqlite3.OperationalError, match="table a already exists"):
        open_with(path, FIRST, broken)
    assert tables(path) == {"migrations", "a"}
    open_with(path, FIRST, SECOND)


def test_database_of_a_newer_version_is_refused(path):
    open_with(path, FIRST, SECOND)
    with pytest.raises(StorageError, match="does not know") as caught:
        open_with(path, FIRST)
    assert caught.value.code == "DATABASE"
    assert caught.value.fix


def test_step_whose_text_was_changed_is_refused(path):
    open_with(path, FIRST)
    with pytest.raises(StorageError, match=r"0001_a\.sql was run with another text"):
        open_with(path, FIRST._replace(script="CREATE TABLE a (y TEXT);"))


def test_file_that_is_no_database_is_told_and_left_alone(path):
    path.parent.mkdir()
    path.write_bytes(b"something else" * 100)
    with pytest.raises(StorageError) as caught:
        open_with(path, FIRST)
    assert caught.value.place == SourceLocation(str(path))
    assert path.read_bytes() == b"something else" * 100


def test_transaction_is_kept_whole_or_not_at_all(path):
    database = Database(path, migrations=[FIRST])
    with pytest.raises(sqlite3.ProgrammingError), database.writing() as connection:
        connection.executemany("INSERT INTO a VALUES (?)", [("lost",), ("lost", "too many")])
    with database.writing() as connection:
        connection.execute("INSERT INTO a VALUES ('kept')")
    with database.reading() as connection:
        assert connection.execute("SELECT x FROM a").fetchall() == [(";",), ("kept",)]
    database.close()


def test_transaction_that_cannot_be_committed_is_undone(path):
    child = Migration(2, "0002_b.sql", "CREATE TABLE b (y REFERENCES c (z) DEFERRABLE INITIALLY DEFERRED);")
    parent = Migration(3, "0003_c.sql", "CREATE TABLE c (z INTEGER PRIMARY KEY);")
    database = Database(path, migrations=[FIRST, child, parent])
    with pytest.raises(StorageError), database.writing() as connection:
        connection.execute("INSERT INTO b VALUES (1)")
    with database.writing() as connection:
        connection.execute("INSERT INTO a VALUES ('kept')")
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT x FROM a").fetchall() == [(";",), ("kept",)]
    database.close()


def test_a_file_that_was_damaged_for_a_while_works_again(path):
    """A connection that read a damaged page would keep it for as long as the log stays as it is."""
    database = Database(path, migrations=[FIRST])
    with database.reading() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    whole = path.read_bytes()
    database.close()
    with path.open("r+b") as file:
        database.version()
        file.write(b"x" * len(whole))
        file.flush()
        with pytest.raises(StorageError, match=r"not a database|malformed"), database.reading() as connection:
            connection.execute("SELECT count(*) FROM a")
        file.seek(0)
        file.write(whole)
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM a").fetchone() == (1,)
    database.close()


@pytest.mark.parametrize("is_old", [False, True])
def test_a_file_shrinks_when_rows_are_gone(path, is_old):
    if is_old:
        path.parent.mkdir()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE old (x)")
    database = Database(path, migrations=[FIRST])
    with database.writing() as connection:
        connection.executemany("INSERT INTO a VALUES (?)", [("x" * 4000,)] * 3000)
    with database.writing() as connection:
        connection.execute("DELETE FROM a")
    left = [database.shrink() for _ in range(4)]
    assert left[0] == (0 if is_old else pytest.approx(2000, abs=50))
    assert left[-1] == 0
    with database.reading() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert path.stat().st_size < 100_000
    database.close()


def test_a_large_file_of_an_earlier_version_is_not_rewritten(path, monkeypatch):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE old (x)")
    monkeypatch.setattr("skillwire.adapters.sqlite.database._REWRITTEN_BYTES", 0)
    database = Database(path, migrations=[FIRST])
    assert database.shrink() == 0
    with database.reading() as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (0,)
    database.close()


def test_a_disk_with_room_for_a_part_of_what_is_written_is_full(path):
    database = Database(path, migrations=[FIRST])
    path.parent.mkdir()
    database.check_disk_space()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (32 * limits.KIB, before[1]))  # the first write is short, as on a disk
    try:
        with pytest.raises(StorageError):
            database.check_disk_space()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_connection_that_cannot_write_is_not_kept(path, monkeypatch):
    database = Database(path, migrations=[FIRST])
    with database.reading() as connection:
        connection.execute("PRAGMA query_only = ON")  # as SQLite does by itself on a read-only disk
    with pytest.raises(StorageError, match="readonly"), database.writing() as connection:
        connection.execute("DELETE FROM a")
    with database.writing() as connection:
        connection.execute("DELETE FROM a")
    database.close()
    monkeypatch.setattr("os.access", lambda *_: False)
    with database.reading() as first:
        assert first.execute("SELECT count(*) FROM a").fetchone() == (0,)
    with database.reading() as second:
        assert second is not first
    database.close()


def test_many_threads_open_and_write_at_once(path):
    database = Database(path, migrations=[FIRST])
    start = threading.Barrier(8)

    def write(number):
        start.wait()
        with database.writing() as connection:
            connection.execute("INSERT INTO a VALUES (?)", (str(number),))
        database.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM a").fetchone() == (9,)


def test_who_writes_waits_for_its_turn(path, monkeypatch):
    open_with(path, FIRST)
    first, second = Database(path, migrations=[FIRST]), Database(path, migrations=[FIRST])
    opened, held, waits = threading.Event(), threading.Event(), threading.Event()
    wrote, wait = list[str](), _Turn._wait

    def note(turn):
        waits.set()
        return wait(turn)

    def write():
        with second.reading():
            opened.set()
        assert held.wait(PATIENCE)
        with second.writing() as connection, second.writing():  # a part needs no turn of its own
            connection.execute("INSERT INTO a VALUES ('second')")
            wrote.append("second")
        second.close()

    monkeypatch.setattr(_Turn, "_wait", note)
    waiting = threading.Thread(target=write)
    waiting.start()
    assert opened.wait(PATIENCE)
    with first.writing():
        held.set()
        assert waits.wait(PATIENCE)
        wrote.append("first")
    waiting.join(PATIENCE)
    assert wrote == ["first", "second"]
    first.close()


def test_two_databases_on_one_file_bring_it_up_to_date_once(path):
    start = threading.Barrier(4)

    def begin(_):
        start.wait()
        open_with(path, FIRST, SECOND)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(begin, range(4)))
    assert tables(path) == {"migrations", "a", "b"}


def test_steps_that_are_shipped_are_numbered_without_a_gap(path):
    shipped = read_migrations("skillwire.adapters.sqlite")
    assert [step.number for step in shipped] == list(range(1, len(shipped) + 1))
    open_with(path, *shipped)
    assert "tokens" in tables(path)


def test_a_thread_opens_its_connection_while_another_process_writes(path):
    database = Database(path, migrations=[FIRST])

    def read():
        with database.reading() as connection:
            return connection.execute("SELECT count(*) FROM a").fetchone()

    assert read() == (1,)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE")
        assert pool.submit(read).result() == (1,)
