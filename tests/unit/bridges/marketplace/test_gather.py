"""Skills are taken from where a marketplace in a folder says, and from nowhere else."""

import json
import os
from pathlib import Path

import pytest
from tests.support.publishing import write_skill

from skillwire import limits
from skillwire.bridges.marketplace.gather import gather
from skillwire.errors import ValidationError


def write(root: Path, *plugins: object, **more: object) -> Path:
    path = root / ".claude-plugin" / "marketplace.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"name": "shop", "owner": {"name": "Me"}, "plugins": list(plugins), **more}))
    return root


def taken(root: Path) -> dict[str, str]:
    return {name: os.path.relpath(skill.place, root) for name, skill in gather(root).skills.items()}


def codes(root: Path) -> list[str]:
    return [finding.code for finding in gather(root).findings]


def test_listed_skills_and_nothing_beside_them(tmp_path):
    for name in ("a", "b", "c"):
        write_skill(tmp_path / "skills", name, {"scripts/x.sh": "#!/bin/sh\n"})
    write(tmp_path, {"name": "some", "source": "./", "strict": False, "skills": ["./skills/a", "./skills/b"]})
    assert taken(tmp_path) == {"a": "skills/a", "b": "skills/b"}
    assert {file.path for file in gather(tmp_path).skills["a"].files} == {"SKILL.md", "scripts/x.sh"}


def test_a_plugin_has_its_skills_folder_and_what_its_manifest_and_its_entry_add(tmp_path):
    plugin = tmp_path / "plugins/p"
    write_skill(plugin / "skills", "usual")
    write_skill(plugin / "more", "own")
    write_skill(plugin / "entry", "added")
    (plugin / ".claude-plugin").mkdir()
    (plugin / ".claude-plugin/plugin.json").write_text('{"name": "p", "skills": "./more/"}')
    write(tmp_path, {"name": "p", "source": "./plugins/p", "skills": "./entry/added"})
    assert taken(tmp_path) == {
        "usual": "plugins/p/skills/usual",
        "own": "plugins/p/more/own",
        "added": "plugins/p/entry/added",
    }


def test_a_plugin_without_a_marketplace_and_one_that_is_a_skill(tmp_path):
    write_skill(tmp_path / "repo" / "skills", "a")
    assert taken(tmp_path / "repo") == {"a": "skills/a"}
    assert taken(write_skill(tmp_path, "alone")) == {"alone": "."}
    with pytest.raises(ValidationError, match="MARKETPLACE_FORM"):
        gather(tmp_path)


def test_a_skill_that_two_plugins_list_is_taken_once(tmp_path):
    write_skill(tmp_path / "skills", "a")
    write(tmp_path, *({"name": name, "source": "./", "skills": ["./skills/a"]} for name in ("one", "two")))
    assert taken(tmp_path) == {"a": "skills/a"}
    assert codes(tmp_path) == []


def test_two_skills_of_one_name_are_told_and_the_first_is_taken(tmp_path):
    write_skill(tmp_path / "p/skills", "a")
    write_skill(tmp_path / "q/skills", "a", body="Do something else.\n")
    write(tmp_path, {"name": "p", "source": "./p"}, {"name": "q", "source": "./q"})
    assert taken(tmp_path) == {"a": "p/skills/a"}
    assert codes(tmp_path) == ["SKILL_CONFLICT"]


def test_a_skill_gets_the_name_that_its_frontmatter_says(tmp_path):
    write_skill(tmp_path / "skills", "right-name").rename(tmp_path / "skills/Other Folder")
    write(tmp_path, {"name": "p", "source": "./"})
    assert list(taken(tmp_path)) == ["right-name"]


def test_what_is_elsewhere_empty_or_broken_is_told(tmp_path):
    (tmp_path / "empty").mkdir()
    write_skill(tmp_path / "bad/skills", "broken", {"SKILL.md": "no frontmatter"})
    write(
        tmp_path,
        {"name": "git", "source": {"source": "github", "repo": "a/b"}},
        {"name": "empty", "source": "./empty"},
        {"name": "gone", "source": "./gone"},
        {"name": "bad", "source": "./bad"},
    )
    assert taken(tmp_path) == {}
    assert codes(tmp_path) == ["PLUGIN_ELSEWHERE", "PLUGIN_WITHOUT_SKILLS", "PLUGIN_FORM", "FRONTMATTER"]
    assert "git clone --depth 1 https://github.com/a/b" in gather(tmp_path).findings[0].fix


class TestHostileFolders:
    @pytest.fixture
    def outside(self, tmp_path):
        return write_skill(tmp_path / "outside", "secret", {"key.txt": "hidden"})

    def test_no_link_leads_to_a_skill_outside(self, tmp_path, outside):
        root = tmp_path / "shop"
        (root / "skills").mkdir(parents=True)
        (root / "skills/secret").symlink_to(outside)
        (root / "linked").symlink_to(outside.parent)
        write(
            root,
            {"name": "a", "source": "./"},
            {"name": "b", "source": "./linked"},
            {"name": "c", "source": "./", "skills": ["./skills/secret"]},
        )
        assert taken(root) == {}

    def test_no_link_within_a_skill_leads_out_of_it(self, tmp_path, outside):
        root = tmp_path / "shop"
        folder = write_skill(root / "skills", "a")
        (folder / "key.txt").symlink_to(outside / "key.txt")
        write(root, {"name": "a", "source": "./"})
        assert all(file.path != "key.txt" for skill in gather(root).skills.values() for file in skill.files)

    def test_a_link_to_another_place_of_the_marketplace_is_followed(self, tmp_path):
        root = tmp_path / "shop"
        folder = write_skill(root / "shared", "a")
        (root / "p/skills").mkdir(parents=True)
        (root / "p/skills/a").symlink_to(folder)
        write(root, {"name": "p", "source": "./p"})
        assert taken(root) == {"a": "p/skills/a"}

    def test_a_manifest_that_is_a_link_to_the_outside_is_not_read(self, tmp_path):
        root = tmp_path / "shop"
        write_skill(root / "more", "a")
        (tmp_path / "outside.json").write_text('{"name": "p", "skills": ["./more/a"]}')
        (root / ".claude-plugin").mkdir()
        (root / ".claude-plugin/plugin.json").symlink_to(tmp_path / "outside.json")
        write(root, {"name": "p", "source": "./"})
        assert taken(root) == {}

    def test_skills_are_bounded(self, tmp_path, monkeypatch):
        monkeypatch.setattr(limits, "MARKETPLACE_SKILLS", 2)
        for name in "abc":
            write_skill(tmp_path / "skills", name)
        write(tmp_path, {"name": "p", "source": "./"})
        assert list(taken(tmp_path)) == ["a", "b"]
        assert codes(tmp_path) == ["LIMIT_ENTRIES"]
