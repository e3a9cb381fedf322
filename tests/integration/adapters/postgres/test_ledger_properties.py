"""The ledger on PostgreSQL against the model that the ledger on SQLite is compared with."""

import pytest
from hypothesis import HealthCheck, settings
from tests.property.test_ledger_properties import LedgerMachine
from tests.support.opened import BlockingLedger
from tests.support.postgres import emptied_database

from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sql.blobs import RowOutputs
from skillwire.adapters.sql.ledger import SqlLedger


class PostgresLedgerMachine(LedgerMachine):
    """Two servers on one PostgreSQL."""

    def open(self):
        if not hasattr(self, "emptied"):
            self.emptied = emptied_database()
            self.url = self.emptied.__enter__()
        database = PostgresDatabase(self.url, connections=2)
        return BlockingLedger(SqlLedger(database, RowOutputs(database), chance=lambda: 0.5))

    def teardown(self):
        super().teardown()
        if hasattr(self, "emptied"):
            self.emptied.__exit__(None, None, None)


TestPostgresLedger = pytest.mark.usefixtures("_postgres")(PostgresLedgerMachine.TestCase)
TestPostgresLedger.settings = settings(
    stateful_step_count=30, max_examples=5, deadline=None, suppress_health_check=list(HealthCheck)
)
