"""The examples in the reference of commands do what they show: each is run against a real server."""

import operator
import re
import shutil
import urllib.request
from functools import partial
from pathlib import Path

import pytest
from tests.support.command import run_command
from tests.support.eventually import PATIENCE, eventually
from tests.support.pages import check, examples
from tests.support.processes import in_shell
from tests.support.publishing import ServeProcess, serving, write_skill

PROJECT = Path(__file__).parents[2]
PAGES = PROJECT / "docs" / "reference" / "commands"
WRITTEN_ORIGIN = "127.0.0.1:8000"
#: What does not end by itself, the picture of a network that this machine is not on, and what needs a registry, which
#: a test of its own has.
NOT_RUN = (
    *("skillwire serve", "skillwire worker", "skillwire mcp", "skillwire lan", "skillwire dht"),
    *("skillwire publish", "skillwire yank", "skillwire deprecate", "skillwire registry"),
)


def _sections():
    """Return each section of the pages under the command that it describes."""
    texts = [page.read_text() for page in sorted(PAGES.glob("*.md"))]
    return dict(re.findall(r"^## skillwire (\S+)\n(.*?)(?=^## |\Z)", "\n".join(texts), re.MULTILINE | re.DOTALL))


def _index(origin):
    with urllib.request.urlopen(f"http://{origin}/.well-known/agent-skills/index.json", timeout=PATIENCE) as answer:
        return answer.read()


@pytest.fixture(scope="module")
def publisher(tmp_path_factory):
    """Serve a copy of the example skills; return its folder, its origin, and one of its API keys."""
    folder = tmp_path_factory.mktemp("publisher")
    shutil.copytree(PROJECT / "examples" / "skills", folder / "skills")
    environment = {"SKILLWIRE_HOME": str(folder / "server")}
    issued = run_command("token", "create", "reader", "--skill", "csv-profile", "--json", env=environment)
    with serving(folder / "skills", folder / "server") as origin:
        yield folder, origin, issued.document()["secret"]


@pytest.mark.parametrize(("name", "section"), _sections().items(), ids=_sections())
def test_the_examples_of_a_command_show_what_happens(name, section, publisher):
    folder, origin, key = publisher
    project, home = folder / f"project-{name}", folder / f"home-{name}"
    project.mkdir()
    home.mkdir()
    blocks = re.findall(r"^```console\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    for command, output in [example for block in blocks for example in examples(block)]:
        if not command.startswith(NOT_RUN):
            before = _index(origin)
            shown = in_shell(
                command, project, {WRITTEN_ORIGIN: origin, "my-key": key}, home=home / "skillwire", user=home
            )
            check([(command, output, shown)], 1)
            if "../skills/" in command:
                eventually(partial(_index, origin), partial(operator.ne, before))


def test_the_examples_of_the_registry_work_after_a_login_alone(tmp_path):
    blocks = re.findall(r"^```console\n(.*?)^```", (PAGES / "registry.md").read_text(), re.MULTILINE | re.DOTALL)
    home = tmp_path / "home"
    for name in ("standup-notes", "daily-notes"):
        write_skill(tmp_path / "skills", name)
    with ServeProcess("--registry", home=tmp_path / "server") as server:
        ours = {WRITTEN_ORIGIN: server.origin}
        environment = {"SKILLWIRE_HOME": str(tmp_path / "server")}
        secret = run_command("registry", "init", "ann", "--quiet", env=environment).out
        login = f"skillwire auth login http://{WRITTEN_ORIGIN} --token-stdin"
        assert in_shell(login, tmp_path, ours, home=home, lines=secret).startswith("logged in")
        in_shell(f"skillwire publish skills/daily-notes --registry http://{WRITTEN_ORIGIN}", tmp_path, ours, home=home)
        found = [example for block in blocks for example in examples(block)]
        check([(command, output, in_shell(command, tmp_path, ours, home=home)) for command, output in found], 4)
