"""The inbox over ASGI: claims, answers that do not fit, and forms that come too late."""

import json
import re

import pytest
from tests.support.fake_desk import new_execution

from skillwire import limits
from skillwire.model.execution import Priority

HOSTILE = "<script>alert(1)</script>\u202e"
SCHEMA = {
    "type": "object",
    "required": ["decision"],
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": ["yes", "no"]},
        "amount": {"type": "number", "title": f"Amount {HOSTILE}", "description": HOSTILE, "maximum": 10},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "title": "Tags", "default": ["a"]},
        "many": {"type": "string", "title": "Many", "enum": [f"c{number}" for number in range(9)]},
        "line": {"type": "string", "title": "Line", "maxLength": 40},
        "open": {"type": "boolean", "title": "Open"},
        "day": {"type": "string", "format": "date", "title": "Day"},
    },
}


@pytest.fixture
def task(desk):
    """Return what makes a task."""

    def make(title="Decide", **fields):
        about = {"title": title, "description": HOSTILE, "output": SCHEMA, "inputs": {"note": HOSTILE}}
        return desk.put(new_execution("ask", task=about, inputs={"note": HOSTILE}, **fields)).execution_id

    return make


async def text(browser, target):
    return (await browser.get(target)).body.decode()


async def test_tasks_lie_in_trays_the_most_urgent_first(enter, desk, task):
    tom = await enter("tom", "tasks")
    late, soon, mine, others, done = (
        task(name, timeout=t) for name, t in zip("LSMOD", (900, 100, 50, 50, 50), strict=True)
    )
    desk.run(mine, tom.worker)
    desk.run(others, "human:bob")
    desk.end(done, {})
    page = await text(tom, "/inbox")
    assert page.index(f"inbox/{soon}") < page.index(f"inbox/{late}")
    assert mine not in page
    assert mine in await text(tom, "/inbox?tray=mine")
    page = await text(tom, "/inbox?tray=others")
    assert others in page
    assert "with bob" in page
    assert done in await text(tom, "/inbox?tray=ended")
    assert soon in await text(tom, "/inbox?tray=nonsense")
    assert done in await text(tom, "/inbox?tray=ended&after=nonsense")


async def test_of_more_tasks_than_a_page_has_the_most_urgent_are_shown_and_all_are_counted(enter, task, monkeypatch):
    monkeypatch.setattr(limits, "CONSOLE_TASKS", 2)
    tom = await enter("tom", "tasks")
    soon, soonest, *others = (task(timeout=t) for t in (200, 100, 900, 800))
    page = await text(tom, "/inbox")
    assert page.index(f"inbox/{soonest}") < page.index(f"inbox/{soon}")
    assert not [other for other in others if other in page]
    assert "<span>Open</span> <b>4</b>" in page


async def test_what_has_ended_is_paged(enter, desk, task):
    tom = await enter("tom", "tasks")
    for _ in range(limits.CONSOLE_EXECUTIONS + 1):
        desk.end(task(), {})
    page = await text(tom, "/inbox?tray=ended")
    assert page.count("<li data-key") == limits.CONSOLE_EXECUTIONS
    assert "?tray=ended&amp;after=2" in page
    assert (await text(tom, "/inbox?tray=ended&after=2")).count("<li data-key") == 1


async def test_a_task_is_claimed_under_the_persons_name(enter, desk, task):
    tom, bob = await enter("tom", "tasks"), await enter("bob", "operator")
    which = task()
    answer = await tom.act(f"/inbox/{which}/claim")
    assert answer.fields["location"] == f"/inbox/{which}?notice=claimed"
    assert desk.executions[which].worker == tom.worker
    answer = await bob.act(f"/inbox/{which}/claim")
    assert answer.fields["location"] == f"/inbox/{which}?notice=taken"
    page = await text(bob, answer.fields["location"])
    assert "Another person has this task" in page
    assert "tom is at it." in page
    assert "Hand in" not in page


async def test_two_people_of_one_name_are_two(enter, desk, task):
    which = task()
    tom, other = await enter("tom", "tasks"), await enter("tom", "tasks")
    await tom.act(f"/inbox/{which}/claim")
    assert which in await text(tom, "/inbox?tray=mine")
    page = await text(other, "/inbox?tray=others")
    assert which in page
    assert "with tom</span>" in page
    assert (await other.act(f"/inbox/{which}/release", attempt="1")).fields["location"].endswith("notice=lost")
    assert desk.executions[which].worker == tom.worker
    assert tom.worker not in await text(await enter("ann", "operator"), f"/executions/{which}")


