"""``top``: the executions of this machine and of a server, on a terminal, in a pipe and as JSON."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.support.forked import PROGRAM, ForkedPython, run_forked
from tests.support.terminal import Terminal

EXAMPLE = Path(__file__).parents[2] / "examples/skills/working-days"


@pytest.fixture
def site(tmp_path_factory):
    """Serve a skill, call it once, and make a key for operators and one for others."""
    place = tmp_path_factory.mktemp("top")
    environment = {"HOME": str(place), "TERM": "xterm", "LANG": "C.UTF-8", "PATH": os.environ["PATH"]}

    def run(*arguments):
        return run_forked([PROGRAM, *arguments], cwd=place, env=environment)

    operator, other = (
        json.loads(run("token", "create", name, *options, "--json").stdout)["secret"]
        for name, options in (("ann", ["--scope", "operator"]), ("bob", []))
    )
    command = [PROGRAM, "serve", str(EXAMPLE), "--port", "0", "--grant-all", "--json"]
    with ForkedPython(command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]
        called = run("call", f"{address}/working-days", "start=2026-01-01", "days=5")
        assert called.returncode in {0, 8}, called.stderr  # it ran, with or without a sandbox here
        yield run, address, operator, other, environment, place
        server.send_signal(signal.SIGINT)


def test_in_a_pipe_it_prints_once(site):
    run, *_ = site
    done = run("top", "--no-lan")
    assert (done.returncode, "working-days" in done.stdout) == (0, True), done.stderr
    assert done.stdout.startswith("executions  1 ")


def test_a_server_lists_all_to_operators_and_their_own_to_others(site):
    run, address, operator, other, *_ = site
    listed = json.loads(run("top", address, "--token", operator, "--json", "--no-lan").stdout)
    assert [one["skill"] for one in listed["executions"]] == ["working-days"]
    assert json.loads(run("top", address, "--token", other, "--json", "--no-lan").stdout)["executions"] == []
    refused = run("top", address, "--no-lan")
    assert (refused.returncode, "error[AUTH_REQUIRED]" in refused.stderr) == (5, True)


def test_on_a_terminal_it_is_live_until_q(site):
    run, address, operator, _, environment, place = site
    with Terminal([PROGRAM, "top", address, "--token", operator, "--no-lan", "--every", "1s"], cwd=place,
                  environment=environment, columns=100) as shown:  # fmt: skip
        shown.until(lambda text: "executions  1 " in text and "q quits" in text)
        assert run("call", f"{address}/working-days", "start=2026-01-01", "days=6").returncode in {0, 8}
        shown.until(lambda text: text.count("working-days") == 2)
        shown.type("\x1b[B").until(lambda text: text.count("working-days") == 1)
        shown.type("q")
        assert shown.wait() == 0
        assert shown.settings() == shown.initial_settings
