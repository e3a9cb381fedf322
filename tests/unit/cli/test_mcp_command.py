"""``mcp install``: only the entry changes, and ``uninstall`` restores each byte."""

import json
import tomllib

import pytest

from skillwire.cli.main import run
from skillwire.cli.mcp import CLIENTS, edited
from skillwire.errors import ConflictError, DecodeError, NotFoundError

ENTRY = {"command": "skillwire", "args": ["mcp", "/home/me/skills"]}
JSON = [
    '{"mcpServers": {}}',
    '{\n  "theme": "dark"\n}\n',
    '{\n\t"mcpServers": {\n\t\t"other": {"command": "x"}\n\t}\n}',
    '{\r\n  "mcpServers": {\r\n    "other": {\r\n      "command": "x"\r\n    }\r\n  },\r\n  "z": 1\r\n}\r\n',
    '{"a":1,"mcpServers":{"other":{"command":"x","args":["}{",",]"]}},"b":"\\u00e9"}',
    '{\n  "mcpServers": {"other": {"command": "x"}}\n}\n',
]
JSONC = [
    '\ufeff// me\n{\n  /* of {them} */\n  "servers": {\n    "other": {"command": "x"}, // the "first"\n  },\n}\n',
    '{\n  "servers": {\n    "other": {"command": "x"} // no comma\n  }\n}\n',
    '{ "inputs": [1, 2,], // twice\n  "servers": {} }',
]
TOML = [
    "",
    'model = "gpt"\n',
    "# mine\n[mcp_servers.other]\ncommand = 'x' # \"it\"\n\n[tui]\ntheme = 'dark'\n",
    'model = "x"\r\n[a]\r\nb = 1\r\n',
]
CASES = [
    *(("claude-code", text) for text in JSON),
    *(("vscode", text) for text in JSONC),
    *(("codex", text) for text in TOML),
]


@pytest.mark.parametrize(("name", "text"), CASES)
def test_an_entry_is_added_and_removed_without_any_other_change(name, text):
    client = CLIENTS[name]
    with_entry = edited(client, text, "skills", ENTRY, "file")
    assert edited(client, with_entry, "skills", ENTRY, "file") == with_entry
    assert edited(client, with_entry, "skills", None, "file") == text
    if name == "claude-code":
        assert json.loads(with_entry)["mcpServers"]["skills"] == ENTRY
    if name == "codex":
        assert tomllib.loads(with_entry)["mcp_servers"]["skills"] == ENTRY


@pytest.mark.parametrize(("name", "text"), CASES)
def test_an_entry_of_ours_is_replaced_in_its_place(name, text):
    client, other = CLIENTS[name], {**ENTRY, "args": ["mcp", "--server", "https://example.com/mcp"]}
    changed = edited(client, edited(client, text, "skills", ENTRY, "file"), "skills", other, "file")
    assert edited(client, changed, "skills", None, "file") == text


@pytest.mark.parametrize(
    ("name", "text", "kind", "said"),
    [
        ("claude-code", "{", DecodeError, "."),
        ("claude-code", "[]", DecodeError, "no JSON object"),
        ("claude-code", '{"a": 1} // no comment', DecodeError, "."),
        ("vscode", '{"servers": {"a": 1, "a": 2}}', DecodeError, "."),
        ("vscode", '{"servers": []}', ConflictError, "no servers by name"),
        ("codex", "[mcp_servers\n", DecodeError, "."),
        ("codex", "mcp_servers = {other = {command = 'x'}}\n", ConflictError, "cannot be edited"),
        ("cursor", '{"mcpServers": {"skills": {"command": "npx"}}}', ConflictError, "did not install"),
    ],
)
def test_what_cannot_be_changed_safely_is_refused(name, text, kind, said):
    with pytest.raises((kind, ConflictError), match=said):
        edited(CLIENTS[name], text, "skills", ENTRY, "file")


def test_only_an_entry_of_ours_is_removed():
    with pytest.raises(NotFoundError):
        edited(CLIENTS["cursor"], "{}", "skills", None, "file")
    with pytest.raises(ConflictError):
        edited(CLIENTS["cursor"], '{"mcpServers": {"skills": {"command": "npx"}}}', "skills", None, "file")


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "skills").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "file"),
    [
        (["--client", "claude-code"], ".mcp.json"),
        (["--client", "claude-code", "--global"], "home/.claude.json"),
        (["--client", "cursor"], ".cursor/mcp.json"),
        (["--client", "vscode"], ".vscode/mcp.json"),
        (["--client", "codex"], "home/.codex/config.toml"),
    ],
)
def test_each_client_has_its_file_which_undo_removes(project, options, file, capsys):
    assert run(["mcp", "install", "skills", *options, "--dry-run"]) == 0
    assert f'"{project}/skills"' in capsys.readouterr().out
    assert not (project / file).exists()
    assert run(["mcp", "install", "skills", *options]) == 0
    assert "undo it: skillwire mcp uninstall" in capsys.readouterr().err
    assert "skillwire" in (project / file).read_text()
    assert run(["mcp", "uninstall", *options]) == 0
    assert not (project / file).exists()
    left = {path.name for path in project.rglob("*")}
    assert left <= {"skills", "home"}, "no empty folder stays"


def test_a_folder_with_other_files_stays(project):
    for options in (["install", "skills"], ["uninstall"]):
        assert run(["mcp", *options, "--client", "vscode"]) == 0
        (project / ".vscode" / "settings.json").touch()
    assert [path.name for path in (project / ".vscode").iterdir()] == ["settings.json"]


