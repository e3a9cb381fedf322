"""The screen that a command draws anew: nothing moves while nothing changes, and the terminal gets back what it had."""

import io

import pytest

from skillwire.cli.lan_view import Screen
from skillwire.cli.output import bold, success


class Tty(io.StringIO):
    """A terminal that keeps what is written."""

    size = (80, 24)

    def isatty(self):
        return True

    def take(self):
        """Return what was written since the last time."""
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


@pytest.fixture
def begin(monkeypatch):
    """Return what puts a terminal in the place of standard output; pytest puts its own there before each test."""

    def begin(**environment):
        tty = Tty()
        monkeypatch.delenv("NO_COLOR", raising=False)
        for name, value in {"TERM": "xterm", **environment}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("sys.stdout", tty)
        monkeypatch.setattr(Screen, "size", staticmethod(lambda: tty.size))
        return tty

    return begin


def test_lines_are_overwritten_where_they_stand_and_what_is_left_is_cleared(begin):
    tty = begin()
    with Screen() as screen:
        tty.take()
        screen.draw([[bold("network")], ["  one ", success("HEALTHY")]])
        assert tty.take() == "\x1b[H\x1b[1mnetwork\x1b[0m\x1b[K\r\n  one \x1b[32mHEALTHY\x1b[0m\x1b[K\x1b[J"


def test_nothing_is_written_while_nothing_has_changed(begin):
    tty = begin()
    with Screen() as screen:
        screen.draw([["one"]])
        tty.take()
        screen.draw([["one"]])
        assert tty.take() == ""
        tty.size = (40, 24)
        screen.draw([["one"]])
        assert "one" in tty.take(), "another size may have broken the lines"


def test_the_terminal_gets_back_what_it_had_also_after_an_error(begin):
    tty = begin()
    with pytest.raises(ZeroDivisionError), Screen():
        tty.write(str(1 // 0))
    assert tty.getvalue().startswith("\x1b[?1049h\x1b[?25l")
    assert tty.take().endswith("\x1b[?25h\x1b[?1049l")


def test_text_of_strangers_draws_nothing_of_its_own_and_colours_can_be_declined(begin):
    tty = begin(NO_COLOR="1")
    with Screen() as screen:
        tty.take()
        screen.draw([[success("evil\x1b[2J\n")]])
        shown = tty.take()
    assert shown.count("\x1b") == 3  # home, the rest of the line, the rest of the screen
    assert "\n" not in shown


@pytest.mark.parametrize(("terminal", "is_possible"), [("xterm", True), ("dumb", False)])
def test_a_terminal_that_cannot_be_drawn_on_is_not(begin, terminal, is_possible):
    begin(TERM=terminal)
    assert Screen.is_possible() is is_possible


def test_nor_is_what_is_no_terminal(begin, monkeypatch):
    begin()
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert not Screen.is_possible()
