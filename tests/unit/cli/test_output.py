"""What commands print: one line stays one line, a document is ASCII and holds what was found."""

from __future__ import annotations

import json

import pytest

from skillwire.cli.client_options import confirm
from skillwire.cli.output import Output, encode_document, readable_json
from skillwire.errors import Place, UsageError
from skillwire.model.finding import Finding


def test_a_part_cannot_fake_a_line(capsys):
    output = Output()
    output.line("Harmless\n\norigin\thttps://github.com\r")
    output.table([["a\nb", "c\x1b[2J"]])
    output.error(UsageError("USAGE", "bad\nerror[FAKE]: x", place=Place("a\nb")).diagnostics())
    said = capsys.readouterr()
    assert said.out == "Harmless  origin https://github.com\na b  c[U+001B][2J\n"
    assert not [line for line in said.err.splitlines() if line.startswith(("error[FAKE]", "b"))]


def test_a_text_goes_line_by_line(capsys):
    Output().text("one\r\ntwo\u2028three\n\n\tfour\n")
    assert capsys.readouterr().out == "one\ntwo[U+2028]three\n\n        four\n"


def test_a_document_is_ascii_that_strict_readers_take():
    text = encode_document({"name": "\udcff\x1b\x7f\x9b\U0001f600", "\ud800": ["\udc80", ("é",)]})
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == {"name": "\\udcff\x1b\x7f\x9b\U0001f600", "\\ud800": ["\\udc80", ["é"]]}


def test_json_for_people_has_real_characters_and_no_hidden_ones():
    value = {"name": "Zo\u00eb \u65e5", "bad": "a\x1b[2J\u202e\x7f\x9b\U000e0041\ud800", "lines": "a\nb"}
    text = readable_json(value)
    assert "Zo\u00eb \u65e5" in text
    assert not [one for one in text if not one.isprintable() and one != "\n"]
    assert json.loads(text) == value


def test_findings_are_in_every_document(capsys):
    output = Output(as_json=True)
    output.finding(Finding("NAME_MISMATCH", "warning", "m", Place("a", 1), "f"))
    output.error(UsageError("USAGE", "no").diagnostics())
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["place"] is None
    assert document["findings"][0]["place"]["line"] == 1


def test_many_warnings_are_counted_by_code_and_no_error_is(capsys):
    output = Output()
    for code, number in (("NAME_MISMATCH", 15), ("VERSION_MISSING", 2985)):
        for _ in range(number):
            output.finding(Finding(code, "warning", "m", Place("a"), "f"))
    for number in range(25):
        output.finding(Finding("NAME_RULE", "error", f"e{number}", Place("a"), "f"))
    output.count_findings()
    told = capsys.readouterr().err
    assert told.count("warning[NAME_MISMATCH]") == 15
    assert told.count("warning[VERSION_MISSING]") == 5
    assert told.count("error[NAME_RULE]") == 25
    assert told.endswith(
        "and 2,980 more: 2,980 VERSION_MISSING; --json lists them all\n"
        "read more: skillwire explain NAME_RULE NAME_MISMATCH VERSION_MISSING\n"
    )


def test_a_question_is_one_harmless_line(monkeypatch):
    asked = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)

    def answer(question, **_):
        asked.append(question)
        return True

    monkeypatch.setattr("click.confirm", answer)
    assert confirm("from \x1b[2J\nhere?")
    assert asked == ["from [U+001B][2J here? [y/N]"]


@pytest.mark.parametrize("quiet", [True, False])
def test_quiet_keeps_errors_only(capsys, quiet):
    output = Output(quiet=quiet)
    output.finding(Finding("NAME_MISMATCH", "warning", "m", Place("a"), "f"))
    assert bool(capsys.readouterr().err) is not quiet
