"""What the page on JSON-RPC shows, against the server that it starts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.pages import boxes, check, examples
from tests.support.publishing import ServeProcess

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs" / "how-to" / "use-json-rpc.md"
WRITTEN = "127.0.0.1:8000"
PATIENCE = 45.0

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the page asks with curl")


def test_the_page_shows_what_happens(tmp_path):
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    found = boxes(PAGE)
    for command, _ in examples(next(box.text for box in found if box.title == "prepare")):
        subprocess.run(["sh", "-c", command], cwd=tmp_path, timeout=PATIENCE, check=True)
    files = [box for box in found if box.kind != "console"]
    (tmp_path / "server.toml").write_text(next(box.text for box in files if box.title == "server.toml"))
    ((served, _),) = examples(next(box.text for box in found if box.title == "server"))
    assert served.split() == ["skillwire", "serve", "skills", "--port", "8000", "--config", "server.toml"]
    acts = []
    with ServeProcess(tmp_path / "skills", "--config", tmp_path / "server.toml", home=tmp_path / "home") as server:
        address = f"127.0.0.1:{server.port}"
        for box in files:
            (tmp_path / box.title).write_text(box.text.replace(WRITTEN, address))
        program = Path(sys.executable).parent
        environment = {"PATH": f"{program}:{os.environ['PATH']}", "SKILLWIRE_HOME": str(tmp_path / "home")}
        for box in found:
            for command, written in examples(box.text) if box.title == "terminal" else ():
                done = subprocess.run(
                    ["sh", "-c", command.replace(WRITTEN, address)],
                    cwd=tmp_path,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=PATIENCE,
                    check=False,
                )
                acts.append((command, written, done.stdout))
    check(acts, least=13)
