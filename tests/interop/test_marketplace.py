"""``skills`` of npm, which reads marketplaces as Claude does, takes those that we write, as the plugins they list."""

import re

import pytest
from tests.interop.skill_samples import EXAMPLES, copy_examples
from tests.interop.trees import tree, trees

pytestmark = pytest.mark.deep
NAMES = ("csv-profile", "log-triage")


def test_a_marketplace_of_ours_is_installed_from(workplace):
    shop = workplace.folder / "shop"
    copy_examples(shop / "skills", *NAMES)
    workplace.skillwire("marketplace", "export", shop / "skills", "-o", shop)
    listed = workplace.skills("add", "./shop", "--list")
    assert re.findall(r"^(?:Csv Profile|Log Triage|Other)$", listed, re.MULTILINE) == ["Csv Profile", "Log Triage"]
    workplace.skills("add", "./shop", "-a", "codex", "-y", "--copy", "--skill", "*")
    assert trees(workplace.installed) == {name: tree(EXAMPLES / name) for name in NAMES}


def test_a_built_site_is_one_too(workplace):
    copy_examples(workplace.folder / "skills", *NAMES)
    workplace.skillwire("build", "skills", "-o", "site", "--publisher", "acme", "--bridge", "marketplace")
    workplace.skillwire("marketplace", "import", "site", "-o", "taken")
    assert trees(workplace.folder / "taken") == {name: tree(EXAMPLES / name) for name in NAMES}
    workplace.skills("add", "./site", "-a", "codex", "-y", "--copy", "--skill", NAMES[0])
    assert trees(workplace.installed) == {NAMES[0]: tree(EXAMPLES / NAMES[0])}
