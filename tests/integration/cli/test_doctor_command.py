"""``skillwire doctor``: its exit code follows what it finds, on a terminal as in a document."""

import json

import pytest
from tests.support.eventually import PATIENCE

from skillwire.adapters.http.sync import call_within
from skillwire.cli.main import run


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch):
    """Give every check the time of a busy machine: the first one imports all packages meanwhile."""
    monkeypatch.setattr("skillwire.adapters.doctor.call_within", lambda look, _: call_within(look, PATIENCE))


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def test_all_is_well(project, capsys):
    assert project
    assert run(["doctor", "--offline"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Python\n  ok       Python 3.")
    assert "\n\nInstalled skills\n  ok       no skills are installed" in said
    assert said.endswith("\n\nno problems found\n")
    assert "\x1b" not in said


def test_a_warning_is_told_and_is_no_failure(project, capsys, monkeypatch):
    assert project
    monkeypatch.setenv("SKILLWIRE_ALLOW", "0.0.0.0/0")
    assert run(["doctor", "--quiet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Network", "  warning  allow opens 0.0.0.0/0"]
    assert lines[2].startswith("           why  ")
    assert lines[3].startswith("           fix  ")
    assert lines[-1] == "1 warning"


def test_a_problem_fails_in_every_form(project, capsys):
    (project / "skillwire.toml").write_text('bad\x1b = "x"\n')
    assert run(["doctor", "-q"]) == 1
    said = capsys.readouterr().out
    assert "[TOML_SYNTAX]" in said
    assert said.endswith("\n1 problem\n")
    assert run(["doctor", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "skillwire/doctor/1"
    assert document["counts"]["problem"] == 1
    (row,) = [row for row in document["checks"] if row["severity"] == "problem"]
    assert row["section"] == "Settings"
    assert row["why"]
    assert row["fix"]


def test_the_users_own_skills_are_another_place(project, capsys):
    (project / "skills.lock").write_text("{")
    assert run(["doctor", "-q"]) == 1
    assert "[JSON_SYNTAX]" in capsys.readouterr().out
    assert run(["doctor", "-q", "--global"]) == 0
    assert capsys.readouterr().out == "no problems found\n"
