"""A PostgreSQL that several servers share: turns, groups, faults, changes of other servers, and its schema."""

import asyncio
import os
import signal
from urllib.parse import quote

import asyncpg
import pytest
from tests.support.eventually import eventually_async
from tests.support.postgres import PostgresServer, new_database, set_deadlines, shared_server

from skillwire.adapters.postgres.connection import translate
from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sql import Migration, read_migrations
from skillwire.errors import StorageError, UsageError

INSERT = "INSERT INTO ended_sessions VALUES (?, ?)"
ALL = "SELECT number FROM ended_sessions ORDER BY number"


def insert(name, *, wait=None, fail=None):
    """Return a write of one row."""

    async def write(connection):
        await connection.run(INSERT, (name, 1.0))
        if wait is not None:
            await wait.wait()
        if fail is not None:
            raise fail
        return name

    return write


async def names(database):
    return [name for (name,) in await database.read(lambda connection: connection.rows(ALL))]


@pytest.fixture
async def open_one(postgres_url):
    """Return what opens the database as one more server does."""
    opened = []

    def open_one(url=postgres_url, **options):
        opened.append(PostgresDatabase(url, **options))
        return opened[-1]

    yield open_one
    for database in opened:
        await database.close()


@pytest.fixture
def impatient(postgres_url, monkeypatch):  # noqa: ARG001  # which is patient
    set_deadlines(monkeypatch, 1)


@pytest.fixture
def database(open_one):
    return open_one()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("a = ? AND b = ?", "a = $1 AND b = $2"),
        ("a = ?2 OR b = ?1 OR c = ?2", "a = $2 OR b = $1 OR c = $2"),
        ("a = '?' AND b = ?", "a = '?' AND b = $1"),
        ("FROM t INDEXED BY t_a WHERE a = ?", "FROM t WHERE a = $1"),
        (
            "a IN (SELECT value FROM json_each(?)) AND b = ?",
            "a IN (SELECT value FROM json_array_elements_text($1::json) AS json_each (value)) AND b = $2",
        ),
    ],
)
def test_statements_are_translated(ours, theirs):
    assert translate(ours) == theirs


class TestWriting:
    async def test_of_a_group_the_one_that_fails_is_undone_alone(self, database):
        begun = asyncio.Event()
        assert await names(database) == []
        first = asyncio.create_task(database.write(insert("first", wait=begun), "t"))
        await asyncio.sleep(0)
        others = [insert("a"), insert("bad", fail=KeyError("bad")), insert("a"), insert("b")]
        group = [asyncio.create_task(database.write(call, "t")) for call in others]
        await asyncio.sleep(0)
        begun.set()
        a, bad, twice, b = await asyncio.gather(*group, return_exceptions=True)
        assert (await first, a, b) == ("first", "a", "b")
        assert (type(bad), type(twice)) == (KeyError, StorageError)
        assert await names(database) == ["a", "b", "first"]

    async def test_cancelling_a_caller_undoes_nothing(self, database):
        may_end, has_begun = asyncio.Event(), asyncio.Event()

        async def write(connection):
            await connection.run(INSERT, ("a", 1.0))
            has_begun.set()
            await may_end.wait()

        for turn in ("", "t"):
            caller = asyncio.create_task(database.write(write, turn))
            await has_begun.wait()
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
            may_end.set()
            await eventually_async(lambda: names(database), lambda found: found == ["a"])
            await database.write(lambda connection: connection.run("DELETE FROM ended_sessions"))
            may_end.clear()
            has_begun.clear()

    async def test_what_two_transactions_wait_for_each_other_for_is_tried_again(self, database):
        for name in ("a", "b"):
            await database.write(insert(name))
        meeting = asyncio.Barrier(2)
        met = 0

        async def update(connection, *both):
            nonlocal met
            for name in both:
                await connection.run("UPDATE ended_sessions SET ends = ends + 1 WHERE number = ?", (name,))
                met += 1
                if met <= 2:
                    await meeting.wait()

        ways = (("a", "b"), ("b", "a"))
        await asyncio.gather(*(database.write(lambda connection, way=way: update(connection, *way)) for way in ways))
        ends = await database.read(lambda connection: connection.rows("SELECT ends FROM ended_sessions"))
        assert ends == [(3.0,), (3.0,)]

    async def test_a_failed_statement_that_the_call_went_on_after_is_no_commit(self, database):
        async def write(connection):
            for _ in range(2):
                try:
                    await connection.run(INSERT, ("a", 1.0))
                except asyncpg.UniqueViolationError:
                    return

        with pytest.raises(StorageError):
            await database.write(write)
        assert await names(database) == []

    async def test_readers_that_follow_16_writers_miss_and_double_nothing(self, open_one):
        """Each number is one more than the greatest committed one, as the changes of packages are."""
        writers, each = [open_one(connections=4) for _ in range(4)], 20
        statement = (
            "INSERT INTO audit (number, at, account, action, target, details, address, request, digest)"
            " VALUES ((SELECT coalesce(max(number), 0) + 1 FROM audit), 0, ?, '', '', '', '', '', '')"
        )
        sent = [f"{writer}-{number}" for writer in range(16) for number in range(each)]

        async def write(writer):
            for number in range(each):
                row = (f"{writer}-{number}",)
                await writers[writer % 4].write(lambda connection, row=row: connection.run(statement, row), "packages")

        async def follow(reader):
            found: list[str] = []
            after = 0
            query = "SELECT number, account FROM audit WHERE number > ? ORDER BY number LIMIT 7"
            while len(found) < len(sent):
                rows = await reader.read(lambda connection, after=after: connection.rows(query, (after,)))
                found += [account for _, account in rows]
                after = rows[-1][0] if rows else after
            return found

        *followed, _ = await asyncio.gather(
            *(follow(open_one(connections=1)) for _ in range(3)), asyncio.gather(*map(write, range(16)))
        )
        assert all(sorted(found) == sorted(sent) for found in followed)


