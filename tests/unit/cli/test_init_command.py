"""``skillwire init``: makes a skill that passes, and overwrites nothing."""

import json
from pathlib import Path

import pytest

from skillwire.cli.main import run
from skillwire.folder.load import load_folder


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("options", [[], ["--script"], ["--manifest"], ["--script", "--manifest"]])
def test_a_new_skill_passes_check(capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    assert run(["init", "pdf-forms", *options]) == 0
    said = capsys.readouterr()
    assert said.out == "made pdf-forms  pdf-forms\n"
    assert said.err == "next: fill in pdf-forms/SKILL.md, then: skillwire check pdf-forms\n"
    assert run(["check", "pdf-forms"]) == 0
    checked = capsys.readouterr().out
    assert checked.count("warning[PLACEHOLDER]") == checked.count("[") == 3
    assert checked.endswith("\nchecked pdf-forms: 3 warnings\n")
    assert Path("pdf-forms/scripts/main.py").exists() is ("--script" in options)
    assert Path("pdf-forms/skill.toml").exists() is ("--manifest" in options)


def test_the_version_is_written_once() -> None:
    assert run(["init", "demo", "--manifest", "-q"]) == 0
    texts = [Path("demo", name).read_text() for name in ("SKILL.md", "skill.toml")]
    assert [text.count("version") for text in texts] == [1, 0]
    assert load_folder(Path("demo"), level="strict").version == "0.1.0"


def test_the_script_is_executable_and_the_rest_is_not() -> None:
    assert run(["init", "demo", "--script", "-q"]) == 0
    modes = {path: Path("demo", path).stat().st_mode & 0o111 for path in ("SKILL.md", "scripts/main.py")}
    assert modes["SKILL.md"] == 0
    assert modes["scripts/main.py"] & 0o100


def test_in_another_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "demo", "--dir", "skills/mine", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "schema": "skillwire/init/1",
        "name": "demo",
        "path": "skills/mine/demo",
        "files": ["SKILL.md"],
        "dry_run": False,
        "findings": [],
    }
    assert Path("skills/mine/demo/SKILL.md").exists()


def test_a_dry_run_says_what_would_be_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "demo", "--script", "--dry-run"]) == 0
    assert capsys.readouterr().out == "would make demo  demo: SKILL.md, scripts/main.py\n"
    assert run(["init", "demo", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dry_run"] is True
    assert not Path("demo").exists()


def test_nothing_is_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    Path("demo").mkdir()
    Path("link").symlink_to("nowhere")
    for name in ("demo", "link"):
        assert run(["init", name]) == 6
        assert f"error[FILE_EXISTS]: {name} already exists" in capsys.readouterr().err
    assert list(Path("demo").iterdir()) == []


def test_a_name_that_no_skill_may_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "Not A Name"]) == 1
    assert "error[NAME_FORM]: 'Not A Name' cannot name a skill" in capsys.readouterr().err
    assert list(Path().iterdir()) == []
