"""The ledger: each step happens when the state table has it, once, and only for whoever holds the claim."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from tests.support.executions import BEGIN, LASTING, NO_QUOTA, PASSING, TIMEOUT, claim_of, make_execution
from tests.support.opened import Blocking

from skillwire import limits
from skillwire.errors import StorageError
from skillwire.model.execution import (
    Claim,
    Event,
    ExecutionQuery,
    ExecutionStatus,
    Failure,
    IdempotencyKey,
    NewExecution,
    Priority,
    StatisticsCursor,
)

LEASE = NO_QUOTA.lease


def key(name="k", body=b"1", caller="principal anna"):
    return IdempotencyKey(caller, name, body)


class TestAccepting:
    def test_what_is_accepted_is_found_as_it_was(self, office):
        execution = make_execution(
            trace_id="t-1",
            max_attempts=3,
            backoff=0.5,
            is_repeatable=True,
            webhook="https://example.org/hook",
            task=b'{"title":"Book"}',
            executor="human",
            priority=Priority.HIGH,
            timeline=(Event(BEGIN, "accept", "ann\na", "\x1c\u2028"),),
        )
        accepted = office.ledger.accept(execution)
        assert accepted == (execution, "new")
        assert office.ledger.find(execution.execution_id) == execution
        assert office.another().find(execution.execution_id) == execution

    def test_what_was_not_accepted_is_not_found(self, office):
        assert office.ledger.find("exec-0") is None

    def test_id_counts_once(self, office):
        execution = office.accept()
        with pytest.raises(StorageError):
            office.ledger.accept(execution)

    def test_same_key_and_body_give_the_first_execution_as_it_is_now(self, office):
        first = make_execution()
        assert office.ledger.accept(first, key()).how == "new"
        held = office.claim_one()
        again = office.ledger.accept(make_execution(), key())
        assert again == (held, "repeated")
        office.ledger.complete(claim_of(held), b"1", office.clock.now)
        assert office.ledger.accept(make_execution(), key()).execution.output == b"1"
        assert office.ledger.count() == {ExecutionStatus.COMPLETED: 1}

    def test_same_key_with_another_body_is_told_and_makes_nothing(self, office):
        first = make_execution()
        office.ledger.accept(first, key())
        assert office.ledger.accept(make_execution(), key(body=b"2")) == (first, "another")
        assert office.ledger.count() == {ExecutionStatus.ACCEPTED: 1}

    def test_key_is_the_callers_own(self, office):
        office.ledger.accept(make_execution(), key())
        assert office.ledger.accept(make_execution(), key(caller="principal bert")).how == "new"
        assert office.ledger.accept(make_execution(), key("other")).how == "new"

    def test_of_many_requests_with_one_key_one_makes_an_execution(self, office):
        def ask(_):
            ledger = office.another()
            return ledger.accept(make_execution(), key())

        with ThreadPoolExecutor(4) as pool:
            accepted = list(pool.map(ask, range(12)))
        assert sorted(one.how for one in accepted) == ["new"] + ["repeated"] * 11
        assert len({one.execution.execution_id for one in accepted}) == 1


class TestClaiming:
    def test_who_claims_holds_it_and_nobody_else_gets_it(self, office):
        accepted = office.accept()
        office.clock.pass_(1)
        held = office.claim_one("w1")
        assert held == replace(
            accepted,
            status=ExecutionStatus.RUNNING,
            worker="w1",
            attempt=1,
            updated=BEGIN + 1,
            timeline=(*accepted.timeline, Event(BEGIN + 1, "claim", "w1")),
        )
        assert office.claim("w2") == []
        assert office.claim("w1") == []

    def test_nothing_is_claimed_where_nothing_waits(self, office):
        assert office.claim() == []

    def test_more_than_one_is_claimed_at_once(self, office):
        accepted = [office.accept().execution_id for _ in range(5)]
        assert [one.execution_id for one in office.claim(limit=3)] == accepted[:3]
        assert [one.execution_id for one in office.claim(limit=3)] == accepted[3:]

    def test_of_many_workers_one_gets_each(self, office):
        accepted = {office.accept().execution_id for _ in range(40)}

        def work(number):
            ledger = office.another()
            mine = []
            while some := ledger.claim(f"w{number}", office.clock.now, NO_QUOTA, limit=3):
                mine += [one.execution_id for one in some]
            return mine

        with ThreadPoolExecutor(4) as pool:
            claimed = [name for mine in pool.map(work, range(4)) for name in mine]
        assert sorted(claimed) == sorted(accepted)

    def test_worker_gets_only_what_it_can_execute(self, office):
        office.accept(executor="human")
        http = office.accept(executor="http")
        quota = replace(NO_QUOTA, executors=("python", "http"))
        assert [one.execution_id for one in office.claim(quota=quota, limit=5)] == [http.execution_id]

    def test_what_is_past_its_deadline_is_not_begun(self, office):
        office.accept(timeout=5.0)
        office.clock.pass_(5)
        assert office.claim() == []


class TestReporting:
    def test_output_is_kept_and_the_execution_has_completed(self, office):
        office.accept()
        held = office.claim_one()
        office.clock.pass_(2)
        assert office.ledger.complete(claim_of(held), b'{"ok":true}', office.clock.now)
        done = office.find(held)
        assert (done.status, done.output, done.worker) == (ExecutionStatus.COMPLETED, b'{"ok":true}', None)
        assert (done.completed, done.updated, done.failure) == (BEGIN + 2, BEGIN + 2, None)
        assert office.events(held) == ["accept", "claim", "complete"]
        assert office.ledger.output(done) == b'{"ok":true}'

    def test_failure_is_kept_and_the_execution_has_failed(self, office):
        office.accept(max_attempts=3)
        held = office.claim_one()
        failure = LASTING._replace(details={"line": 7, "text": "é\n"})
        assert office.ledger.fail(claim_of(held), failure, office.clock.now)
        failed = office.find(held)
        assert (failed.status, failed.failure, failed.completed) == (ExecutionStatus.FAILED, failure, BEGIN)
        assert failed.timeline[-1] == Event(BEGIN, "fail", "w1", failure.message)
        assert office.ledger.output(failed) is None

    @pytest.mark.parametrize(
        "other",
        [
            lambda claim: claim._replace(worker="w2"),
            lambda claim: claim._replace(attempt=claim.attempt + 1),
            lambda claim: claim._replace(attempt=0),
            lambda claim: claim._replace(execution_id="exec-0"),
        ],
    )
    def test_nothing_counts_without_the_claim(self, office, other):
        office.accept()
        held = office.claim_one()
        claim = other(claim_of(held))
        assert not office.ledger.complete(claim, b"1", office.clock.now)
        assert not office.ledger.fail(claim, LASTING, office.clock.now)
        assert not office.ledger.release(claim, office.clock.now)
        assert list(office.ledger.renew([claim], office.clock.now, LEASE)) == [claim]
        assert office.find(held) == held

    @pytest.mark.parametrize("how", ["release", "recover", "retry"])
    def test_a_claim_of_the_same_worker_is_another_one(self, office, how):
        """The attempt is the fence: it rises with each claim, so a worker that was thought dead writes nothing."""
        accepted = office.accept(is_repeatable=True, max_attempts=3)
        early = office.claim_one("w1")
        if how == "release":
            assert office.ledger.release(claim_of(early), office.clock.now)
        elif how == "retry":
            assert office.ledger.fail(claim_of(early), PASSING, office.clock.now)
        else:
            office.clock.pass_(LEASE + 1)
            assert list(office.ledger.recover(office.clock.now)) == [accepted.execution_id]
        late = office.claim_one("w1")
        assert claim_of(late) == claim_of(early)._replace(attempt=early.attempt + 1)
        assert office.ledger.renew([claim_of(early)], office.clock.now, LEASE)
        for report in ("complete", "fail", "release"):
            more = {"complete": (b"early",), "fail": (LASTING,), "release": ()}[report]
            assert not getattr(office.ledger, report)(claim_of(early), *more, office.clock.now)
        assert office.find(accepted) == late

    def test_a_lease_that_is_renewed_ends_alone_when_it_is_renewed_no_more(self, office):
        first, second = office.accept(is_repeatable=True), office.accept(is_repeatable=True)
        claims = [claim_of(one) for one in office.claim(limit=2)]
        for renewed in (claims, claims, claims[1:]):
            office.clock.pass_(LEASE / 2)
            assert list(office.ledger.renew(renewed, office.clock.now, LEASE)) == []
            assert list(office.ledger.recover(office.clock.now)) == []
        office.clock.pass_(LEASE * 0.6)
        assert list(office.ledger.recover(office.clock.now)) == [first.execution_id]
        assert list(office.ledger.renew(claims, office.clock.now, LEASE)) == claims[:1]
        office.clock.pass_(LEASE + 1)
        assert list(office.ledger.recover(office.clock.now)) == [second.execution_id]

    def test_the_first_report_counts(self, office):
        office.accept()
        claim = claim_of(office.claim_one())
        assert office.ledger.complete(claim, b"1", office.clock.now)
        assert not office.ledger.complete(claim, b"2", office.clock.now)
        assert not office.ledger.fail(claim, LASTING, office.clock.now)
        assert office.ledger.cancel(claim.execution_id, "anna", office.clock.now).output == b"1"
        office.clock.pass_(TIMEOUT + limits.EXECUTION_END_SECONDS)
        assert list(office.ledger.expire(office.clock.now)) == []

    def test_of_a_claim_for_nobody_nothing_counts(self, office):
        accepted = office.accept()
        assert not office.ledger.complete(Claim(accepted.execution_id, "", 0), b"1", office.clock.now)

    def test_output_of_an_earlier_attempt_is_not_kept(self, office):
        accepted = office.accept(is_repeatable=True)
        early = claim_of(office.claim_one("w1"))
        office.clock.pass_(LEASE + 1)
        office.ledger.recover(office.clock.now)
        late = claim_of(office.claim_one("w1"))
        assert (early.attempt, late.attempt) == (1, 2)
        assert not office.ledger.complete(early, b"early", office.clock.now)
        assert office.ledger.complete(late, b"late", office.clock.now)
        assert office.find(accepted).output == b"late"


class TestRetrying:
    def test_attempt_that_may_pass_waits_for_its_pause_and_is_begun_again(self, office):
        accepted = office.accept(max_attempts=2, backoff=10.0)
        held = office.claim_one()
        assert office.ledger.fail(claim_of(held), PASSING, office.clock.now)
        waits = office.find(accepted)
        assert (waits.status, waits.worker, waits.not_before) == (ExecutionStatus.RUNNING, None, BEGIN + 10)
        assert (waits.failure, waits.completed) == (None, None)
        office.clock.pass_(9.9)
        assert office.claim() == []
        office.clock.pass_(0.1)
        again = office.claim_one("w2")
        assert again.attempt == 2
        assert office.ledger.fail(claim_of(again), PASSING, office.clock.now)
        assert office.find(accepted).failure == PASSING
        assert office.events(accepted) == ["accept", "claim", "retry", "claim", "fail"]
        assert [event.note for event in office.find(accepted).timeline if event.note] == [PASSING.message] * 2

    def test_pauses_double_and_chance_takes_of_them(self, office):
        accepted = office.accept(max_attempts=4, backoff=2.0)
        pauses = []
        for chance in (1.0, 1.0, 0.5):
            office.chance = chance
            office.ledger.fail(claim_of(office.claim_one()), PASSING, office.clock.now)
            pauses.append(office.find(accepted).not_before - office.clock.wall)
            office.clock.pass_(pauses[-1])
        assert pauses == [2.0, 4.0, 4.0]

    def test_pause_that_the_failure_names_is_kept(self, office):
        accepted = office.accept(max_attempts=2, backoff=2.0)
        failure = PASSING._replace(details={"retry_after": 30})
        office.ledger.fail(claim_of(office.claim_one()), failure, office.clock.now)
        assert office.find(accepted).not_before == BEGIN + 30

    @pytest.mark.parametrize("pause", [TIMEOUT, 1e300, float("inf"), 10**400])
    def test_attempt_that_could_begin_only_after_the_deadline_is_not_waited_for(self, office, pause):
        accepted = office.accept(max_attempts=2)
        failure = PASSING._replace(details={"retry_after": pause})
        office.ledger.fail(claim_of(office.claim_one()), failure, office.clock.now)
        assert office.find(accepted).status is ExecutionStatus.FAILED

    def test_what_waits_for_its_next_attempt_can_be_cancelled_and_expires(self, office):
        for end in ("cancel", "expire"):
            accepted = office.accept(max_attempts=2, backoff=10.0)
            office.ledger.fail(claim_of(office.claim_one()), PASSING, office.clock.now)
            if end == "cancel":
                office.ledger.cancel(accepted.execution_id, "anna", office.clock.now)
            office.clock.pass_(TIMEOUT)
            office.ledger.expire(office.clock.now)
            assert office.events(accepted) == ["accept", "claim", "retry", end]


class TestEndings:
    @pytest.mark.parametrize("is_held", [False, True])
    def test_cancelled_is_failed_with_the_reason_and_who_did_it(self, office, is_held):
        accepted = office.accept()
        claims = [claim_of(one) for one in office.claim()] if is_held else []
        cancelled = office.ledger.cancel(accepted.execution_id, "principal anna", office.clock.now)
        assert cancelled == office.find(accepted)
        assert (cancelled.status, cancelled.failure.reason) == (ExecutionStatus.FAILED, "cancelled")
        assert cancelled.timeline[-1] == Event(BEGIN, "cancel", "principal anna")
        assert list(office.ledger.renew(claims, office.clock.now, LEASE)) == claims
        assert not any(office.ledger.complete(claim, b"1", office.clock.now) for claim in claims)
        assert office.claim() == []

    def test_cancelling_twice_changes_nothing(self, office):
        accepted = office.accept()
        first = office.ledger.cancel(accepted.execution_id, "anna", office.clock.now)
        office.clock.pass_(1)
        assert office.ledger.cancel(accepted.execution_id, "bert", office.clock.now) == first

    def test_what_is_not_there_cannot_be_cancelled(self, office):
        assert office.ledger.cancel("exec-0", "anna", office.clock.now) is None

    @pytest.mark.parametrize("is_held", [False, True])
    def test_deadline_ends_it_as_timeout(self, office, is_held):
        accepted = office.accept(timeout=5.0)
        other = office.accept(timeout=60.0)
        held = office.claim() if is_held else []
        office.clock.pass_(4.9)
        assert list(office.ledger.expire(office.clock.now)) == []
        office.clock.pass_(0.1)
        if is_held:  # the worker has a moment to report
            assert list(office.ledger.expire(office.clock.now)) == []
            office.clock.pass_(limits.EXECUTION_END_SECONDS)
        assert list(office.ledger.expire(office.clock.now)) == [accepted.execution_id]
        late = office.find(accepted)
        assert (late.status, late.failure.reason) == (ExecutionStatus.TIMEOUT, "deadline")
        assert late.failure.code == "INVOCATION_TIMEOUT"
        assert late.failure.details["timeout_ms"] == 5000
        assert not any(office.ledger.complete(claim_of(one), b"1", office.clock.now) for one in held)
        assert office.find(other).status is ExecutionStatus.ACCEPTED
        assert list(office.ledger.expire(office.clock.now)) == []


class TestLosses:
    def test_worker_that_renews_keeps_what_it_has(self, office):
        office.accept()
        claim = claim_of(office.claim_one())
        for _ in range(3):
            office.clock.pass_(LEASE - 1)
            assert list(office.ledger.renew([claim], office.clock.now, LEASE)) == []
            assert list(office.ledger.recover(office.clock.now)) == []
        assert office.ledger.complete(claim, b"1", office.clock.now)

    def test_what_a_live_worker_holds_is_neither_lost_nor_late(self, office):
        first, second = office.accept(timeout=LEASE), office.accept(is_repeatable=True)
        held = [claim_of(one) for one in office.claim(limit=2)]
        office.clock.pass_(LEASE + 5)
        assert list(office.ledger.expire(office.clock.now, held=held)) == []
        assert list(office.ledger.recover(office.clock.now, held=held)) == []
        assert list(office.ledger.recover(office.clock.now, held=held[:1])) == [second.execution_id]
        assert office.ledger.complete(held[0], b"1", office.clock.now)
        assert office.find(first).status is ExecutionStatus.COMPLETED

    def test_what_may_be_run_twice_is_run_again(self, office):
        accepted = office.accept(is_repeatable=True)
        claim = claim_of(office.claim_one())
        office.clock.pass_(LEASE + 0.1)
        assert list(office.ledger.recover(office.clock.now)) == [accepted.execution_id]
        waits = office.find(accepted)
        assert (waits.status, waits.worker, waits.attempt) == (ExecutionStatus.RUNNING, None, 1)
        assert list(office.ledger.renew([claim], office.clock.now, LEASE)) == [claim]
        assert not office.ledger.complete(claim, b"1", office.clock.now)
        assert office.claim_one("w2").attempt == 2

    def test_what_may_not_has_failed(self, office):
        accepted = office.accept(max_attempts=9)
        claim = claim_of(office.claim_one())
        office.clock.pass_(LEASE + 0.1)
        assert list(office.ledger.recover(office.clock.now)) == [accepted.execution_id]
        lost = office.find(accepted)
        assert (lost.status, lost.failure.reason) == (ExecutionStatus.FAILED, "worker_lost")
        assert not office.ledger.complete(claim, b"1", office.clock.now)
        assert list(office.ledger.recover(office.clock.now)) == []

    def test_lease_does_not_care_who_sets_the_clock(self, office):
        office.accept(timeout=1e9)
        claim = claim_of(office.claim_one())
        for jump in (1e8, -1e9):
            office.clock.wall += jump
            assert list(office.ledger.recover(office.clock.now)) == []
            assert list(office.ledger.renew([claim], office.clock.now, LEASE)) == []

    @pytest.mark.parametrize("steady", [0.0, 1e9])
    def test_leases_of_an_earlier_start_of_the_machine_are_over(self, office, steady):
        accepted = office.accept()
        office.claim_one()
        office.clock.boot, office.clock.steady = "boot-2", steady
        assert list(office.ledger.recover(office.clock.now)) == [accepted.execution_id]

    def test_worker_whose_lease_ran_out_unnoticed_may_renew_it(self, office):
        office.accept()
        claim = claim_of(office.claim_one())
        office.clock.pass_(LEASE + 5)
        assert list(office.ledger.renew([claim], office.clock.now, LEASE)) == []
        assert list(office.ledger.recover(office.clock.now)) == []


class TestGivingBack:
    def test_somebody_else_takes_it_up_at_once(self, office):
        accepted = office.accept()
        claim = claim_of(office.claim_one("w1"))
        assert office.ledger.release(claim, office.clock.now)
        assert not office.ledger.release(claim, office.clock.now)
        assert office.find(accepted).status is ExecutionStatus.RUNNING
        assert office.claim_one("w2").worker == "w2"
        assert office.events(accepted) == ["accept", "claim", "release", "claim"]

    def test_it_keeps_its_turn(self, office):
        first = office.accept()
        claim = claim_of(office.claim_one())
        office.clock.pass_(1)
        office.accept()
        office.ledger.release(claim, office.clock.now)
        assert office.claim_one().execution_id == first.execution_id


class TestTasks:
    def test_one_person_gets_a_task_and_keeps_it_without_a_lease(self, office):
        task = office.accept(executor="human", timeout=1e6)
        held = office.ledger.claim_task(task.execution_id, "anna", office.clock.now)
        assert (held.worker, held.attempt, held.status) == ("anna", 1, ExecutionStatus.RUNNING)
        assert office.ledger.claim_task(task.execution_id, "bert", office.clock.now) is None
        office.clock.pass_(1e5)
        office.clock.boot = "boot-2"
        assert list(office.ledger.recover(office.clock.now)) == []
        assert office.ledger.complete(claim_of(held), b"1", office.clock.now)

    def test_task_that_was_given_back_may_be_taken_by_another(self, office):
        task = office.accept(executor="human")
        held = office.ledger.claim_task(task.execution_id, "anna", office.clock.now)
        assert office.ledger.release(claim_of(held), office.clock.now)
        assert office.ledger.claim_task(task.execution_id, "bert", office.clock.now).attempt == 2

    def test_only_tasks_of_people_that_have_not_ended_are_taken(self, office):
        python = office.accept()
        ended = office.accept(executor="human")
        office.ledger.cancel(ended.execution_id, "anna", office.clock.now)
        late = office.accept(executor="human", timeout=5.0)
        office.clock.pass_(5)
        for execution_id in (python.execution_id, ended.execution_id, late.execution_id, "exec-0"):
            assert office.ledger.claim_task(execution_id, "anna", office.clock.now) is None
        assert office.find(python).status is ExecutionStatus.ACCEPTED

    def test_tasks_of_people_use_up_no_quota(self, office):
        task = office.accept(executor="human")
        office.ledger.claim_task(task.execution_id, "anna", office.clock.now)
        office.accept()
        assert len(office.claim(quota=replace(NO_QUOTA, per_caller=1, per_skill=1))) == 1


class TestCallbacks:
    def end(self, office, **fields):
        accepted = office.accept(webhook="https://example.org/hook", **fields)
        office.ledger.cancel(accepted.execution_id, "anna", office.clock.now)
        return accepted

    def due(self, office, limit=10):
        return list(office.ledger.due_callbacks(office.clock.now, limit=limit))

    def test_the_end_is_told_by_the_queue_that_it_belongs_to(self, office):
        accepted = self.end(office, queue="a")
        assert self.due(office) == []
        due = office.ledger.due_callbacks(office.clock.now, limit=10, queue="a")
        assert [one.execution_id for one in due] == [accepted.execution_id]

    @pytest.mark.parametrize("end", ["complete", "fail", "cancel", "expire", "abandon"])
    def test_every_end_is_told_once_and_nobody_else_is_handed_it_meanwhile(self, office, end):
        accepted = office.accept(webhook="https://example.org/hook")
        claim = claim_of(office.claim_one())
        assert self.due(office) == []
        if end == "complete":
            office.ledger.complete(claim, b"1", office.clock.now)
        elif end == "fail":
            office.ledger.fail(claim, LASTING, office.clock.now)
        elif end == "cancel":
            office.ledger.cancel(claim.execution_id, "anna", office.clock.now)
        elif end == "expire":
            office.clock.pass_(TIMEOUT + limits.EXECUTION_END_SECONDS)
            office.ledger.expire(office.clock.now)
        else:
            office.clock.pass_(LEASE + 1)
            office.ledger.recover(office.clock.now)
        (due,) = self.due(office)
        assert (due.execution_id, due.callbacks, due.status.is_final) == (accepted.execution_id, 1, True)
        assert self.due(office) == []
        office.ledger.put_off_callback(due.execution_id, None)
        office.clock.pass_(1e6)
        assert self.due(office) == []

    def test_one_that_nobody_made_is_due_again_after_a_minute(self, office):
        self.end(office)
        self.due(office)
        office.clock.pass_(59)
        assert self.due(office) == []
        office.clock.pass_(1)
        assert [one.callbacks for one in self.due(office)] == [2]

    def test_one_that_was_put_off_is_due_then(self, office):
        accepted = self.end(office)
        self.due(office)
        office.ledger.put_off_callback(accepted.execution_id, office.clock.wall + 300)
        office.clock.pass_(299)
        assert self.due(office) == []
        office.clock.pass_(1)
        assert len(self.due(office)) == 1

    def test_the_longest_due_come_first(self, office):
        ended = []
        for _ in range(3):
            ended.append(self.end(office).execution_id)
            office.clock.pass_(1)
        assert [one.execution_id for one in self.due(office, limit=2)] == ended[:2]
        assert [one.execution_id for one in self.due(office, limit=2)] == ended[2:]

    def test_retry_and_release_are_nobodys_end(self, office):
        office.accept(webhook="https://example.org/hook", max_attempts=2)
        office.ledger.release(claim_of(office.claim_one()), office.clock.now)
        office.ledger.fail(claim_of(office.claim_one()), PASSING, office.clock.now)
        office.clock.pass_(1)
        assert self.due(office) == []

    def test_who_gave_no_url_is_told_nothing(self, office):
        accepted = office.accept()
        office.ledger.cancel(accepted.execution_id, "anna", office.clock.now)
        assert self.due(office) == []


class TestCounting:
    def test_those_that_wait_or_run_are_counted_by_caller(self, office):
        for _ in range(3):
            office.accept(caller="principal anna")
        office.accept(caller="principal bert")
        office.claim(limit=2)
        office.ledger.complete(claim_of(office.claim_one()), b"1", office.clock.now)
        assert office.ledger.waiting() == {"principal anna": 2, "principal bert": 1}

    def test_all_are_counted_by_status(self, office):
        assert office.ledger.count() == {}
        for _ in range(3):
            office.accept()
        office.ledger.fail(claim_of(office.claim_one()), Failure("exit", "no"), office.clock.now)
        office.claim_one()
        statuses = (ExecutionStatus.ACCEPTED, ExecutionStatus.RUNNING, ExecutionStatus.FAILED)
        assert office.ledger.count() == dict.fromkeys(statuses, 1)
        assert office.ledger.count(ExecutionQuery(statuses=frozenset(), limit=1)) == dict.fromkeys(statuses, 1)

    def test_those_that_a_query_finds_are_counted_whatever_their_status(self, office):
        for skill, caller in (("report", "principal anna"), ("report", "principal bert"), ("notes", "principal anna")):
            office.accept(skill=skill, caller=caller)
        assert office.ledger.count(ExecutionQuery(skill="report")) == {ExecutionStatus.ACCEPTED: 2}
        assert office.ledger.count(ExecutionQuery(skill="report", caller="principal anna")) == {
            ExecutionStatus.ACCEPTED: 1
        }
        assert office.ledger.count(ExecutionQuery(executor="human")) == {}


class TestSweeping:
    def test_no_transaction_ends_more_than_some_that_are_late(self, office):
        office.ledger.accept_all([make_execution(office.clock) for _ in range(600)])
        office.clock.pass_(TIMEOUT + 1)
        ended = [office.ledger.expire(office.clock.now) for _ in range(4)]
        assert [len(ids) for ids in ended] == [256, 256, 88, 0]
        assert office.ledger.count() == {ExecutionStatus.TIMEOUT: 600}

    def test_no_transaction_takes_up_more_than_some_that_are_lost(self, office):
        office.ledger.accept_all([make_execution(office.clock) for _ in range(300)])
        assert len(office.claim(limit=300)) == 300
        office.clock.pass_(LEASE + 1)
        assert [len(office.ledger.recover(office.clock.now)) for _ in range(3)] == [256, 44, 0]
        assert office.ledger.count() == {ExecutionStatus.FAILED: 300}


class TestAcceptingTogether:
    @pytest.mark.parametrize("number", [0, 1, 2, 4, 5, 15, 16, 21, 64, 150])
    def test_executions_that_are_accepted_together_are_found_as_they_were(self, office, number):
        executions = [make_execution(trace_id=f"t-{n}", is_repeatable=n % 2 == 0) for n in range(number)]
        office.ledger.accept_all(executions)
        assert [office.another().find(one.execution_id) for one in executions] == executions

    def test_one_that_cannot_be_stored_hinders_no_other(self, office):
        office.accept()
        executions = [make_execution() for _ in range(81)]
        first = executions[0]
        results = Blocking(office.ledger.wrapped).accept_all([NewExecution(one) for one in (*executions, first)])
        assert results[:-1] == [(one, "new") for one in executions]
        assert isinstance(results[-1], StorageError)
        assert sum(office.ledger.count().values()) == 82

    def test_statistics_count_each_execution_once(self, office):
        began = StatisticsCursor(office.clock.wall)
        office.clock.pass_(1)
        office.run()
        failed = office.accept()
        office.clock.pass_(2)
        office.ledger.cancel(failed.execution_id, "anna", office.clock.now)
        held = office.accept(skill="other")
        office.claim_one()
        first = office.ledger.statistics(began, office.clock.wall - 1, 10)
        assert (first.accepted, first.running, [one.outcome for one in first.ended]) == (3, 1, ["completed"])
        second = office.ledger.statistics(first.cursor, office.clock.wall, 10)
        assert (second.accepted, second.ended) == (0, [("cancelled", None, 2.0)])
        assert second.statuses == {"completed": 1, "failed": 1, "running": 1}
        assert office.ledger.statistics(second.cursor, office.clock.wall, 10).ended == []
        assert held
