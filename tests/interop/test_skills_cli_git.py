"""The most used installer, ``skills`` of npm, and ours find and install the same skills of one repository."""

import pytest
from tests.interop.test_skills_cli import WITHOUT_QUESTIONS
from tests.interop.trees import trees
from tests.support.git_server import GitServer, Repository, skill_md

pytestmark = pytest.mark.deep
#: Files that make skills; each folder is one row of what both must find.
LAYOUTS = {
    "folders": ["skills/a", "skills/b"],
    "root": [".", "skills/a"],
    "beside": ["a", "b", "skills/c"],
    "deep": ["skills/x/y/a", "skills/x/y/z/b", "skills/c"],
    "inside": ["skills/a", "skills/a/inner"],
    "curated": ["skills/.curated/a", "skills/.experimental/b", "skills/.system/c"],
    "agents": [".claude/skills/a", ".agents/skills/b", ".codex/skills/c", ".github/skills/d"],
    "everywhere": ["x/y/a", "x/y/z/u/b", "docs/c", "x/node_modules/d", "dist/e"],
    "too deep": ["1/2/3/4/a", "1/2/3/4/5/b"],
    "skipped": ["skills/dist/a", "skills/build/x/b", "skills/c"],
    "twice": ["skills/a", ".claude/skills/a", "b/a"],
    "no folder of skills": ["one/a"],
}


def made(folder, paths):
    repository = Repository(folder / "repos/r")
    for path in paths:
        name = path.rpartition("/")[2] if path != "." else "whole"
        prefix = "" if path == "." else f"{path}/"
        repository.write({f"{prefix}SKILL.md": skill_md(name, path), f"{prefix}references/x.md": f"{path}\n"})
    repository.write({"README.md": "x\n", "LICENSE": "x\n"}).commit("v1.0.0")
    return repository


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_install_the_same(workplace, tmp_path, layout):
    repository = made(tmp_path, LAYOUTS[layout])
    with GitServer(repository.folder.parent) as server:
        place = f"{server.url}/r/.git"
        workplace.skills("add", place, *WITHOUT_QUESTIONS, "--skill", "*")
        theirs = trees(workplace.installed)
        for folder in (workplace.installed, workplace.folder / "skills-lock.json"):
            folder.rename(folder.with_suffix(".theirs"))
        workplace.skillwire("add", place, "--all", "--yes", "-a", "codex")
        ours = trees(workplace.installed)
    assert ours == theirs
