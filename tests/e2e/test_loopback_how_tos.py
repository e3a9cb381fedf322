"""Pages that name hosts of one's own say how to follow them on one machine, and that is what happens."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.pages import boxes, check, examples
from tests.support.publishing import ServeProcess

PROJECT = Path(__file__).parents[2]
WRITTEN = "127.0.0.1:8000"
PATIENCE = 45.0

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="a page asks with curl")


@pytest.mark.parametrize("page", ["call-a-skill", "interoperate"])
def test_the_page_can_be_followed_on_one_machine(page, tmp_path):
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    found = boxes(PROJECT / f"docs/how-to/{page}.md")
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SKILLWIRE_HOME": str(tmp_path / "home"),
        "HOME": str(tmp_path),
    }
    acts = []

    def act(title, address=WRITTEN):
        for box in (box for box in found if box.title == title):
            for command, written in examples(box.text):
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
                acts.append((command, written, done.stdout.replace(address, WRITTEN)))

    act("prepare")
    for box in found:
        if box.title == "server.toml":
            (tmp_path / box.title).write_text(box.text)
    ((served, _),) = examples(next(box.text for box in found if box.title == "server"))
    assert served.startswith("skillwire serve skills --port 8000")
    options = ["--config", tmp_path / "server.toml"] if "--config" in served else []
    with ServeProcess(tmp_path / "skills", *options, home=tmp_path / "home") as server:
        act("loopback", f"127.0.0.1:{server.port}")
    check(acts, least=4 if page == "call-a-skill" else 5)
