"""Rules about YAML that readers read differently; tests/interop/test_frontmatter_readers.py asks the readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Found = Callable[..., list[str]]


def skill(head: str) -> str:
    return f"---\n{head}metadata:\n  version: '1.0.0'\n---\n# B\n"


@pytest.mark.parametrize(
    "value",
    [
        *("404", "007", "0x1F", "0o17", "0b11", "1e5", "+12e03", "1.0", ".5", "1_000", "-.INF", ".nan"),
        *("true", "False", "yes", "NO", "on", "Off", "null", "~", "12:30:45", "2024-01-01", "2024-01-01T10:00:00Z"),
    ],
)
def test_a_value_that_some_reader_gives_another_type(found: Found, value: str) -> None:
    for behind in (f" {value}", f"   {value}  ", f" {value} # comment", f"\n  {value}", f"\n\n  # why\n  {value}"):
        text = skill(f"name: demo\ndescription: d\nlicense:{behind}\n")
        assert found(**{"SKILL.md": text}) == ["warning FRONTMATTER_TYPED SKILL.md:4:1"], behind
        assert found("lenient", **{"SKILL.md": text}) == []
    for quoted in (f"'{value}'", f'"{value}"', f"|\n  {value}", f"a {value}"):
        assert found(**{"SKILL.md": skill(f"name: demo\ndescription: d\nlicense: {quoted}\n")}) == [], quoted


def test_a_name_and_a_value_of_metadata(found: Found) -> None:
    text = "---\nname: 404\ndescription: d\nmetadata:\n  version: '1.0.0'\n  built: 2026-01-31\n---\n# B\n"
    expected = ["warning FRONTMATTER_TYPED SKILL.md:2:1", "warning FRONTMATTER_TYPED SKILL.md:6:3"]
    assert sorted(found("strict", "404", **{"SKILL.md": text})) == expected


@pytest.mark.parametrize("value", ["1.0.0", "v1", "3d-print", "1-2", "nothing", "2024-01-01 or later", "12:99"])
def test_a_value_that_is_text_to_everyone(found: Found, value: str) -> None:
    assert found(**{"SKILL.md": skill(f"name: demo\ndescription: d\nlicense: {value}\n")}) == []


@pytest.mark.parametrize(
    ("head", "place"),
    [
        ('name: demo\ndescription: "foo"#c\n', "3:19"),
        ("name: demo\ndescription: >#c\n  foo\n", "3:15"),
        ('name: demo\ndescription: "foo\n  bar"#c\n', "4:7"),
        ('name: demo\ndescription: "foo\nbar"\n', "4:1"),
        ("name: demo\ndescription: 'it''s\nbar'\n", "4:1"),
        ('name: demo\ndescription: "foo\n#bar"\n', "4:1"),
        ('name: demo\ndescription: "foo\n"\n', "4:1"),
        ('name: demo\ndescription:\n  "foo\nbar"\n', "5:1"),
        ('name: demo\ndescription: "a\n\n  b\nc"\n', "6:1"),
    ],
)
def test_what_only_libyaml_reads(found: Found, head: str, place: str) -> None:
    assert found(**{"SKILL.md": skill(head)}) == [f"error FRONTMATTER_YAML SKILL.md:{place}"]
    assert found("lenient", **{"SKILL.md": skill(head)}) == []


def test_the_indentation_that_counts_is_that_of_the_key(found: Found) -> None:
    text = '---\nname: demo\ndescription: d\nmetadata:\n  version: "1.0.0"\n  note: "x\n{}y"\n---\n# B\n'
    assert found(**{"SKILL.md": text.format("  ")}) == ["error FRONTMATTER_YAML SKILL.md:7:1"]
    assert found(**{"SKILL.md": text.format("   ")}) == []


@pytest.mark.parametrize(
    "head",
    [
        'name: demo\ndescription: "foo" #c\n# a comment\n',
        'name: demo\ndescription: "foo#c"\n',
        "name: demo\ndescription: foo#c\n",
        'name: demo\ndescription: "foo\n\n  bar"\n# a comment\n',
    ],
)
def test_what_every_reader_reads(found: Found, head: str) -> None:
    assert found(**{"SKILL.md": skill(head)}) == []
