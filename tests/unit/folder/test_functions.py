"""A typed function as a skill: what its hints and docstring say, what is refused, and what it is handed."""

from __future__ import annotations

import datetime as dt
import enum
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.errors import UsageError
from skillwire.folder.functions import (
    FunctionFacts,
    FunctionInput,
    TypedFunction,
    example_value,
    function_files,
    read_docstring,
    read_function,
)
from skillwire.folder.load import check_folder
from skillwire.folder.publish import PreparedSkill, prepare, prepare_files
from skillwire.model.access import Access
from skillwire.model.execution import CallContext
from skillwire.protocols.skill_sharing.judge import lint_sharing


class Unit(enum.Enum):
    CELSIUS = "C"
    FAHRENHEIT = "F"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Place:
    city: str
    country: str | None = None
    near: list[str] = field(default_factory=list)


class Order(msgspec.Struct):
    item: str
    count: Annotated[int, msgspec.Meta(ge=1)] = 1


class Filter(TypedDict, total=False):
    kind: str


class Tree(msgspec.Struct):
    children: list[Tree]


PLACE = {
    "title": "Place",
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "country": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "near": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["city"],
}


def one(hint, *default):
    """Return how a parameter with this hint, and perhaps a default, is described."""

    def function(x):
        """Do it."""

    function.__annotations__ = {"x": hint}
    function.__defaults__ = default or None
    [described] = read_function(function).inputs
    assert described.name == "x"
    return described


@pytest.mark.parametrize(
    ("hint", "input_type", "schema"),
    [
        (str, "string", None),
        (int, "integer", None),
        (float, "number", None),
        (bool, "boolean", None),
        (dict, "object", None),
        (list, "array", None),
        (list[int], "array", {"type": "array", "items": {"type": "integer"}}),
        (dict[str, float], "object", {"type": "object", "additionalProperties": {"type": "number"}}),
        (Literal["a", "b"], "string", {"enum": ["a", "b"]}),
        (Unit, "string", {"title": "Unit", "enum": ["C", "F"]}),
        (Level, "integer", {"title": "Level", "enum": [1]}),
        (Place, "object", PLACE),
        (list[Place], "array", {"type": "array", "items": PLACE}),
        (
            Filter,
            "object",
            {"title": "Filter", "type": "object", "properties": {"kind": {"type": "string"}}, "required": []},
        ),
        (int | float, "number", {"anyOf": [{"type": "integer"}, {"type": "number"}]}),
        (dt.date, "string", {"type": "string", "format": "date"}),
        (bytes, "string", {"type": "string", "contentEncoding": "base64"}),
        (Annotated[int, msgspec.Meta(ge=1)], "integer", {"type": "integer", "minimum": 1}),
    ],
)
def test_what_a_hint_becomes(hint, input_type, schema):
    assert one(hint) == FunctionInput("x", input_type, "", required=True, schema=schema)


@pytest.mark.parametrize("hint", [str | None, Optional[str], Annotated[str | None, msgspec.Meta(description="Which.")]])  # noqa: UP045  # both are written
@pytest.mark.parametrize("default", [(), (None,)])
def test_what_may_be_none_is_left_out_instead(hint, default):
    described = one(hint, *default)
    assert (described.input_type, described.required, described.default, described.schema) == (
        "string",
        False,
        None,
        None,
    )


def test_a_literal_that_may_be_none():
    assert one(Literal["a"] | None).schema == {"enum": ["a"]}


@pytest.mark.parametrize(
    ("hint", "default", "told"),
    [
        (int, 3, 3),
        (Unit, Unit.CELSIUS, "C"),
        (list[str], ["a"], ["a"]),
        (bool, False, False),
        (Order, Order("x"), {"item": "x", "count": 1}),
        (Place, Place("Oslo"), None),  # it holds a null, which no skill.toml can: the function's own
        (dt.date, dt.date(2026, 1, 2), "2026-01-02"),
    ],
)
def test_defaults_are_json(hint, default, told):
    described = one(hint, default)
    assert (described.required, described.default) == (False, told)


