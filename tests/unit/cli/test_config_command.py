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


def test_a_check_reports_every_problem_with_its_place(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "server.toml"
    file.write_text(
        '[serve]\nfolders = ["absent"]\nport = "a"\n[executions]\nsecrets_file = "absent.env"\nconcurency = 1\n'
        '[oauth2]\nissuer = "https://a.example"\naudience = "a"\nclient_id = "b"\nclient_secret_env = "NOT_SET"\n'
    )
    assert run(["config", "check", "server.toml", "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["file"]) == ("skillwire/config-check/1", "server.toml")
    found = {(one["place"]["source"], one["place"]["line"]): one for one in document["findings"]}
    assert {one["level"] for one in found.values()} == {"error"}
    assert found["server.toml", 6]["fix"] == "Did you mean concurrency?"
    assert set(found) == {
        ("server.toml", 3),
        ("server.toml", 6),
        ("absent", None),
        ("absent.env", None),
        ("server.toml", None),
    }
    assert run(["config", "check", "server.toml"]) == 2
    shown = capsys.readouterr()
    assert shown.out == "server.toml: 5 problems\n"
    assert "error[SERVER_CONFIGURATION]: port must be a whole number from 0 to 65535\n" in shown.err


def test_a_file_without_a_problem_passes_the_check(tmp_path, monkeypatch, capsys):
    (tmp_path / "skills").mkdir()
    (tmp_path / "server.toml").write_text('[serve]\nfolders = ["skills"]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLWIRE_SERVE_CONFIG", "server.toml")
    assert run(["config", "check"]) == 0
    assert capsys.readouterr().out == "server.toml: no problem found\n"


def test_a_secret_that_is_not_set_is_named_by_its_variable(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("NOT_SET", raising=False)
    rows = 'issuer = "https://a.example"\naudience = "a"\nclient_id = "b"\nclient_secret_env = "NOT_SET"\n'
    (tmp_path / "server.toml").write_text(f"[oauth2]\n{rows}wrong = 1\n")
    assert run(["config", "check", str(tmp_path / "server.toml")]) == 2
    shown = capsys.readouterr().err
    assert "the variable NOT_SET is not set" in shown
    assert "Set NOT_SET to" in shown
    assert "config check" not in shown, "it has just been run"


def test_a_check_without_a_file_names_the_variable(monkeypatch, capsys):
    monkeypatch.delenv("SKILLWIRE_SERVE_CONFIG", raising=False)
    assert run(["config", "check"]) == 2
    assert "SKILLWIRE_SERVE_CONFIG" in capsys.readouterr().err


def test_a_file_that_is_no_toml_has_one_problem(tmp_path, capsys):
    (tmp_path / "server.toml").write_text("[serve")
    assert run(["config", "check", str(tmp_path / "server.toml")]) == 2
    assert "error[TOML_SYNTAX]" in capsys.readouterr().err


def test_the_settings_of_a_server_are_shown_with_their_sources(tmp_path, monkeypatch, capsys):
    (tmp_path / "server.toml").write_text('[serve]\nport = 1\nhost = "a"\n[rpc]\nblob_hours = 2\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLWIRE_SERVE_HOST", "192.0.2.1")
    assert run(["config", "serve", "--config", "server.toml", "--lan", "--json"]) == 0
    rows = {row.pop("setting"): row for row in json.loads(capsys.readouterr().out)["settings"]}
    assert rows["serve.port"] == {"value": 1, "from": "server.toml:2"}
    assert rows["serve.host"] == {"value": "192.0.2.1", "from": "SKILLWIRE_SERVE_HOST"}
    assert rows["serve.lan"] == {"value": True, "from": "option"}
    assert rows["serve.publisher"] == {"value": "local", "from": "default"}
    assert rows["rpc.blob_hours"] == {"value": 2, "from": "server.toml:5"}
    monkeypatch.setenv("SKILLWIRE_SERVE_STORE", "postgresql://me:sec/ret@host/name?password=secret&a=b")
    assert run(["config", "serve", "--port", "7"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["serve.port", "7", "option"] in shown
    assert ["serve.store", "postgresql://me:...@host/name?password=...&a=b", "SKILLWIRE_SERVE_STORE"] in shown
    monkeypatch.delenv("SKILLWIRE_SERVE_STORE")
    monkeypatch.setenv("SKILLWIRE_STORE_FILE", "/run/secrets/store")
    for variable, value in (("SKILLWIRE_STORE_FILE", "/run/secrets/store"), ("SKILLWIRE_STORE", "postgresql://b/b")):
        monkeypatch.setenv(variable, value)
        assert run(["config", "serve"]) == 0
        assert ["serve.store", value, variable] in [line.split() for line in capsys.readouterr().out.splitlines()]
