"""Every lint rule is used and documented, and so is every field of the folder's documents."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from tests.support.project_tools import load_tool

from skillwire.folder.frontmatter import FIELDS, parse_skill_md
from skillwire.folder.manifest import Manifest, read_manifest
from skillwire.folder.rules import RULES

PROJECT = Path(__file__).parents[3]
RULES_PAGE = load_tool("generate_docs").lint_rules()
FOLDER_PAGE = (PROJECT / "docs/reference/skill-folder.md").read_text()


@pytest.mark.parametrize("code", RULES)
def test_a_rule_is_documented_as_it_is(code):
    rule = RULES[code]
    section = re.search(rf"^### {code}\n(.*?)(?=^##|\Z)", RULES_PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None
    levels = [level or "–" for level in (rule.level_strict, rule.level_lenient)]  # noqa: RUF001  # the page's sign for none
    assert f"{rule.summary}. **{levels[0]}/{levels[1]}**." in section[1]
    assert f" {rule.cause} **Fix:** {rule.fix}\n" in section[1]
    assert re.search(r"^```\w+\n.+\n```$", section[1], re.MULTILINE | re.DOTALL)


def test_no_rule_is_documented_that_is_not_there():
    assert re.findall(r"^### (\w+)$", RULES_PAGE, re.MULTILINE) == list(RULES)


def test_every_rule_is_used_and_every_use_has_a_rule():
    sources = [path for path in (PROJECT / "src/skillwire").rglob("*.py") if path.name != "rules.py"]
    constants = {code for path in sources for code in re.findall(r'"([A-Z][A-Z0-9_]+)"', path.read_text())}
    assert [code for code in RULES if code not in constants] == []


def test_the_page_describes_every_field_of_skill_md():
    [example] = re.findall(r"^```markdown\n(.*?)^```", FOLDER_PAGE, re.MULTILINE | re.DOTALL)
    assert set(parse_skill_md(example.encode()).fields) == set(FIELDS)
    assert [field for field in FIELDS if f"\n| `{field}` |" not in FOLDER_PAGE] == []


def test_the_page_shows_and_describes_every_field_of_skill_toml():
    [example] = re.findall(r"^```toml\n(.*?)^```", FOLDER_PAGE, re.MULTILINE | re.DOTALL)
    manifest, flaws = read_manifest(example.encode())
    assert (flaws, dict(manifest.unknown)) == ([], {})
    said = {
        field.name for field in fields(Manifest) if getattr(manifest, field.name) != getattr(Manifest(), field.name)
    }
    assert {field.name for field in fields(Manifest)} - said == {"unknown"}
    for key, value in manifest.document.items():
        if isinstance(value, dict):
            assert f"\n| `[{key}" in FOLDER_PAGE
        else:
            assert f"\n| `{key}`" in FOLDER_PAGE