def test_a_description_comes_from_args_or_from_the_hint():
    def function(
        a: Annotated[int, msgspec.Meta(description="From the hint.")],
        b: int,
        c: Annotated[int, msgspec.Meta(description="x")],
    ):
        """Do it.

        Args:
            b: From the docstring.
            c: Both.
        """

    assert [each.description for each in read_function(function).inputs] == [
        "From the hint.",
        "From the docstring.",
        "Both.",
    ]


def test_what_comes_back():
    def function() -> list[Place]:
        """Find places.

        Returns:
            The places,
            nearest first.
        """
        return []

    typed = read_function(function)
    assert (typed.output, typed.returns) == ({"type": "array", "items": PLACE}, "The places, nearest first.")


def test_what_comes_back_may_be_left_open():
    def anything():
        """Do it."""

    def nothing() -> None:
        """Do it."""

    assert read_function(anything).output is None
    assert read_function(nothing).output == {"type": "null"}


def test_the_context_is_no_input():
    def function(a: int, context: CallContext, *, other: str = "x"):
        """Do it."""

    typed = read_function(function)
    assert typed.context == "context"
    assert [each.name for each in typed.inputs] == ["a", "other"]

    def optional(a: int, c: CallContext | None = None):
        """Do it."""

    assert read_function(optional).context == "c"


async def _coroutine(a: int) -> int:
    """Do it."""
    return a


class _Called:
    def __call__(self, a: int) -> int:
        """Do it."""
        return a

    def method(self, a: int) -> int:
        """Do it."""
        return a


@pytest.mark.parametrize("function", [_coroutine, _Called(), _Called().method])
def test_whatever_can_be_called_by_name(function):
    assert [each.name for each in read_function(function).inputs] == ["a"]


def _refused(name, **annotations):
    def function(a):
        """Do it."""

    function.__annotations__ = annotations
    function.__qualname__ = name
    return function


def _positional(a: int, /):
    """Do it."""


def _variable(*a: int):
    """Do it."""


def _keywords(**a: int):
    """Do it."""


def _generator(a: int):
    """Do it."""
    yield a


def _misspelt(place: str):
    """Do it.

    Args:
        plase: Where.
    """


def _bad_default(a: Any = object()):  # noqa: B008  # that is what is tested
    """Do it."""


def _bad_default_of_a_type(a: int = object()):  # type: ignore[assignment]  # as above
    """Do it."""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_refused("f"), "f cannot be a skill: a has no type hint"),
        (_refused("f", a=object), "f cannot be a skill: a has a type that JSON Schema cannot describe: type <class"),
        (_refused("f", a=complex), "f cannot be a skill: a has a type that JSON Schema cannot describe"),
        (_refused("f", a=Any), "f cannot be a skill: a may be of several JSON types, or of any: Any"),
        (_refused("f", a=int | str), "f cannot be a skill: a may be of several JSON types, or of any: int | str"),
        (_refused("f", a=None), "f cannot be a skill: a may be of several JSON types"),
        (_refused("f", a=Tree), "f cannot be a skill: a has a type that holds itself: Tree"),
        (_refused("f", a="Nowhere"), "f cannot be a skill: its type hints cannot be read: name 'Nowhere' is not"),
        (_refused("f", a=int, **{"return": complex}), "f cannot be a skill: what it returns has a type that JSON"),
        (_positional, "_positional cannot be a skill: a cannot be given by name"),
        (_variable, "_variable cannot be a skill: a cannot be given by name"),
        (_keywords, "_keywords cannot be a skill: a cannot be given by name"),
        (_generator, "_generator cannot be a skill: it is no function that returns a value"),
        (_misspelt, "_misspelt cannot be a skill: its docstring describes plase, which is no parameter"),
        (_bad_default, "_bad_default cannot be a skill: a may be of several"),
        (_bad_default_of_a_type, "_bad_default_of_a_type cannot be a skill: the default of a is no JSON value"),
        (3, "3 cannot be a skill: it is no function that returns a value"),
    ],
)
def test_what_cannot_be_described_is_said_at_once(function, message):
    with pytest.raises(UsageError) as caught:
        read_function(function)
    assert caught.value.code == "FUNCTION_FORM"
    assert caught.value.message.startswith(message)


