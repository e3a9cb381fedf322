"""From a request to an execution: what it is called."""

from __future__ import annotations

import re

from skillwire.invocation.accept import new_execution_id


def test_an_id_begins_with_the_time_and_ends_with_chance():
    ids = [new_execution_id(now) for now in (0.0, 1_750_000_000.125, 1_750_000_000.25, 4e9)]
    assert all(re.fullmatch("exec-[0-9a-f]{44}", one) for one in [*ids, new_execution_id(1e15)])
    assert sorted(ids) == ids
    assert int(ids[1][5:17], 16) == 1_750_000_000_125
    assert len({new_execution_id(1.0)[-32:] for _ in range(100)}) == 100


def test_the_id_of_a_task_is_told_from_others_by_its_beginning():
    ids = {new_execution_id(1.0, is_task=True) for _ in range(100)}
    assert all(re.fullmatch("exec-[0-9a-f]{32}", one) for one in ids)
    assert len({one[:13] for one in ids}) == 100
