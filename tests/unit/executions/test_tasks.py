"""Tasks: of several people one has a task, and what is handed in, by a form too, fits what was asked for."""

import json
import time
from contextlib import suppress
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.executions import make_execution
from tests.support.flaws import flaws_of
from tests.support.opened import Blocking, open_ledger
from tests.support.tasks import add_task

from skillwire import limits
from skillwire.errors import ConflictError, NotFoundError, UsageError, ValidationError
from skillwire.executions.tasks import WHOLE, Inbox, form_of, given_inputs, holder_of, read_form, read_task
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


BOOKING = {
    "type": "object",
    "required": ["booked", "table", "guest"],
    "properties": {
        "booked": {"type": "boolean", "title": "Is it booked?", "description": "Whether there was a table."},
        "table": {"type": "integer", "minimum": 1, "maximum": 99},
        "price": {"type": ["number", "null"]},
        "room": {"enum": ["garden", "hall", 3, None], "default": "hall"},
        "on": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "wishes": {"type": "array", "items": {"type": "string"}},
        "guest": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string", "maxLength": 80}, "mail": {"type": "string", "format": "email"}},
        },
        "address": {
            "type": "object",
            "required": ["street"],
            "properties": {"street": {"type": "string"}, "number": {"type": "integer"}},
        },
        "notes": {"type": "object"},
    },
}
NEEDED = {"booked": "yes", "table": "4", "guest.name": "Ann"}


def by_name(schema):
    return {field.name: field for field in form_of(schema)}


def flaws(schema, answers):
    with pytest.raises(ValidationError) as caught:
        read_form(form_of(schema), answers)
    assert caught.value.code == "VALIDATION_ERROR"
    errors = flaws_of(caught.value)
    assert all(set(error) == {"path", "message", "expected", "actual"} for error in errors)
    json.dumps(errors)
    assert all(error["path"].startswith("/output") for error in errors)
    return [(error["path"].removeprefix("/output"), error["message"]) for error in errors]


def test_each_property_is_a_field_in_the_order_of_the_schema():
    fields = form_of(BOOKING)
    assert [(field.name, field.kind) for field in fields] == [
        ("booked", "boolean"),
        ("table", "integer"),
        ("price", "number"),
        ("room", "choice"),
        ("on", "date"),
        ("at", "datetime"),
        ("wishes", "lines"),
        ("guest.name", "text"),
        ("guest.mail", "email"),
        ("address.street", "text"),
        ("address.number", "integer"),
        ("notes", "json"),
    ]
    assert [field.name for field in fields if field.is_required] == ["booked", "table", "guest.name"]


def test_a_field_tells_people_what_it_is():
    fields = by_name(BOOKING)
    assert (fields["booked"].label, fields["booked"].description) == ("Is it booked?", "Whether there was a table.")
    assert fields["guest.name"].label == "guest name"
    assert fields["guest.name"].maximum == 80
    assert (fields["table"].minimum, fields["table"].maximum) == (1, 99)
    assert (fields["room"].choices, fields["room"].default) == (("garden", "hall", "3", "null"), "hall")


def test_answers_become_an_object_of_the_types_that_the_schema_names():
    answers = {
        **NEEDED,
        "price": "12.50",
        "room": "3",
        "on": "2025-07-01",
        "at": "2025-07-01T12:00:00Z",
        "wishes": "a window\r\n\r\n quiet \n",
        "guest.mail": "ann@example.com",
        "address.street": "High Street",
        "notes": '{"a": [1]}',
    }
    value = read_form(form_of(BOOKING), answers)
    assert value == {
        "booked": True,
        "table": 4,
        "price": 12.5,
        "room": 3,
        "on": "2025-07-01",
        "at": "2025-07-01T12:00:00Z",
        "wishes": ["a window", "quiet"],
        "guest": {"name": "Ann", "mail": "ann@example.com"},
        "address": {"street": "High Street"},
        "notes": {"a": [1]},
    }
    assert jsonschema_rs.is_valid(BOOKING, value)


def test_who_gives_no_answer_gets_the_default_and_who_gives_a_blank_one_gets_none():
    assert read_form(form_of(BOOKING), NEEDED)["room"] == "hall"
    assert "room" not in read_form(form_of(BOOKING), {**NEEDED, "room": " "})


def test_what_an_optional_object_demands_is_demanded_once_somebody_begins_to_fill_it():
    assert "address" not in read_form(form_of(BOOKING), NEEDED)
    assert flaws(BOOKING, {**NEEDED, "address.number": "5"}) == [("/address/street", "is required")]


def test_a_demanded_object_is_there_though_nothing_in_it_is_demanded():
    schema = {
        "type": "object",
        "required": ["extra"],
        "properties": {"extra": {"type": "object", "properties": {"x": {"type": "string"}}}},
    }
    assert read_form(form_of(schema), {}) == {"extra": {}}


def test_every_answer_that_is_wrong_is_told_with_its_place():
    answers = {
        "booked": "perhaps",
        "table": "four",
        "price": "1e999",
        "room": "cellar",
        "on": "2025-02-30",
        "at": "2025-07-01T12:00",
        "guest.mail": "ann",
        "notes": "{",
        "nosuch": "x",
    }
    found = dict(flaws(BOOKING, answers))
    assert list(found) == [
        "/nosuch", "/booked", "/table", "/price", "/room", "/on", "/at", "/guest/name", "/guest/mail", "/notes",
    ]  # fmt: skip
    assert found["/guest/name"] == "is required"
    assert found["/on"] == "must be a date such as 2025-07-01"