def test_inputs_become_what_the_hints_say():
    def function(
        place: Place, unit: Unit = Unit.CELSIUS, orders: list[Order] | None = None, n: int = 0, f: float = 0.5
    ):
        """Do it."""

    typed = read_function(function)
    assert typed.read({"place": {"city": "Oslo"}}) == {
        "place": Place("Oslo"),
        "unit": Unit.CELSIUS,
        "orders": None,
        "n": 0,
        "f": 0.5,
    }
    given = typed.read(
        {"place": {"city": "Oslo"}, "unit": "F", "orders": [{"item": "x", "count": 2}], "n": 3.0, "f": 1}
    )
    assert (given["unit"], given["orders"], given["n"], given["f"]) == (Unit.FAHRENHEIT, [Order("x", 2)], 3, 1.0)
    assert (type(given["n"]), type(given["f"])) == (int, float)
    place = {"city": "x"}
    wrongs: list[dict[str, Any]] = [{}, {"place": {}}, {"place": place, "n": 1.5}, {"place": place, "more": 1}]
    for wrong in wrongs:
        with pytest.raises(msgspec.ValidationError):
            typed.read(wrong)


def test_a_default_is_not_shared_between_calls():
    def function(a: list[int] = [1]):  # noqa: B006  # that is what is tested
        """Do it."""

    assert read_function(function).read({})["a"] == [1]


def test_a_docstring_is_taken_apart():
    text = """Say what the weather
    will be.

    It asks a service.

    Twice.

    Args:
        city (str): Where, with
            its country.
        days: How many days: one
            at least.
        *tags: Words.
        a, b: Two.

    Raises:
        ValueError: never.

    Returns:
        One text
        for each day.

    Example:
        >>> forecast("Oslo")
    """
    written = read_docstring(text)
    assert written.summary == "Say what the weather will be."
    assert written.details == "It asks a service.\n\nTwice."
    assert written.arguments == {
        "city": "Where, with its country.",
        "days": "How many days: one at least.",
        "tags": "Words.",
        "a": "Two.",
        "b": "Two.",
    }
    assert written.returns == "One text for each day."
    assert read_docstring(None) == read_docstring("") == read_docstring("\n  \n")


