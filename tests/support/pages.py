"""Pages of the documentation as what they show: boxes with a title, commands and their outputs.

In an output ``...`` stands for any text within a line, or, alone on a line, for any lines.
"""

import re
import textwrap
from typing import NamedTuple

import pytest
from tests.support.processes import in_shell, typed


class Box(NamedTuple):
    """A box of a page: ``kind`` is its language; ``title`` says where to type it, or which file it is."""

    kind: str
    title: str
    text: str


def boxes(page):
    found = re.findall(r'^( *)```(\w+) title="([^"]+)"\n(.*?)^\1```', page.read_text(), re.MULTILINE | re.DOTALL)
    return [Box(kind, title, textwrap.dedent(text)) for _, kind, title, text in found]


def examples(text):
    """Return each command with the output that follows it."""
    return re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)


def shown(page, title=None):
    """Return each command of the page with its output: those of the boxes of one title, or of all."""
    found = [box for box in boxes(page) if box.kind == "console" and title in {None, box.title}]
    return [example for box in found for example in examples(box.text)]


def play(found, folder, replacing=None, **homes):
    """Run each command in a shell of its own; return the acts: command, what the page shows, what happened."""
    return [(command, written, in_shell(command, folder, replacing, **homes)) for command, written in found]


def play_session(found, folder, replacing, *, home):
    """Type all commands into one shell; return the acts."""
    happened = typed([command for command, _ in found], folder, replacing, home=home)
    return [(*example, text) for example, text in zip(found, happened, strict=True)]


def check(acts, least):
    """Fail at the first act (command, what the page shows, what happened) in which something else happened."""
    assert len(acts) >= least
    for command, written, happened in acts:
        if not _pattern(written).fullmatch(happened):
            pytest.fail(f"the page shows\n$ {command}\n{written}\nbut what happens is\n{happened}", pytrace=False)


def _pattern(output):
    lines = (
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()).replace(r"\.\.\.", ".*") + r" *\n"
        for line in output.splitlines()
    )
    return re.compile("".join(lines))
