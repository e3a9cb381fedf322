"""Rules about relative links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Found = Callable[..., list[str]]

HEAD = "---\nname: demo\ndescription: d\nmetadata:\n  version: '1.0.0'\n---\n"


@pytest.mark.parametrize(
    "link",
    [
        "[a](references/a.md)",
        "[a](./references/a.md#part)",
        "[a](<references/with space.md>)",
        "[a](references/with%20space.md)",
        '[a](references/a.md "Title")',
        "![a](references)",
        "[a](references/)",
        "[a](SKILL.md?x=1)",
        "[a]: references/a.md",
        "[a](references/b_(c).md)",
        "[a](https://example.com/x.md)",
        "[a](mailto:a@example.com)",
        "[a](#part)",
        "[a](//example.com/x)",
        "[a](references/{name}.md)",
        "[a](<name>.md)",
        "[a](...)",
        "[a]()",
        "`[a](absent.md)`",
        "``[a](absent.md)``",
        "```\n[a](absent.md)\n```",
        "~~~md\n[a](/etc/passwd)\n~~~",
        "```\n[a](absent.md)",
        "[x][a]\n\n    [a]: absent.md",
    ],
)
def test_links_that_are_fine(found: Found, link: str) -> None:
    files = {"references/a.md": "", "references/with space.md": "", "references/b_(c).md": ""}
    assert found(**{"SKILL.md": HEAD + link + "\n", **files}) == []


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
def test_links_that_lead_nowhere(found: Found, link: str, finding: str) -> None:
    assert found(**{"SKILL.md": HEAD + link + "\n"}) == [f"warning {finding}"]
    assert found("lenient", **{"SKILL.md": HEAD + link + "\n"}) == []


def test_links_are_relative_to_their_file(found: Found) -> None:
    files = {"references/a.md": "[b](b.md) [s](../SKILL.md) [self](a.md)", "references/b.md": "[x](references/a.md)"}
    text = HEAD + "[a](references/a.md) [b](references/b.md)\n"
    assert found(**{"SKILL.md": text, **files}) == ["warning LINK_BROKEN references/b.md:1:5"]


def test_references_are_one_level_deep(found: Found) -> None:
    files = {"references/a.md": "see\n[b](b.md) and [script](run.py)", "references/b.md": "", "references/run.py": ""}
    text = HEAD + "[a](references/a.md)\n"
    assert found(**{"SKILL.md": text, **files}) == ["warning REFERENCE_DEPTH references/a.md:2:5"]
    assert found(**{"SKILL.md": text + "[b](references/b.md)\n", **files}) == []
