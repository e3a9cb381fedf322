"""Each port's contract is tested with every adapter that fills it."""

import pytest
from tests.support.executions import MemoryOffice, Office


@pytest.fixture(params=[MemoryOffice, Office], ids=["memory", "sqlite"])
def office(request, tmp_path):
    """Return an execution ledger and its clock."""
    made = request.param(tmp_path)
    yield made
    made.close()
