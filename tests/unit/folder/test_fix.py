"""Repairs: each has one right answer, leaves the body as it is, and a second run finds nothing to repair."""

import pytest

from skillwire.folder.fix import plan_fixes
from skillwire.folder.load import check_folder

BODY = "---\n# B\r\n\n  name: other,  \nversion: 1.0\n"


def fix(folder):
    """Repair the folder; return the names of the files that changed."""
    fixes = plan_fixes(folder, check_folder(folder).findings)
    for one in fixes:
        one.path.write_bytes(bytes(one.after.content))
        one.path.chmod(0o755 if one.after.executable else 0o644)
    return [str(one.path.relative_to(folder)) for one in fixes]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("name: other\ndescription: d", "name: demo\ndescription: d"),
        ('name: "other"  # it\r\ndescription: d', "name: demo  # it\r\ndescription: d"),
        ("name: demo\ndescription: 1.0 # it", 'name: demo\ndescription: "1.0" # it'),
        ("name: demo\ndescription: d\nmetadata:\n  version: 1.0",
         'name: demo\ndescription: d\nmetadata:\n  version: "1.0.0"'),
        ("name: demo\ndescription: d\nmetadata:\n  version: '2'",
         'name: demo\ndescription: d\nmetadata:\n  version: "2.0.0"'),
        ("name: demo\ndescription: d\nmetadata:\n  version: 1.10",
         'name: demo\ndescription: d\nmetadata:\n  version: "1.10.0"'),
        ("name: demo\ndescription: d\nlicense: no\r", 'name: demo\ndescription: d\nlicense: "no"\r'),
        (
            "name: demo\ndescription: d\nallowed-tools: Read, Bash(a:*, b) ,Write",
            "name: demo\ndescription: d\nallowed-tools: Read Bash(a:*, b) Write",
        ),
        ("\ufeffname: demo\ndescription: d", "name: demo\ndescription: d"),
    ],
)  # fmt: skip
def test_a_frontmatter(write, before, after):
    mark = "\ufeff" if before.startswith("\ufeff") else ""
    folder = write("demo", **{"SKILL.md": f"{mark}---\n{before.removeprefix(mark)}\n{BODY}"})
    assert fix(folder) == ["SKILL.md"]
    assert (folder / "SKILL.md").read_bytes().decode() == f"---\n{after}\n{BODY}"
    assert fix(folder) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Splits a price: use when asked.", '"Splits a price: use when asked."'),
        ("Splits: use\r", '"Splits: use"\r'),
        ('Writes "a": \\d', r'"Writes \"a\": \\d"'),
        ("Use when: issue #12 asks", '"Use when: issue #12 asks"'),
        ("Ends with:", '"Ends with:"'),
        ("`jq` filters", '"`jq` filters"'),
        ("a: b\nlicense: c: d\nmetadata:\n  author: e: f", '"a: b"\nlicense: "c: d"\nmetadata:\n  author: "e: f"'),
    ],
)
def test_texts_that_are_no_yaml_are_quoted_and_stay_the_same(write, before, after):
    folder = write("demo", **{"SKILL.md": f"---\nname: demo\ndescription: {before}\n{BODY}"})
    [finding] = [one for one in check_folder(folder).findings if one.level == "error"]
    assert finding.code == "YAML_SYNTAX"
    assert fix(folder) == ["SKILL.md"]
    assert (folder / "SKILL.md").read_bytes().decode() == f"---\nname: demo\ndescription: {after}\n{BODY}"
    assert not [one for one in check_folder(folder).findings if one.level == "error"]
    assert fix(folder) == []


@pytest.mark.parametrize(
    "rest",
    [
        "a: b # a comment, or not",
        "a\n  b: c",
        "a: b\n  and more",
        "[a] b: c",
        '"a" b: c',
        "a: b\nlicense: [c",
    ],
)
def test_what_may_mean_something_else_is_not_quoted(write, rest):
    folder = write("demo", **{"SKILL.md": f"---\nname: demo\ndescription: {rest}\n{BODY}"})
    assert "YAML_SYNTAX" in {one.code for one in check_folder(folder).findings}
    assert fix(folder) == []


@pytest.mark.parametrize(
    "frontmatter",
    [
        "name: >\n  other\ndescription: d",
        "name: demo\ndescription: d\nlicense:\n  no",
        "name: demo\ndescription: d\nallowed-tools:\n  - Read, Write",
        "name: |\n  other # x\ndescription: d",
    ],
)
def test_a_form_that_is_not_one_line_is_left_alone(write, frontmatter):
    folder = write("demo", **{"SKILL.md": f"---\n{frontmatter}\n{BODY}"})
    assert check_folder(folder).findings
    assert fix(folder) == []


def test_a_folder_without_a_skill_name_gives_no_name(write):
    folder = write("My_Skill", **{"SKILL.md": f"---\nname: other\ndescription: d\n{BODY}"})
    assert fix(folder) == []


def test_the_name_of_a_folder_that_reads_as_a_number_is_quoted(write):
    folder = write("2024", **{"SKILL.md": f"---\nname: other\ndescription: d\n{BODY}"})
    assert fix(folder) == ["SKILL.md"]
    assert '\nname: "2024"\n' in (folder / "SKILL.md").read_text()
    assert fix(folder) == []


def test_a_script_gets_its_line_ends_and_its_bit(write):
    folder = write("demo", **{"scripts/run.sh": b"#!/bin/sh\r\necho a\r\n", "scripts/plain.txt": b"a\r\n"})
    assert fix(folder) == ["scripts/run.sh"]
    assert (folder / "scripts/run.sh").read_bytes() == b"#!/bin/sh\necho a\n"
    assert (folder / "scripts/run.sh").stat().st_mode & 0o111
    assert (folder / "scripts/plain.txt").read_bytes() == b"a\r\n"
    assert fix(folder) == []


def test_a_link_is_left_alone(write):
    folder = write("demo", **{"scripts/run.sh": b"#!/bin/sh\r\n"})
    (folder / "scripts/other.sh").symlink_to("run.sh")
    (folder / "more").symlink_to("scripts")
    assert fix(folder) == ["scripts/run.sh"]
    assert (folder / "scripts/other.sh").is_symlink()
