"""Runs of a server that runs nothing itself: ``skillwire worker`` does, with blobs and skills, and outlives it."""

import contextlib
import json
import signal
import sqlite3
import subprocess
import threading
import urllib.request

import pytest
from tests.support.eventually import PATIENCE, eventually
from tests.support.processes import skillwire
from tests.support.publishing import serving, write_skill
from tests.support.sandbox_world import sandbox_missing

MISSING = sandbox_missing()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
CONFIGURATION = """
[executions]
grant_all = true
lease_seconds = 1
[rpc]
execute_skill = true
run_code = true
"""
MANIFEST = (
    'kind = "action"\nidempotent = true\n[runtime]\nlanguage = "python"\nentrypoint = "main.py"\nexport = "main"\n'
)
MANIFEST += '[inputs.sheet]\ntype = "blob"\ndescription = "A sheet."\n'
CODE = """
import os, time
def main(args):
    with open(f"{os.environ['SKILLS_BLOBS']}/{args['sheet'].removeprefix('blob:')}") as sheet:
        text = sheet.read()
    print("read")
    if os.environ["SKILLWIRE_ATTEMPT"] == "1":
        time.sleep(float(text))
    with open(os.environ["SKILLS_OUTPUT"] + "/out.csv", "w") as out:
        out.write(text * 2)
    return {"attempt": os.environ["SKILLWIRE_ATTEMPT"]}
"""


@pytest.fixture
def home(tmp_path):
    write_skill(tmp_path / "skills", "leads-sync", {"main.py": CODE, "skill.toml": MANIFEST})
    (tmp_path / "server.toml").write_text(CONFIGURATION)
    return tmp_path / "home"


def serving_alone(tmp_path, home):
    return serving(tmp_path / "skills", home, "--config", tmp_path / "server.toml", "--workers", "0")


@contextlib.contextmanager
def working(tmp_path, home):
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    worker = skillwire("worker", "--config", tmp_path / "server.toml", home=home, **silent)
    try:
        yield worker
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(PATIENCE)


def ask(origin, method, **params):
    """Call a method; return its result."""
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(
        urllib.request.Request(f"http://{origin}/rpc", request, headers), timeout=PATIENCE
    ) as answer:
        return json.load(answer)["result"]


def state_of(home):
    """Return the one execution, as the ledger has it: its id, status and attempt."""
    with contextlib.closing(sqlite3.connect(home / "state" / "skillwire.db", timeout=PATIENCE)) as database:
        return database.execute("SELECT execution_id, status, attempt FROM executions").fetchone()


def await_state(home, status, attempt=1):
    found = eventually(lambda: state_of(home), lambda found: found and found[1] == status and found[2] >= attempt)
    return found[0]


def test_another_process_runs_it_with_all_that_it_was_given(tmp_path, home):
    with serving_alone(tmp_path, home) as origin, working(tmp_path, home):
        blob = ask(origin, "create_blob", content="0.0", kind="text/csv")["blob_id"]
        run = ask(origin, "execute_skill", name="local.leads.sync", args={"sheet": blob})
        assert (run["status"], run["output"], run["logs_preview"]) == ("completed", {"attempt": "1"}, "read\n")
        (left,) = run["output_blobs"]
        assert (left["name"], left["kind"], left["size_bytes"]) == ("out.csv", "text/csv", 6)
        assert ask(origin, "read_blob", blob_id=left["blob_id"])["content"] == "0.00.0"
        code = "def main(args):\n    return open('/skills/local.leads.sync/main.py').read()"
        assert (
            ask(origin, "run_code", language="python", code=code, mount_skills=["local.leads.sync"])["output"] == CODE
        )
        again = ask(origin, "execute_skill", name="local.leads.sync", args={"sheet": left["blob_id"]}, timeout_ms=5000)
        assert (again["status"], again["error"]["type"]) == ("failed", "exception")  # 0.00.0 is no number


def test_a_worker_that_is_killed_leaves_it_to_another_one(tmp_path, home):
    with serving_alone(tmp_path, home) as origin:
        blob = ask(origin, "create_blob", content="600", kind="text/csv")["blob_id"]  # its worker is killed before
        runs = []
        asking = threading.Thread(
            target=lambda: runs.append(ask(origin, "execute_skill", name="local.leads.sync", args={"sheet": blob}))
        )
        with working(tmp_path, home) as first:
            asking.start()
            await_state(home, "running")
            first.kill()
            first.wait(PATIENCE)
        with working(tmp_path, home):
            asking.join(PATIENCE)
        (run,) = runs
        assert (run["status"], run["output"]) == ("completed", {"attempt": "2"})
        assert [one["size_bytes"] for one in run["output_blobs"]] == [6]


def test_a_server_that_ends_leaves_the_result_in_the_ledger(tmp_path, home):
    with working(tmp_path, home):
        with serving_alone(tmp_path, home) as origin:
            blob = ask(origin, "create_blob", content="1.0", kind="text/csv")["blob_id"]

            def cut_off():
                with contextlib.suppress(Exception):  # the server ends meanwhile
                    ask(origin, "execute_skill", name="local.leads.sync", args={"sheet": blob})

            asking = threading.Thread(target=cut_off)
            asking.start()
            await_state(home, "running")
        asking.join(PATIENCE)
        execution_id = await_state(home, "completed")
    with serving_alone(tmp_path, home) as origin:
        with urllib.request.urlopen(f"http://{origin}/executions/{execution_id}", timeout=PATIENCE) as answer:
            assert json.load(answer)["output"] == {"attempt": "1"}
        left = "blob:" + json.loads(_blobs_of(home))[0][0].removeprefix("sha256:")
        assert ask(origin, "read_blob", blob_id=left)["content"] == "1.01.0"


def _blobs_of(home):
    with contextlib.closing(sqlite3.connect(home / "state" / "skillwire.db", timeout=PATIENCE)) as database:
        return database.execute("SELECT blobs FROM executions").fetchone()[0]
