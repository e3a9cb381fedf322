"""Where the options of ``serve`` and ``worker`` come from, and the line that ``serve`` prints when it is ready."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.command import run_command

from skillwire.cli import serve
from skillwire.cli.main import cli
from skillwire.cli.output import Output
from skillwire.cli.serve import EventStream, _announce
from skillwire.errors import UsageError
from skillwire.server import app

FILE = '[serve]\nfolders = ["skills"]\nhost = "192.0.2.1"\nport = 1\nlog_format = "json"\npoll_seconds = 3\n'


def command_of(name):
    command = cli.get_command(cli.make_context("skillwire", [], resilient_parsing=True), name)
    assert command
    return command


@pytest.fixture
def parameters(tmp_path):
    """Return the function that gives the parameters of a command called with these arguments beside a file."""
    file = tmp_path / "server.toml"
    file.write_text(FILE)

    def given(name, *arguments, config=True):
        options = ["--config", str(file)] if config else []
        return command_of(name).make_context(name, [*options, *arguments]).params

    return given


def test_an_option_overrides_the_environment_which_overrides_the_file(parameters, tmp_path, monkeypatch):
    found = parameters("serve")
    assert (found["folders"], found["host"], found["port"]) == ((str(tmp_path / "skills"),), "192.0.2.1", 1)
    assert (found["log_format"], found["poll"], found["publisher"]) == ("json", 3.0, "local")
    monkeypatch.setenv("SKILLWIRE_SERVE_PORT", "2")
    monkeypatch.setenv("SKILLWIRE_SERVE_FOLDERS", "/a:/b")
    monkeypatch.setenv("SKILLWIRE_SERVE_PUBLISHER", "acme")
    found = parameters("serve", "--host", "192.0.2.2")
    assert (found["folders"], found["host"], found["port"]) == (("/a", "/b"), "192.0.2.2", 2)
    assert (found["log_format"], found["publisher"]) == ("json", "acme")
    assert parameters("serve", "--port", "3")["port"] == 3


def test_the_file_can_be_named_by_the_environment(parameters, tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_SERVE_CONFIG", str(tmp_path / "server.toml"))
    assert parameters("serve", config=False)["port"] == 1


def test_an_empty_variable_sets_nothing(parameters, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_SERVE_PORT", "")
    monkeypatch.setenv("SKILLWIRE_SERVE_LAN", "")
    assert (parameters("serve")["port"], parameters("serve")["lan"]) == (1, False)


def test_a_wrong_file_is_an_error_of_the_command(parameters, tmp_path):
    (tmp_path / "server.toml").write_text("[serve]\nport = 'a'\n")
    with pytest.raises(UsageError, match="port must be a whole number"):
        parameters("serve")


@pytest.mark.parametrize("name", ["serve", "worker"])
def test_each_parameter_has_a_variable(name):
    for parameter in command_of(name).params:
        if parameter.name not in {"as_json", "quiet"}:
            assert parameter.envvar == f"SKILLWIRE_{name.upper()}_{parameter.name.upper()}"


def test_worker_reads_its_own_variables(parameters, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_WORKER_WORKERS", "3")
    monkeypatch.setenv("SKILLWIRE_SERVE_WORKERS", "4")
    assert parameters("worker")["workers"] == 3


@pytest.mark.parametrize(("arguments", "number"), [((), 8), (("--workers", "3"), 3)])
def test_a_worker_runs_what_the_file_leaves_to_workers(arguments, number, tmp_path, monkeypatch):
    (tmp_path / "server.toml").write_text("[executions]\nconcurrency = 0\n")
    made = []

    def make_worker(configuration, _):
        made.append(configuration.executions.concurrency)
        return SimpleNamespace(run=lambda *, on_ready: on_ready())

    monkeypatch.setattr(app, "make_worker", make_worker)
    assert run_command("worker", "--config", str(tmp_path / "server.toml"), *arguments).code == 0
    assert made == [number]


def test_a_misspelt_variable_is_reported_with_the_likely_one(capsys):
    output = Output()
    serve.command.warn_of_variables(output, {"SKILLWIRE_SERVE_PROT": "1", "SKILLWIRE_SERVE_PORT": "2", "PORT": "3"})
    shown = capsys.readouterr().err
    assert "SKILLWIRE_SERVE_PROT" in shown
    assert "Did you mean SKILLWIRE_SERVE_PORT?" in shown
    assert shown.count("no variable") == 1


def told_at_start(skills, *, registry=False, folders=()):
    """The first line of a server with these skills, none of them public."""
    site, everything = SimpleNamespace(names=[]), SimpleNamespace(skills=skills)
    revision: Any = SimpleNamespace(site=site, everything=everything, broken=[], skills=0)
    lines: list[str] = []
    output: Any = SimpleNamespace(
        line=lambda *parts: lines.append("".join(str(getattr(one, "text", one)) for one in parts))
    )
    events = EventStream(shown=False)
    _announce(
        output, events, "http://a", None, revision,
        registry=registry, folders=folders, announced=(), no_workers=False, exposure=None,
    )  # fmt: skip
    return lines[0]


@pytest.mark.parametrize(("is_registry", "form"), [(True, "ann/notes"), (False, "notes")])
def test_the_skill_is_named_in_a_form_that_opens_it(is_registry, form):
    skills = {"notes": SimpleNamespace(name="notes", publisher="ann", action=None)}
    assert told_at_start(skills, registry=is_registry).endswith(f"skillwire token create NAME --skill {form}")


def test_a_folder_without_skills_gets_the_command_that_creates_one_in_it():
    assert told_at_start({}, folders=["my skills"]).endswith("create one: skillwire init NAME --dir 'my skills'")
