"""``skillwire config``: which place says what, and what it hides; a secret is never among it."""

import json

import pytest

from skillwire.cli.main import run
from skillwire.resolver.settings import SETTINGS


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Return the project's settings file and the user's; the current folder is below the project."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    project, user = tmp_path / "project", tmp_path / "home" / "config"
    (project / "below").mkdir(parents=True)
    (project / ".git").mkdir()
    user.mkdir(parents=True)
    monkeypatch.chdir(project / "below")
    return project / "skillwire.toml", user / "skillwire.toml"


def _shown(capsys, *arguments):
    assert run(["config", "show", *arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "skillwire/config-show/1"
    return {row["setting"]: row for row in document["settings"]}


def test_each_setting_says_where_it_comes_from_and_what_it_hides(files, capsys, monkeypatch):
    project, user = files
    project.write_text('# ours\nsources = ["a.example"]\n\ninstall = "copy"\n')
    user.write_text('sources = ["b.example", "c.example"]\n')
    monkeypatch.setenv("SKILLWIRE_INSTALL", "link")
    rows = _shown(capsys)
    assert list(rows) == list(SETTINGS)
    assert rows["install"]["from"] == "SKILLWIRE_INSTALL"
    assert rows["install"]["hides"][0] == {"value": "copy", "from": f"{project}:4"}
    assert rows["sources"]["value"] == ["a.example"]
    assert rows["sources"]["from"] == f"{project}:2"
    assert rows["sources"]["hides"] == [
        {"value": ["b.example", "c.example"], "from": f"{user}:1"},
        {"value": [], "from": "default"},
    ]
    assert rows["offline"] == {"setting": "offline", "value": False, "from": "default", "hides": []}


def test_the_origin_is_shown_when_it_is_asked_for(files, capsys):
    project, user = files
    project.write_text("offline = true\n")
    user.write_text("\noffline = false\n")
    assert run(["config", "show", "offline"]) == 0
    assert capsys.readouterr().out == "offline  true\n"
    assert run(["config", "show", "offline", "--origin"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["offline", "true", f"{project}:1"],
        ["overrides", "false", f"{user}:2"],
    ]


@pytest.mark.usefixtures("files")
def test_credentials_are_named_by_origin_and_place_and_never_shown(capsys, monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine private.example login me password hush-hush\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("SKILLWIRE_TOKENS", "other.example=s3cret lonely-t0ken")
    assert run(["config", "show", "--origin"]) == 0
    text = capsys.readouterr().out
    assert run(["config", "show", "--json"]) == 0
    document = capsys.readouterr().out
    assert json.loads(document)["credentials"] == [
        {"origin": "https://other.example", "from": "SKILLWIRE_TOKENS"},
        {"origin": "private.example", "from": str(netrc)},
    ]
    for secret in ("hush", "s3cret", "t0ken"):
        assert secret not in text + document


def test_a_file_that_cannot_be_used_is_named_with_its_line(files, capsys):
    project, _ = files
    project.write_text('\ninstal = "copy"\n')
    assert run(["config", "show"]) == 2
    said = capsys.readouterr().err
    assert f"--> {project}:2:1\n" in said
    assert "fix: Did you mean install?" in said
    project.write_text('allow = ["10.0.0.0/8"]\n')
    assert run(["config", "show"]) == 2
    assert "a project's file cannot set allow" in capsys.readouterr().err


@pytest.mark.usefixtures("files")
def test_an_unknown_setting_is_answered_with_the_closest(capsys):
    assert run(["config", "show", "trusted-origin"]) == 2
    assert "fix: Did you mean trusted_origins?" in capsys.readouterr().err


def test_the_files_are_printed(files, capsys):
    project, user = files
    assert run(["config", "path"]) == 0
    said = capsys.readouterr()
    assert said.out == f"{user}\n"
    assert said.err == f"{user} does not exist yet\n"
    project.write_text("")
    user.write_text("")
    assert run(["config", "path"]) == 0
    assert capsys.readouterr().out == f"{project}\n{user}\n"
    assert run(["config", "path", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["project"], document["user"], document["user_exists"]) == (str(project), str(user), True)
