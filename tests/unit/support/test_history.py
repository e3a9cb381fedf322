"""The checker of histories finds each kind of broken promise, and nothing where none is."""

import pytest
from tests.support.history import Operation, check, recoveries

PUBLISHED = Operation("publish", "s1", "acme/notes", "1.0.0", "ok", 1.0, 2.0, "a")
READ = Operation("read", "s1", "acme/notes", "1.0.0", "ok", 3.0, 4.0, "b")
ACCEPTED = Operation("accept", "s1", "key-1", "exec-1", "ok", 1.0, 2.0, "a")
ENDED = Operation("end", "s1", "exec-1", "completed 1", "ok", 3.0, 4.0, "b")
RAN = Operation("ran", "", "exec-1", "", "ok", 2.5, 2.5)
VERSIONS = {"acme/notes": {"1.0.0"}}
ENDS = {"exec-1": "completed 1"}


def test_a_history_that_keeps_every_promise_has_no_finding():
    unsure = PUBLISHED._replace(value="2.0.0", outcome="unknown")
    refused = PUBLISHED._replace(value="3.0.0", outcome="refused")
    stranger = READ._replace(session="s2", value="", ended=1.5)  # has seen nothing that could go away
    again = ACCEPTED._replace(outcome="unknown", value="")
    history = [PUBLISHED, READ, unsure, refused, stranger, again, ACCEPTED, RAN, ENDED, ENDED]
    assert check(history, VERSIONS, ENDS) == []


@pytest.mark.parametrize(
    ("history", "versions", "ends", "finding"),
    [
        ([PUBLISHED], {}, {}, "acknowledged"),
        ([PUBLISHED, READ._replace(value="")], VERSIONS, {}, "without 1.0.0"),
        ([PUBLISHED, READ, READ._replace(value="2.0.0", ended=5.0)], VERSIONS, {}, "without 1.0.0"),
        ([ACCEPTED], {}, {}, "exec-1 was accepted and is not there"),
        ([ACCEPTED, ACCEPTED._replace(value="exec-2")], {}, {**ENDS, "exec-2": "completed 1"}, "made 2 executions"),
        ([ACCEPTED, ENDED, ENDED._replace(value="failed")], {}, ENDS, "ended in 2 ways"),
        ([ACCEPTED, ENDED], {}, {"exec-1": "completed 2"}, "ended in 2 ways"),
        ([ACCEPTED, RAN, RAN, ENDED], {}, ENDS, "ran 2 times"),
    ],
)
def test_each_broken_promise_is_one_finding(history, versions, ends, finding):
    (found,) = check(history, versions, ends)
    assert finding in found


def test_a_recovery_takes_until_every_kind_has_succeeded_again():
    history = [
        PUBLISHED._replace(began=9.0, ended=10.5),  # began before the fault
        PUBLISHED._replace(began=11.0, ended=12.0),
        READ._replace(began=10.1, ended=10.2),
        READ._replace(began=10.1, ended=10.15, outcome="unknown"),
    ]
    assert recoveries(history, [10.0], ["publish", "read"]) == [2.0]
    assert recoveries(history, [13.0], ["read"]) == [float("inf")]
