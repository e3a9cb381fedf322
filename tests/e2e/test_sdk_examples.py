"""The programs in ``examples/sdk``: each runs as its page says, and prints what it is for."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.command import run_command
from tests.support.eventually import PATIENCE
from tests.support.loopback_lan import own_lan
from tests.support.processes import started
from tests.support.publishing import serving
from tests.support.sandbox_world import sandbox_missing

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = EXAMPLES / "sdk"
needs_sandbox = pytest.mark.skipif(bool(sandbox_missing()), reason=str(sandbox_missing()))


def run(program, *arguments, home, **environment):
    """Run a program in its own folder to its end; return what it prints."""
    project = home / "project"
    project.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", PROGRAMS / program, *arguments],
        cwd=project,
        env={**os.environ, "SKILLWIRE_HOME": str(home / "state"), **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    with serving(EXAMPLES / "skills", tmp_path_factory.mktemp("server"), "--grant-all") as address:
        yield address


@needs_sandbox
def test_find_install_call(origin, tmp_path):
    lines = run("find_install_call.py", origin, home=tmp_path).splitlines()
    assert lines[0].endswith("csv-profile")
    assert lines[-2:] == ["installed csv-profile 1.0.0", "ends on 2026-04-09"]
    assert (tmp_path / "project/.claude/skills/csv-profile/SKILL.md").is_file()
    again = run("find_install_call.py", origin, home=tmp_path).splitlines()
    assert again[-2:] == ["unchanged csv-profile", "ends on 2026-04-09"]


def test_publish_function(tmp_path):
    assert run("publish_function.py", home=tmp_path) == "Price(amount=22.0, currency='USD')\n"


@needs_sandbox
def test_ten_calls(origin, tmp_path):
    lines = run("ten_calls.py", origin, home=tmp_path).splitlines()
    assert sum(line.endswith(" completed") for line in lines) == 10
    assert lines[-1].split()[4] == "2026-04-09"


def test_mount_in_starlette(tmp_path):
    program = PROGRAMS / "mount_in_starlette.py"
    with started(program, home=tmp_path / "server", code=-signal.SIGTERM) as address:  # as uvicorn ends
        done = run_command("call", f"{address}/greet", "name=Bo", env={"SKILLWIRE_HOME": str(tmp_path / "state")})
    assert (done.out, done.code) == ("Hello, Bo!\n", 0)


@needs_sandbox
def test_local_network(tmp_path, monkeypatch):
    lan = own_lan()
    settings = tmp_path / "discovery.toml"
    settings.write_text(
        f"[udp]\ninterfaces = ['lo']\nmulticastGroup = '{lan.group}'\nport = {lan.port}\n[mdns]\nenabled = false\n"
    )
    monkeypatch.setenv("SKILLWIRE_DISCOVERY", str(settings))
    with serving(EXAMPLES / "lan" / "house", tmp_path / "server", "--lan", "--grant-all"):
        shown = run("local_network.py", home=tmp_path)
    assert re.match(r"\S*meeting-room HEALTHY\n\{.*\}\n", shown), shown


@needs_sandbox
def test_framework_tools(origin, tmp_path):
    pytest.importorskip("pydantic_ai")
    shown = run("framework_tools.py", origin, home=tmp_path)
    assert shown.startswith("tools: working-days, read_skill\nThe tool says: {")
    assert '"end": "2026-04-09"' in shown


def test_each_program_is_listed_and_tested():
    page = (EXAMPLES / "README.md").read_text()
    tested = Path(__file__).read_text()
    for program in PROGRAMS.glob("*.py"):
        assert f"](sdk/{program.name})" in page
        assert f'"{program.name}"' in tested
