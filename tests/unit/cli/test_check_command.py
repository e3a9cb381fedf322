"""``skillwire check``: what it takes, what it prints, how it ends."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from skillwire.cli.main import run

GOOD = "---\nname: {name}\ndescription: d\nmetadata:\n  version: '1.0.0'\n---\n# B\n"
BROKEN = "---\nname: other\ndescription: d\n---\n# B\n"


@pytest.fixture
def skill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str = GOOD) -> Path:
        folder = Path(name)
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(text.format(name=folder.name))
        return folder

    return write


def test_a_good_skill(skill: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    skill("a")
    assert run(["check", "a"]) == 0
    assert run(["check", "a/SKILL.md"]) == 0
    assert capsys.readouterr().out == "checked a: no findings\n" * 2


def test_a_broken_skill(skill: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    skill("b", BROKEN)
    assert run(["check", "b"]) == 1
    printed = capsys.readouterr().out
    assert "error[NAME_FOLDER]: the skill is named 'other', its folder 'b'\n  --> b/SKILL.md:2:1\n" in printed
    assert printed.endswith("\nchecked b: 1 error, 1 warning\n")
    assert "\x1b" not in printed


def test_the_level(skill: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    skill("b", BROKEN)
    assert run(["check", "--level", "lenient", "b"]) == 0
    assert capsys.readouterr().out.startswith("warning[NAME_FOLDER]")


def test_quiet_leaves_the_errors(skill: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    skill("b", BROKEN)
    assert run(["check", "-q", "b"]) == 1
    assert capsys.readouterr().out.endswith("checked b: 1 error\n")


def test_many_places_are_each_checked_once(skill: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("skills/a", "skills/b", "more/c"):
        skill(name)
    index = Path("site/.well-known/agent-skills/index.json")
    index.parent.mkdir(parents=True)
    index.write_text('{"$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json", "skills": []}')
    assert run(["check", "skills", "skills/a", "more", "site", str(index)]) == 0
    assert capsys.readouterr().out == "checked 3 skills and 1 index: no findings\n"


def test_skills_that_collide(skill: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    skill("one/a")
    skill("two/a")
    assert run(["check", "."]) == 1
    assert "error[IDENTIFIER_COLLISION]: Agent Skills Discovery has one 'a': one/a and two/a" in capsys.readouterr().out


def test_json(skill: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    skill("b", BROKEN)
    for arguments in (["--json"], ["--format", "json"]):
        assert run(["check", "b", *arguments]) == 1
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == "skillwire/check/1"
        assert (document["checked"], document["errors"], document["warnings"]) == (["b"], 1, 1)
        assert [finding["code"] for finding in document["findings"]] == ["VERSION_MISSING", "NAME_FOLDER"]


@pytest.mark.parametrize(("form", "begins"), [("text", "warning[VERSION_MISSING]"), ("json", "{"), ("sarif", "{")])
def test_a_report_in_a_file(
    skill: Callable[..., Path], capsys: pytest.CaptureFixture[str], form: str, begins: str
) -> None:
    skill("b", BROKEN)
    assert run(["check", "b", "--format", form, "--output", "out/report"]) == 1
    assert capsys.readouterr().out == "checked b: 1 error, 1 warning\n"
    report = Path("out/report").read_text()
    assert report.startswith(begins)
    if form == "sarif":
        assert json.loads(report)["runs"][0]["results"][1]["ruleId"] == "NAME_FOLDER"


def test_what_is_no_skill(
    skill: Callable[..., Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    skill("a")
    Path("empty").mkdir()
    Path("notes.txt").write_text("x")
    assert run(["check", "empty"]) == 3
    assert "error[SKILL_NOT_FOUND]" in capsys.readouterr().err
    assert run(["check", "notes.txt"]) == 2
    assert "error[USAGE]: notes.txt is neither a SKILL.md nor an index.json" in capsys.readouterr().err
    assert run(["check", "absent"]) == 2
    monkeypatch.chdir("empty")
    assert run(["check"]) == 3  # of the current folder


def test_errors_come_first_and_many_warnings_are_counted(
    skill: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(25):
        skill(f"skills/a{number}", "---\nname: {name}\ndescription: d\n---\n# B\n")
    skill("skills/b", BROKEN)
    assert run(["check", "skills"]) == 1
    told = capsys.readouterr()
    assert told.out.startswith("error[NAME_FOLDER]")
    assert told.out.count("warning[VERSION_MISSING]") == 20
    assert "and 6 more: 6 VERSION_MISSING; --json lists them all\nchecked 26 skills: 1 error, 26 war" in told.out
    assert told.err == "read more: skillwire explain NAME_FOLDER VERSION_MISSING\n"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('url = "/healthz"', "error[FIELD]: url is for an executor of kind http; code of the folder has a function"),
        ("interval = 1", "error[FIELD]: interval is a whole number from 5 to 3600"),
        ('export = "look"', "error[ENTRYPOINT_BROKEN]: main.py has no function look"),
        ("every = 5", "error[MANIFEST_UNKNOWN]: there is no field 'health.every'"),
    ],
)
def test_what_is_wrong_with_health_is_said_with_its_place_and_fix(
    skill: Callable[..., Path], capsys: pytest.CaptureFixture[str], said: str, told: str
) -> None:
    folder = skill("a")
    (folder / "main.py").write_text("def main(args): ...\ndef health(args): ...\n")
    (folder / "skill.toml").write_text(f'[runtime]\nentrypoint = "main.py"\n[health]\n{said}\n')
    assert run(["check", "a"]) == 1
    printed = capsys.readouterr().out
    assert f"{told}\n  --> a/skill.toml:4:1\n   |\n 4 | {said}\n" in printed
    assert "\n   = fix: " in printed


BOTH = "---\nname: other\ndescription: d\nmetadata:\n  version: 1.0\n---\n# B\nname: other\n"
FIXED = '---\nname: {name}\ndescription: d\nmetadata:\n  version: "1.0.0"\n---\n# B\nname: other\n'


def test_fix_repairs_each_skill_once(skill: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    folders = [skill(name, BOTH) for name in ("skills/a", "skills/b")]
    script = folders[0] / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o640)
    (folders[1] / "run.sh").write_bytes(b"#!/bin/sh\r\n")
    assert run(["check", "--fix", "--yes", "skills"]) == 0
    printed = capsys.readouterr()
    assert "skills/b/SKILL.md  changed  +2 -2\n" in printed.err
    assert "  - name: other\n  + name: b\n" in printed.err
    assert "skills/a/run.sh  changed  It is now executable.\n" in printed.err
    assert "skills/b/run.sh  changed  +1 -1  Only its line ends differ.  It is now executable.\n" in printed.err
    assert "NAME_FOLDER" not in printed.out
    assert [(folder / "SKILL.md").read_text() for folder in folders] == [FIXED.format(name=name) for name in "ab"]
    assert script.stat().st_mode & 0o777 == 0o750
    times = [(folder / "SKILL.md").stat().st_ino for folder in folders]
    assert run(["check", "--fix", "--yes", "skills"]) == 0
    assert "nothing to repair\n" in capsys.readouterr().err
    assert [(folder / "SKILL.md").stat().st_ino for folder in folders] == times
    assert sorted(path.name for path in folders[0].iterdir()) == ["SKILL.md", "run.sh"]


def test_fix_repairs_what_a_text_that_is_no_yaml_hid(
    skill: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = skill("a", BOTH.replace("description: d", "description: d: e"))
    assert run(["check", "--fix", "--yes", "a"]) == 0
    assert (folder / "SKILL.md").read_text() == FIXED.format(name="a").replace("description: d", 'description: "d: e"')
    assert "nothing to repair" not in capsys.readouterr().err


def test_fix_changes_nothing_without_consent(
    skill: Callable[..., Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = skill("a", BOTH)
    assert run(["check", "--fix", "a"]) == 2
    assert "there is no terminal\n  fix: Add --yes.\n" in capsys.readouterr().err
    asked: list[str] = []
    monkeypatch.setattr("skillwire.cli.check.can_ask", lambda _: True)
    monkeypatch.setattr("skillwire.cli.check.confirm", asked.append)
    assert run(["check", "--fix", "a"]) == 1
    assert asked == ["Change 1 file?"]
    assert "error[NAME_FOLDER]" in capsys.readouterr().out
    assert (folder / "SKILL.md").read_text() == BOTH
    assert run(["check", "--yes", "a"]) == 2


def test_fix_with_json_prints_the_report_alone(skill: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    skill("a", BOTH)
    assert run(["check", "--fix", "--yes", "--json", "a"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["errors"] == 0
    assert printed.err == ""


def test_changed_files_are_checked_with_their_skills(
    skill: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = skill("skills/a")
    inner = folder / "assets" / "b"
    inner.mkdir(parents=True)
    for path in (inner / "SKILL.md", folder / "notes.md", Path("README.md")):
        path.write_text(GOOD.format(name="b"))
    skill("skills/untouched", BROKEN)
    assert run(["check", "--changed", "--json", "skills/a/notes.md", "skills/a/assets/b/SKILL.md", "README.md"]) == 0
    assert json.loads(capsys.readouterr().out)["checked"] == ["skills/a"]
    assert run(["check", "--changed", "README.md"]) == 0
    assert run(["check", "--changed", "skills/untouched/SKILL.md", "README.md"]) == 1
    capsys.readouterr()
    assert run(["check", "--changed"]) == 2
    told = capsys.readouterr().err
    assert "error[USAGE]: --changed needs at least one PATH\n  fix: Name the changed files, or" in told
