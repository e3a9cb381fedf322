"""``mcp install``: the command that it writes starts a server which speaks MCP, and undo leaves no trace."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.publishing import write_skill

PROGRAM = Path(sys.executable).with_name("skillwire")
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def test_a_client_starts_what_was_installed_and_undo_restores_its_file(tmp_path):
    write_skill(tmp_path / "skills", "notes")
    before = '{\n  "mcpServers": {\n    "other": {"command": "other"}\n  }\n}\n'
    (tmp_path / ".mcp.json").write_text(before)
    environment = {"HOME": str(tmp_path / "home"), "LANG": "C.UTF-8", "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}

    def run(*command, said=""):
        return subprocess.run(
            command, input=said, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    done = run(PROGRAM, "mcp", "install", "skills", "--client", "claude-code")
    assert done.returncode == 0, done.stderr
    entry = json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]["skills"]
    answer = run(entry["command"], *entry["args"], said=json.dumps(HELLO) + "\n")
    assert json.loads(answer.stdout.splitlines()[0])["result"]["serverInfo"]["name"], answer.stderr
    assert run(PROGRAM, "mcp", "uninstall", "--client", "claude-code").returncode == 0
    assert (tmp_path / ".mcp.json").read_text() == before