@pytest.mark.parametrize("text", ["", " ", "0x10", "1_000", "1.5", "--1", "\u0661", "9" * 40, "1e3"])
def test_what_is_no_whole_number_is_refused(text):
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    assert [path for path, _ in flaws(schema, {"n": text})] == ["/n"]


@pytest.mark.parametrize(
    ("schema", "answer", "value"),
    [
        ({"type": "string"}, " as it is ", " as it is "),
        ({"type": "number"}, " -3 ", -3),
        ({"type": "number"}, "2e2", 200.0),
        ({"type": "boolean"}, "NO", False),
        ({"type": "string", "format": "uri"}, "https://example.com/a", "https://example.com/a"),
        ({"type": "string", "format": "time"}, "12:00:00+02:00", "12:00:00+02:00"),
        ({"enum": [1, "1"]}, '"1"', "1"),
        ({"enum": [True, 1]}, "1", 1),
        ({"const": {"a": 1}}, '{"a": 1}', {"a": 1}),
        ({"type": "array", "items": {"enum": ["a", "b"], "type": "string"}}, "b\na", ["b", "a"]),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"type": ["string", "integer"]}, '"5"', "5"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, '"x"', "x"),
        ({}, '[{"any": null}]', [{"any": None}]),
        (None, "5", 5),
    ],
)
def test_a_form_of_one_value_gives_that_value(schema, answer, value):
    (field,) = form_of(schema)
    assert (field.name, field.path) == (WHOLE, ())
    assert field.is_required == (field.kind != "lines" and field.default is None)
    given = read_form([field], {WHOLE: answer})
    assert given == value
    assert type(given) is type(value)


@pytest.mark.parametrize(
    "schema",
    [{"type": "array", "items": {"type": "string"}, "minItems": 1}, {"type": "string"}, {"type": "integer"}, {}],
)
def test_a_form_of_one_value_that_is_left_blank_is_refused(schema):
    assert flaws(schema, {}) == flaws(schema, {WHOLE: ""}) == [("", "is required")]


def test_a_blank_field_stands_for_null_or_no_lines_where_the_schema_takes_them():
    schema = {
        "type": "object",
        "required": ["a", "b"],
        "properties": {"a": {"type": ["string", "null"]}, "b": {"type": "array", "items": {"type": "string"}}},
    }
    assert not [field for field in form_of(schema) if field.is_required]
    assert read_form(form_of(schema), {}) == {"a": None, "b": []}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {}}, "allOf": [{"required": ["b"]}]},
        {"type": "object", "properties": {"a": {}}, "required": ["b"]},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {str(number): {} for number in range(limits.FORM_FIELDS + 1)}},
    ],
)
def test_what_fields_cannot_show_is_typed_as_json(schema):
    assert [(field.kind, field.path) for field in form_of(schema)] == [("json", ())]


@pytest.mark.parametrize("schema", [{"type": "string"}, {}, {"type": "array", "items": {"type": "string"}}])
def test_stray_bytes_of_an_argument_are_refused(schema):
    assert flaws(schema, {WHOLE: "caf\udce9"}) == [("", "must be Unicode text")]


def test_a_dot_in_a_key_is_no_step_down():
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"a.b": {"type": "string"}, "a": {"type": "object", "properties": {"b": {"type": "string"}}}},
    }
    assert [field.name for field in form_of(schema)] == [r"a\.b", "a.b"]
    assert read_form(form_of(schema), {r"a\.b": "1", "a.b": "2"}) == {"a.b": "1", "a": {"b": "2"}}


def test_objects_nest_as_deep_as_people_read():
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(limits.FORM_DEPTH + 2):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    (field,) = form_of(schema)
    assert (len(field.path), field.kind) == (limits.FORM_DEPTH, "json")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
_KEYWORDS = st.sampled_from(
    ["type", "properties", "required", "enum", "const", "default", "items", "format", "title", "minimum", "minItems"]
)
_TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
_SCHEMAS = st.recursive(
    st.dictionaries(_KEYWORDS, _JSON | _TYPES, max_size=4),
    lambda inner: st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(st.text(max_size=3), inner, max_size=3)},
        optional={"required": st.lists(st.text(max_size=3), max_size=2)},
    ),
    max_leaves=8,
)


@given(_SCHEMAS, st.data())
def test_whatever_the_schema_says_there_is_a_form_that_can_be_filled_or_refused(schema, data):
    fields = form_of(schema)
    names = [field.name for field in fields]
    assert fields
    assert len(set(names)) == len(names)
    answers = data.draw(st.dictionaries(st.sampled_from(names), st.text(max_size=8), max_size=4))
    with suppress(ValidationError):
        json.dumps(read_form(fields, answers))


@given(st.lists(st.sampled_from([1, "1", True, "true", None, "", " ", "a", 1.5]), min_size=1, unique_by=repr))
def test_each_choice_gives_its_value(values):
    (field,) = form_of({"enum": values})
    for text, value in zip(field.choices, values, strict=True):
        given_value = read_form([field], {WHOLE: text})
        assert (given_value, type(given_value)) == (value, type(value))