class TestReading:
    async def test_the_queries_of_a_read_see_one_moment(self, database, open_one):
        other = open_one()
        for time in range(3):  # at first it begins again, and from then on it begins with a transaction

            async def read(connection, time=time):
                before = await connection.value("SELECT count(*) FROM ended_sessions")
                if time or len(await names(other)) == before:
                    await other.write(insert(f"{time}-{before}-{os.urandom(4).hex()}"))
                return before, await connection.value("SELECT count(*) FROM ended_sessions")

            before, after = await database.read(read)
            assert before == after
            assert len(await names(other)) > after

    async def test_an_error_of_a_read_leaves_the_connection_for_the_next(self, open_one):
        database = open_one(connections=1)

        async def read(connection):
            await connection.value("SELECT 1")
            await connection.value("SELECT 2")
            raise KeyError

        for _ in range(3):
            with pytest.raises(KeyError):
                await database.read(read)
        assert database.counters.reconnects == 0


class TestFaults:
    async def test_a_database_that_is_not_there_is_named_without_its_password_and_the_cause_in_words(self, tmp_path):
        for host, cause in (
            (quote(str(tmp_path), safe=""), "No such file or directory"),
            ("127.0.0.1:1", "Connection refused"),
            ("127.0.0.1:1,[::1]:2", "Connection refused"),
            ("nowhere.invalid", "its host was not found: "),
        ):
            with pytest.raises(StorageError, match=f"^DATABASE: {cause}") as caught:
                await PostgresDatabase(f"postgresql://ann:secret@{host}/skills").exists()
            assert (caught.value.code, "secret" in f"{caught.value}") == ("DATABASE", False)
            assert str(caught.value.place).startswith("postgresql://")
            assert "PostgreSQL" in str(caught.value.fix)

    @pytest.mark.parametrize("url", ["postgresql://db:abc/skills", "postgresql://[::1/skills"])
    def test_a_url_that_cannot_be_read_is_refused(self, url):
        with pytest.raises(UsageError, match="an invalid host or port"):
            PostgresDatabase(url)

    async def test_the_fix_is_that_of_the_cause(self):
        server = shared_server()
        for database, fix in (
            (server.url("absent"), "createdb"),
            (server.url("shared").replace("postgres@", "ann@"), "user"),
        ):
            with pytest.raises(StorageError) as caught:
                await PostgresDatabase(database).exists()
            assert fix in str(caught.value.fix)

    @pytest.mark.usefixtures("impatient")
    async def test_a_database_that_hangs_is_reported_and_answers_again_later(self, database):
        await database.write(insert("a"))
        server = await database.read(lambda connection: connection.value("SELECT pg_backend_pid()"))
        waiting = []
        os.kill(server, signal.SIGSTOP)
        try:
            waiting = [asyncio.create_task(database.write(insert(name), "t")) for name in ("b", "c")]
            for one in waiting:
                with pytest.raises(StorageError, match="in time"):
                    await one
        finally:
            os.kill(server, signal.SIGCONT)
        await database.check()
        assert "a" in await names(database)

    @pytest.mark.usefixtures("impatient")
    async def test_a_server_that_accepts_no_connection_in_time_is_reported(self, database):
        process = shared_server().process
        process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(StorageError, match="in time"):
                await database.exists()
        finally:
            process.send_signal(signal.SIGCONT)
        assert await database.exists()

    @pytest.mark.usefixtures("impatient")
    async def test_connections_are_bounded_and_so_is_the_wait_for_one(self, open_one):
        database, begun, end = open_one(connections=1), asyncio.Event(), asyncio.Event()

        async def read(connection):
            await connection.value("SELECT 1")
            begun.set()
            await end.wait()

        await database.exists()
        first = asyncio.create_task(database.read(read))
        await begun.wait()
        with pytest.raises(StorageError, match="all connections were in use"):
            await names(database)
        end.set()
        await first
        assert await names(database) == []
        assert database.counters.waited > 0

    async def test_a_lost_connection_is_made_anew(self, database):
        await names(database)
        shared_server().execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'shared'")
        await eventually_async(lambda: _tried(database))
        assert database.counters.reconnects == 1


