"""The folder that a function would have is one that every rule takes, whatever its author wrote."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.folder.function_skill import FunctionFacts, function_files
from skillwire.folder.load import examine
from skillwire.folder.publish import Prepared, prepare, prepare_files
from skillwire.folder.typed_function import FunctionInput, TypedFunction
from skillwire.model.access import Access
from skillwire.protocols.skill_sharing.lint import lint_sharing

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
    assert isinstance(found, Prepared), found.findings
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
    from skillwire.adapters.files.loading import JUDGES  # noqa: PLC0415  # what serve and check add

    folder = tmp_path / "x"
    folder.mkdir()
    for file in function_files(typed(), FunctionFacts(name="x", description="Do it.")):
        Path(folder, file.path).write_bytes(file.content)
    refused = prepare(folder, "acme", judges=JUDGES)
    assert [finding.code for finding in refused.findings] == ["EXECUTOR_FUNCTION"]
    assert [place.line for place in [refused.findings[0].place]] == [7]
    assert examine(folder, level="lenient", judges=JUDGES).findings == ()
