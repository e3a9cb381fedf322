"""Two skills that would share an identifier are named together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.folder.identify import Named, find_collisions, identify
from skillwire.folder.load import load_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def named(path: Path) -> Named:
    folder = load_folder(path)
    return Named(path, folder.name, identify(folder, "example-corp"))


def test_skills_that_share_an_identifier(write: Callable[..., Path]) -> None:
    skills = [
        named(write("a")),
        named(write("group/a")),
        named(write("b", **{"skill.toml": 'id = "example-corp/a"\n'})),
        named(write("c", **{"skill.toml": 'skill_id = "a"\n'})),
        named(write("d-e")),
        named(write("f", **{"skill.toml": 'name = "example.corp.d.e"\n'})),
        named(write("g")),
    ]
    findings = find_collisions(skills)
    assert [(finding.code, finding.level) for finding in findings] == [("IDENTIFIER_COLLISION", "error")] * 4
    protocols = ["Agent Skills Discovery", "Skill Sharing", "Skill Discovery", "Skills Protocol"]
    assert [finding.message.split(" has ")[0] for finding in findings] == protocols
    for finding, (first, second) in zip(findings, [(0, 1), (0, 2), (0, 3), (4, 5)], strict=True):
        assert str(skills[first].path) in finding.message
        assert finding.place.source == f"{skills[second].path}/SKILL.md"


def test_different_skills_do_not_collide(write: Callable[..., Path]) -> None:
    assert find_collisions(named(write(name)) for name in ("a", "b", "a-b")) == []
