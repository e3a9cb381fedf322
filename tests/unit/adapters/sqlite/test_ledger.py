"""What only the SQLite ledger has: its plans, its files, and what a crash leaves."""

import hashlib
from dataclasses import replace
from inspect import unwrap

import pytest
from tests.support.executions import NO_QUOTA, claim_of, fill, ids, make_execution

from skillwire import limits
from skillwire.adapters.sql import ledger_rows
from skillwire.adapters.sql.ledger import SqlLedger
from skillwire.adapters.sqlite.database import SqliteConnection, finish
from skillwire.model.execution import FINAL, ExecutionQuery, ExecutionStatus, IdempotencyKey

DAY = 86_400.0
LARGE = b'"' + b"x" * int(limits.EXECUTION_ROW_OUTPUT_BYTES) + b'"'


def forget(office, outputs=7 * DAY, rows=30 * DAY):
    return office.ledger.forget(office.clock.now, outputs=outputs, rows=rows)


class Steps:
    """How many steps SQLite takes, in hundreds."""

    def __init__(self, connection):
        self.number = 0
        connection.set_progress_handler(self._step, 100)

    def _step(self):
        self.number += 1


@pytest.mark.parametrize("what", ["a caller", "a skill", "tasks", "pauses", "functions", "a queue"])
def test_a_claim_costs_the_same_however_much_waits_before_it_that_may_not_run(office, what):
    quota = replace(NO_QUOTA, per_caller=1, per_skill=2, functions=())
    steps = []
    for _ in range(3):
        fields = {
            "a caller": {"caller": "greedy"},
            "a skill": {"skill": "wanted"},
            "tasks": {"executor": "human"},
            "pauses": {"caller": "unlucky", "not_before": office.clock.wall + 200},
            "functions": {"executor": "function", "skill": "elsewhere"},
            "a queue": {"queue": "/srv/other.toml", "caller": "late", "skill": "other"},
        }
        fill(office, 3_000, **fields[what])
        late = office.accept(caller="late", skill="other")
        with office.database.reading() as connection:
            while (found := office.claim(quota=quota)) and found[0].execution_id != late.execution_id:
                pass
            assert found, "what could run was not found"
            office.ledger.cancel(late.execution_id, "tester", office.clock.now)
            office.accept(caller="late", skill="other")
            counted = Steps(connection)
            own = SqliteConnection(office.database, connection)
            (claimed,) = finish(office.ledger.wrapped._claim(own, "w1", office.clock.now, quota, 1))
            steps.append(counted.number)
            connection.set_progress_handler(None, 0)
            office.ledger.cancel(claimed.execution_id, "tester", office.clock.now)
    assert steps[2] <= steps[0] * 1.1 + 5, steps


def test_of_more_lanes_than_one_walk_visits_each_has_its_turn(office, monkeypatch):
    monkeypatch.setattr(ledger_rows, "_LANES_PER_WALK", 5)
    monkeypatch.setattr(ledger_rows, "_LOOKS", (2, 4))
    quota = replace(NO_QUOTA, per_caller=1)
    fill(office, 20, caller="m")
    office.claim_one(quota=quota)
    waiting = {one.execution_id for n in range(23) for one in fill(office, 1, caller=f"{n:02}")}
    waiting |= {one.execution_id for n in range(23) for one in fill(office, 1, caller=f"z{n:02}")}
    for _ in range(60):
        for one in office.claim(quota=quota, limit=2):
            waiting.remove(one.execution_id)
    assert not waiting
    for _ in range(12):  # walks that find nothing end, wherever they began
        assert office.claim(quota=quota, limit=2) == []
    late = office.accept(caller="late")
    assert late.execution_id in [one for _ in range(12) for one in ids(office.claim(quota=quota))]


def test_page_of_a_trace_looks_at_so_many_and_the_next_one_goes_on(office, monkeypatch):
    monkeypatch.setattr(limits, "EXECUTIONS_LOOKED_AT", 10)
    mine = [office.accept(trace_id="t" if number % 8 == 0 else None).execution_id for number in range(35)][::-8]
    query, found, pages = ExecutionQuery(trace_id="t"), [], 0
    assert sum(office.ledger.count(query).values()) == 1
    while True:
        page = office.ledger.search(query)
        found += ids(page.executions)
        pages += 1
        if page.after is None:
            break
        query = query._replace(after=page.after)
    assert pages == 4
    assert found == [
        one.execution_id for one in office.ledger.search(ExecutionQuery(limit=99)).executions if one.trace_id
    ]
    assert len(mine) == len(found)


