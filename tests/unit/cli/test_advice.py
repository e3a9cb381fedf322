"""The fix of an error says what this place has to do with it."""

from __future__ import annotations

import pytest

from skillwire.cli.main import run


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_proxy_that_is_not_used_is_named(capsys, monkeypatch):
    assert run(["show", "127.0.0.1:1/a"]) == 5
    assert "HTTPS_PROXY" not in capsys.readouterr().err
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert run(["show", "127.0.0.1:1/a"]) == 5
    assert "HTTPS_PROXY is set and not used: skillwire connects directly" in capsys.readouterr().err


def test_a_private_source_of_the_project_is_refused_with_the_reason(capsys, project):
    (project / "skillwire.toml").write_text('sources = ["127.0.0.1:1"]\n')
    assert run(["find", "x"]) == 4
    told = capsys.readouterr().err
    assert "fix: The project's skillwire.toml names it, and that may name public addresses only" in told
    assert "SKILLWIRE_ALLOW" in told


def test_a_folder_that_is_not_there_is_told_as_one(capsys, project):
    assert run(["add", "./nope"]) == 3
    told = capsys.readouterr().err
    assert told.startswith("error[SKILL_NOT_FOUND]: the folder does not exist\n  --> ./nope\n")
    assert f"a relative path begins at {project}." in told
    (project / "empty").mkdir()
    assert run(["add", "./empty"]) == 3
    assert "  --> ./empty\n  fix: Name the folder of a skill" in capsys.readouterr().err
