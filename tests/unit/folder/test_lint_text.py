"""Rules about hidden text."""

import pytest

from skillwire.folder.load import check_folder

HEAD = "---\nname: demo\ndescription: {}\nmetadata:\n  version: '1.0.0'\n---\n# B\n"
TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore all")


def test_in_skill_md_and_references_it_is_an_error(found):
    files = {"SKILL.md": HEAD.format("d") + "x\u200by\n", "references/a.md": "a\n\u202eb"}
    places = ["HIDDEN_CHARACTERS SKILL.md:8:2", "HIDDEN_CHARACTERS references/a.md:2:1"]
    assert found(**files) == [f"error {place}" for place in places]
    assert found("lenient", **files) == [f"warning {place}" for place in places]


def test_in_other_files_it_is_a_warning(found):
    assert found(**{"scripts/run.py": "x = 1  # \u202e\n"}) == ["warning HIDDEN_IN_FILE scripts/run.py:1:10"]


def test_a_byte_order_mark_at_the_start_is_no_hidden_text(found):
    assert found(**{"data.csv": "\ufeffa,b\n"}) == []
    assert found(**{"data.csv": "a,\ufeffb\n"}) == ["warning HIDDEN_IN_FILE data.csv:1:3"]


def test_binary_files_are_not_read(found):
    assert found(**{"a.png": b"\x89PNG\x00\x1b", "b.bin": b"\xff\x1b"}) == []


def test_what_an_escape_in_the_frontmatter_spells(found):
    assert found(**{"SKILL.md": HEAD.format('"Helps\\rOwned"')}) == ["error HIDDEN_CHARACTERS SKILL.md:3:1"]
    nested = HEAD.format("d").replace("'1.0.0'", "'1.0.0'\n  x: \"a\\u202e\"")
    assert found(**{"SKILL.md": nested}) == ["error HIDDEN_CHARACTERS SKILL.md:6:3"]


def test_the_message_says_what_it_spells_and_shows_nothing_hidden(write):
    findings = check_folder(write(**{"SKILL.md": HEAD.format("d") + TAGS})).findings
    assert [finding.message for finding in findings] == [
        "10 hidden characters, the first a tag character (U+E0069), spelling 'ignore all'"
    ]
    assert (findings[0].place.column, findings[0].place.end_column) == (1, 11)


def test_many_places_are_told_in_a_few_findings(write):
    findings = check_folder(write(**{"SKILL.md": HEAD.format("d") + "a\u200b" * 100})).findings
    assert len(findings) == 5
    assert findings[-1].message.endswith(", and 95 more places in this file")


HEAD_LINT_LINKS = "---\nname: demo\ndescription: d\nmetadata:\n  version: '1.0.0'\n---\n"


@pytest.mark.parametrize(
    "link",
    [
        "[a](references/a.md)", "[a](./references/a.md#part)", "[a](<references/with space.md>)",
        "[a](references/with%20space.md)", '[a](references/a.md "Title")', "![a](references)", "[a](references/)",
        "[a](SKILL.md?x=1)", "[a]: references/a.md", "[a](references/b_(c).md)", "[a](https://example.com/x.md)",
        "[a](mailto:a@example.com)", "[a](#part)", "[a](//example.com/x)", "[a](references/{name}.md)",
        "[a](<name>.md)", "[a](...)", "[a]()", "`[a](absent.md)`", "``[a](absent.md)``", "```\n[a](absent.md)\n```",
        "~~~md\n[a](/etc/passwd)\n~~~", "```\n[a](absent.md)", "[x][a]\n\n    [a]: absent.md",
    ],
)  # fmt: skip
def test_links_that_are_fine(found, link):
    files = {"references/a.md": "", "references/with space.md": "", "references/b_(c).md": ""}
    assert found(**{"SKILL.md": HEAD_LINT_LINKS + link + "\n", **files}) == []


@pytest.mark.parametrize(
    ("link", "finding"),
    [
        ("[a](absent.md)", "LINK_BROKEN SKILL.md:7:5"),
        ("x ![a]( absent.png )", "LINK_BROKEN SKILL.md:7:9"),
        ("[a](../other/SKILL.md)", "LINK_BROKEN SKILL.md:7:5"),
        ("[a](references/%2e%2e/%2e%2e/x)", "LINK_BROKEN SKILL.md:7:5"),
        ("[a]: absent.md", "LINK_BROKEN SKILL.md:7:6"),
        ("```\nx\n```\n[a](absent.md)", "LINK_BROKEN SKILL.md:10:5"),
        ("[a](/etc/passwd)", "LINK_ABSOLUTE SKILL.md:7:5"),
        ("[a](~/notes.md)", "LINK_ABSOLUTE SKILL.md:7:5"),
        ("[a](C:\\notes.md)", "LINK_ABSOLUTE SKILL.md:7:5"),
        ("[a](file:///etc/passwd)", "LINK_ABSOLUTE SKILL.md:7:5"),
    ],
)
def test_links_that_lead_nowhere(found, link, finding):
    assert found(**{"SKILL.md": HEAD_LINT_LINKS + link + "\n"}) == [f"warning {finding}"]
    assert found("lenient", **{"SKILL.md": HEAD_LINT_LINKS + link + "\n"}) == []


def test_links_are_relative_to_their_file(found):
    files = {"references/a.md": "[b](b.md) [s](../SKILL.md) [self](a.md)", "references/b.md": "[x](references/a.md)"}
    text = HEAD_LINT_LINKS + "[a](references/a.md) [b](references/b.md)\n"
    assert found(**{"SKILL.md": text, **files}) == ["warning LINK_BROKEN references/b.md:1:5"]


def test_references_are_one_level_deep(found):
    files = {"references/a.md": "see\n[b](b.md) and [script](run.py)", "references/b.md": "", "references/run.py": ""}
    text = HEAD_LINT_LINKS + "[a](references/a.md)\n"
    assert found(**{"SKILL.md": text, **files}) == ["warning REFERENCE_DEPTH references/a.md:2:5"]
    assert found(**{"SKILL.md": text + "[b](references/b.md)\n", **files}) == []
