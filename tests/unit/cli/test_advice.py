"""The fix of an error says what this place has to do with it."""

import json
import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from skillwire.cli.advice import SERVER_MODULES, SUGGESTIONS, closest, missing_extra
from skillwire.cli.main import ALIASES, GROUPS, run
from skillwire.version import VERSION


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ('sources = ["127.0.0.1:1"]', ["find", "x"]),
        ('sources = ["127.0.0.1:1", "./no-source"]', ["find", "x"]),
        ('skills = ["127.0.0.1:1/notes"]', ["add"]),
        ('skills = ["http://localhost:1/repository.git"]', ["add"]),
    ],
)
def test_a_private_place_that_the_project_names_is_refused_with_the_reason(capsys, project, settings, words):
    (project / "skillwire.toml").write_text(f"{settings}\n")
    assert run(words) == 4
    told = capsys.readouterr().err
    assert "fix: The project's skillwire.toml names it, and a project file may name only public addresses" in told
    assert re.search(r"name (http://\S+:1) yourself, or add \1 to allow in .*, or to SKILLWIRE_ALLOW\.", told)


def test_the_fix_of_either_refusal_names_the_port(capsys, project, monkeypatch):
    (project / "skillwire.toml").write_text('skills = ["127.0.0.1:1/notes"]\n')
    for code, allow in (("ADDRESS_REFUSED", ""), ("PORT_REFUSED", "127.0.0.1")):
        monkeypatch.setenv("SKILLWIRE_ALLOW", allow)
        assert run(["add"]) == 4
        told = capsys.readouterr().err
        assert f"error[{code}]" in told
        assert "add http://127.0.0.1:1 to allow in your own /" in told


def test_a_folder_that_is_not_there_is_told_as_one(capsys, project):
    assert run(["add", "./nope"]) == 3
    told = capsys.readouterr().err
    assert told.startswith("error[SKILL_NOT_FOUND]: the folder does not exist\n  --> ./nope\n")
    assert f"a relative path begins at {project}." in told
    (project / "empty").mkdir()
    assert run(["add", "./empty"]) == 3
    assert "  --> ./empty\n  fix: Name the folder of a skill" in capsys.readouterr().err


