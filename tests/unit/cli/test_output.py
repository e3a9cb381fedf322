"""What commands print: one line stays one line, a document holds what was found; and the line of progress."""

from __future__ import annotations

import io
import json
import sys
import threading
from types import SimpleNamespace

import pytest
from tests.support.eventually import PATIENCE

from skillwire.cli import output as module
from skillwire.cli.options import confirm, shortened
from skillwire.cli.output import (
    Output,
    Progress,
    Styled,
    bold,
    encode_document,
    nowrap,
    readable_json,
    wrap,
)
from skillwire.errors import SourceLocation, UsageError
from skillwire.model.skill import Finding
from skillwire.trust.hidden_text import display_width


def test_a_part_cannot_fake_a_line(capsys):
    output = Output()
    output.line("Harmless\n\norigin\thttps://github.com\r")
    output.table([["a\nb", "c\x1b[2J"]])
    output.error(UsageError("USAGE", "bad\nerror[FAKE]: x", place=SourceLocation("a\nb")).diagnostics())
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
    output.finding(Finding("NAME_MISMATCH", "warning", "m", SourceLocation("a", 1), "f"))
    output.error(UsageError("USAGE", "no").diagnostics())
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["place"] is None
    assert document["findings"][0]["place"]["line"] == 1


def test_many_warnings_are_counted_by_code_and_no_error_is(capsys):
    output = Output()
    for code, number in (("NAME_MISMATCH", 15), ("VERSION_MISSING", 2985)):
        for line in range(number):
            output.finding(Finding(code, "warning", "m", SourceLocation("a", line), "f"))
    for number in range(25):
        output.finding(Finding("NAME_RULE", "error", f"e{number}", SourceLocation("a"), "f"))
    output.count_findings()
    told = capsys.readouterr().err
    assert told.count("warning[NAME_MISMATCH]") == 15
    assert told.count("warning[VERSION_MISSING]") == 5
    assert told.count("error[NAME_RULE]") == 25
    assert told.endswith(
        "and 2,980 more: 2,980 VERSION_MISSING; --json lists them all\n"
        "read more: skillwire explain NAME_RULE NAME_MISMATCH VERSION_MISSING\n"
    )


def test_a_question_is_one_harmless_line_and_says_what_answers_it(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)

    def answer(prompt):
        asked.append(prompt)
        return ("what", "Yes")[len(asked) - 1]

    monkeypatch.setattr("click.termui.visible_prompt_func", answer)
    assert confirm("from \x1b[2J\nhere?")
    assert asked == ["from [U+001B][2J here? [y/N]: "] * 2
    assert capsys.readouterr().err == "Error: answer y or n\n"


@pytest.mark.parametrize("quiet", [True, False])
def test_quiet_keeps_errors_only(capsys, quiet):
    output = Output(quiet=quiet)
    output.finding(Finding("NAME_MISMATCH", "warning", "m", SourceLocation("a"), "f"))
    assert bool(capsys.readouterr().err) is not quiet


def lines(*parts, columns=30, indent=None):
    pieces = [part if isinstance(part, Styled) else Styled(part, {}) for part in parts]
    return ["".join(piece.text for piece in line) for line in wrap(pieces, columns, indent)]


def test_what_fits_stays_one_line():
    assert lines("a" * 30) == ["a" * 30]
    assert lines("  six words that fit a line") == ["  six words that fit a line"]


def test_lines_break_between_words_with_an_indent():
    assert lines("one two three four five six seven eight") == ["one two three four five six", "  seven eight"]
    assert lines("  fix: ", "one two three four five six", indent=7) == ["  fix: one two three four five", "       six"]


def test_a_word_is_one_across_parts():
    assert lines("a word of ", bold("many"), "parts-that-belong together") == [
        "a word of",
        "  manyparts-that-belong",
        "  together",
    ]


def test_a_word_longer_than_a_line_is_left_to_the_terminal():
    url = "https://example.com/" + "x" * 40
    assert lines("  --> ", url) == [f"  --> {url}"]
    assert lines("at ", url, " it is") == [f"at {url} it is"]


def test_a_command_stays_whole_where_it_can():
    assert lines("show details: ", nowrap("skillwire show a/b")) == ["show details:", "  skillwire show a/b"]
    assert lines("at: ", nowrap("skillwire show something-longer-than that")) == [
        "at: skillwire show",
        "  something-longer-than that",
    ]


