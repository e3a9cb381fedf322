"""How lines are laid out for a terminal: by words, by width, never by cutting."""

from __future__ import annotations

import pytest

from skillwire.cli.layout import column_widths, is_too_narrow, padding, wrap
from skillwire.cli.output import Output, Styled, strong, whole
from skillwire.trust.display_width import display_width


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
    assert lines("a word of ", strong("many"), "parts-that-belong together") == [
        "a word of",
        "  manyparts-that-belong",
        "  together",
    ]


def test_a_word_longer_than_a_line_is_left_to_the_terminal():
    url = "https://example.com/" + "x" * 40
    assert lines("  --> ", url) == [f"  --> {url}"]
    assert lines("at ", url, " it is") == [f"at {url} it is"]


def test_a_command_stays_whole_where_it_can():
    assert lines("look at one: ", whole("skillwire show a/b")) == ["look at one:", "  skillwire show a/b"]
    assert lines("at: ", whole("skillwire show something-longer-than that")) == [
        "at: skillwire show",
        "  something-longer-than that",
    ]


def test_styles_stay_with_their_words():
    pieces = [Styled("plain ", {}), strong("bold words that go on and on")]
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


def test_a_table_is_too_narrow_when_its_last_column_has_no_room():
    rows = [[Styled("name", {}), Styled("words " * 8, {})]]
    widths = column_widths(rows)
    assert widths == [4]
    assert padding(rows[0][0], 6) == "    "
    assert is_too_narrow(rows, widths, 29)
    assert not is_too_narrow(rows, widths, 30)
    assert not is_too_narrow([[Styled("name", {}), Styled("ok", {})]], widths, 8)
