"""Patterns that would stop a backtracking engine are told from those that do not; and schemas of inputs."""

import json
import re
from pathlib import Path

import jsonschema_rs
import pytest
from tests.unit.protocols.sharing_samples import DESCRIPTOR

from skillwire.protocols.skill_sharing.messages import ParameterDefinition
from skillwire.protocols.skill_sharing.validation import input_schema, may_backtrack


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a*)*",
        "(.*)*x",
        "(a|a)*b",
        "(a|ab)*c",
        "([a-z]|[b-c])+",
        "(-+)*",
        "(-[a-z-]+)*",
        "(aa+)+",
        "(-.+)*",
        "(x{2,})+",
        r"(\s+|,)*",
        "((a+)b?)*",
        "(((a+)))+",
        r"(\p{L}+-)*",
        "(?:a+){2,}",
        "(?<n>a+)*",
    ],
)
def test_what_may_take_exponential_time_is_named(pattern):
    assert may_backtrack(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "^[a-z]+(-[a-z0-9]+)*$",
        r"(\d+\.)*",
        "(?:ab)+",
        "(a|b)*",
        r"^(0|[1-9]\d*)$",
        "[(a+)+]",
        r"^(/[^/]+)*$",
        r"^\d{4}-\d{2}$",
        r"^[\w.-]+@[\w-]+(\.[\w-]+)+$",
        r"(,\s*[a-z]+)*",
        r"\(a+\)+",
        "(a+){1,3}",
        ")(",
        "(",
        "a{,}",
    ],
)
def test_what_people_write_is_let_through(pattern):
    assert not may_backtrack(pattern)


@pytest.mark.parametrize("pattern", ["^[a-z]+(-[a-z0-9]+)*$", r"^[\w.-]+@[\w-]+(\.[\w-]+)+$", r"^(/[^/]+)*$"])
def test_what_is_let_through_is_quick_even_where_it_backtracks(pattern):
    for text in ("a" * 5_000 + "!", "-a" * 2_500 + "!", "/a" * 2_500 + "\n\n", "a@" + "a." * 2_500 + "!"):
        re.search(pattern, text)


def test_judging_takes_time_that_grows_with_the_pattern():
    assert may_backtrack("(" * 250 + "a+" + ")*" * 250)


@pytest.mark.parametrize(
    ("own", "schema"),
    [
        ({}, {"type": "string"}),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),  # models' APIs want a type beside it
        ({"type": "string", "minLength": 1}, {"type": "string", "minLength": 1}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"], "allOf": [{"type": "string"}]}),
    ],
)
def test_schema_of_an_input_has_its_type_beside_the_rest(own, schema):
    parameter = ParameterDefinition(name="city", type="string", description="A city.", required=True, schema=own)
    assert input_schema(parameter) == schema


SCHEMAS = Path(__file__).parents[3] / "schema"


def test_each_release_of_the_schema_has_all_forms_and_describes_what_is_read_here():
    releases = sorted(folder for folder in SCHEMAS.iterdir() if folder.name != "draft")
    assert releases
    for folder in releases:
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", folder.name)
        assert {file.name for file in folder.iterdir()} == {file.name for file in (SCHEMAS / "draft").iterdir()}
        released = json.loads((folder / "schema.json").read_text("utf-8"))
        jsonschema_rs.validator_for(released).validate(DESCRIPTOR)
