"""The full discovery example of the Skills Protocol, run as its text has it; only ``call_rpc`` is ours.

Spec: SKP "Example: Full discovery". ``skp_full_discovery.txt`` is the example, letter by letter.
"""

import itertools
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.support.eventually import PATIENCE, readable
from tests.support.forked import ForkedPython
from tests.support.publishing import ServeProcess, write_skill

EXAMPLE = Path(__file__).with_name("skp_full_discovery.txt")
SCHEMA = '{"type": "object", "properties": {"env": {"type": "string"}}}\n'
MANIFEST = """\
name = "salesforce.{name}"
namespace = "salesforce"
version = "{version}"
description = "{description}"
kind = "action"
[runtime]
language = "python"
entrypoint = "code/main.py"
export = "main"
"""


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "skills"
    for name, dotted, version, description in (
        ("leads-sync", "leads.sync", "0.1.0", "Sync leads from a sheet blob into Salesforce."),
        ("contacts-export", "contacts.export", "0.2.1", "Export Salesforce contacts to CSV."),
    ):
        toml = MANIFEST.format(name=dotted, version=version, description=description)
        files = {"skill.toml": toml, "code/main.py": "def main(args):\n    return args\n"}
        write_skill(folder, name, {**files, "resources/schema.json": SCHEMA}, description=description, version=version)
    write_skill(folder, "other", {"skill.toml": 'name = "salesforces.other"\n'})
    return folder


@pytest.fixture
def http(folder, tmp_path):
    """Return ``call_rpc`` over HTTP."""
    with ServeProcess(folder, home=tmp_path / "home") as process:
        numbers = itertools.count()

        def call_rpc(method, params):
            request_id = str(next(numbers))
            body = json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode()
            url = f"http://127.0.0.1:{process.port}/rpc"
            request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:  # noqa: S310  # the same
                answer = json.load(response)
            assert (answer["jsonrpc"], answer["id"]) == ("2.0", request_id)
            return answer["result"]

        yield call_rpc


@pytest.fixture
def stdio(folder, tmp_path):
    """Return ``call_rpc`` over standard input and output."""
    process = ForkedPython(
        [sys.executable, "-m", "skillwire", "rpc", str(folder)],
        env={**os.environ, "SKILLWIRE_HOME": str(tmp_path / "home")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    sending, coming = process.stdin, process.stdout
    assert sending is not None
    assert coming is not None

    def call_rpc(method, params):
        sending.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
        sending.flush()
        assert readable(coming), "no answer"
        return json.loads(coming.readline())["result"]

    yield call_rpc
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


@pytest.mark.spec("SKP-example-discovery")
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_the_full_discovery_example_runs_as_written(transport, request, folder):
    found = {"call_rpc": request.getfixturevalue(transport)}
    exec(compile(EXAMPLE.read_text(), str(EXAMPLE), "exec"), found)  # noqa: S102  # the example is ours to run
    assert found["skills"] == {
        "skills": [
            {
                "name": "salesforce.contacts.export",
                "version": "0.2.1",
                "description": "Export Salesforce contacts to CSV.",
                "namespace": "salesforce",
                "kind": "action",
            },
            {
                "name": "salesforce.leads.sync",
                "version": "0.1.0",
                "description": "Sync leads from a sheet blob into Salesforce.",
                "namespace": "salesforce",
                "kind": "action",
            },
        ],
        "next_cursor": None,
    }
    assert found["info"]["skill"]["manifest"]["name"] == "salesforce.leads.sync"
    assert found["info"]["skill"]["skill_md_frontmatter"]["name"] == "leads-sync"
    assert "skill_md_content" not in found["info"]["skill"]
    assert found["docs"] == {"content": (folder / "leads-sync/SKILL.md").read_text()}
    assert found["schema"] == {"content": SCHEMA}
