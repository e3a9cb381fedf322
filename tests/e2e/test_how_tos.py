"""What the pages about CI and about private origins show, against an origin that wants a token."""

import base64
import re
import shutil
import subprocess
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml
from tests.support.command import run_command
from tests.support.pages import boxes, check, examples

PROJECT = Path(__file__).parents[2]
PAGES = PROJECT / "docs" / "how-to"
WRITTEN = "skills.example.com"
TOKEN = "TOKEN1"  # noqa: S105  # the one on the page


class Origin(SimpleHTTPRequestHandler):
    """A static site for who has the token, as a bearer or as the password of ``ci``."""

    known: frozenset[str | None] = frozenset(
        {f"Bearer {TOKEN}", "Basic " + base64.b64encode(f"ci:{TOKEN}".encode()).decode()}
    )

    def do_GET(self):
        if self.headers.get("Authorization") in self.known:
            super().do_GET()
        else:
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


class OpenOrigin(Origin):
    """The same for everybody."""

    known = frozenset({None})


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("origin")
    environment = {"SKILLWIRE_HOME": str(folder / "home")}
    built = run_command("build", PROJECT / "examples" / "skills", "-o", folder / "site", "-q", env=environment)
    assert built.code == 0
    return folder / "site"


@pytest.fixture
def play(site, tmp_path):
    """Give a function that plays a page, each box in the folder and the home of its title."""
    servers = []

    def run(page, handler):
        server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *given: handler(*given, directory=str(site)))
        servers.append(server)
        Thread(target=server.serve_forever, daemon=True).start()
        origin = f"127.0.0.1:{server.server_port}"
        acts = []
        exported = ""
        for box in boxes(page):
            for command, written in examples(box.text) if box.kind == "console" else ():
                if command.startswith("export "):
                    exported = f"{_ours(command, origin)}; "
                else:
                    happened = _typed(exported + _ours(command, origin), tmp_path / box.title)
                    happened = happened.replace(f"http://{origin}", f"https://{WRITTEN}").replace(origin, WRITTEN)
                    acts.append((command, written, happened))
        return acts

    yield run
    for server in servers:
        server.shutdown()
        server.server_close()


def _ours(command, origin):
    """Return a command as the page has it, for our origin: hosts in netrc files have no port, all other names have."""
    host = origin.partition(":")[0]
    command = command.replace(f"https://{WRITTEN}", f"http://{origin}").replace(f"machine {WRITTEN}", f"machine {host}")
    return command.replace(f'="{WRITTEN}"', f'="http://{origin}"').replace(WRITTEN, origin)


def _typed(command, folder):
    folder.mkdir(exist_ok=True)
    if folder.name == "ci" and (lock := folder.parent / "project" / "skills.lock").exists():
        shutil.copy(lock, folder)  # as a clone has it
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "SKILLWIRE_HOME": str(folder / ".skillwire"),
    }
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return re.sub(r"^show details: .*\n", "", done.stdout, flags=re.MULTILINE)


def test_private_origins(play):
    check(play(PAGES / "use-private-origins.md", Origin), 6)


def test_ci(play, tmp_path):
    check(play(PAGES / "install-in-ci.md", OpenOrigin), 5)
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