JSON = st.recursive(
    st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def typed(*inputs, output=None, returns="", details=""):
    return TypedFunction(print, "Do it.", details, inputs, None, output=output, returns=returns)  # type: ignore[arg-type]  # nobody calls it


def prepared(function, facts):
    found = prepare_files(facts.name, function_files(function, facts), "acme", judges=(lint_sharing,))
    assert isinstance(found, PreparedSkill), found.findings
    return found


def test_everything_that_can_be_said_is_read_back():
    schema = {"type": "object", "properties": {"a b": {"enum": ["x", 1]}}}
    function = typed(
        FunctionInput("place", "object", 'Where "it" is | or was.', required=True, schema=schema),
        FunctionInput("days", "integer", "", required=False, default=3),
        output={"type": "array"},
        returns="Texts.",
    )
    facts = FunctionFacts(
        name="forecast",
        description="Say: #what. Use when 'asked'.",
        version="1.2.3",
        access=Access.RESTRICTED,
        capability_type="task",
        tags=("a", "b c"),
        scenes=("office",),
        capabilities=("weather",),
        timeout=1.5,
        retry=3,
        backoff=0.25,
        idempotent=True,
    )
    skill = prepared(function, facts).skill
    assert (skill.name, skill.version, skill.access, skill.kind) == ("forecast", "1.2.3", Access.RESTRICTED, "action")
    assert skill.description == "Say: #what. Use when 'asked'."
    assert (skill.scenes, skill.capabilities) == (("office",), ("weather",))
    sharing = skill.sharing
    assert sharing is not None
    assert (sharing.capability_type, sharing.tags) == ("task", ("a", "b c"))
    assert sharing.inputs[0].schema == schema
    assert sharing.inputs[1].default == 3
    assert sharing.output == {"content_type": "application/json", "schema": {"type": "array"}, "description": "Texts."}
    assert sharing.endpoint == {"timeout_ms": 1500, "retry": {"max_attempts": 3, "backoff_ms": 250}}
    assert skill.action is not None
    assert (skill.action.executor, skill.action.idempotent) == ("function", True)
    assert skill.findings == ()


def test_the_text_is_one_to_be_read():
    function = typed(
        FunctionInput("city", "string", "Where", required=True),
        FunctionInput("unit", "string", "Of the | degrees.", required=False, default="C", schema={"enum": ["C", "F"]}),
    )
    text = bytes(function_files(function, FunctionFacts(name="say-hello", description="Say it."))[0].content).decode()
    assert "# Say hello\n\nSay it.\n" in text
    assert "| `city` | string | yes | Where. |" in text
    assert '| `unit` | string | no | Of the \\| degrees. One of `"C"`, `"F"`. `"C"` unless given. |' in text
    assert "skillwire call ADDRESS/say-hello city=text\n" in text


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (PLACE, {"city": "text"}),
        ({"type": "object", "properties": {"place": PLACE, "days": {"enum": [3, 5]}}, "required": ["days", "place"]},
         {"place": {"city": "text"}, "days": 3}),
        ({"type": "string", "examples": ["Berlin"]}, "Berlin"),
        ({"type": "integer", "default": 7}, 7),
        ({"type": "array", "items": PLACE}, []),
        ({"type": "object", "properties": {"city": 1}, "required": ["city"]}, {}),
        ({"type": "object", "properties": PLACE["properties"], "required": 1, "enum": [], "examples": 2}, {}),
        ({"type": ["string", "null"]}, "text"),
    ],
)  # fmt: skip
def test_the_example_of_an_input_fits_its_schema(schema, value):
    assert example_value(schema) == value


def test_the_example_in_the_text_has_what_an_object_requires():
    function = typed(FunctionInput("place", "object", "Where", required=True, schema=PLACE))
    text = bytes(function_files(function, FunctionFacts(name="say-hello", description="Say it."))[0].content).decode()
    assert """ place='{"city": "text"}'\n""" in text


@given(JSON, st.text(max_size=60), st.text(max_size=60))
def test_any_json_and_any_text_is_written_as_toml_that_reads_back(value, text, key):
    schema = {"const": value, key: text}
    function = typed(FunctionInput("x", "object", text, required=False, default=value, schema=schema), returns=text)
    toml = bytes(function_files(function, FunctionFacts(name="x", description="Do it."))[1].content).decode()
    row = tomllib.loads(toml)["inputs"]["x"]
    assert row["schema"] == schema
    assert row["default"] == value
    assert type(row["default"]) is type(value)
    assert row.get("description", "") == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [None]])
def test_what_toml_cannot_say_is_refused(value):
    function = typed(FunctionInput("x", "number", "", required=False, default=value))
    with pytest.raises(ValueError, match="cannot be written"):
        function_files(function, FunctionFacts(name="x", description="Do it."))


def test_the_same_files_in_a_folder_are_refused_when_published_and_taken_when_imported(tmp_path):
    from skillwire.protocols.skill_sharing.judge import JUDGES  # noqa: PLC0415  # what serve and check add

    folder = tmp_path / "x"
    folder.mkdir()
    for file in function_files(typed(), FunctionFacts(name="x", description="Do it.")):
        Path(folder, file.path).write_bytes(file.content)
    refused = prepare(folder, "acme", judges=JUDGES)
    assert [finding.code for finding in refused.findings] == ["EXECUTOR_FUNCTION"]
    assert [place.line for place in [refused.findings[0].place]] == [7]
    assert check_folder(folder, level="lenient", judges=JUDGES).findings == ()
