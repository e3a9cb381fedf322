"""What the line of progress says, and that it is gone before anything else is printed."""

import io
import sys
import threading

import pytest

from skillwire.cli import output as module
from skillwire.cli.options import shortened
from skillwire.cli.output import Progress


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
    monkeypatch.setattr(module, "_PATIENCE", 0.01)
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
        assert screen.written.wait(10)
    assert screen.getvalue().startswith("\r\x1b[Kreading … 0 s")
    assert screen.getvalue().endswith("\r\x1b[K")


def test_what_is_told_meanwhile_stands_on_a_line_of_its_own(monkeypatch):
    screen = put_screen(monkeypatch)
    with Progress().during("reading") as progress:
        assert screen.written.wait(10)
        progress.beside(lambda text: screen.write(f"{text}\n"))("a finding")
    assert "\r\x1b[Ka finding\n" in screen.getvalue()


@pytest.mark.parametrize("shown", [True, False])
def test_nothing_but_a_terminal_sees_it(monkeypatch, shown):
    stream = io.StringIO() if shown else Screen()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "_PATIENCE", 0.0)
    before = threading.active_count()
    with Progress(shown=shown).during("reading"):
        assert threading.active_count() == before
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
