"""Group commit: whoever is told that it is written finds it on the disk; a failure is told to those whom it hit."""

import asyncio
import contextlib
import fcntl
import sqlite3
import threading
import time

import pytest
from tests.support.eventually import PATIENCE, eventually, eventually_async

from skillwire.adapters.sql import Migration
from skillwire.adapters.sqlite import database
from skillwire.adapters.sqlite.database import AsyncDatabase, Database, write_turn
from skillwire.errors import StorageError

#: A child without its parent is refused when the transaction is committed, and not before.
SCHEMA = Migration(
    1,
    "0001_a.sql",
    "CREATE TABLE a (x INTEGER PRIMARY KEY);\n"
    "CREATE TABLE child (a INTEGER REFERENCES a (x) DEFERRABLE INITIALLY DEFERRED);\n",
)


class Writer:
    """A group commit, and a thread that it can be made to wait for."""

    def __init__(self, folder):
        self.database = Database(folder / "a.db", migrations=[SCHEMA])
        self.commit = AsyncDatabase(self.database)
        self.gate, self.holds = threading.Event(), threading.Event()

    def hold(self):
        """Keep the thread until the gate opens."""
        self.holds.set()
        self.gate.wait(PATIENCE)

    async def begin(self):
        """Return what waits at the gate, when the thread is there."""
        first = asyncio.ensure_future(self.write(self.hold))
        await eventually_async(self.holds.is_set)
        return first

    def write(self, call):
        async def called(_):
            return call()

        return self.commit.write(called)

    def insert(self, number, table="a"):
        with self.database.writing() as connection:
            connection.execute(f"INSERT INTO {table} VALUES (?)", (number,))  # noqa: S608  # a name above
        return number

    def run(self, *calls):
        """Hand in calls that are written together: what comes before them waits until they are there."""

        async def together():
            first = await self.begin()
            rest = [asyncio.ensure_future(self.write(call)) for call in calls]
            await asyncio.sleep(0)
            self.gate.set()
            await first
            return await asyncio.gather(*rest, return_exceptions=True)

        return together()

    def rows(self):
        """Return what another process sees."""
        with contextlib.closing(sqlite3.connect(self.database.path)) as connection:
            return [number for (number,) in connection.execute("SELECT x FROM a ORDER BY x")]


def write_elsewhere(writer, number):
    """Insert a row as another process does."""
    other = Database(writer.database.path, migrations=[SCHEMA])
    with other.writing() as connection:
        connection.execute("INSERT INTO a VALUES (?)", (number,))
    other.close()


@pytest.fixture
def writer(tmp_path):
    made = Writer(tmp_path)
    yield made
    made.gate.set()
    asyncio.run(made.commit.close())


async def test_result_is_returned_when_it_is_on_the_disk(writer):
    assert await writer.write(lambda: writer.insert(1)) == 1
    assert writer.rows() == [1]


async def test_what_is_handed_in_meanwhile_is_one_transaction(writer):
    statements: list[str] = []

    def trace():
        with writer.database.reading() as connection:
            connection.set_trace_callback(statements.append)

    await writer.write(trace)
    assert await writer.run(*[lambda n=n: writer.insert(n) for n in range(100)]) == list(range(100))
    assert writer.rows() == list(range(100))
    assert statements.count("COMMIT") == 3  # that of the trace, of the gate, and of the hundred


async def test_one_that_fails_is_undone_alone(writer):
    def fail():
        writer.insert(7)
        raise ValueError("mine")

    results = await writer.run(lambda: writer.insert(1), fail, lambda: writer.insert(1), lambda: writer.insert(2), fail)
    assert [type(result) for result in results] == [int, ValueError, StorageError, int, ValueError]
    assert 1 in writer.rows()
    assert 2 in writer.rows()


async def test_what_a_failing_call_wrote_in_a_transaction_of_its_own_stays_out(writer):
    def fail():
        with writer.database.writing():
            writer.insert(7)
            raise ValueError("mine")

    await writer.run(lambda: writer.insert(1), fail)
    assert writer.rows() == [1]


async def test_commit_that_fails_is_told_to_everyone_and_the_next_one_is_written(writer):
    results = await writer.run(lambda: writer.insert(1), lambda: writer.insert(9, "child"), lambda: writer.insert(2))
    assert [type(result) for result in results] == [StorageError] * 3
    assert writer.rows() == []
    assert await writer.write(lambda: writer.insert(3)) == 3
    assert writer.rows() == [3]


async def test_error_that_undoes_everything_is_told_to_everyone(writer):
    def full_disk():
        with writer.database.writing() as connection:
            connection.execute("ROLLBACK")  # as SQLite does by itself
            raise sqlite3.OperationalError("database or disk is full")

    results = await writer.run(lambda: writer.insert(1), full_disk, lambda: writer.insert(2))
    assert [type(result) for result in results] == [StorageError] * 3
    assert writer.rows() == []
    assert await writer.write(lambda: writer.insert(3)) == 3
    assert writer.rows() == [3]


