"""What the ledger keeps of a run: what it was given, what it printed and handed out, and the skills that it sees."""

from tests.support.catalogs import make_skill
from tests.support.executions import LASTING, PASSING, claim_of

from skillwire.model.execution import Attachments, ExecutionStatus, Failure, OutputBlob

DAY = 86_400.0
GIVEN = Attachments(("sha256:" + "1" * 64,), (("acme.tools", "sha256:" + "2" * 64),), "def main(args): 'ä\0'")
LEFT = (
    OutputBlob("sha256:" + "3" * 64, "text/csv", 7, "a/ä.csv"),
    OutputBlob("sha256:" + "4" * 64, "image/png", 0, "b"),
)


def test_what_it_was_given_is_kept_as_it_was(office):
    runs = [office.accept(attachments=given) for given in (None, Attachments(), GIVEN)]
    assert [office.another().find(one.execution_id).attachments for one in runs] == [None, Attachments(), GIVEN]


def test_what_it_printed_and_handed_out_is_kept_with_the_output(office):
    office.accept(attachments=GIVEN)
    held = office.claim_one()
    assert office.ledger.complete(claim_of(held), b"1", office.clock.now, log="said\n", blobs=LEFT)
    found = office.find(held)
    assert (found.output, found.log, found.blobs) == (b"1", "said\n", LEFT)


def test_that_of_a_claim_that_holds_no_more_is_not(office):
    office.accept()
    held = office.claim_one()
    office.ledger.cancel(held.execution_id, "anna", office.clock.now)
    assert not office.ledger.complete(claim_of(held), b"1", office.clock.now, log="said", blobs=LEFT)
    assert not office.ledger.fail(claim_of(held), LASTING, office.clock.now, log="said")
    found = office.find(held)
    assert (found.log, found.blobs) == ("", ())


def test_the_log_is_that_of_the_last_attempt(office):
    office.accept(max_attempts=2)
    first = office.claim_one()
    office.ledger.fail(claim_of(first), PASSING, office.clock.now, log="first")
    assert office.find(first).log == "first"
    office.clock.pass_(100)
    second = office.claim_one()
    office.ledger.fail(claim_of(second), LASTING, office.clock.now, log="second")
    assert (office.find(second).status, office.find(second).log) == (ExecutionStatus.FAILED, "second")


def test_a_log_stays_with_what_took_too_long(office):
    office.accept()
    held = office.claim_one()
    late = Failure("deadline", "no end", details={"log": "said"})
    assert office.ledger.fail(claim_of(held), late, office.clock.now, log="said")
    found = office.find(held)
    assert (found.status, found.failure.reason, found.log) == (ExecutionStatus.TIMEOUT, "deadline", "said")
    assert found.failure.details["log"] == "said"
    assert found.failure.details["execution_id"] == held.execution_id


def test_log_and_files_are_forgotten_with_the_output(office):
    office.accept()
    held = office.claim_one()
    office.ledger.complete(claim_of(held), b"1", office.clock.now, log="said", blobs=LEFT)
    office.clock.pass_(7 * DAY + 1)
    office.ledger.forget(office.clock.now, outputs=7 * DAY, rows=30 * DAY)
    found = office.find(held)
    assert (found.output, found.log, found.blobs) == (None, "", ())


def test_the_skills_that_it_sees_are_kept_as_long_as_it_is(office):
    skill = make_skill("tools")
    digest = str(skill.artifact.digest)
    office.accept(skills=(skill,), attachments=Attachments(mounts=(("acme.tools", digest),)))
    later = office.accept(attachments=Attachments(mounts=(("acme.tools", digest), ("acme.too", digest))), timeout=1e9)
    assert office.ledger.open_skills() == [skill]
    held = office.claim_one()
    office.ledger.complete(claim_of(held), b"1", office.clock.now)
    office.clock.pass_(30 * DAY + 1)
    office.ledger.forget(office.clock.now, outputs=DAY, rows=DAY)
    assert office.ledger.find(held.execution_id) is None
    assert office.ledger.open_skills() == [skill]
    office.ledger.cancel(later.execution_id, "anna", office.clock.now)
    assert office.ledger.open_skills() == []
    assert office.ledger.find_skill(digest) == skill
    office.clock.pass_(30 * DAY + 1)
    office.ledger.forget(office.clock.now, outputs=DAY, rows=DAY)
    assert office.ledger.find_skill(digest) is None
