"""What a skill takes and promises, code that a caller brings, and the execution that a request becomes."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.catalogs import make_skill
from tests.support.flaws import flaws_of
from tests.unit.protocols.sharing_samples import DESCRIPTOR

from skillwire.errors import ValidationError
from skillwire.executions.callable_skill import (
    PRIORITY_SHIFTS,
    InputRules,
    OutputRules,
    callable_code,
    code_skill,
    is_code,
    new_execution_id,
    queue_position,
)
from skillwire.executions.grants import needs_grant
from skillwire.model.catalog import pack_skill, unpack_skill
from skillwire.model.execution import Priority
from skillwire.model.skill import Permissions, is_skill_name
from skillwire.protocols.skill_sharing.codec import decode_descriptor
from skillwire.protocols.skill_sharing.messages import ParameterDefinition

CODE = b"def main(args):\n    return args\n"


def test_it_is_told_from_published_ones_and_has_no_permissions():
    skill = code_skill(CODE, "main")
    assert is_code(skill)
    assert not is_skill_name(skill.name)
    assert not is_code(make_skill("run-code"))
    assert skill.action is not None
    assert (skill.action.permissions, skill.action.idempotent) == (Permissions(), False)
    assert needs_grant(skill)
    assert unpack_skill(pack_skill(skill)) == skill


def test_its_digest_is_of_code_and_function():
    digests = {code_skill(*one).artifact.digest for one in ((CODE, "main"), (CODE, "mai"), (CODE + b"\n", "main"))}
    assert len(digests) == 3
    assert code_skill(CODE, "main") == code_skill(CODE, "main")


@pytest.mark.parametrize("function", ["main", "_go2", "größe"])
def test_it_takes_whatever_object_it_is_given(function):
    offer = callable_code(code_skill(CODE, function))
    offer.inputs.check({"anything": [1, {"deep": None}]})
    assert offer.action.export == function
    assert offer.output.find_flaw({"anything": 1}) is None


@pytest.mark.parametrize("function", ["", "a.b", "a b", "__import__('os')", "1", "x" * 101, "a\n"])
def test_what_names_no_function_is_refused(function):
    with pytest.raises(ValidationError, match="entrypoint"):
        code_skill(CODE, function)


def test_a_published_skill_is_no_code():
    with pytest.raises(ValueError, match="published"):
        callable_code(make_skill("run-code"))


def parameter(name, kind="string", *, required=False, **more):
    return ParameterDefinition(name=name, type=kind, description="", required=required, **more)


CITY = parameter("city", required=True)
DAYS = parameter("days", "integer", default=7, schema={"minimum": 1, "maximum": 14})
WHEN = parameter("when", "object", schema={"required": ["date"], "properties": {"date": {"enum": ["now", "later"]}}})
RULES = InputRules([CITY, DAYS, WHEN])


def faults(inputs, rules=RULES):
    with pytest.raises(ValidationError) as caught:
        rules.apply(inputs)
    assert caught.value.code == "VALIDATION_ERROR"
    return {row["path"]: (row["message"], row["expected"], row["actual"]) for row in flaws_of(caught.value)}


def test_what_fits_comes_back_with_the_defaults():
    assert RULES.apply({"city": "Bern"}) == {"city": "Bern", "days": 7}
    assert InputRules([CITY, DAYS]).apply({"city": "Bern", "days": 2}) == {"city": "Bern", "days": 2}
    assert InputRules([]).apply({}) == {}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, [], "what one of its schemas takes"),
        ({"oneOf": [{"type": "array"}, {"minItems": 0}]}, [], "what exactly one of its schemas takes"),
        ({"propertyNames": {"pattern": "^a"}}, {"b": 1}, "names that its schema takes"),
        ({"type": "string"}, 1, "string"),
    ],
)
def test_a_violation_says_what_was_expected(schema, value, expected):
    rules = InputRules([parameter("x", "any", schema=schema)])
    ((_, told, actual),) = faults({"x": value}, rules).values()
    assert (told, actual) == (expected, value)


def test_a_default_is_nobodys_to_change():
    rules = InputRules([parameter("tags", "array", default=["a"])])
    rules.apply({})["tags"].append("b")
    assert rules.apply({}) == {"tags": ["a"]}


def test_an_input_with_a_default_need_not_be_given_even_if_it_is_required():
    assert InputRules([parameter("unit", required=True, default="C")]).apply({}) == {"unit": "C"}


def test_everything_that_is_wrong_is_told_with_its_place():
    assert faults({"days": 20, "when": {"date": "never"}, "citty": "Bern"}) == {
        "/inputs/days": ("20 is greater than the maximum of 14", 14, 20),
        "/inputs/when/date": ('must be one of "now", "later"', ["now", "later"], "never"),
        "/inputs/citty": ("is no input of this skill; did you mean city?", ["city", "days", "when"], "Bern"),
        "/inputs/city": ("is required", "a value", None),
    }
    assert faults({"city": 5, "when": {}}) == {
        "/inputs/city": ("must be of type string", "string", 5),
        "/inputs/when/date": ("is required", "a value", None),
    }


def test_a_name_is_written_as_a_pointer():
    assert list(faults({"city": "Bern", "a/b~c": 1})) == ["/inputs/a~1b~0c"]


@pytest.mark.parametrize("value", [object(), {1: 2}, float("nan"), b"bytes", {"deep": object()}])
def test_what_json_cannot_say_is_refused(value):
    assert faults({"city": "Bern", "when": value})


def test_a_schema_may_refer_to_its_own_parts():
    schema = {"$ref": "#/$defs/pair", "$defs": {"pair": {"type": "array", "minItems": 2}}}
    rules = InputRules([parameter("at", "array", schema=schema)])
    assert rules.apply({"at": [1, 2]}) == {"at": [1, 2]}
    assert list(faults({"at": [1]}, rules)) == ["/inputs/at"]


def test_a_descriptor_whose_schema_refers_to_its_own_parts_may_have_a_default():
    schema = {"$ref": "#/$defs/name", "$defs": {"name": {"minLength": 2}}}
    row = {"name": "city", "type": "string", "description": "d", "required": False, "schema": schema}
    good = json.dumps({**DESCRIPTOR, "inputs": [{**row, "default": "Bern"}]}).encode()
    assert decode_descriptor(good, "https://example.com/d.json").inputs[0].default == "Bern"
    bad = json.dumps({**DESCRIPTOR, "inputs": [{**row, "default": "B"}]}).encode()
    with pytest.raises(ValidationError, match="default"):
        decode_descriptor(bad, "https://example.com/d.json")


@pytest.mark.parametrize(
    "schema",
    [{"pattern": "(a+)+$"}, {"$ref": "https://evil.example/schema"}, {"type": "nothing"}, {"$id": "https://a.example"}],
)
def test_a_dangerous_schema_is_refused_before_it_is_compiled(schema):
    for make in (lambda: InputRules([parameter("a", schema=schema)]), lambda: OutputRules(schema)):
        with pytest.raises(ValidationError) as caught:
            make()
        assert caught.value.code == "DESCRIPTOR"


def test_an_output_is_held_against_what_was_promised():
    rules = OutputRules({"type": "object", "required": ["high"], "properties": {"high": {"type": "number"}}})
    assert rules.find_flaw({"high": 3}) is None
    wrong: list[object] = [{"high": "3"}, {}, []]
    found = [rules.find_flaw(value) for value in wrong]
    assert [flaw and flaw.path for flaw in found] == ["/output/high", "/output/high", "/output"]
    assert found[2]
    assert found[2].message == "must be of type object"
    assert OutputRules(None).find_flaw(object()) is None


def test_a_long_value_is_cut_in_the_error():
    rules = InputRules([parameter("city", schema={"maxLength": 3})])
    ((message, _, actual),) = faults({"city": "x" * 10_000}, rules).values()
    assert len(message) + len(actual) < 600


INTEGERS = {"type": "array", "items": {"type": "integer"}}
EITHER = {"anyOf": [INTEGERS, {"type": "array", "items": {"type": "boolean"}}]}


@pytest.mark.parametrize(
    "inputs",
    [
        {f"unknown{number}": 1 for number in range(70_000)},
        {"city" * 200_000: 1},
        {"items": ["a"] * 200_000},
        {"either": ["a"] * 200_000},
        {"few": [0] * 500_000},
        {"items": ["a"] * 50, "few": ["x" * 1_000_000]},
    ],
    ids=["unknown names", "a long name", "wrong items", "wrong items of two branches", "too many items", "a long text"],
)
def test_refusing_a_megabyte_is_quick(inputs):
    rules = InputRules(
        [
            parameter("items", "array", schema=INTEGERS),
            parameter("either", "array", schema=EITHER),
            parameter("few", "array", schema={"maxItems": 3, "items": {"type": "integer"}}),
        ]
    )
    assert 1 <= len(faults(inputs, rules)) <= 100


def test_of_a_large_value_the_first_fault_is_told():
    rules = InputRules([parameter("items", "array", schema=INTEGERS), parameter("either", "array", schema=EITHER)])
    assert list(faults({"items": [1, *["a"] * 5_000]}, rules)) == ["/inputs/items/1"]
    ((message, _, actual),) = faults({"either": ["a"] * 5_000}, rules).values()
    assert message == "does not fit its schema"
    assert len(actual) < 300
    assert len(faults({"items": ["a"] * 200}, rules)) == 100


def test_the_first_flaw_of_a_large_output_is_found():
    flaw = OutputRules(EITHER).find_flaw(["a"] * 200_000)
    assert flaw
    assert flaw.path == "/output"
    flaw = OutputRules(INTEGERS).find_flaw(["a"] * 200_000)
    assert flaw
    assert flaw.path == "/output/0"


def test_a_thousand_good_inputs_are_judged_alike():
    inputs = {"city": "Bern", "days": 5, "when": {"date": "now"}}
    applied = [RULES.apply(inputs) for _ in range(1_000)]
    assert all(one == applied[0] for one in applied)


def test_an_id_begins_with_the_time_and_ends_with_chance():
    ids = [new_execution_id(now) for now in (0.0, 1_750_000_000.125, 1_750_000_000.25, 4e9)]
    assert all(re.fullmatch("exec-[0-9a-f]{44}", one) for one in [*ids, new_execution_id(1e15)])
    assert sorted(ids) == ids
    assert int(ids[1][5:17], 16) == 1_750_000_000_125
    assert len({new_execution_id(1.0)[-32:] for _ in range(100)}) == 100


def test_the_id_of_a_task_is_told_from_others_by_its_beginning():
    ids = {new_execution_id(1.0, is_task=True) for _ in range(100)}
    assert all(re.fullmatch("exec-[0-9a-f]{32}", one) for one in ids)
    assert len({one[:13] for one in ids}) == 100


TIMES = st.floats(0, 4e9)
LONGEST = max(PRIORITY_SHIFTS.values()) - min(PRIORITY_SHIFTS.values())


def test_high_goes_before_normal_and_normal_before_low_of_the_same_moment():
    high, normal, low = (queue_position(priority, 1e9) for priority in (Priority.HIGH, Priority.NORMAL, Priority.LOW))
    assert high < normal < low


def test_every_priority_has_its_shift():
    assert set(PRIORITY_SHIFTS) == set(Priority)


@given(st.sampled_from(Priority), TIMES, TIMES)
def test_within_a_priority_the_order_is_that_of_arrival(priority, one, other):
    first, last = sorted((one, other))
    assert queue_position(priority, first) <= queue_position(priority, last)


@given(st.sampled_from(Priority), st.sampled_from(Priority), TIMES, st.floats(LONGEST + 0.001, 1e6))
def test_nobody_is_passed_by_whoever_comes_two_minutes_later(mine, other, accepted, later):
    assert queue_position(mine, accepted) < queue_position(other, accepted + later)
