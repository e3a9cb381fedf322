"""The tutorial, and the session of the README, do what they show, at a terminal, from the first line to the last.

Each box is run where its title says: ``publisher`` or ``project``. A box of another kind is saved under the path in its
title, as a reader saves it.
"""

import shlex
import shutil
from pathlib import Path

import pytest
from tests.interop.peers import find_peer
from tests.support.pages import boxes, check
from tests.support.sides import Sides, shown

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs" / "tutorial" / "index.md"
REGISTRY_PAGE = PAGE.with_name("registry.md")
SKILL = "publisher/skills/standup-notes/SKILL.md"


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Play the whole tutorial; return the sides and, of each command, what was shown and what happened."""
    with Sides(tmp_path_factory.mktemp("tutorial")) as sides:
        yield sides, sides.play(PAGE)


def test_every_command_shows_what_the_page_shows(played):
    check(played[1], 20)


def test_at_its_end_the_project_has_what_was_published(played):
    sides, _ = played
    published = (sides.home / "tutorial" / SKILL).read_text()
    project = sides.home / "tutorial" / "project"
    assert "Name nobody." in published
    for folder in (".agents", ".claude"):
        assert (project / folder / "skills/standup-notes/SKILL.md").read_text() == published
    site = sides.home / "tutorial/publisher/site/.well-known/agent-skills"
    assert (site / "standup-notes/SKILL.md").read_text() == published


def test_a_browser_finds_the_skill_on_the_first_page(played):
    sides, _ = played
    assert b"standup-notes" in sides.get("/")


def test_the_session_of_the_readme_shows_what_happens(tmp_path):
    for side in ("publisher", "project"):
        (tmp_path / side).mkdir()
    shutil.copytree(PROJECT / "examples", tmp_path / "publisher" / "examples")
    with Sides(tmp_path, publisher=tmp_path / "publisher", project=tmp_path / "project") as sides:
        found = boxes(PROJECT / "README.md")
        check([(one, output, sides.run(box.title, one)) for box in found for one, output in shown(box.text)], 9)


@pytest.mark.deep
def test_every_command_of_the_registry_tutorial_shows_what_the_page_shows(tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    calls = "".join(f'{name}@*) shift; exec {shlex.join(find_peer(name))} "$@" ;;\n' for name in ("skills", "clawhub"))
    prepared = "#!/bin/sh\nexport CI=1 DISABLE_TELEMETRY=1\n[ $1 = --yes ] && shift\n"
    (programs / "npx").write_text(f"{prepared}case $1 in\n{calls}esac\n")
    (programs / "npx").chmod(0o755)
    (tmp_path / "home").mkdir()
    with Sides(tmp_path / "home", programs=programs) as sides:
        check(sides.play(REGISTRY_PAGE), 12)
        project = sides.home / "registry/project"
        published = (sides.home / "registry/skills/standup-notes/SKILL.md").read_bytes()
        for folder in (".agents/skills", ".claude/skills", "skills"):
            assert (project / folder / "standup-notes/SKILL.md").read_bytes() == published
