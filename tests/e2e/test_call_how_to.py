"""What the page on calls shows, against a provider on loopback."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.pages import boxes, check, examples
from tests.support.provider import Provider
from tests.support.rpc_endpoint import RpcEndpoint

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "call-a-skill.md"
WRITTEN = "weather.example.com"
WRITTEN_ENDPOINT = "skills.example.com/rpc"
PATIENCE = 45.0


def test_the_page_shows_what_happens(tmp_path):
    acts = []
    program = Path(sys.executable).parent
    environment = {"PATH": f"{program}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    with Provider() as provider, RpcEndpoint() as endpoint:
        hosts = {WRITTEN: provider.address, WRITTEN_ENDPOINT: endpoint.address}
        for box in (box for box in boxes(PAGE) if box.title == "calls"):
            for command, written in examples(box.text):
                called = command
                for host, address in hosts.items():
                    called = called.replace(host, address)
                done = subprocess.run(
                    ["sh", "-c", called],
                    cwd=tmp_path,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=PATIENCE,
                    check=False,
                )
                shown = done.stdout
                for host, address in hosts.items():
                    shown = shown.replace(address, host)
                acts.append((command, written, shown))
    check(acts, least=8)