@pytest.mark.parametrize(
    ("options", "undo"),
    [
        (["--client", "vscode"], "--client vscode --name skills"),
        (["--client", "codex", "--name", "team"], "--client codex --name team"),
        (["--client", "cursor", "--name", "team", "-g"], "--client cursor --name team --global"),
    ],
)
@pytest.mark.usefixtures("project")
def test_the_undo_names_the_entry_and_a_second_installation_replaces_it(options, undo, capsys):
    assert run(["mcp", "install", "skills", *options]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == f"undo it: skillwire mcp uninstall {undo}"
    assert run(["mcp", "install", "--server", "example.com", *options]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[-2].startswith("replaced: ")
    assert said[-1] == f"remove it: skillwire mcp uninstall {undo}"


@pytest.mark.usefixtures("project")
def test_folders_without_the_extra_are_installed_with_a_warning_that_names_it(monkeypatch, capsys):
    monkeypatch.setattr("skillwire.bridges.mcp.has_sdk", lambda: False)
    assert run(["mcp", "install", "skills", "--client", "vscode"]) == 0
    said = capsys.readouterr().err
    assert "warning[MCP_MISSING]" in said
    assert "skillwire[mcp]" in said
    assert run(["mcp", "install", "--server", "example.com", "--client", "vscode"]) == 0
    assert "MCP_MISSING" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("prefix", "on_path", "written"),
    [
        ("env", ["env/bin"], "env/bin/skillwire"),
        ("env", [], "env/bin/skillwire"),
        ("env", ["env/bin", "linked"], None),
        ("env", ["other"], "env/bin/skillwire"),
        ("usr", ["env/bin"], None),
    ],
)
def test_the_command_is_a_path_where_a_host_finds_another_program_or_none(
    project, monkeypatch, prefix, on_path, written
):
    for folder in ("env/bin", "other", "linked"):
        (project / folder).mkdir(parents=True)
    for folder in ("env/bin", "other"):
        (project / folder / "skillwire").touch(0o755)
    (project / "linked" / "skillwire").symlink_to(project / "env/bin/skillwire")
    monkeypatch.setattr("sys.executable", str(project / "env/bin/python"))
    monkeypatch.setattr("sys.prefix", str(project / prefix))
    monkeypatch.setattr("sys.base_prefix", str(project / "usr"))
    monkeypatch.setenv("PATH", ":".join(str(project / one) for one in on_path))
    assert run(["mcp", "install", "skills", "--client", "claude-code"]) == 0
    entry = json.loads((project / ".mcp.json").read_text())["mcpServers"]["skills"]
    assert entry["command"] == (str(project / written) if written else "skillwire")
    assert run(["mcp", "uninstall", "--client", "claude-code"]) == 0


def test_mode_and_link_of_a_file_stay(project):
    (project / "dotfiles").write_text("{}\n")
    (project / "dotfiles").chmod(0o660)
    (project / ".mcp.json").symlink_to("dotfiles")
    assert run(["mcp", "install", "skills", "--client", "claude-code"]) == 0
    assert (project / ".mcp.json").is_symlink()
    assert (project / "dotfiles").stat().st_mode & 0o777 == 0o660


@pytest.mark.parametrize(
    ("options", "written"),
    [
        (["--client", "claude-code"], '"env": {\n        "API_KEY": "${API_KEY}"'),
        (["--client", "cursor"], '"API_KEY": "${env:API_KEY}"'),
        (["--client", "codex"], 'env_vars = ["API_KEY"]'),
    ],
)
def test_a_variable_is_passed_on_by_its_name(project, options, written, monkeypatch):
    monkeypatch.setenv("API_KEY", "sw_secret")
    assert run(["mcp", "install", "--server", "example.com", *options, "--env", "API_KEY"]) == 0
    file = next(path for path in project.rglob("*") if path.suffix in {".json", ".toml"})
    assert written in file.read_text()
    assert '"https://example.com/mcp"' in file.read_text()
    assert "sw_secret" not in file.read_text()
    assert run(["mcp", "install", "--server", "example.com", *options, "--env", "API_KEY=sw_secret"]) == 2


@pytest.mark.parametrize("command", ["mcp install --client cursor", "mcp"])
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("https://skills.example.com", "--server https://skills.example.com."),
        ("skills.example.com", "--server URL."),
        ("", "--server URL."),
    ],
)
def test_what_is_no_folder_leads_to_the_option_for_servers(project, command, given, told, capsys):
    assert run([*command.split(), *given.split()]) == 2
    assert f"skillwire {command.removesuffix(' --client cursor')} {told}" in capsys.readouterr().err
    assert not (project / ".cursor").exists()


def test_an_option_of_folders_is_not_written_for_a_server(project, capsys):
    assert run(["mcp", "install", "--server", "example.com", "--client", "cursor", "--execute"]) == 2
    assert "--execute applies to folders" in capsys.readouterr().err
    assert not (project / ".cursor").exists()


def test_a_folder_whose_path_is_not_utf_8_is_refused(project, capsys):
    (project / "caf\udce9").mkdir()
    assert run(["mcp", "install", "caf\udce9", "--client", "claude-code"]) == 2
    assert "is not UTF-8" in capsys.readouterr().err
    assert not (project / ".mcp.json").exists()
