"""Pages of the documentation as what they show: boxes with a title, commands and their outputs.

In an output ``...`` stands for any text within a line, or, alone on a line, for any lines.
"""

import re
import textwrap
from typing import NamedTuple

import pytest


class Box(NamedTuple):
    """A box of a page: ``kind`` is its language; ``title`` says where to type it, or which file it is."""

    kind: str
    title: str
    text: str


def boxes(page):
    """Return the boxes of the page that have a title, in order."""
    found = re.findall(r'^( *)```(\w+) title="([^"]+)"\n(.*?)^\1```', page.read_text(), re.MULTILINE | re.DOTALL)
    return [Box(kind, title, textwrap.dedent(text)) for _, kind, title, text in found]


def examples(text):
    """Return each command with the output that follows it."""
    return re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)


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
