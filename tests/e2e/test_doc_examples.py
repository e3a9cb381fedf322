"""The examples in the documentation do what they show: each is run against a real server, its output compared.

In an example ``...`` stands for any text within a line, or, alone on a line, for any lines.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.support.eventually import eventually

PROJECT = Path(__file__).parents[2]
PAGES = PROJECT / "docs" / "reference" / "commands"
WRITTEN_ORIGIN = "127.0.0.1:8000"
PATIENCE = 20.0  # seconds for the server to be ready, or to notice a change


def _sections():
    """Return each section of the pages under the command that it describes."""
    texts = [page.read_text() for page in sorted(PAGES.glob("*.md"))]
    return dict(re.findall(r"^## skillwire (\S+)\n(.*?)(?=^## |\Z)", "\n".join(texts), re.MULTILINE | re.DOTALL))


def _examples(section):
    """Yield each command of the section with the output that follows it.

    Not those that do not end by themselves, nor the picture of a network that this machine is not on.
    """
    for block in re.findall(r"^```console\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
        for command, output in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            if not command.startswith(("skillwire serve", "skillwire worker", "skillwire mcp", "skillwire lan")):
                yield command, output


def _pattern(output):
    lines = (
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r" *\n"
        for line in output.splitlines()
    )
    return re.compile("".join(lines))


def _index(origin):
    try:
        with urllib.request.urlopen(f"http://{origin}/.well-known/agent-skills/index.json", timeout=5) as answer:
            return answer.read()
    except OSError:
        return b""


def _wait_for_other(origin, before):
    return eventually(lambda: _index(origin), lambda now: now not in {before, b""})


@pytest.fixture(scope="module")
def publisher(tmp_path_factory):
    """Serve a copy of the example skills; return its folder and its origin."""
    folder = tmp_path_factory.mktemp("publisher")
    shutil.copytree(PROJECT / "examples" / "skills", folder / "skills")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        origin = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, "-m", "skillwire", "serve", "skills", "--port", origin.partition(":")[2]]
    environment = {**os.environ, "SKILLWIRE_HOME": str(folder / "server")}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        _wait_for_other(origin, b"")
        yield folder, origin
    finally:
        server.terminate()
        server.wait(PATIENCE)


@pytest.mark.parametrize(("name", "section"), _sections().items(), ids=_sections())
def test_the_examples_of_a_command_show_what_happens(name, section, publisher):
    folder, origin = publisher
    project = folder / f"project-{name}"
    home = folder / f"home-{name}"
    project.mkdir()
    home.mkdir()
    programs = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {"PATH": programs, "HOME": str(home), "SKILLWIRE_HOME": str(home / "skillwire")}
    for command, output in _examples(section):
        before = _index(origin)
        done = subprocess.run(
            ["sh", "-c", command.replace(WRITTEN_ORIGIN, origin)],
            cwd=project,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        shown = done.stdout.replace(origin, WRITTEN_ORIGIN)
        if not _pattern(output).fullmatch(shown):
            pytest.fail(f"{name} shows\n$ {command}\n{output}\nbut what happens is\n{shown}", pytrace=False)
        if "../skills/" in command:
            _wait_for_other(origin, before)