@pytest.mark.parametrize(
    "query",
    [
        ExecutionQuery(),
        *(ExecutionQuery(statuses=(status,)) for status in ExecutionStatus),
        ExecutionQuery(caller="principal rare"),
        ExecutionQuery(skill="rare"),
        ExecutionQuery(executor="http"),
        ExecutionQuery(skill="rare", statuses=FINAL),
    ],
)
def test_no_search_reads_the_rows_of_what_it_does_not_return(office, query):
    with office.database.reading() as connection:
        plans: list[str] = []
        connection.set_trace_callback(plans.append)
        own = SqliteConnection(office.database, connection)
        finish(unwrap(SqlLedger.search)(office.ledger.wrapped, own, query))
        finish(unwrap(SqlLedger.count)(office.ledger.wrapped, own, query))
        connection.set_trace_callback(None)
        seen = [statement for statement in plans if statement.startswith("SELECT")]
        steps = [row[3] for one in seen for row in connection.execute(f"EXPLAIN QUERY PLAN {one}").fetchall()]
    few = ("INTEGER PRIMARY KEY", "USE TEMP B-TREE", "COVERING INDEX", "executions_held")
    every = "SCAN executions"  # from the newest on, until the page is full
    assert [step for step in steps if step != every and not any(name in step for name in few)] == []
    assert query == ExecutionQuery() or every not in steps


def test_rows_may_be_kept_shorter_than_outputs(office):
    done = office.run(LARGE)
    office.clock.pass_(2)
    forget(office, outputs=7 * DAY, rows=1.0)
    assert office.ledger.find(done.execution_id) is None
    assert office.blobs() == []


class TestLargeOutputs:
    def test_one_that_fits_is_in_the_row(self, office):
        done = office.run(LARGE[:-2])
        assert (done.output, done.output_blob) == (LARGE[:-2], None)
        assert office.blobs() == []

    def test_larger_one_is_a_blob_that_its_digest_names(self, office):
        done = office.run(LARGE)
        assert (done.output, done.output_blob) == (None, f"sha256:{hashlib.sha256(LARGE).hexdigest()}")
        assert office.ledger.output(done) == LARGE
        assert office.another().output(done) == LARGE

    def test_late_one_leaves_no_blob(self, office):
        office.accept()
        held = office.claim_one()
        office.ledger.cancel(held.execution_id, "anna", office.clock.now)
        assert not office.ledger.complete(claim_of(held), LARGE, office.clock.now)
        assert office.blobs() == []

    def test_blob_goes_with_the_last_row_that_needs_it(self, office):
        first = office.run(LARGE)
        office.clock.pass_(4 * DAY)
        second = office.run(LARGE)
        assert len(office.blobs()) == 1
        office.clock.pass_(4 * DAY)
        assert forget(office) == 1
        assert office.ledger.output(office.find(first)) is None
        assert office.ledger.output(office.find(second)) == LARGE
        office.clock.pass_(4 * DAY)
        assert forget(office) == 1
        assert office.blobs() == []

    def test_blob_of_rows_that_are_forgotten_together_goes_once(self, office):
        for _ in range(3):
            office.run(LARGE)
        office.clock.pass_(31 * DAY)
        while forget(office):
            pass
        assert office.blobs() == []

    def test_blob_that_was_lost_is_an_output_that_is_gone(self, office):
        done = office.run(LARGE)
        (office.outputs.directory / done.output_blob[7:9] / done.output_blob[9:]).unlink()
        assert office.ledger.output(done) is None


class TestNothing:
    KEY = IdempotencyKey("principal anna", "k", b"1")

    def test_nothing_is_left_of_what_was_forgotten(self, office):
        office.ledger.accept(make_execution(office.clock), self.KEY)
        office.ledger.cancel(office.claim_one().execution_id, "anna", office.clock.now)
        office.clock.pass_(31 * DAY)
        forget(office)
        with office.database.reading() as connection:
            for table in ("executions", "idempotency_keys", "skill_versions"):
                assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)  # noqa: S608  # a name above


class TestCrash:
    def test_what_was_written_for_a_commit_that_never_came_is_removed(self, office, monkeypatch):
        large = b'"' + b"x" * limits.EXECUTION_ROW_OUTPUT_BYTES + b'"'
        kept = office.run(large)
        accepted = office.accept()
        claim = claim_of(office.claim_one())
        monkeypatch.setattr("skillwire.adapters.sql.ledger.apply_step", lambda *_, **__: 1 / 0)  # a crash
        with pytest.raises(ZeroDivisionError):
            office.ledger.complete(claim, large.replace(b"x", b"y"), office.clock.now)
        monkeypatch.undo()
        left = office.outputs.directory / "ab" / ".cd.tmp"
        left.parent.mkdir()
        left.write_bytes(b"half")
        assert len(office.blobs()) == 3
        assert [office.ledger.remove_orphaned_outputs(), office.ledger.remove_orphaned_outputs()] == [2, 0]
        assert office.ledger.output(kept) == large
        assert office.ledger.complete(claim, large.replace(b"x", b"y"), office.clock.now)
        assert office.ledger.remove_orphaned_outputs() == 0
        assert office.ledger.output(office.find(accepted)) == large.replace(b"x", b"y")
