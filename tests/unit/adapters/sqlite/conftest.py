"""What tests of the ledger share."""

import pytest
from tests.support.executions import Office


@pytest.fixture
def office(tmp_path):
    made = Office(tmp_path)
    yield made
    made.close()