async def _tried(database):
    try:
        return await names(database) == []
    except StorageError:
        return False


class TestWatching:
    async def test_what_another_server_wrote_is_told(self, database, open_one):
        changes, other = [], open_one()
        database.watch(lambda: changes.append(1))
        await eventually_async(lambda: changes)
        for number, name in enumerate("ab"):
            await other.write(insert(name))
            await eventually_async(lambda: database.counters.notifications, number.__lt__)

    async def test_a_write_that_changes_no_row_wakes_no_other_server(self, database):
        async def look(connection):
            assert await connection.rows("SELECT number FROM ended_sessions FOR UPDATE") == []
            assert await connection.run("DELETE FROM ended_sessions WHERE number = 'absent'") == 0
            await connection.run_many("DELETE FROM ended_sessions WHERE number = ?", [])

        await database.write(look)
        assert not database._loop().is_notifying
        await database.write(insert("a"))
        assert database._loop().is_notifying

    async def test_what_came_without_a_notification_is_told_too(self, database):
        changes = []
        database.watch(lambda: changes.append(1))
        await eventually_async(lambda: changes)
        changes.clear()
        shared_server().execute("INSERT INTO ended_sessions VALUES ('a', 1)", "shared")
        await eventually_async(lambda: changes)
        assert database.counters.notifications == 0


class TestSchema:
    async def test_it_is_made_once_by_servers_that_begin_at_once(self, open_one):
        with new_database() as url:
            servers = [open_one(url) for _ in range(4)]
            assert not await servers[0].exists()
            assert await servers[0].pending() == [one.name for one in read_migrations("skillwire.adapters.postgres")]
            assert await asyncio.gather(*map(names, servers)) == [[]] * 4
            assert await servers[0].pending() == []

    async def test_a_newer_or_another_schema_is_refused(self, open_one):
        shipped = read_migrations("skillwire.adapters.postgres")
        newer = [*shipped, Migration(9000, "9000_new.sql", "CREATE TABLE new (a BIGINT)")]
        other = [shipped[0]._replace(script="SELECT 1"), *shipped[1:]]
        with new_database() as url:
            ours = open_one(url)
            await names(ours)
            await names(open_one(url, migrations=newer))
            assert (await names(ours), await ours.find_obstacle()) == ([], "")  # it goes on beside a newer server
            for migrations, said in ((shipped, "has step 9000"), ([*other, newer[-1]], "with another text")):
                with pytest.raises(StorageError, match=said):
                    await names(open_one(url, migrations=migrations))

    async def test_the_database_of_another_program_is_refused(self, open_one):
        with new_database() as url:
            theirs = open_one(url)
            async with theirs.maintenance() as connection:
                await connection.execute("CREATE TABLE migrations (migration TEXT, batch INTEGER)")
            with pytest.raises(StorageError, match="its table migrations is that of another program"):
                await names(theirs)

    async def test_a_pending_step_may_be_left_to_later(self, open_one):
        shipped = read_migrations("skillwire.adapters.postgres")
        newer = [*shipped, Migration(9000, "9000_new.sql", "CREATE TABLE new (a BIGINT)")]
        with new_database() as url:
            with pytest.raises(StorageError, match="lacks"):
                await names(open_one(url, may_migrate=False))
            await names(open_one(url))
            waiting = open_one(url, migrations=newer, may_migrate=False)
            assert (await names(waiting), await waiting.pending()) == ([], ["9000_new.sql"])
            assert "9000_new.sql" in await waiting.find_obstacle()
            await waiting.migrate()
            assert (await waiting.pending(), await waiting.find_obstacle()) == ([], "")


async def test_the_standby_that_became_the_primary_is_found(open_one):
    def host(server):
        return quote(str(server.folder), safe="")

    first = PostgresServer(fsync="off")
    try:
        second = first.standby()
        try:
            database = open_one(f"postgresql://postgres@{host(second)},{host(first)}/postgres")
            await database.write(insert("a"))
            await eventually_async(lambda: second.has("SELECT count(*) = 1 FROM ended_sessions"))
            first.stop(signal.SIGQUIT)
            second.promote()
            await eventually_async(lambda: _written(database))
            assert await names(database) == ["a", "b"]
            assert database.counters.failovers == 1
        finally:
            second.close()
    finally:
        first.close()


async def _written(database):
    try:
        return await database.write(insert("b"))
    except StorageError:
        return False
