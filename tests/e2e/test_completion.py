"""Pressing Tab in real shells: bash, zsh and fish, on a terminal, as people do."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
from tests.support.forked import PROGRAM, run_forked
from tests.support.loopback_server import Handler, LoopbackServer
from tests.support.terminal import Terminal

from skillwire.cli.completion import SCRIPTS

PROGRAMS = Path(sys.executable).parent
START = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"], "fish": ["--no-config", "-i"]}
NAMES = ["code-review", "code-style", "csv-profile"]
HOSTILE = [
    "$(touch pwned)", "a;touch pwned", "a`b`", 'quo"te', "it's", "line\nbreak", "esc\x1b[31m", "ok\u202ename", "-rf",
]  # fmt: skip


class Index(Handler):
    """Publishes names, some of which no shell should ever see, and counts what is asked."""

    asked: ClassVar[list[str]] = []

    def do_GET(self):
        Index.asked.append(self.path)
        if self.path != "/.well-known/agent-skills/index.json":
            self.send(404)
            return
        about = {"type": "skill-md", "url": "/x.md", "digest": f"sha256:{'0' * 64}"}
        rows = [{"name": name, "description": f"About {name}.", **about} for name in [*NAMES, *HOSTILE]]
        self.send(200, {"$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json", "skills": rows})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a project with an index in its cache, an installed skill, and the environment; the network is gone."""
    folder = tmp_path_factory.mktemp("completion")
    project = folder / "project"
    (project / "skills-here" / "sub").mkdir(parents=True)
    (project / "note.txt").write_text("")
    environment = {
        "PATH": f"{PROGRAMS}:/usr/bin:/bin",
        "HOME": str(folder),
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        "PS1": "> ",
        "SKILLWIRE_HOME": str(folder / "skillwire"),
    }
    with LoopbackServer(Index) as server:
        origin = server.host
        _run(project, environment, "find", "--from", origin)
    for name in ("alpha-one", "alpha-two", "beta"):
        shutil.copytree(_skill(folder, name), project / "local" / name)
    _run(project, environment, "add", "./local", "--all", "--yes", "-a", "universal")
    environment["SKILLWIRE_SOURCES"] = origin
    return project, environment, origin


def _run(project, environment, *arguments):
    run_forked([PROGRAM, *arguments], cwd=project, env=environment).check_returncode()


def _skill(folder, name):
    made = folder / "made" / name
    (made / "docs").mkdir(parents=True)
    (made / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: Says hello, when a greeting is asked for.\n---\nHi.\n"
    )
    (made / "docs" / "usage.md").write_text("Use it.\n")
    return made


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request, place):
    name = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    project, environment, _ = place
    with Terminal([name, *START[name]], cwd=project, environment=environment, columns=100, lines=40) as terminal:
        if name == "zsh":
            terminal.type("PS1='> '; autoload -Uz compinit; compinit -u -D\r")
        if name == "fish":
            terminal.type("function fish_prompt; echo -n '> '; end; function fish_right_prompt; end\r")
        load = "skillwire completion fish | source" if name == "fish" else f'eval "$(skillwire completion {name})"'
        terminal.type(f"{load}; clear; echo rea''dy\r")
        terminal.until(lambda text: text.splitlines()[-2:-1] == ["ready"] or text.splitlines()[:1] == ["ready"])
        yield terminal


def complete(terminal, typed, wanted):
    """Type, press Tab, and wait for what should show; most list only when Tab could add nothing more."""
    terminal.type(typed + "\t" * {"bash": 3, "zsh": 2, "fish": 1}[terminal.program])
    return terminal.until(wanted)


def test_commands(shell):
    complete(shell, "skillwire upd", "skillwire update")


def test_options(shell):
    text = complete(shell, "skillwire add --", lambda text: "--frozen" in text and "--overwrite" in text)
    assert "--dry-run" in text


def test_installed_names(shell):
    text = complete(shell, "skillwire remove a", lambda text: "alpha-one" in text and "alpha-two" in text)
    assert "beta" not in text


def test_names_of_the_sources_and_none_that_a_shell_could_run(shell, place):
    text = complete(shell, "skillwire add ", lambda text: all(name in text for name in NAMES))
    assert not [name for name in HOSTILE if name in text]
    assert "pwned" not in text
    assert not list(place[0].rglob("pwned"))


def test_a_reference_with_a_port_is_completed_after_its_colon(shell, place):
    complete(shell, f"skillwire show {place[2]}/csv", f"skillwire show {place[2]}/csv-profile")


def test_agents_also_behind_an_equals_sign(shell):
    complete(shell, "skillwire add x --agent=claude", "--agent=claude-code")


def test_the_files_of_a_skill(shell):
    complete(shell, "skillwire cat ./local/beta doc", "docs/usage.md")


def test_folders_where_a_path_is_meant(shell):
    complete(shell, "skillwire serve skills-h", "skillwire serve skills-here/")
    shell.type("\x15")
    complete(shell, "skillwire add ./loc", "skillwire add ./local/")


def ask(place, *words, form="fish", **environment):
    variables = {**place[1], "_SKILLWIRE_COMPLETE": form, **environment}
    done = run_forked([PROGRAM, *words], cwd=place[0], env=variables)
    assert done.stderr == ""
    return [line.split("\t")[1] if "\t" in line else line for line in done.stdout.splitlines()]


def test_the_network_is_never_asked(place):
    """The publisher of the cached index is gone, and whatever came to it was counted."""
    before = list(Index.asked)
    assert ask(place, "show", f"{place[2]}/c") == [f"{place[2]}/{name}" for name in NAMES]
    assert ask(place, "show", "nowhere.example/") == []
    assert ask(place, "find", "--from", "127") == [place[2]]
    assert Index.asked == before


@pytest.mark.parametrize(
    "words", [["remove", ""], ["add", ""], ["add", "x/"], ["cat", "./no", ""], ["show", "http://["], ["add", "'"]]
)
def test_nothing_is_said_when_files_are_damaged(place, tmp_path, words):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "origins.json").write_text("{")
    (tmp_path / "skills.lock").write_text("[" * 100_000)
    assert ask((tmp_path, place[1], ""), *words, SKILLWIRE_HOME=str(tmp_path)) in ([], ["dir"])


@pytest.mark.parametrize(
    ("line", "breaks", "values"),
    [
        ("skillwire show {origin}/cs", ":=", ["{port}/csv-profile"]),
        ("skillwire show {origin}/cs", "", ["{origin}/csv-profile"]),
        ("skillwire show '{origin}/cs", ":=", ["{origin}/csv-profile"]),
        ("skillwire add --agent=cod", ":=", ["codex"]),
        ("skillwire   remove   beta ", ":=", ["alpha-one", "alpha-two"]),
        ("skillwire outd", ":=", ["outdated"]),
    ],
)
def test_bash_gets_back_what_stands_after_its_last_break(place, line, breaks, values):
    origin = place[2]
    fill = {"origin": origin, "port": origin.partition(":")[2]}
    answer = ask(place, line.format(**fill), form="bash", _SKILLWIRE_BREAKS=breaks)
    assert answer == [value.format(**fill) for value in values]


def test_an_answer_takes_no_time_that_is_felt(place):
    """``bench/time_limits.py`` holds how long."""
    ask(place, "add", "c")


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_says_how_to_install_it_and_is_all_that_a_pipe_gets(place, name):
    done = subprocess.run(
        [PROGRAMS / "skillwire", "completion", name],
        cwd=place[0],
        env=place[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"# To install: {SCRIPTS[name][0]}\n" in done.stdout
    assert done.stderr == ""
