"""A copy of a state directory in PostgreSQL: everything, verified, and continued after it was killed."""

import asyncio
import shutil
import sqlite3
from contextlib import closing

import pytest
from tests.support.executions import make_execution
from tests.support.opened import BlockingLedger, run_blocking
from tests.unit.adapters.sqlite.test_registry_export import export, registry, tree  # noqa: F401  # a fixture

from skillwire import limits
from skillwire.adapters.postgres.copy import copy_state
from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sql.registry_export import export_registry
from skillwire.adapters.sqlite.database import DATABASE, Database
from skillwire.adapters.stores import Stores, open_stores
from skillwire.errors import ConflictError, SourceLocation, StorageError
from skillwire.model.execution import Claim, Moment, Quota

NOW = Moment(1_000_000.0, 500.0, "boot-1")


class KilledError(Exception):
    pass


@pytest.fixture
async def database(postgres_url):
    database = PostgresDatabase(postgres_url)
    yield database
    await database.close()


@pytest.fixture
async def state(registry, tmp_path):  # noqa: F811  # the fixture
    """A state directory with a registry, and an execution with a large output."""
    assert await registry.store.has_operator()
    ledger = BlockingLedger(open_stores().ledger)
    ledger.accept(make_execution(execution_id="exec-1"))
    (held,) = ledger.claim("w1", NOW, Quota(per_caller=9, per_skill=9))
    claim = Claim(held.execution_id, held.worker, held.attempt)
    assert ledger.complete(claim, b"x" * (limits.EXECUTION_ROW_OUTPUT_BYTES + 2**20), NOW)
    export(tmp_path / "one")
    run_blocking(open_stores().database.close())
    return shutil.copytree(tmp_path / "home/state", tmp_path / "state")  # threads of this process have the other open


async def test_everything_is_copied_and_can_be_used(state, database, tmp_path, postgres_url):
    rows = await copy_state(state, database)
    assert (rows["versions"], rows["executions"], rows["output_pieces"]) == (5, 1, 1)
    await export_registry(database, None, tmp_path / "two")
    assert tree(tmp_path / "two") == tree(tmp_path / "one")
    stores = Stores(tmp_path / "elsewhere", postgres_url)
    found = await stores.ledger.find("exec-1")
    assert found is not None
    assert await stores.ledger.output(found) == b"x" * (limits.EXECUTION_ROW_OUTPUT_BYTES + 2**20)
    await stores.database.close()
    with pytest.raises(ConflictError) as refused:
        await copy_state(state, database)
    assert refused.value.code == "REGISTRY_NOT_EMPTY"


async def test_a_copy_that_was_killed_continues(state, database, tmp_path):
    for survived in range(100):
        steps = iter(range(survived * 7))

        def advance(steps=steps):
            if next(steps, None) is None:
                raise KilledError

        try:
            rows = await copy_state(state, database, advance)
            break
        except KilledError:
            continue
    assert rows["versions"] == 5
    await export_registry(database, None, tmp_path / "two")
    assert tree(tmp_path / "two") == tree(tmp_path / "one")


async def test_a_source_that_changed_after_the_copy_began_is_refused(state, database):
    steps = iter(range(12))

    def advance():
        if next(steps, None) is None:
            raise KilledError

    with pytest.raises(KilledError):
        await copy_state(state, database, advance)
    source = Database(state / DATABASE)
    with source.writing() as connection:
        connection.execute("UPDATE accounts SET created = 7 WHERE name = 'ann'")
    source.close()
    with pytest.raises(StorageError, match="the accounts there are not"):
        await copy_state(state, database)
    async with database.maintenance() as connection:
        await connection.execute("DROP TABLE unfinished_copy")


async def test_a_damaged_artifact_is_named(state, database):
    for path in (state / "artifacts").glob("??/*"):
        path.write_bytes(b"other")
    with pytest.raises(StorageError, match="lost or damaged"):
        await copy_state(state, database)
    async with database.maintenance() as connection:
        await connection.execute("DROP TABLE unfinished_copy")


async def test_a_copy_is_refused_while_the_source_is_open(state, database):
    with closing(sqlite3.connect(state / "skillwire.db")) as other:
        other.execute("SELECT * FROM accounts").fetchall()
        await refused(state, database, str(state / "skillwire.db"))
    assert (await copy_state(state, database))["versions"] == 5


async def test_a_copy_is_refused_while_a_server_uses_the_target(state, database, postgres_url):
    server, seen = PostgresDatabase(postgres_url), asyncio.Event()
    server.watch(seen.set)
    await seen.wait()
    await refused(state, database, server.hosts.place)
    await server.close()
    assert (await copy_state(state, database))["versions"] == 5


async def refused(state, database, place):
    with pytest.raises(ConflictError) as found:
        await copy_state(state, database)
    assert (found.value.code, found.value.diagnostics().place) == ("DATABASE_IN_USE", SourceLocation(place))


async def test_no_server_uses_a_copy_that_is_not_complete(state, database, postgres_url):
    def advance():
        raise KilledError

    with pytest.raises(KilledError):
        await copy_state(state, database, advance)
    server = PostgresDatabase(postgres_url)
    with pytest.raises(StorageError, match="not complete"):
        await server.read(lambda connection: connection.value("SELECT 1"))
    await server.close()
    await copy_state(state, database)
    assert await database.exists()
