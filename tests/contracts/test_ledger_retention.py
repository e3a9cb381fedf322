"""What the ledger forgets, and when; and outputs that are too large for a row."""

import pytest
from tests.support.catalogs import make_skill
from tests.support.executions import claim_of, fill, make_execution

from skillwire.model.execution import ExecutionStatus, IdempotencyKey

DAY = 86_400.0


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
    for execution in fill(office, 1_200):
        office.ledger.cancel(execution.execution_id, "anna", office.clock.now)
    office.clock.pass_(31 * DAY)
    steps = []
    while step := forget(office):
        steps.append(step)
    assert sum(steps) == 1_200
    assert max(steps) <= 500
    assert office.ledger.count() == {}


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


class TestSkillVersions:
    def test_version_goes_with_the_last_execution_of_it(self, office):
        old, new = make_skill("book", content="1"), make_skill("book", content="2")
        digests = [str(skill.artifact.digest) for skill in (old, new)]
        ended = office.run(skills=(old,), digest=digests[0])
        assert office.ledger.find_skill(digests[0]) == old
        office.clock.pass_(20 * DAY)
        office.run(skills=(new, old), digest=digests[1])
        office.clock.pass_(20 * DAY)
        forget(office)
        assert office.ledger.find(ended.execution_id) is None
        assert office.ledger.find_skill(digests[0]) is None
        assert office.ledger.find_skill(digests[1]) == new

    def test_one_that_was_never_kept_is_not_found(self, office):
        assert office.ledger.find_skill("sha256:0") is None
