"""``skillwire marketplace``: what is written is what was there, and nothing is lost to it."""

import json
from pathlib import Path

import pytest
from tests.support.publishing import write_skill

from skillwire.cli.main import run


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_skill(tmp_path / "shop/skills", "notes", {"scripts/run.sh": "#!/bin/sh\n"})
    (tmp_path / "shop/skills/notes/scripts/run.sh").chmod(0o755)
    write_skill(tmp_path / "shop/skills", "hidden", {"skill.toml": 'access = "private"\n'})


def export(*options: str) -> int:
    return run(["marketplace", "export", "shop/skills", "-o", "shop", *options])


def test_an_export_lists_what_everybody_may_see_and_an_import_gives_it_back(capsys):
    assert export() == 0
    assert "1 skill; 1 not listed: not public" in capsys.readouterr().out
    assert "hidden" not in Path("shop/.claude-plugin/marketplace.json").read_text()
    assert run(["marketplace", "import", "shop", "-o", "mine"]) == 0
    assert sorted(path.name for path in Path("mine").iterdir()) == ["notes"]
    script = Path("mine/notes/scripts/run.sh")
    assert script.read_text() == "#!/bin/sh\n"
    assert script.stat().st_mode & 0o100
    assert run(["check", "mine", "-q"]) == 0


def test_the_document_itself_names_its_marketplace(capsys):
    export("-q")
    capsys.readouterr()
    assert run(["marketplace", "import", "shop/.claude-plugin/marketplace.json", "-o", "mine", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"].endswith("marketplace-import/1")
    assert [(row["name"], row["state"]) for row in document["skills"]] == [("notes", "new")]


def test_nothing_is_replaced_unasked(capsys):
    export("-q")
    write_skill(Path("mine"), "notes", body="Mine.\n")
    assert run(["marketplace", "import", "shop", "-o", "mine"]) == 6
    assert "DESTINATION_EXISTS" in capsys.readouterr().err
    assert "Mine." in Path("mine/notes/SKILL.md").read_text()
    assert run(["marketplace", "import", "shop", "-o", "mine", "--overwrite", "--dry-run"]) == 0
    assert "would replace notes" in capsys.readouterr().out
    assert "Mine." in Path("mine/notes/SKILL.md").read_text()
    assert run(["marketplace", "import", "shop", "-o", "mine", "--overwrite"]) == 0
    assert "Mine." not in Path("mine/notes/SKILL.md").read_text()
    assert run(["marketplace", "import", "shop", "-o", "mine"]) == 0
    assert "unchanged notes" in capsys.readouterr().out
    assert [path.name for path in Path("mine").iterdir()] == ["notes"]


def test_a_document_of_somebody_else_stays(capsys):
    path = Path("shop/.claude-plugin/marketplace.json")
    path.parent.mkdir()
    path.write_text("{}")
    assert export() == 6
    assert path.read_text() == "{}"
    assert export("--force", "--name", "mine", "--owner", "Me") == 0
    assert json.loads(path.read_text())["owner"] == {"name": "Me"}
    assert export("--name", "mine", "--owner", "Me") == 0  # the same again
    capsys.readouterr()


def test_what_an_export_wrote_is_written_anew_until_somebody_edits_it(capsys):
    path = Path("shop/.claude-plugin/marketplace.json")
    assert export() == 0
    write_skill(Path("shop/skills"), "more")
    assert export() == 0
    assert [plugin["name"] for plugin in json.loads(path.read_text())["plugins"]] == ["more", "notes"]
    edited = path.read_text().replace('"more"', '"less"', 1)
    path.write_text(edited)
    assert export() == 6
    assert "error[FILE_EXISTS]" in capsys.readouterr().err
    assert path.read_text() == edited


@pytest.mark.parametrize(
    ("plugin", "fix"),
    [
        ({"source": "./empty"}, "the plugins of this one contain no skills"),
        ({"source": {"source": "github", "repo": "a/b"}}, "Fetch a plugin as described above, and import its folder."),
    ],
)
def test_a_marketplace_without_skills_has_advice_of_its_own(capsys, plugin, fix):
    document = {"name": "bare", "owner": {"name": "A"}, "plugins": [{"name": "p", **plugin}]}
    Path("bare/.claude-plugin").mkdir(parents=True)
    Path("bare/empty/commands").mkdir(parents=True)
    Path("bare/.claude-plugin/marketplace.json").write_text(json.dumps(document))
    assert run(["marketplace", "import", "bare", "-o", "x"]) == 3
    said = capsys.readouterr().err
    assert fix in said
    assert "skillwire which" not in said


def test_a_dry_run_prints_and_writes_nothing(capsys):
    assert export("--dry-run") == 0
    assert json.loads(capsys.readouterr().out)["plugins"]
    assert not Path("shop/.claude-plugin").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (["import", "nowhere", "-o", "x"], "FOLDER_MISSING", 2),
        (["import", "shop/skills/notes/SKILL.md", "-o", "x"], "USAGE", 2),
        (["export", "shop/skills", "-o", "mine"], "USAGE", 2),
        (["export", "shop/skills", "-o", "shop", "--name", "npm"], "MARKETPLACE_NAME", 2),
        (["export", "shop/nothing", "-o", "shop"], "FOLDER_MISSING", 2),
        (["improt"], "USAGE", 2),
    ],
)
def test_what_makes_no_sense_is_said(capsys, arguments, code, status):
    assert run(["marketplace", *arguments]) == status
    assert f"error[{code}]" in capsys.readouterr().err


def test_a_broken_skill_stops_an_export(capsys):
    Path("shop/skills/notes/SKILL.md").write_text("---\nname: other\ndescription: x\n---\n")
    assert export() == 1
    assert "SKILLS_BROKEN" in capsys.readouterr().err
    assert not Path("shop/.claude-plugin").exists()


def test_a_marketplace_at_a_url_is_refused_with_what_to_do(capsys):
    assert run(["marketplace", "import", "https://shop.example/repo", "-o", "x"]) == 2
    assert "Clone its repository, and import that folder." in capsys.readouterr().err
