"""However many executions are inserted together, each is found as it was, or none of them."""

from __future__ import annotations

import pytest
from tests.support.executions import make_execution

from skillwire.errors import StorageError


@pytest.mark.parametrize("number", [0, 1, 2, 4, 5, 15, 16, 21, 64, 150])
def test_executions_that_are_accepted_together_are_found_as_they_were(office, number):
    executions = [make_execution(trace_id=f"t-{n}", is_repeatable=n % 2 == 0) for n in range(number)]
    office.ledger.accept_all(executions)
    assert [office.another().find(one.execution_id) for one in executions] == executions


def test_of_executions_that_are_accepted_together_all_are_or_none(office):
    office.accept()
    first = make_execution()
    executions = [first, *(make_execution() for _ in range(80)), first]
    with pytest.raises(StorageError):
        office.ledger.accept_all(executions)
    assert office.ledger.find(first.execution_id) is None
    assert sum(office.ledger.count().values()) == 1