async def test_each_field_has_what_fits_it(enter, desk, task):
    tom = await enter("tom", "tasks")
    which = task()
    desk.run(which, tom.worker)
    page = await text(tom, f"/inbox/{which}")
    assert page.count('type="radio" name="field:decision"') == 2
    assert page.count('type="radio" name="field:open"') == 3, "and no answer"
    assert page.count('type="checkbox" name="field:tags"') == 2
    assert 'name="field:tags" value="a" checked' in page
    assert '<select id="field-3" name="field:many"' in page
    assert 'name="field:line" type="text"' in page
    assert 'name="field:amount" type="text" inputmode="decimal"' in page
    assert 'name="field:day" type="date"' in page
    assert "<script>alert" not in page
    assert "\u202e" not in page


async def test_answers_that_do_not_fit_are_kept_and_told_at_their_fields(enter, desk, task):
    tom = await enter("tom", "tasks")
    which = task()
    desk.run(which, tom.worker)
    typed = {"attempt": 1, "field:amount": f'9"{HOSTILE}', "field:tags": "b", "field:line": f'"{HOSTILE}'}
    typed["field:day"] = "tomorrow"  # by a browser without a picker
    answer = await tom.act(f"/inbox/{which}/complete", **typed)
    page = answer.body.decode()
    assert answer.status == 422
    assert '<p class="wrong" id="field-0-wrong">This is required.</p>' in page
    assert 'id="field-1-wrong">This must be a number such as 12.5.</p>' in page
    assert 'name="field:day" type="text" inputmode="text" value="tomorrow"' in page
    assert 'name="field:tags" value="b" checked' in page
    assert 'name="field:tags" value="a" checked' not in page, "an answer of somebody is no default"
    assert 'value="&#34;&lt;script&gt;' in page
    assert "<script>alert" not in page
    assert not desk.executions[which].status.is_final


async def test_what_the_desk_finds_wrong_is_told_at_its_field_too(enter, desk, task):
    tom = await enter("tom", "tasks")
    which = task()
    desk.run(which, tom.worker)
    answer = await tom.act(f"/inbox/{which}/complete", **{"attempt": 1, "field:decision": "yes", "field:amount": "11"})
    assert answer.status == 422
    assert 'id="field-1-wrong">11 is greater than the maximum of 10.</p>' in answer.body.decode()


async def test_what_is_wrong_with_no_field_stands_above_the_form(enter, desk):
    tom = await enter("tom", "tasks")
    schema = {"type": "object", "properties": {"output": {"type": "string"}}, "minProperties": 1}
    which = desk.put(new_execution("ask", task={"title": "Ask", "output": schema})).execution_id
    desk.run(which, tom.worker)
    page = (await tom.act(f"/inbox/{which}/complete", attempt=1)).body.decode()
    assert "One answer does not fit." in page
    assert re.search(r"<li>\{\} has less than 1 property\.</li>|<li>.*propert.*</li>", page)


async def test_what_was_handed_in_is_kept_and_shown(enter, desk, task):
    tom = await enter("tom", "tasks")
    which = task()
    desk.run(which, tom.worker)
    form = {"attempt": 1, "field:decision": "no", "field:tags": "", "field:line": "", "field:unknown": "x"}
    answer = await tom.act(f"/inbox/{which}/complete", **form)
    assert answer.fields["location"] == "/inbox?tray=mine&notice=completed"
    assert json.loads(desk.executions[which].output) == {"decision": "no"}
    page = await text(tom, f"/inbox/{which}")
    assert "What was handed in" in page
    assert "Hand in" not in page


@pytest.mark.parametrize("action", ["complete", "reject", "release"])
async def test_a_form_that_comes_too_late_counts_for_nothing(enter, desk, task, action):
    tom = await enter("tom", "tasks")
    which = task()
    desk.run(which, tom.worker)
    desk.step(which, "release", worker=None)
    desk.run(which, tom.worker)  # he has it again, but not under the claim of that form
    for attempt in ("1", "", "x", "²", "9" * 20):
        answer = await tom.act(f"/inbox/{which}/{action}", attempt=attempt, reason="no", **{"field:decision": "yes"})
        assert answer.fields["location"] == f"/inbox/{which}?notice=lost"
    assert (desk.executions[which].worker, desk.executions[which].attempt) == (tom.worker, 2)
    assert "You do not have this task any more" in await text(tom, f"/inbox/{which}?notice=lost")


async def test_answers_that_do_not_fit_and_come_too_late_are_said_to_be_late(enter, desk, task):
    tom = await enter("tom", "tasks")
    which = task()
    desk.run(which, "human:bob")
    answer = await tom.act(f"/inbox/{which}/complete", attempt=1)
    assert answer.fields["location"] == f"/inbox/{which}?notice=lost"


