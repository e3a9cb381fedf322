"""Finding the place of a value by its path."""

import json

import pytest

from skillwire import limits
from skillwire.errors import DecodeError
from skillwire.trust import guarded_json
from skillwire.trust.guarded_json import load_json

TEXT = """{
  "$schema": "x",
  "skills": [
    {"name": "a", "files": ["SKILL.md", "b\\"]"]},
    {"digest": {"name": 1}, "name": "b"}
  ]
}
"""


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        ((), 1, 1),
        (("$schema",), 2, 14),
        (("skills",), 3, 13),
        (("skills", 0), 4, 5),
        (("skills", 0, "name"), 4, 14),
        (("skills", 0, "files", 1), 4, 41),
        (("skills", 1, "name"), 5, 37),
        (("skills", 1, "absent"), 5, 5),
        (("skills", 7, "name"), 3, 13),
        (("absent", "name"), 1, 1),
        (("$schema", "deeper"), 2, 14),
    ],
)
def test_member(path, line, column):
    place = guarded_json.member(TEXT, path, "index.json")
    assert (place.source, place.line, place.column) == ("index.json", line, column)


def test_member_of_nothing():
    assert str(guarded_json.member("", ("a",), "x")) == "x"


def load(text, max_bytes=1_000_000):
    data = text if isinstance(text, bytes) else text.encode()
    return load_json(data, max_bytes=max_bytes, source="index.json")


def refusal(text, max_bytes=20_000_000):
    with pytest.raises(DecodeError) as caught:
        load(text, max_bytes)
    return caught.value


def test_reads_what_the_standard_parser_reads():
    value = {"a": [1, -2.5, True, None, 'quoted "brackets" [{', "\\"], "ü": {}, "": 12345678901234567890}
    assert load(json.dumps(value)) == value
    assert load(json.dumps(value, ensure_ascii=False, indent=3)) == value


def test_skips_a_byte_order_mark():
    assert load(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("", "JSON_SYNTAX", 1, 1),
        ("<!doctype html>", "JSON_SYNTAX", 1, 1),
        ('{"a": 1}\n{"b": 2}', "JSON_SYNTAX", 2, 1),
        ('{"a": 1,\n "b": nope}', "JSON_SYNTAX", 2, 7),
        ('{"a":\n NaN}', "JSON_SYNTAX", 2, 2),
        ("[Infinity]", "JSON_SYNTAX", 1, 2),
        ("[-Infinity]", "JSON_SYNTAX", 1, 2),
        ('["NaN",\n1e999]', "JSON_NUMBER", 2, 1),
        ('["1e999", -1e999]', "JSON_NUMBER", 1, 11),
        ("[1, " + "9" * 21 + "]", "JSON_NUMBER", 1, 5),
        ('{"a": 1,\n  "a": 2}', "JSON_DUPLICATE_KEY", 2, 3),
        ('{"a": {"b": 1}, "c": {"b": [{"b": 1, "\\u0062": 2}]}}', "JSON_DUPLICATE_KEY", 1, 38),
        ('{"a": "\x01"}', "JSON_SYNTAX", 1, 8),
        ('["\\ud800"]', "JSON_UNICODE", 1, 3),
        ('["x",\n"\\ude00\\ud83d"]', "JSON_UNICODE", 2, 2),
        ('["\\ud83d\\\\\\ude00"]', "JSON_UNICODE", 1, 3),
        (b'["\xed\xa0\x80"]', "JSON_UNICODE", 1, 3),
        (b'{"a":\n"\xff"}', "JSON_UNICODE", 2, 2),
        ('{"a": 1}'.encode("utf-16"), "JSON_UNICODE", 1, 1),
        ("[" * 65 + "]" * 65, "JSON_DEPTH", 1, 65),
        ('{"a":' * 65 + "1" + "}" * 65, "JSON_DEPTH", 1, 65 * 5 - 4),
    ],
)
def test_refuses_with_the_place(text, code, line, column):
    error = refusal(text)
    assert error.code == code
    assert error.place is not None
    assert (error.place.source, error.place.line, error.place.column) == ("index.json", line, column)


def test_the_place_carries_the_line():
    error = refusal('{"skills": [\n  {"name": "a", "name": "b"}\r\n]}')
    assert error.place is not None
    assert error.place.excerpt == '  {"name": "a", "name": "b"}'
    assert (error.place.column, error.place.end_column) == (17, 17 + len('"name"'))


@pytest.mark.parametrize("text", ['["\\ud83d\\ude00"]', '["\\\\ud800"]', '["\\\\\\ud83d\\ude00"]'])
def test_reads_surrogate_pairs_and_escaped_backslashes(text):
    assert load(text) == json.loads(text)


def test_depth_counts_brackets_outside_strings_only():
    assert load(json.dumps(["[{" * 100, '\\"[' * 100])) == ["[{" * 100, '\\"[' * 100]
    deepest: object = 1
    for _ in range(limits.JSON_DEPTH):
        deepest = [deepest]
    assert load(json.dumps(deepest)) == deepest


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '[{"' * 200_000, "[" * 200_000 + "]" * 200_000, "]" * 64 + "[" * 2000, '{"a":' * 200_000]
)
def test_unbalanced_and_deep_brackets_end_in_a_refusal(text):
    assert refusal(text).code in {"JSON_DEPTH", "JSON_SYNTAX"}


def test_bounds_the_size():
    assert load("[1]", max_bytes=3) == [1]
    assert refusal("[1] ", max_bytes=3).code == "LIMIT_SIZE"


@pytest.mark.parametrize("item", ["[],", "0,", '"",'])
def test_bounds_the_number_of_values(item):
    assert refusal("[" + item * limits.JSON_VALUES + "0]").code == "LIMIT_ENTRIES"


def test_a_fault_beyond_the_first_mebibyte_has_no_line_but_the_source():
    padding = '"' + "x" * 1_100_000 + '"'
    error = refusal(f'[{padding}, {{"a": 1, "a": 2}}]')
    assert error.code == "JSON_DUPLICATE_KEY"
    assert str(error.place) == "index.json"
