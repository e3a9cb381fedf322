"""Each port's contract is tested with every adapter that fills it."""

import pytest
from blockbuster import blockbuster_ctx
from tests.support.executions import MemoryOffice, Office, PostgresOffice
from tests.support.opened import Blocking

from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sqlite.database import AsyncDatabase, Database


@pytest.fixture(autouse=True)
def _free_loop():
    """Refuse what blocks the event loop, in every adapter and at every step of its contract."""
    with blockbuster_ctx("skillwire") as refused:
        for function in refused.functions.values():  # asyncpg looks for files with passwords and keys
            function.can_block_in("asyncpg/connect_utils.py", {"_connect"})
        refused.functions["os.write"].can_block_in("sandbox/process.py", {"cancel"})  # one byte wakes its thread
        yield


@pytest.fixture(params=[MemoryOffice, Office, PostgresOffice], ids=["memory", "sqlite", "postgres"])
def office(request, tmp_path):
    """Return an execution ledger and its clock."""
    is_shared = request.param is PostgresOffice
    made = request.param(request.getfixturevalue("postgres_url") if is_shared else tmp_path)
    yield made
    made.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def database(request, tmp_path):
    """Return a database; None for a store in memory."""
    if request.param == "postgres":
        database = Blocking(PostgresDatabase(request.getfixturevalue("postgres_url")))
        yield database.wrapped
        database.close()
    else:
        yield AsyncDatabase(Database(tmp_path / "state.db")) if request.param == "sqlite" else None
