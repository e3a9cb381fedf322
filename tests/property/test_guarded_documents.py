"""Whatever the bytes, a guarded parser returns a value or raises DecodeError; and it reads what others read."""

import contextlib
import json
import math
import tomllib

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from skillwire.errors import DecodeError
from skillwire.trust.guarded_json import load_json
from skillwire.trust.guarded_toml import load_toml
from skillwire.trust.guarded_yaml import load_yaml_mapping
from skillwire.trust.hidden_text import RANGES, _find_runs, find_hidden, neutralise

TEXT = st.text(st.characters(codec="utf-8"))
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)
JSON_LIKE = st.lists(
    st.sampled_from(
        ["{", "}", "[", "]", '"', ":", ",", "\\", "u", "d800", "1", "e999", "-", "NaN", "a", " ", "\n", "é"]
    )
).map("".join)
YAML_WORDS = [": ", "- ", "  ", "? ", "&x ", "*x", "!t ", ", ", "---", "...", "%YAML 1.1", "<<"]
YAML_LIKE = st.lists(
    st.sampled_from([*YAML_WORDS, *"ab:\n\t|>{}[]'\"\\# é", "\r", "\x85", "\u2028", "\ufeff", "\x07"])
).map("".join)
TOML_WORDS = [" = ", '"""', "'''", "1e9", "inf", "1979-05-27", "T07:32:00", "99", "0x", "true"]
TOML_LIKE = st.lists(st.sampled_from([*TOML_WORDS, *"ab.\n[]{},\"'\\#1_ \té", "\r", "\x00"])).map("".join)
HIDDEN = st.sampled_from(
    [chr(edge) for first, last, _ in RANGES for edge in (first, last)]
    + [*"ab \t\r\n\x00\x7fé漢א⠁😀🏴\ud83d\ude00", "\r\n", "\r\r\n\n", "\ud83da\ude00"]
)


@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_json_that_anyone_writes_is_read_the_same(value, ascii_only, indent):  # a drawn example
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert load_json(text.encode(), max_bytes=10_000_000) == json.loads(text)


@given(JSON_LIKE | TEXT)
@example('{"\\ud83d\\\\\\ude00": 1}')
def test_json_is_read_as_the_standard_parser_does_or_refused(text):
    try:
        value = load_json(text.encode(), max_bytes=10_000_000)
    except DecodeError:
        return
    assert value == json.loads(text.removeprefix("\ufeff"))
    assert json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


@given(st.binary())
def test_no_bytes_get_past_json(data):
    with contextlib.suppress(DecodeError):
        load_json(data, max_bytes=64)


@given(YAML_LIKE | TEXT)
@example("a: !!python/name:os.system")
def test_yaml_is_read_as_the_base_loader_does_or_refused(text):
    try:
        values = load_yaml_mapping(text).values
    except DecodeError as error:
        assert error.place is not None  # noqa: PT017  # either outcome is right
        return
    assert values == (yaml.load(text, Loader=yaml.CBaseLoader) or {})  # noqa: S506  # the oracle makes only text


@given(TOML_LIKE | TEXT)
def test_toml_is_read_as_the_standard_parser_does_or_refused(text):
    try:
        values = load_toml(text.encode())
    except DecodeError as error:
        assert error.place is not None  # noqa: PT017  # either outcome is right
        return
    assert values == tomllib.loads(text)


@given(st.binary())
def test_no_bytes_get_past_toml(data):
    with contextlib.suppress(DecodeError):
        load_toml(data)


@given(st.floats(), st.integers())
def test_toml_numbers_are_finite_and_fit_64_bits(number, integer):
    fits = math.isfinite(number) and -(2**63) <= integer < 2**63
    with contextlib.nullcontext() if fits else pytest.raises(DecodeError):
        load_toml(f"a = {number!r}\nb = {integer}".encode())


@given(st.text(st.characters()))
def test_neutralised_text_hides_nothing_and_stays(text):
    shown = neutralise(text)
    assert find_hidden(shown) == []
    assert neutralise(shown) == shown


@given(st.lists(HIDDEN).map("".join))
@example("\r\r\n\n")
@example("\ud83da\ude00")
def test_a_text_without_suspects_is_passed_over_only_when_nothing_is_hidden(text):
    assert find_hidden(text) == _find_runs(text)


@given(st.text(st.characters(categories=["Lu", "Ll", "Nd", "Po", "Zs", "Sc"], max_codepoint=0x24F)))
def test_plain_text_stays_itself(text):
    assert neutralise(text) == text
