"""What the ledger forgets, and when; and outputs that are too large for a row."""

from __future__ import annotations

import hashlib

import pytest
from tests.support.catalogs import make_skill
from tests.support.executions import claim_of, make_execution

from skillwire import limits
from skillwire.adapters.sqlite import ledger
from skillwire.adapters.sqlite.stores import SqliteSkillVersions
from skillwire.model.execution import ExecutionStatus, IdempotencyKey

DAY = 86_400.0
LARGE = b'"' + b"x" * int(limits.EXECUTION_ROW_OUTPUT_BYTES) + b'"'


def forget(office, outputs=7 * DAY, rows=30 * DAY):
    return office.ledger.forget(office.clock.now, outputs=outputs, rows=rows)


def test_output_is_forgotten_after_its_time_and_the_execution_is_not(office):
    done = office.run(b'{"a":1}')
    office.clock.pass_(7 * DAY)
    assert forget(office) == 0
    office.clock.pass_(1)
    assert forget(office) == 1
    left = office.find(done)
    assert (left.status, left.output, left.output_forgotten) == (ExecutionStatus.COMPLETED, None, True)
    assert office.ledger.output(left) is None
    assert forget(office) == 0


def test_execution_is_forgotten_after_its_time(office):
    done = office.run()
    failed = office.accept()
    office.ledger.cancel(failed.execution_id, "anna", office.clock.now)
    office.clock.pass_(30 * DAY + 1)
    forget(office)
    assert office.ledger.find(done.execution_id) is None
    assert office.ledger.find(failed.execution_id) is None


def test_what_has_not_ended_is_never_forgotten(office):
    waits = office.accept(timeout=1e9)
    held = office.accept(timeout=1e9)
    office.clock.pass_(365 * DAY)
    forget(office)
    assert office.find(waits)
    assert office.find(held)


def test_the_time_begins_with_the_end(office):
    task = office.accept(executor="human", timeout=1e9)
    held = office.ledger.claim_task(task.execution_id, "anna", office.clock.now)
    office.clock.pass_(40 * DAY)
    office.ledger.complete(claim_of(held), b"1", office.clock.now)
    office.clock.pass_(6 * DAY)
    assert forget(office) == 0
    assert office.find(task).output == b"1"


def test_much_is_forgotten_in_steps(office):
    with office.database.writing():
        for _ in range(1_200):
            execution = office.accept()
            office.ledger.cancel(execution.execution_id, "anna", office.clock.now)
    office.clock.pass_(31 * DAY)
    steps = []
    while step := forget(office):
        steps.append(step)
    assert sum(steps) == 1_200
    assert max(steps) <= 500
    assert office.ledger.count() == {}


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


class TestKeys:
    KEY = IdempotencyKey("principal anna", "k", b"1")

    def accept(self, office):
        return office.ledger.accept(make_execution(office.clock), self.KEY).how

    def test_key_is_known_as_long_as_its_execution(self, office):
        self.accept(office)
        office.ledger.cancel(office.claim_one().execution_id, "anna", office.clock.now)
        office.clock.pass_(29 * DAY)
        forget(office)
        assert self.accept(office) == "repeated"
        office.clock.pass_(2 * DAY)
        forget(office)
        assert self.accept(office) == "new"

    @pytest.mark.parametrize("rows", [1.0, 2 * DAY])
    def test_key_whose_execution_was_forgotten_may_be_used_again(self, office, rows):
        self.accept(office)
        office.ledger.cancel(office.claim_one().execution_id, "anna", office.clock.now)
        office.clock.pass_(rows + 1)
        forget(office, rows=rows)
        assert self.accept(office) == "new"
        assert self.accept(office) == "repeated"

    def test_nothing_is_left_of_what_was_forgotten(self, office):
        self.accept(office)
        office.ledger.cancel(office.claim_one().execution_id, "anna", office.clock.now)
        office.clock.pass_(31 * DAY)
        forget(office)
        with office.database.reading() as connection:
            for table in ("executions", "idempotency_keys", "skill_versions"):
                assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)  # noqa: S608  # a name above


class TestSkillVersions:
    def test_what_was_written_for_a_commit_that_never_came_is_removed(self, office, monkeypatch):
        large = b'"' + b"x" * limits.EXECUTION_ROW_OUTPUT_BYTES + b'"'
        kept = office.run(large)
        accepted = office.accept()
        claim = claim_of(office.claim_one())
        monkeypatch.setattr(ledger, "step", lambda *_, **__: 1 / 0)  # a crash
        with pytest.raises(ZeroDivisionError):
            office.ledger.complete(claim, large.replace(b"x", b"y"), office.clock.now)
        monkeypatch.undo()
        left = office.outputs.directory / "ab" / ".cd.tmp"
        left.parent.mkdir()
        left.write_bytes(b"half")
        assert len(office.blobs()) == 3
        assert [office.ledger.sweep_outputs(), office.ledger.sweep_outputs()] == [2, 0]
        assert office.ledger.output(kept) == large
        assert office.ledger.complete(claim, large.replace(b"x", b"y"), office.clock.now)
        assert office.ledger.sweep_outputs() == 0
        assert office.ledger.output(office.find(accepted)) == large.replace(b"x", b"y")

    def test_version_goes_with_the_last_execution_of_it(self, office):
        versions = SqliteSkillVersions(office.database)
        old, new = make_skill("book", content="1"), make_skill("book", content="2")
        for skill in (old, new, old):
            versions.keep(skill)
        assert versions.find(str(old.artifact.digest)) == old
        ended = office.run(digest=str(old.artifact.digest))
        office.clock.pass_(20 * DAY)
        office.run(digest=str(new.artifact.digest))
        office.clock.pass_(20 * DAY)
        forget(office)
        assert office.ledger.find(ended.execution_id) is None
        assert versions.find(str(old.artifact.digest)) is None
        assert versions.find(str(new.artifact.digest)) == new

    def test_one_that_was_never_kept_is_not_found(self, office):
        assert SqliteSkillVersions(office.database).find("sha256:0") is None
