"""Whose turn it is: priorities, and what callers and skills may have at once, on all workers."""

from dataclasses import replace

import pytest
from tests.support.executions import NO_QUOTA, PASSING, claim_of, fill, ids

from skillwire.model.execution import Priority, Quota


def test_order_is_that_of_arrival(office):
    accepted = []
    for _ in range(4):
        accepted.append(office.accept().execution_id)
        office.clock.pass_(0.01)
    assert ids(office.claim(limit=4)) == accepted


def test_high_goes_first_and_low_last(office):
    low, normal, high = (office.accept(priority=one) for one in (Priority.LOW, Priority.NORMAL, Priority.HIGH))
    assert ids(office.claim(limit=3)) == ids([high, normal, low])


@pytest.mark.parametrize(("mine", "others"), [(Priority.LOW, Priority.HIGH), (Priority.NORMAL, Priority.HIGH)])
def test_nobody_waits_for_ever_behind_what_is_more_urgent(office, mine, others):
    waits = office.accept(priority=mine, timeout=1e4)
    for seconds in range(300):
        office.accept(priority=others)
        if office.claim_one().execution_id == waits.execution_id:
            assert seconds <= 120
            return
        office.clock.pass_(1)
    pytest.fail("it never had its turn")


def test_caller_has_no_more_than_its_share_on_all_workers(office):
    quota = replace(NO_QUOTA, per_caller=2)
    mine = [office.accept(caller="principal anna") for _ in range(4)]
    other = office.accept(caller="principal bert")
    assert ids(office.claim("w1", quota, limit=1)) == ids(mine[:1])
    assert ids(office.claim("w2", quota, limit=5)) == ids([mine[1], other])
    assert office.claim("w3", quota, limit=5) == []
    office.ledger.complete(claim_of(office.find(mine[0])), b"1", office.clock.now)
    assert ids(office.claim("w1", quota, limit=5)) == ids([mine[2]])


def test_skill_has_no_more_than_its_share(office):
    quota = replace(NO_QUOTA, per_skill=2)
    mine = [office.accept(skill="book", caller=f"principal {n}") for n in range(4)]
    other = office.accept(skill="find")
    assert ids(office.claim(quota=quota, limit=9)) == ids([*mine[:2], other])


def test_skill_may_have_a_share_of_its_own(office):
    quota = replace(NO_QUOTA, per_skill=3, skills={"book": 1, "find": 4, "rest": 0})
    assert quota.per_skill_of("other") == 3
    accepted = [office.accept(skill=skill) for skill in ("book", "find", "rest", "other") for _ in range(5)]
    claimed = office.claim(quota=quota, limit=20)
    counts = {skill: sum(one.skill == skill for one in claimed) for skill in ("book", "find", "rest", "other")}
    assert counts == {"book": 1, "find": 4, "rest": 0, "other": 3}
    assert ids(claimed) == [one.execution_id for one in accepted if one.execution_id in ids(claimed)]


def test_long_queue_of_one_hides_nobody_behind_it(office):
    quota = Quota(per_caller=1, per_skill=100)
    for _ in range(200):
        office.accept(caller="principal greedy")
    office.clock.pass_(1)
    others = [office.accept(caller=f"principal {n}", skill=f"skill-{n}") for n in range(40)]
    claimed = office.claim(quota=quota, limit=41)
    assert ids(claimed[1:]) == ids(others)
    assert claimed[0].caller == "principal greedy"


def test_what_waits_for_its_next_attempt_uses_up_no_share(office):
    quota = replace(NO_QUOTA, per_caller=1)
    office.accept(max_attempts=2, backoff=100.0)
    second = office.accept()
    office.ledger.fail(claim_of(office.claim_one(quota=quota)), PASSING, office.clock.now)
    assert ids(office.claim(quota=quota)) == ids([second])
    assert office.claim(quota=quota) == []


def test_names_are_taken_as_they_are(office):
    quota = replace(NO_QUOTA, per_caller=1, per_skill=2)
    for name in ("it's", 'a "b"', "é\n", "[1]", "null", "%_"):
        for _ in range(3):
            office.accept(caller=name, skill=name)
    assert len(office.claim(quota=quota, limit=30)) == 6
    assert office.claim(quota=quota, limit=30) == []


def test_functions_are_given_only_to_who_registered_them(office):
    digests = [f"sha256:{digit * 64}" for digit in "12"]
    mine, other = (office.accept(executor="function", digest=digest) for digest in digests)
    python = office.accept(digest=digests[1])
    assert ids(office.claim(quota=replace(NO_QUOTA, functions=(digests[0],)), limit=9)) == ids([mine, python])
    assert office.claim(quota=replace(NO_QUOTA, functions=()), limit=9) == []
    assert ids(office.claim(quota=NO_QUOTA, limit=9)) == ids([other])


def test_a_worker_is_given_what_was_accepted_for_its_queue_and_nothing_else(office):
    others = [office.accept(queue=queue, caller="anna", skill="book") for queue in ("a", "b", "a", "process 1")]
    mine = office.accept(caller="anna", skill="book")
    assert ids(office.claim(limit=9)) == ids([mine])
    claimed = office.claim("w2", replace(NO_QUOTA, queue="a"), limit=9)
    assert ids(claimed) == ids([others[0], others[2]])
    assert [one.queue for one in claimed] == ["a", "a"]


def test_what_a_lost_worker_had_goes_back_to_its_queue(office):
    accepted = office.accept(queue="a", is_repeatable=True)
    office.claim_one(quota=replace(NO_QUOTA, queue="a"))
    office.clock.pass_(100)
    assert office.ledger.recover(office.clock.now) == [accepted.execution_id]
    assert office.claim() == []
    assert ids(office.claim(quota=replace(NO_QUOTA, queue="a"))) == [accepted.execution_id]


def test_what_callers_and_skills_have_is_counted_over_all_queues(office):
    office.accept(queue="a", caller="anna")
    office.claim_one(quota=replace(NO_QUOTA, queue="a"))
    office.accept(caller="anna")
    assert office.claim(quota=replace(NO_QUOTA, per_caller=1)) == []


def test_whoever_waits_behind_a_full_caller_has_their_turn_in_order(office):
    quota = replace(NO_QUOTA, per_caller=2)
    fill(office, 2_000, caller="principal greedy")
    others = [fill(office, 1, caller=f"principal {n % 7}", skill=f"skill-{n % 3}")[0] for n in range(12)]
    claimed = office.claim(quota=quota, limit=14)
    assert [one.caller for one in claimed[:2]] == ["principal greedy"] * 2
    assert ids(claimed[2:]) == ids(others)
    assert office.claim(quota=quota, limit=14) == []
