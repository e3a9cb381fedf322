"""What the reader of the simple form answers, and what it leaves to YAML."""

from __future__ import annotations

import subprocess
import sys

import pytest

from skillwire.errors import Place
from skillwire.folder.flat_frontmatter import read_flat

PLAIN = """\
name: pdf-forms
description: Fills PDF forms (AcroForm). Use it when a user asks "fill this"; see https://example.com/a#b
license: 'Apache-2.0'
allowed-tools: "Bash(git:*) Read"
metadata:
  author: example-corp
  version: "1.0"
compatibility: Needs Python 3.11+ — and nothing else
"""


def test_a_usual_frontmatter_is_read() -> None:
    document = read_flat(PLAIN, source="SKILL.md", first_line=2)
    assert document is not None
    assert document.values == {
        "name": "pdf-forms",
        "description": 'Fills PDF forms (AcroForm). Use it when a user asks "fill this"; see https://example.com/a#b',
        "license": "Apache-2.0",
        "allowed-tools": "Bash(git:*) Read",
        "metadata": {"author": "example-corp", "version": "1.0"},
        "compatibility": "Needs Python 3.11+ — and nothing else",
    }
    assert document.places["metadata", "version"] == Place("SKILL.md", 8, 3, 10, '  version: "1.0"')


def test_line_ends_may_be_those_of_windows() -> None:
    document = read_flat("name: a\r\ndescription: d\r\n")
    assert document is not None
    assert document.values == {"name": "a", "description": "d"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name: a",  # no line end
        "name:\n",
        "name: a\n\nb: c\n",
        "# comment\nname: a\n",
        "name: a # comment\n",
        "name: a: b\n",
        "name: a:\n",
        "name: >\n  a\n",
        "name: |\n  a\n",
        "name: [a]\n",
        "name: {a: b}\n",
        "name: &x a\n",
        "name: *x\n",
        "name: !t a\n",
        "name: a\n  more\n",
        "name: a\nname: b\n",
        'name: "a\\n"\n',
        'name: "a" b\n',
        "name: 'it''s'\n",
        "name: a\tb\n",
        "name: a \n",
        "name: - a\n",
        "- name: a\n",
        '"name": a\n',
        "metadata:\n",
        "metadata:\nname: a\n",
        "metadata: a: b\n  c: d\n",
        "metadata:\n  a: b\n   c: d\n",
        "metadata:\n  a:\n    b: c\n",
        "other:\n  a: b\n",
        "name: a\n  b: c\n",
        "name: a\u2028b\n",
        "name: a\x85b\n",
        "name: a\rb: c\n",
        "name: \ufeffa\n",
        "".join(f"k{number}: v\n" for number in range(65)),
    ],
)
def test_everything_else_is_left_to_yaml(text: str) -> None:
    assert read_flat(text) is None


def test_reading_a_plain_skill_does_not_import_yaml() -> None:
    code = (
        "import sys\n"
        "from skillwire.folder.frontmatter import parse_skill_md\n"
        "parse_skill_md(b'---\\nname: a\\ndescription: d\\nmetadata:\\n  version: \"1.0\"\\n---\\n# A\\n')\n"
        "sys.exit('yaml' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
