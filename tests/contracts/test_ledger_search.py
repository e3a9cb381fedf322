"""Looking through the ledger: filters, and pages that miss nothing and repeat nothing."""

import pytest
from tests.support.executions import claim_of

from skillwire.errors import UsageError
from skillwire.model.execution import FINAL, ExecutionQuery, ExecutionStatus, Priority


def ids(page):
    return [execution.execution_id for execution in page.executions]


def test_newest_come_first_as_they_are_found(office):
    accepted = [office.accept() for _ in range(3)]
    page = office.ledger.search(ExecutionQuery())
    assert list(page.executions) == accepted[::-1]
    assert page.after is None


def test_pages_follow_each_other_while_new_ones_come(office):
    accepted = [office.accept().execution_id for _ in range(7)]
    first = office.ledger.search(ExecutionQuery(limit=3))
    office.accept()
    second = office.ledger.search(ExecutionQuery(limit=3, after=first.after))
    third = office.ledger.search(ExecutionQuery(limit=3, after=second.after))
    assert ids(first) + ids(second) + ids(third) == accepted[::-1]
    assert third.after is None


def test_page_that_is_just_full_is_the_last(office):
    for _ in range(3):
        office.accept()
    assert office.ledger.search(ExecutionQuery(limit=3)).after is None
    assert office.ledger.search(ExecutionQuery(limit=2)).after is not None


@pytest.mark.parametrize(
    "query",
    [
        ExecutionQuery(skill="book"),
        ExecutionQuery(caller="principal anna"),
        ExecutionQuery(executor="http"),
        ExecutionQuery(trace_id="t"),
        ExecutionQuery(skill="book", caller="principal anna"),
        ExecutionQuery(statuses=()),
        ExecutionQuery(skill="nothing"),
        *(ExecutionQuery(statuses=(status,)) for status in ExecutionStatus),
        ExecutionQuery(statuses=FINAL),
        ExecutionQuery(statuses=set(ExecutionStatus) - FINAL, skill="book", limit=1),
    ],
)
def test_filters_narrow_the_same_list(office, query):
    for number in range(16):
        fields = {
            "skill": ("book", "find")[number % 2],
            "caller": ("principal anna", "principal bert")[number // 2 % 2],
            "executor": ("python", "http")[number // 4 % 2],
            "trace_id": ("t", None)[number // 8],
        }
        execution = office.accept(**fields)
        if number % 3 == 1:
            office.ledger.cancel(execution.execution_id, "anna", office.clock.now)
        elif number % 3 == 2:
            held = next(one for one in office.claim(limit=9) if one.execution_id == execution.execution_id)
            office.ledger.complete(claim_of(held), b"1", office.clock.now)
    everything = office.ledger.search(ExecutionQuery()).executions
    expected = [
        one.execution_id
        for one in everything
        if (query.statuses is None or one.status in query.statuses)
        and all(
            wanted is None or getattr(one, name) == wanted
            for name in ("skill", "caller", "executor", "trace_id")
            for wanted in [getattr(query, name)]
        )
    ]
    found, after = [], None
    while True:
        page = office.ledger.search(query._replace(after=after))
        found += ids(page)
        after = page.after
        if after is None:
            break
    assert found == expected


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1 OR 1", "9" * 19, "\u0661"])
def test_cursor_that_is_none_of_ours_is_told(office, cursor):
    with pytest.raises(UsageError) as caught:
        office.ledger.search(ExecutionQuery(after=cursor))
    assert caught.value.code == "CURSOR"


def test_tasks_come_by_their_deadlines_and_are_counted_by_who_has_them(office):
    made = [office.accept(executor="human", timeout=1_000.0 - number, caller=f"{number}") for number in range(9)]
    office.accept(executor="python", timeout=1.0)
    for number, person in ((1, "anna"), (3, "bert"), (5, "anna")):
        office.ledger.claim_task(made[number].execution_id, f"human:{person}", office.clock.now)
    office.ledger.cancel(made[8].execution_id, "tester", office.clock.now)
    seen = {whose: office.ledger.tasks("human:anna", whose, limit=3) for whose in ("open", "mine", "others")}
    assert [[one.caller for one in seen[whose].tasks] for whose in seen] == [["7", "6", "4"], ["5", "1"], ["3"]]
    assert all(found.counts == {"open": 5, "mine": 2, "others": 1} for found in seen.values())


def test_tasks_of_a_higher_priority_come_first(office):
    for caller, priority, timeout in (
        ("a", "low", 1.0),
        ("b", "normal", 9.0),
        ("c", "high", 99.0),
        ("d", "normal", 8.0),
    ):
        office.accept(executor="human", caller=caller, priority=Priority(priority), timeout=timeout)
    found = office.ledger.tasks("human:anna", "open", limit=3)
    assert ([one.caller for one in found.tasks], found.counts["open"]) == (["c", "d", "b"], 4)


def test_one_is_found_by_the_beginning_of_its_id(office):
    one, other = (office.accept(execution_id=f"exec-00{digit * 42}") for digit in "ab")
    assert office.ledger.find_begun("exec-00b") == other
    assert office.ledger.find_begun(one.execution_id) == one
    assert [office.ledger.find_begun(text) for text in ("exec-00", "exec-00c", "exec-00a~")] == [None] * 3