COMMANDS = {name for section in GROUPS.values() for name in section}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("isntall", "skillwire add?"),
        ("uninstall", "skillwire remove?"),
        ("INVOKE", "skillwire call?"),
        ("lst", "skillwire list?"),
        ("verifi", "skillwire verify?"),
        ("lint", "skillwire check?"),
        ("settings", "skillwire config show?"),
    ],
)
def test_a_command_that_does_not_exist_is_answered_with_the_one_that_was_meant(capsys, typed, meant):
    assert run([typed, "whatever"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"error[USAGE]: there is no command '{typed}'\n")
    assert f"  fix: Did you mean {meant}\n" in said.err
    assert said.err.endswith("  docs: skillwire explain USAGE\n")


@pytest.mark.parametrize("typed", ["qqqqqq", "badcmd"])
def test_what_looks_like_nothing_gets_no_wild_guess(capsys, typed):
    assert run([typed]) == 2
    assert "fix: skillwire --help lists the commands." in capsys.readouterr().err


def test_an_option_that_looks_like_nothing_gets_no_wild_guess(capsys):
    assert run(["remove", "--all"]) == 2
    assert "Did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize("typed", ["get", "set"])
def test_who_would_set_a_setting_is_led_to_the_file(capsys, monkeypatch, tmp_path, typed):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    assert run(["config", typed, "sources"]) == 2
    told = capsys.readouterr().err
    assert f"fix: skillwire config show shows the settings; to change one, edit {tmp_path}" in told


def test_a_suggestion_is_no_command_and_leads_to_one():
    assert not SUGGESTIONS.keys() & COMMANDS
    assert {meant.split()[0] for meant in SUGGESTIONS.values()} <= COMMANDS | {"--help", "--version"}


@pytest.mark.parametrize(
    ("arguments", "message", "fix"),
    [
        (["add", "--frozne"], "there is no option --frozne", "Did you mean --frozen?"),
        (["show"], "missing argument 'REF'", "Call it as: skillwire show [OPTIONS] REF; --help explains it."),
        (["check", "nosuch"], "path 'nosuch' does not exist", "Check the spelling; a relative path begins at "),
        (["find", "--limit", "x"], "invalid value for '-n' / '--limit': ", "Call it as: skillwire find [OPTIONS]"),
        (["config", "shwo"], "there is no command 'shwo'", "Did you mean skillwire config show?"),
        (["--dbug", "list"], "there is no option --dbug", "Did you mean --debug?"),
        (["registry", "member", "add", "a", "b", "--role", "x"], "there is no option --role", "Call it as: skillwire "),
        (["registry", "member", "add", "a", "b"], "missing argument 'ROLE'; choose from owner, maintainer, ", "Call "),
    ],
)
def test_what_click_refuses_is_told_like_every_other_error(capsys, arguments, message, fix):
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error[USAGE]: {message}")
    assert f"  fix: {fix}" in said
    assert run([*arguments, "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "USAGE"
    assert error["documentation"] is None


@pytest.mark.parametrize("by_environment", [False, True])
def test_a_stack_trace_comes_before_the_error_when_it_is_asked_for(capsys, monkeypatch, by_environment):
    if by_environment:
        monkeypatch.setenv("SKILLWIRE_DEBUG", "1")
    assert run([*([] if by_environment else ["--debug"]), "show", "a b"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert said.endswith("  docs: skillwire explain REFERENCE\n")
    monkeypatch.delenv("SKILLWIRE_DEBUG", raising=False)
    run(["show", "a b"])
    assert "Traceback" not in capsys.readouterr().err


def test_a_defect_of_ours_is_told_with_its_code(capsys, monkeypatch):
    monkeypatch.setattr("skillwire.cli.explain.explanations", lambda: 1 / 0)
    assert run(["explain"]) == 70
    said = capsys.readouterr().err
    assert said.startswith("error[INTERNAL]: ZeroDivisionError: division by zero\n")
    assert run(["explain", "--json"]) == 70
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "INTERNAL"


def test_only_words_about_as_alike_as_the_likeliest_are_proposed():
    assert closest("skill_not_foun", ["SKILL_NOT_FOUND", "FILE_NOT_FOUND", "HOST_NOT_FOUND"]) == ["SKILL_NOT_FOUND"]
    assert closest("zzz", ["SKILL_NOT_FOUND"]) == []


@pytest.mark.parametrize(("alias", "command"), ALIASES.items())
def test_an_alias_is_a_command_of_its_own(capsys, alias, command):
    assert run([alias, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: skillwire {command} ")
    assert run(["help", alias]) == 0
    assert capsys.readouterr().out == shown


def test_help_is_that_of_the_program_or_of_a_command(capsys):
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert run(["help"]) == 0
    assert capsys.readouterr().out == shown
    assert run(["help", "config", "show"]) == 0
    assert capsys.readouterr().out.startswith("Usage: skillwire config show ")
    assert run(["help", "nothing"]) == 2


def test_a_capital_v_is_the_version(capsys):
    assert run(["-V"]) == 0
    assert capsys.readouterr().out == f"skillwire {VERSION}\n"


def test_help_lists_a_dozen_common_commands_first():
    assert next(iter(GROUPS)) == "Common commands"
    assert len(GROUPS["Common commands"]) == 14
    assert not ALIASES.keys() & COMMANDS
    assert set(ALIASES.values()) <= COMMANDS


def test_the_modules_of_the_extra_are_those_of_its_packages():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    packages = {re.split(r"[^\w.-]", one)[0] for one in project["optional-dependencies"]["server"]}
    known = packages_distributions()  # it reads the files of every package
    assert {canonicalize_name(one) for name in SERVER_MODULES for one in known[name]} == packages


@pytest.mark.parametrize(
    ("error", "extras"),
    [
        (ModuleNotFoundError("No module named 'starlette.types'", name="starlette.types"), "[server]"),
        (ModuleNotFoundError("No module named 'asyncpg'", name="asyncpg"), "[server,postgres]"),
        (ModuleNotFoundError("No module named 'elsewhere'", name="elsewhere"), None),
        (ModuleNotFoundError("unnamed"), None),
        (ImportError("damaged", name="starlette"), None),
    ],
)
def test_a_missing_package_of_a_server_is_an_error_of_its_own(error, extras):
    found = missing_extra(error)
    assert (found is None) == (extras is None)
    fix = found.diagnostics().fix if found else ""
    assert found is None or (found.code == "EXTRA_MISSING" and f"'skillwire{extras}" in fix)
    assert found is None or f"in a checkout '.{extras}'" in fix
