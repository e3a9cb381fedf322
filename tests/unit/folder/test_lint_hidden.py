"""Rules about hidden text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.folder.load import examine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Found = Callable[..., list[str]]

HEAD = "---\nname: demo\ndescription: {}\nmetadata:\n  version: '1.0.0'\n---\n# B\n"
TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore all")


def test_in_skill_md_and_references_it_is_an_error(found: Found) -> None:
    files = {"SKILL.md": HEAD.format("d") + "x\u200by\n", "references/a.md": "a\n\u202eb"}
    places = ["HIDDEN_CHARACTERS SKILL.md:8:2", "HIDDEN_CHARACTERS references/a.md:2:1"]
    assert found(**files) == [f"error {place}" for place in places]
    assert found("lenient", **files) == [f"warning {place}" for place in places]


def test_in_other_files_it_is_a_warning(found: Found) -> None:
    assert found(**{"scripts/run.py": "x = 1  # \u202e\n"}) == ["warning HIDDEN_IN_FILE scripts/run.py:1:10"]


def test_a_byte_order_mark_at_the_start_is_no_hidden_text(found: Found) -> None:
    assert found(**{"data.csv": "\ufeffa,b\n"}) == []
    assert found(**{"data.csv": "a,\ufeffb\n"}) == ["warning HIDDEN_IN_FILE data.csv:1:3"]


def test_binary_files_are_not_read(found: Found) -> None:
    assert found(**{"a.png": b"\x89PNG\x00\x1b", "b.bin": b"\xff\x1b"}) == []


def test_what_an_escape_in_the_frontmatter_spells(found: Found) -> None:
    assert found(**{"SKILL.md": HEAD.format('"Helps\\rOwned"')}) == ["error HIDDEN_CHARACTERS SKILL.md:3:1"]
    nested = HEAD.format("d").replace("'1.0.0'", "'1.0.0'\n  x: \"a\\u202e\"")
    assert found(**{"SKILL.md": nested}) == ["error HIDDEN_CHARACTERS SKILL.md:6:3"]


def test_the_message_says_what_it_spells_and_shows_nothing_hidden(write: Callable[..., Path]) -> None:
    findings = examine(write(**{"SKILL.md": HEAD.format("d") + TAGS})).findings
    assert [finding.message for finding in findings] == [
        "10 hidden characters, the first a tag character (U+E0069), spelling 'ignore all'"
    ]
    assert (findings[0].place.column, findings[0].place.end_column) == (1, 11)


def test_many_places_are_told_in_a_few_findings(write: Callable[..., Path]) -> None:
    findings = examine(write(**{"SKILL.md": HEAD.format("d") + "a\u200b" * 100})).findings
    assert len(findings) == 5
    assert findings[-1].message.endswith(", and 95 more places in this file")