def test_styles_stay_with_their_words():
    pieces = [Styled("plain ", {}), bold("bold words that go on and on")]
    first, second = wrap(pieces, 20)
    assert [piece.style for piece in first] == [{}, {"bold": True}]
    assert [(piece.text, piece.style) for piece in second] == [("  ", {}), ("that go on and on", {"bold": True})]


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("説明書", 6), ("🎉", 2), ("é", 1), ("e\u0301", 1), ("☀\ufe0f", 1), ("\uff46", 2)]
)
def test_width_is_what_a_terminal_shows(text, width):
    assert display_width(text) == width


def test_columns_align_by_what_is_seen(capsys):
    Output().table([["説明書.md", "7", ""], ["a.md", "12", "x"]])
    assert capsys.readouterr().out == "説明書.md  7\na.md       12  x\n"


@pytest.mark.parametrize(
    ("columns", "last", "printed"),
    [
        (30, "words " * 5, "name  words words words words\n      words\n"),
        (29, "words " * 5, "name  words words words words\n  words\n"),
        (8, "ok", "name  ok\n"),
    ],
)
def test_a_table_becomes_lines_when_its_last_column_has_no_room(capsys, monkeypatch, columns, last, printed):
    monkeypatch.setattr("skillwire.cli.output.terminal_columns", lambda _: columns)
    Output().table([["name", last]])
    assert capsys.readouterr().out == printed


def test_a_finding_is_printed_once(capsys):
    output = Output()
    for _ in range(2):
        output.finding(Finding("CREDENTIAL_FILE", "warning", "m", SourceLocation("a"), "f"))
    assert capsys.readouterr().err.count("warning[CREDENTIAL_FILE]") == 1


class Screen(io.StringIO):
    """A terminal that can be waited for."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        self.written.set()
        return super().write(text)


def put_screen(monkeypatch):
    """Put a screen in the place of standard error; in a test's body, since pytest sets the stream before each phase."""
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module, "_PROGRESS_DELAY", 0.01)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 0.0))  # however late the thread draws
    return screen


def test_steps_bytes_rate_and_time_left():
    progress = Progress().during("adding", 40)
    progress.traffic("example.com", 0)
    assert progress._line(3, 200) == "adding [--------------------] 0/40  3 s"
    progress.advance(10)
    progress.traffic("example.com", 3_000_000)
    assert progress._line(3, 200) == "adding [#####---------------] 10/40  3.0 MB  1.0 MB/s  9 s left"
    progress.advance(30)
    assert progress._line(4, 200) == "adding [####################] 40/40  3.0 MB  750.0 kB/s  4 s"


def test_only_what_is_known_is_said():
    progress = Progress()
    progress.during("verifying")
    assert progress._line(2.4, 200) == "verifying … 2 s"
    progress.during("reading")
    progress.traffic("example.com", 0)
    assert progress._line(3, 200) == "reading example.com … 3 s"
    progress.traffic("example.com", 512)
    assert progress._line(4, 200) == "reading example.com … 4 s  512 B  128 B/s"


def test_a_line_never_wraps_and_holds_no_command():
    progress = Progress().during("reading")
    progress.traffic("ex\x1b[2Jample.com\n", 9)
    line = progress._line(1, 30)
    assert len(line) == 30
    assert line.isprintable()


def test_the_timer_draws_while_nothing_happens_and_clears_in_the_end(monkeypatch):
    screen = put_screen(monkeypatch)
    with Progress().during("reading"):
        assert screen.written.wait(PATIENCE)
    assert screen.getvalue().startswith("\r\x1b[Kreading … 0 s")
    assert screen.getvalue().endswith("\r\x1b[K")


def test_what_is_told_meanwhile_stands_on_a_line_of_its_own(monkeypatch):
    screen = put_screen(monkeypatch)
    with Progress().during("reading") as progress:
        assert screen.written.wait(PATIENCE)
        progress.beside(lambda text: screen.write(f"{text}\n"))("a finding")
    assert "\r\x1b[Ka finding\n" in screen.getvalue()


@pytest.mark.parametrize("shown", [True, False])
def test_nothing_but_a_terminal_sees_it(monkeypatch, shown):
    stream = io.StringIO() if shown else Screen()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "_PROGRESS_DELAY", 0.0)
    before = threading.enumerate()
    with Progress(shown=shown).during("reading"):
        assert set(threading.enumerate()) <= {*before}
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("text", "width", "wanted"),
    [
        ("short", 5, "short"),
        ("two  lines\nof it", 20, "two lines of it"),
        ("Profiles a table before anyone computes", 20, "Profiles a table…"),
        ("Profiles a table, before", 18, "Profiles a table…"),
        ("Donaudampfschifffahrtsgesellschaft", 10, "Donaudamp…"),
        ("ab 数据分析工具", 9, "ab 数据…"),
    ],
)
def test_a_description_is_cut_between_words_where_it_can_be(text, width, wanted):
    assert shortened(text, width) == wanted
