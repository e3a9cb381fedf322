"""The commands and programs on the page of a callable skill do what they say, against a server that runs."""

import json
import os
import re
import shutil
import subprocess
import sys
from html import unescape
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests.support.publishing import ServeProcess, write_skill

NAME = 'it\'s "$HOME" `x` \\n ü €'
MANIFEST = f"""
kind = "action"
[runtime]
language = "python"
entrypoint = "main.py"
[inputs.name]
required = true
example = {json.dumps(NAME, ensure_ascii=False)}
[inputs.times]
type = "integer"
required = true
[inputs.tags]
type = "array"
example = ["a'b", "@c", "d"]
[inputs.at]
example = "@home"
[inputs.unused]
type = "object"
"""
PROGRAM = "def main(args):\n    return args\n"
EXPECTED = {"name": NAME, "times": 1, "tags": ["a'b", "@c", "d"], "at": "@home"}


@pytest.fixture(scope="module")
def snippets(tmp_path_factory):
    root = tmp_path_factory.mktemp("snippets")
    write_skill(root / "skills", "echo", {"skill.toml": MANIFEST, "main.py": PROGRAM})
    (root / "server.toml").write_text("[rpc]\nexecute_skill = true\n")
    options = ("--grant-all", "--config", root / "server.toml")
    with ServeProcess(root / "skills", *options, home=root / "home") as server:
        page = server.get("/skills/echo/call", {"Accept": "text/html"}).body.decode()
        found = re.findall(r'id="snippet-([\w-]+)"><code>(.*?)</code>', page, re.DOTALL)
        yield {"address": f"http://{server.origin}", **{key: unescape(text) for key, text in found}}


def run(command, tmp_path):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SKILLWIRE_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_calls(snippets, tmp_path):
    assert json.loads(run(["sh", "-c", snippets["cli"]], tmp_path)) == EXPECTED


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_calls(snippets, tmp_path):
    assert json.loads(run(["sh", "-c", snippets["curl"]], tmp_path))["output"] == EXPECTED


def test_the_python_program_calls(snippets, tmp_path):
    shown = snippets["python"].replace("print(", "import json\nprint(json.dumps(")
    program = f"{shown})"
    assert json.loads(run([sys.executable, "-c", program], tmp_path)) == EXPECTED


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("wait", [30, 0])
def test_the_typescript_program_calls_and_follows(snippets, tmp_path, wait):
    program = snippets["typescript"].replace("(execution.output)", "(JSON.stringify(execution.output))")
    program = program.replace("wait=30", f"wait={wait}")
    (tmp_path / "call.mjs").write_text(program)
    assert json.loads(run(["node", "call.mjs"], tmp_path)) == EXPECTED


def test_the_tool_call_is_one_of_the_mcp_server(snippets):
    assert snippets["mcp"] == f"claude mcp add --transport http echo {snippets['address']}/mcp"
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": json.loads(snippets["mcp-call"])}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection = HTTPConnection(snippets["address"].removeprefix("http://"))
    connection.request("POST", "/mcp", json.dumps(message), headers)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    assert answer["result"]["structuredContent"]["output"] == EXPECTED
