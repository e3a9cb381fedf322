"""Rules about SKILL.md, at both levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Found = Callable[..., list[str]]

VERSION = "metadata:\n  version: '1.0.0'\n"


def skill(head: str, body: str = "# B\n", version: str = VERSION) -> str:
    return f"---\n{head}{version}---\n{body}"


def test_a_good_skill_has_no_findings(found: Found) -> None:
    assert found() == []
    assert found("lenient") == []


@pytest.mark.parametrize(
    ("text", "strict", "lenient"),
    [
        (
            skill("name: other\ndescription: d\n"),
            ["error NAME_FOLDER SKILL.md:2:1"],
            ["warning NAME_FOLDER SKILL.md:2:1"],
        ),
        (
            skill("name: Demo\ndescription: d\n"),
            ["error NAME_RULE SKILL.md:2:1", "error NAME_FOLDER SKILL.md:2:1"],
            ["warning NAME_RULE SKILL.md:2:1", "warning NAME_FOLDER SKILL.md:2:1"],
        ),
        (
            skill("name: demo\ndescription: " + "d" * 1025 + "\n"),
            ["error DESCRIPTION_LENGTH SKILL.md:3:1"],
            ["warning DESCRIPTION_LENGTH SKILL.md:3:1"],
        ),
        (skill("name: demo\ndescription: >\n  " + "d" * 1024 + "\n"), ["error DESCRIPTION_LENGTH SKILL.md:3:1"], None),
        (skill("name: demo\ndescription: " + "d" * 1024 + "\n"), [], []),
        (
            skill("name: demo\ndescription: d\ncompatibility: " + "c" * 501 + "\n"),
            ["error COMPATIBILITY_LENGTH SKILL.md:4:1"],
            ["warning COMPATIBILITY_LENGTH SKILL.md:4:1"],
        ),
        (
            skill("name: demo\ndescription: d\nlicense: 'MIT'\nodd: x\n"),
            ["error FIELD_UNKNOWN SKILL.md:5:1"],
            ["warning FIELD_UNKNOWN SKILL.md:5:1"],
        ),
        (
            skill("name: demo\ndescription: d\nallowed-tools:\n- Read\n- Write\n"),
            ["error FIELD_FORM SKILL.md:4:1"],
            ["warning FIELD_FORM SKILL.md:4:1"],
        ),
        (
            skill("name: demo\ndescription: d\nlicense:\ncompatibility: ''\n"),
            ["error FIELD_EMPTY SKILL.md:4:1", "error FIELD_EMPTY SKILL.md:5:1"],
            ["warning FIELD_EMPTY SKILL.md:4:1", "warning FIELD_EMPTY SKILL.md:5:1"],
        ),
        (
            skill("name: demo\ndescription: d\n", version="metadata: {version: '1.0.0'}\n"),
            ["error FLOW_STYLE SKILL.md:4:11"],
            [],
        ),
        (skill("name: demo\ndescription: a --- b\n"), ["error FRONTMATTER_HYPHENS SKILL.md:3:16"], []),
        (skill("name: demo\ndescription: a\tb\n"), ["error FRONTMATTER_YAML SKILL.md:3:15"], []),
        (skill("name: demo\ndescription: '='\n"), ["error FRONTMATTER_YAML SKILL.md:3:1"], []),
        (
            skill("name: demo\ndescription: d\n", version=VERSION + "  <<: x\n"),
            ["error FRONTMATTER_YAML SKILL.md:6:3"],
            [],
        ),
        (
            "\ufeff" + skill("name: demo\ndescription: d\n"),
            ["error BYTE_ORDER_MARK SKILL.md:1:1"],
            ["warning BYTE_ORDER_MARK SKILL.md:1:1"],
        ),
        (
            skill("name: demo\ndescription: d\nallowed-tools: Read, Bash(git a,b)\n"),
            ["warning ALLOWED_TOOLS_COMMA SKILL.md:4:1"],
            ["note ALLOWED_TOOLS_COMMA SKILL.md:4:1"],
        ),
        (skill("name: demo\ndescription: d\nallowed-tools: Read Bash(git a,b)\n"), [], []),
        (
            skill("name: demo\ndescription: d\n", " \n"),
            ["warning BODY_EMPTY SKILL.md:7"],
            ["note BODY_EMPTY SKILL.md:7"],
        ),
        (skill("name: demo\ndescription: d\n", "x\n" * 499), [], []),
        (skill("name: demo\ndescription: d\n", "x\n" * 500), ["warning BODY_LINES SKILL.md:7"], []),
        (skill("name: demo\ndescription: d\n", "x" * 19_999), [], []),
        (skill("name: demo\ndescription: d\n", "x" * 20_000), ["warning BODY_TOKENS SKILL.md:7"], []),
        (skill("name: demo\ndescription: d\n", version=""), ["warning VERSION_MISSING SKILL.md:1"], []),
        (
            skill("name: demo\ndescription: d\n", version="metadata:\n  version: '1.0'\n"),
            ["warning VERSION_FORM SKILL.md:5:3"],
            [],
        ),
    ],
)
def test_rules(found: Found, text: str, strict: list[str], lenient: list[str] | None) -> None:
    assert found(**{"SKILL.md": text}) == strict
    if lenient is not None:
        assert found("lenient", **{"SKILL.md": text}) == lenient


@pytest.mark.parametrize("level", ["strict", "lenient"])
@pytest.mark.parametrize("text", ["../shared/SKILL.md", "../../a-b/SKILL.md\n", "/srv/skills/demo/SKILL.md"])
def test_the_text_of_a_symbolic_link(found: Found, text: str, level: str) -> None:
    assert found(level, **{"SKILL.md": text}) == ["error FRONTMATTER SKILL.md:1:1", "error SYMLINK_TEXT SKILL.md:1:1"]


def test_a_lower_case_skill_md(found: Found) -> None:
    files = {"SKILL.md": None, "Skill.md": skill("name: demo\ndescription: d\n")}
    assert found(**files) == ["error SKILL_MD_CASE Skill.md"]
    assert found("lenient", **files) == ["warning SKILL_MD_CASE Skill.md"]


def test_all_findings_come_at_once(found: Found) -> None:
    text = skill("name: other\ndescription: d\nodd: x\nodder: x\nlicense: [MIT]\n", "", version="")
    assert [line.split()[1] for line in found(**{"SKILL.md": text})] == [
        "NAME_FOLDER",
        "FLOW_STYLE",
        "FIELD_FORM",
        "FIELD_UNKNOWN",
        "FIELD_UNKNOWN",
        "VERSION_MISSING",
        "BODY_EMPTY",
    ]
