"""The inbox: of several people one has a task, and what is handed in fits what was asked for."""

import json
import time

import pytest
from tests.support.executions import make_execution
from tests.support.flaws import flaws_of
from tests.support.opened import Blocking, open_ledger
from tests.support.tasks import add_task

from skillwire.errors import ConflictError, NotFoundError, UsageError, ValidationError
from skillwire.executions.tasks import Inbox, given_inputs, holder_of, read_task
from skillwire.model.execution import ExecutionStatus, Moment


@pytest.fixture(autouse=True)
def _state(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))


class Clock:
    late = 0.0

    def __call__(self):
        return Moment(time.time() + self.late, time.monotonic())


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ann(clock):
    return Blocking(Inbox(open_ledger().wrapped, "ann", clock))


@pytest.fixture
def bob(clock):
    return Blocking(Inbox(open_ledger().wrapped, "bob", clock))


def refusal(call, *arguments):
    with pytest.raises(ConflictError) as caught:
        call(*arguments)
    return caught.value.code


def test_what_is_asked_is_read_as_the_skill_says_it():
    told = read_task(add_task())
    assert (told.title, told.about_output, told.about_inputs) == (
        "Book a table",
        "What the restaurant said",
        {"guests": "How many come"},
    )
    assert read_task(add_task(task=None)) == ("book-table", "", None, "", {})


def test_one_person_has_a_task_and_may_take_it_again(ann, bob):
    task = add_task()
    assert holder_of(task) is None
    held = ann.take(task)
    assert holder_of(held) == "ann"
    assert ann.take(held) == held
    assert (ann.has(held), bob.has(held)) == (True, False)
    assert refusal(bob.take, task) == "TASK_TAKEN"
    assert refusal(bob.complete, task, {"booked": True}) == "TASK_TAKEN"
    assert refusal(bob.reject, held, "no") == "TASK_TAKEN"
    assert refusal(bob.release, held) == "TASK_TAKEN"


def test_what_is_given_back_somebody_else_takes(ann, bob):
    held = ann.take(add_task())
    freed = ann.release(held)
    assert holder_of(freed) is None
    assert holder_of(bob.take(freed)) == "bob"
    assert refusal(ann.release, held) == "TASK_TAKEN"
    assert refusal(ann.complete, held, {"booked": True}) == "TASK_TAKEN"


def test_what_is_handed_in_is_kept_and_ends_the_task(ann):
    done = ann.complete(ann.take(add_task()), {"booked": True, "table": 4})
    assert (done.status, done.output) == (ExecutionStatus.COMPLETED, b'{"booked":true,"table":4}')
    assert [(event.what, event.by) for event in done.timeline[1:]] == [
        ("claim", "human:ann"),
        ("complete", "human:ann"),
    ]
    for call in (ann.take, ann.release, lambda task: ann.reject(task, "x")):
        assert refusal(call, done) == "TASK_ENDED"


@pytest.mark.parametrize("output", [{}, {"booked": "yes"}, {"booked": True, "table": 500}, [], None])
def test_what_does_not_fit_is_refused_and_the_task_stays(ann, output):
    held = ann.take(add_task())
    with pytest.raises(ValidationError) as caught:
        ann.complete(held, output)
    assert caught.value.code == "VALIDATION_ERROR"
    (flaw,) = flaws_of(caught.value)
    assert flaw["path"].startswith("/output")
    assert ann.has(ann.look_up(held.execution_id))


def test_what_is_declined_fails_with_the_reason(ann):
    done = ann.reject(ann.take(add_task()), "The restaurant is closed.")
    assert done.status is ExecutionStatus.FAILED
    assert (done.failure.reason, done.failure.message) == ("rejected", "The restaurant is closed.")


def test_what_its_caller_took_back_or_is_too_late_has_ended(ann, clock):
    held = ann.take(add_task())
    open_ledger().cancel(held.execution_id, "concierge", clock())
    assert refusal(ann.complete, held, {"booked": True}) == "TASK_ENDED"
    late = add_task()
    clock.late = 7201.0
    assert refusal(ann.take, late) == "TASK_ENDED"


def test_the_list_holds_what_waits_and_what_is_worked_on_page_after_page(ann, bob, monkeypatch):
    monkeypatch.setattr("skillwire.executions.tasks._PAGE", 2)
    tasks = [add_task(title=str(number)) for number in range(5)]
    add_task(executor="python")
    other = add_task(skill="other")
    bob.take(tasks[1])
    ann.reject(ann.take(tasks[2]), "no")
    assert [task.execution_id for task in ann.tasks()] == [
        task.execution_id for task in [other, *(tasks[number] for number in (4, 3, 1, 0))]
    ]
    assert [task.execution_id for task in ann.tasks("other")] == [other.execution_id]


def test_an_open_task_is_found_by_the_beginning_of_its_id(ann):
    first = add_task(execution_id="exec-" + "a" * 32)
    second = add_task(execution_id="exec-" + "a" * 8 + "b" * 24)
    assert ann.look_up(first.execution_id) == first
    assert ann.look_up("exec-aaaaaaaab") == second
    assert ann.look_up("aaaaaaaab") == second
    with pytest.raises(UsageError, match="2 tasks begin"):
        ann.look_up("exec-aaaa")
    ended = ann.reject(ann.take(second), "no")
    assert ann.look_up("exec-aaaa") == first
    assert ann.look_up(ended.execution_id) == ended


@pytest.mark.parametrize("which", ["", "exec-", "exec-a", "nosuch", "exec-%", "exec-" + "f" * 32, "\x1b[31m"])
def test_what_is_no_task_is_not_found(ann, which):
    add_task(execution_id="exec-" + "a" * 32)
    with pytest.raises(NotFoundError) as caught:
        ann.look_up(which)
    assert caught.value.code == "TASK_NOT_FOUND"
    assert "\x1b" not in caught.value.message


def test_what_is_no_task_for_people_is_none_of_the_inbox(ann):
    other = add_task(executor="python")
    with pytest.raises(NotFoundError):
        ann.look_up(other.execution_id)


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "\x1b[31m", "x" * 65])
def test_a_name_is_a_short_text_of_one_line(name, clock):
    with pytest.raises(UsageError):
        Blocking(Inbox(open_ledger().wrapped, name, clock))


def test_inputs_are_listed_in_the_order_of_their_declaration():
    about = {"inputs": {"order": "The number.", "item": "", "gone": "Not given."}}
    task = make_execution(0.0, inputs=b'{"extra":1,"item":"mug","order":"A-1"}', task=json.dumps(about).encode())
    assert given_inputs(task, read_task(task)) == [
        ("order", "A-1", "The number."),
        ("item", "mug", ""),
        ("extra", 1, ""),
    ]
