"""The how-to guides do what they show: their commands are typed against servers on loopback, their outputs compared."""

import base64
import re
import shutil
import subprocess
import sys
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest
import yaml
from tests.support.command import run_command
from tests.support.eventually import PATIENCE
from tests.support.loopback_server import LoopbackServer
from tests.support.pages import boxes, check, examples, play, play_session, shown
from tests.support.processes import in_shell
from tests.support.provider import Provider
from tests.support.publishing import ServeProcess, serving, write_skill
from tests.support.rpc_endpoint import RpcEndpoint
from tests.support.sandbox_world import sandbox_missing

from skillwire.server.configuration import read_configuration

PROJECT = Path(__file__).parents[2]
EXAMPLES = PROJECT / "examples"
PAGES = PROJECT / "docs" / "how-to"
AGENT = EXAMPLES / "agent-loop" / "agent.py"
HERE = "127.0.0.1:8000"  # as the pages write it
WRITTEN = "skills.example.com"
TOKEN = "TOKEN1"  # noqa: S105  # the one on the page
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="the page asks with curl")


class Origin(SimpleHTTPRequestHandler):
    """A static site for those who have the token, as a bearer or as the password of ``ci``."""

    site: Path
    known: frozenset[str | None] = frozenset(
        {f"Bearer {TOKEN}", "Basic " + base64.b64encode(f"ci:{TOKEN}".encode()).decode()}
    )

    def __init__(self, *given):
        super().__init__(*given, directory=str(self.site))

    def do_GET(self):
        if self.headers.get("Authorization") in self.known:
            super().do_GET()
        else:
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_):
        """Log nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("origin")
    environment = {"SKILLWIRE_HOME": str(folder / "home")}
    assert run_command("build", EXAMPLES / "skills", "-o", folder / "site", "-q", env=environment).code == 0
    return folder / "site"


def without_advice(text):
    return re.sub(r"^(show details|read more): .*\n", "", text, flags=re.MULTILINE)


def play_in_folders(page, origin, folder):
    """Type each command in the folder and the home that the title of its box names; return the acts."""
    ours = {
        f"https://{WRITTEN}": f"http://{origin}",
        f"machine {WRITTEN}": f"machine {origin.partition(':')[0]}",  # hosts in netrc files have no port
        f'="{WRITTEN}"': f'="http://{origin}"',
        WRITTEN: origin,
    }
    acts = []
    exported = ""
    for box in boxes(page):
        for command, written, place in [(*one, folder / box.title) for one in examples(box.text)]:
            if command.startswith("export "):
                exported = f"{command}; "
                continue
            place.mkdir(exist_ok=True)
            if place.name == "ci" and (lock := folder / "project" / "skills.lock").exists():
                shutil.copy(lock, place)  # as a clone has it
            happened = in_shell(exported + command, place, ours, home=place / ".skillwire")
            acts.append((command, written, without_advice(happened)))
    return acts


def test_private_origins(site, tmp_path):
    with LoopbackServer(Origin, site=site) as server:
        check(play_in_folders(PAGES / "use-private-origins.md", server.host, tmp_path), 6)


def test_ci(site, tmp_path):
    with LoopbackServer(Origin, site=site, known={None}) as server:
        check(play_in_folders(PAGES / "install-in-ci.md", server.host, tmp_path), 5)
    assert (tmp_path / "ci" / ".agents" / "skills" / "csv-profile" / "SKILL.md").is_file()


@pytest.mark.parametrize("title", [".github/workflows/agents.yml", ".gitlab-ci.yml"])
def test_the_samples_for_ci_trust_one_origin_and_hold_to_the_lock(title):
    [text] = [box.text for box in boxes(PAGES / "install-in-ci.md") if box.title == title]
    document = yaml.safe_load(text)
    job = document["jobs"]["skills"] if "jobs" in document else document["skills"]
    variables = job.get("env") or job["variables"]
    assert (variables["SKILLWIRE_TRUSTED_ORIGINS"], variables["SKILLWIRE_ONLY_TRUSTED"]) == (WRITTEN, "true")
    commands = job.get("script") or [step["run"] for step in job["steps"] if "run" in step]
    assert commands[-2:] == ["skillwire add --frozen", "skillwire verify"]


@needs_curl
def test_calls(tmp_path):
    with Provider() as provider, RpcEndpoint() as endpoint:
        hosts = {"weather.example.com": provider.address, "skills.example.com/rpc": endpoint.address}
        acts = play(shown(PAGES / "call-a-skill.md", "calls"), tmp_path, hosts, home=tmp_path / "home")
    check(acts, least=8)


@needs_curl
@pytest.mark.parametrize(
    ("page", "title", "least"),
    [("call-a-skill", "loopback", 4), ("interoperate", "loopback", 5), ("use-json-rpc", "terminal", 13)],
)
def test_the_page_can_be_followed_on_one_machine(page, title, least, tmp_path):
    (tmp_path / "examples").symlink_to(EXAMPLES)
    page, home = PAGES / f"{page}.md", tmp_path / "home"
    prepared = play(shown(page, "prepare"), tmp_path, home=home)
    files = [box for box in boxes(page) if box.kind != "console"]
    for box in reversed(files):  # of a file that is there twice, the server reads the first
        (tmp_path / box.title).write_text(box.text)
    ((served, _),) = shown(page, "server")
    assert served.startswith("skillwire serve skills --port 8000")
    options = ["--config", tmp_path / "server.toml"] if "--config server.toml" in served else []
    with ServeProcess(tmp_path / "skills", *options, home=home) as server:
        for box in files:
            (tmp_path / box.title).write_text(box.text.replace(HERE, server.origin))
        check(prepared + play(shown(page, title), tmp_path, {HERE: server.origin}, home=home), least)


def test_tasks_for_people(tmp_path):
    page = PAGES / "tasks-for-people.md"
    for box in boxes(page):
        if box.kind != "console":
            (tmp_path / box.title).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / box.title).write_text(box.text)
    with serving(tmp_path / "skills", tmp_path / "home") as origin:
        check(play_session(shown(page), tmp_path, {HERE: origin}, home=tmp_path / "home"), 10)


def test_giving_access(tmp_path):
    page = PAGES / "give-access.md"
    files = {box.title: box.text for box in boxes(page) if box.kind == "toml"}
    write_skill(tmp_path / "skills", "open-notes")
    for name in ("staff-guide", "merger-plan"):
        manifest = {"skill.toml": files[f"skills/{name}/skill.toml"]}
        write_skill(tmp_path / "skills", name, manifest, description=f"The {name} of us all.")
    with serving(tmp_path / "skills", tmp_path / "home") as origin:
        ours = {f"https://{WRITTEN}": f"http://{origin}", WRITTEN: origin}
        acts = play_session(shown(page), tmp_path, ours, home=tmp_path / "home")
    check([(command, written, without_advice(text)) for command, written, text in acts], 18)
    assert "sw_" not in page.read_text(), "no secret is shown"
    assert (tmp_path / "key.json").stat().st_mode & 0o777 == 0o600
    assert not [text for *_, text in acts if "sw_" in text]
    configuration = read_configuration(files["server.toml"].encode(), "server.toml")
    assert configuration.offer == "oauth2"
    assert configuration.grants.clients == {"reporting": {"*"}}


def test_giving_people_access_to_a_registry(tmp_path):
    page = PAGES / "registry-accounts.md"
    folder = shutil.copytree(EXAMPLES / "skills/working-days", tmp_path / "examples/skills/working-days")
    [private] = [box.text for box in boxes(page) if box.title.endswith("skill.toml")]
    (folder / "skill.toml").write_text(private + (folder / "skill.toml").read_text())
    with ServeProcess("--registry", home=tmp_path / "server") as server:
        ours = {f"https://{WRITTEN}": f"http://{server.origin}", WRITTEN: server.origin}
        exported = f"export SKILLWIRE_REGISTRY=http://{server.origin}"
        acts = []
        for box in boxes(page):
            for command, written in examples(box.text):
                if command.startswith("skillwire call") and sandbox_missing():
                    continue
                if command.startswith("ID="):  # another account has a token of that name, too
                    other = "skillwire registry token create ci --account dave --scope read --quiet"
                    in_shell(f"{exported}; {other}", tmp_path, ours, home=tmp_path / "ann")
                home = tmp_path / box.title
                acts.append((command, written, in_shell(f"{exported}; {command}", tmp_path, ours, home=home)))
    check(acts, 20)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("*.token")}
    assert modes == dict.fromkeys(("ann.token", "ci.token", "carol.token"), 0o600)


def test_the_agent_of_the_examples_finds_reads_and_calls_a_skill(tmp_path):
    ours = {".venv/bin/python": sys.executable, "examples/agent-loop": str(AGENT.parent)}
    check(play_session(shown(AGENT.with_name("README.md"), "agent"), tmp_path, ours, home=tmp_path / "home"), least=2)


def test_the_agent_does_the_same_over_http(tmp_path):
    (tmp_path / "server.toml").write_text("[rpc]\nexecute_skill = true\n")
    options = ("--grant-all", "--config", tmp_path / "server.toml")
    with serving(EXAMPLES / "skills", tmp_path / "home", *options) as address:
        command = [sys.executable, str(AGENT), "--url", f"http://{address}/mcp"]
        told = subprocess.check_output(command, text=True, timeout=PATIENCE)
    assert told.endswith("answer: 2026-11-25 (working-days)\n")


def test_the_python_of_the_sdk_page_runs_and_shows_every_verb(tmp_path):
    text = (PAGES / "use-the-sdk.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for name in ("csv-profile", "git-commit-messages", "log-triage"):
        shutil.copytree(EXAMPLES / "skills" / name, tmp_path / "skills" / name)
    project = tmp_path / "project"
    project.mkdir()
    with serving(tmp_path / "skills", tmp_path / "server") as origin:
        (tmp_path / "page.py").write_text(re.sub(r"(?<![\w/.])example\.com", origin, "\n".join(blocks)))
        told = in_shell("python -W error ../page.py", project, home=tmp_path / "state", user=tmp_path)
    for wanted in (
        "csv-profile - Profiles a CSV",
        "new log-triage",
        "SKILL_NOT_FOUND - Did you mean csv-profile",
        "csv-profile current",
        f"http://{origin} 20",
        f"{origin} 0\n",
    ):
        assert wanted in told, told
    assert "Traceback" not in told
    assert (project / ".claude/skills/csv-profile").is_symlink()
    assert not (project / ".agents/skills/log-triage").exists(), "the page removes it in the end"