async def test_a_failure_lasts_until_something_can_be_written(writer, monkeypatch):
    def fail():
        raise StorageError("DATABASE", "database or disk is full")

    await writer.commit.check()
    with pytest.raises(StorageError):
        await writer.write(fail)
    await writer.write(lambda: None)  # which needs no room
    with writer.database.writing() as connection:
        connection.execute("CREATE TRIGGER refuse UPDATE ON migrations BEGIN SELECT RAISE(FAIL, 'not now'); END")
    with pytest.raises(StorageError, match="not now"):
        await writer.commit.check()
    with writer.database.writing() as connection:
        connection.execute("DROP TRIGGER refuse")
    room = Database.check_disk_space
    monkeypatch.setattr(Database, "check_disk_space", lambda _: fail())
    with pytest.raises(StorageError, match="full"):  # though a small write succeeds
        await writer.commit.check()
    monkeypatch.setattr(Database, "check_disk_space", room)
    await writer.commit.check()
    assert not writer.commit._has_failed
    assert [path.name for path in writer.database.path.parent.iterdir() if path.name.startswith("tmp")] == []


async def test_database_that_cannot_be_opened_is_told_to_everyone(tmp_path):
    (tmp_path / "a.db").write_bytes(b"something else" * 100)
    commit = AsyncDatabase(Database(tmp_path / "a.db", migrations=[SCHEMA]))
    for _ in range(2):
        with pytest.raises(StorageError):
            await commit.write(lambda connection: connection.value("SELECT 1"))
    await commit.close()


async def test_caller_that_is_cancelled_hinders_nobody_and_what_it_handed_in_stands(writer):
    first = await writer.begin()
    gone, stays = (asyncio.ensure_future(writer.write(lambda n=n: writer.insert(n))) for n in (1, 2))
    await asyncio.sleep(0)
    gone.cancel()
    writer.gate.set()
    assert await stays == 2
    await first
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert writer.rows() == [1, 2]


async def test_close_writes_what_was_handed_in(writer):
    writes = [asyncio.ensure_future(writer.write(lambda n=n: writer.insert(n))) for n in range(600)]
    await asyncio.sleep(0)
    await writer.commit.close()
    assert writer.rows() == list(range(600))
    assert await asyncio.gather(*writes) == list(range(600))


async def test_after_closing_it_begins_anew(writer):
    for number in range(3):
        await writer.write(lambda number=number: writer.insert(number))
        await writer.commit.close()
        await writer.commit.close()
    assert writer.rows() == [0, 1, 2]


async def test_what_is_handed_in_while_it_closes_is_written_and_hinders_nobody(writer):
    first = await writer.begin()
    closing = asyncio.create_task(writer.commit.close())
    await asyncio.sleep(0.05)
    late = asyncio.ensure_future(writer.write(lambda: writer.insert(1)))
    await asyncio.sleep(0.05)
    writer.gate.set()
    async with asyncio.timeout(PATIENCE):
        await closing
        await first
        assert await late == 1
    assert writer.rows() == [1]


def test_callers_of_several_event_loops_are_told(writer):
    def use(number):
        async def write():
            return [await writer.write(lambda n=n: writer.insert(n)) for n in range(number, number + 20)]

        asyncio.run(write())

    threads = [threading.Thread(target=use, args=(number,)) for number in (100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(writer.rows()) == 60


def test_caller_whose_loop_is_gone_hinders_nobody(writer):
    async def leave():
        await writer.begin()  # it is left behind

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    writer.gate.set()
    assert asyncio.run(writer.write(lambda: writer.insert(1))) == 1


async def test_what_others_write_is_heard_of(writer):
    heard = asyncio.Event()
    writer.commit.watch(heard.set)
    await writer.write(lambda: writer.insert(1))
    async with asyncio.timeout(PATIENCE):
        await heard.wait()  # of the first look, which finds the number that there is
    heard.clear()
    await writer.write(lambda: writer.insert(2))
    await asyncio.sleep(0.1)
    assert not heard.is_set()
    write_elsewhere(writer, 3)
    async with asyncio.timeout(PATIENCE):
        await heard.wait()


def test_watcher_whose_loop_is_gone_hinders_nobody(writer):
    async def watch():
        writer.commit.watch(lambda: pytest.fail("its loop is closed"))
        await writer.write(lambda: writer.insert(1))

    loop = asyncio.new_event_loop()
    loop.run_until_complete(watch())
    loop.close()
    for number in (2, 4):
        write_elsewhere(writer, number)
        time.sleep(0.3)  # it looks every quarter of a second
        assert asyncio.run(writer.write(lambda n=number: writer.insert(n + 1))) == number + 1
    assert writer.rows() == [1, 2, 3, 4, 5]


async def test_an_idle_thread_ends_unless_somebody_watches(writer):
    await writer.write(lambda: writer.insert(1))
    await asyncio.to_thread(writer.commit._thread.join, PATIENCE)
    assert not writer.commit._thread.is_alive()
    await writer.write(lambda: writer.insert(2))
    assert writer.rows() == [1, 2]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.db"


@pytest.fixture
def stopped(path, monkeypatch):
    monkeypatch.setattr(database, "_TURN_SECONDS", 0.2)
    with path.with_name("a.db-turn").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def waiting_threads():
    """Return the threads that wait for a turn: one for each wait that began and has not ended."""
    return {thread for thread in threading.enumerate() if thread.name == "skillwire-turn"}


def test_one_that_is_stopped_costs_the_others_one_wait(path, stopped):
    before = waiting_threads()
    for _ in range(5):
        with write_turn(path):
            pass
    assert len(waiting_threads() - before) == 1
    fcntl.flock(stopped, fcntl.LOCK_UN)
    eventually(lambda: path not in database._overdue)
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
