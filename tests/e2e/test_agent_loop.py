"""The agent of the examples finds, reads and calls a skill, as its page shows; and over HTTP."""

import subprocess
import sys
from pathlib import Path

from tests.support.live_server import serving
from tests.support.pages import boxes, check, examples
from tests.support.shell import typed

EXAMPLES = Path(__file__).parents[2] / "examples"
AGENT = EXAMPLES / "agent-loop" / "agent.py"
PATIENCE = 45.0


def test_the_page_shows_what_happens(tmp_path):
    page = AGENT.with_name("README.md")
    found = [example for box in boxes(page) if box.title == "agent" for example in examples(box.text)]
    own = {".venv/bin/python": sys.executable, "examples/agent-loop": str(AGENT.parent)}
    happened = typed([command for command, _ in found], tmp_path, own, home=tmp_path / "home")
    check([(command, written, told) for (command, written), told in zip(found, happened, strict=True)], least=2)


def test_the_same_over_http(tmp_path):
    (tmp_path / "server.toml").write_text("[rpc]\nexecute_skill = true\n")
    options = ("--grant-all", "--config", tmp_path / "server.toml")
    with serving(EXAMPLES / "skills", tmp_path / "home", *options) as address:
        done = subprocess.run(
            [sys.executable, AGENT, "--url", f"http://{address}/mcp"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
    assert done.stdout.endswith("answer: 2026-11-25 (working-days)\n")