async def test_nobody_hands_in_what_another_has(enter, desk, task):
    tom = await enter("tom", "tasks")
    which = task()
    desk.run(which, "human:bob")
    for action in ("complete", "reject", "release"):
        await tom.act(f"/inbox/{which}/{action}", attempt=1, reason="no", **{"field:decision": "yes"})
    assert desk.executions[which].worker == "human:bob"
    assert not desk.executions[which].status.is_final


async def test_declining_wants_a_reason(enter, desk, task):
    tom = await enter("tom", "tasks")
    which = task()
    desk.run(which, tom.worker)
    for reason, told in ((" ", "Say why."), ("x" * 2001, "at most 2,000 characters")):
        answer = await tom.act(f"/inbox/{which}/reject", attempt=1, reason=reason)
        assert answer.status == 422
        assert told in answer.body.decode()
    answer = await tom.act(f"/inbox/{which}/reject", attempt=1, reason=f" Not mine.\r\n{HOSTILE} ")
    assert answer.fields["location"] == "/inbox?tray=mine&notice=rejected"
    assert desk.executions[which].failure == ("rejected", f"Not mine.\n{HOSTILE}", "EXECUTION_FAILED", {}, False)
    page = await text(tom, f"/inbox/{which}")
    assert "Not mine." in page
    assert "<script>alert" not in page


async def test_only_tasks_are_in_the_inbox_and_only_for_who_works_there(enter, desk, task):
    tom, eve = await enter("tom", "tasks"), await enter("eve")
    program = desk.put(new_execution()).execution_id
    for target in (f"/inbox/{program}", "/inbox/none", f"/inbox/exec-{'0' * 32}"):
        assert (await tom.get(target)).status == 404
    for action in ("claim", "complete", "reject", "release"):
        assert (await tom.act(f"/inbox/{program}/{action}")).status == 404
    which = task()
    assert (await eve.get("/inbox")).status == 403
    assert (await eve.get(f"/inbox/{which}")).status == 403
    assert (await eve.act(f"/inbox/{which}/claim")).status == 403
    assert desk.executions[which].worker is None


async def test_a_task_that_says_nothing_of_itself_is_shown_by_its_skill(enter, desk):
    tom = await enter("tom", "tasks")
    which = desk.put(new_execution("ask-somebody", executor="human")).execution_id
    desk.run(which, tom.worker)
    page = await text(tom, f"/inbox/{which}")
    assert "<h1>ask-somebody</h1>" in page
    assert 'name="field:output"' in page


async def test_tasks_are_sorted_by_priority_and_narrowed_by_words(enter, task):
    tom = await enter("tom", "tasks")
    low, normal, high, late = (
        task(title, timeout=timeout, priority=priority)
        for title, timeout, priority in (
            ("Pack a lamp", 50, Priority.LOW),
            ("Pick a mug", 100, Priority.NORMAL),
            ("Pick a lamp", 900, Priority.HIGH),
            ("Pick a <b>", 950, Priority.HIGH),
        )
    )
    page = await text(tom, "/inbox")
    places = [page.index(f"inbox/{one}") for one in (high, late, normal, low)]
    assert places == sorted(places)
    assert page.count("High priority") == 2
    assert "Pick a &lt;b&gt;" in page
    for query, found in (
        ("words=LAMP", {low, high}),
        ("words=lamp+pick", {high}),
        ("priority=high", {high, late}),
        ("priority=low&words=mug", set()),
        ("priority=odd", {low, normal, high, late}),
        (f"words={'x' * 300}", {low, normal, high, late}),
    ):
        page = await text(tom, f"/inbox?{query}")
        assert {one for one in (low, normal, high, late) if f"inbox/{one}" in page} == found, query
    page = await text(tom, "/inbox?tray=open&priority=low&words=mug")
    assert "No task matches." in page
    assert 'data-live="./inbox/live?tray=open&amp;words=mug&amp;priority=low"' in page


async def test_inputs_are_a_table_in_the_order_of_the_skill(enter, desk):
    tom = await enter("tom", "tasks")
    about = {"title": "Pick", "inputs": {"order_id": "The number.", "item": "", "is-fragile": ""}}
    given = {"more": {"a": 1}, "is-fragile": True, "item": f"mug\n{HOSTILE}", "order_id": 7, "tags": ["a", "b"]}
    task = desk.put(new_execution("ask", task=about, inputs=given)).execution_id
    page = await text(tom, f"/inbox/{task}")
    labels = [page.index(f"<dt>{label}") for label in ("Order id", "Item", "Is fragile", "More", "Tags")]
    assert labels == sorted(labels)
    for shown in (">7</dd>", ">Yes</dd>", ">a\nb</dd>", "mug\n&lt;script&gt;", 'aria-label="More as JSON"'):
        assert shown in page, shown
    assert "<script>alert" not in page
