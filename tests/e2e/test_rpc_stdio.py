"""``skillwire rpc`` as a supervisor runs it: a line in, a line out, and an end that it can rely on."""

import json
import signal
import subprocess

import pytest
from tests.support.eventually import PATIENCE, readable
from tests.support.invoking import write_action
from tests.support.processes import skillwire
from tests.support.publishing import write_skill


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "skills"
    write_skill(folder, "notes", {"skill.toml": 'access = "private"\n'})
    code = (
        "import time\ndef main(args):\n    print('noise')\n    time.sleep(args.get('seconds', 0))\n    return 'done'\n"
    )
    write_action(folder, "wait", tables='[inputs.seconds]\ntype = "number"\n', files={"main.py": code})
    return folder


@pytest.fixture
def started(tmp_path, folder):
    """Return what starts ``skillwire rpc`` with the folder; every one is ended with the test."""
    processes = []

    def start(*options):
        processes.append(skillwire("rpc", folder, *options, home=tmp_path / "home", stdin=subprocess.PIPE, text=False))
        return processes[-1]

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate()


def line(method, request_id=1, **params):
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode() + b"\n"


def ask(process, *lines):
    process.stdin.write(b"".join(lines))
    process.stdin.flush()


def hear(process):
    assert readable(process.stdout), "no answer"
    return json.loads(process.stdout.readline())


@pytest.mark.spec("SKP-stdio")
def test_what_came_is_answered_before_the_end_and_standard_output_is_json_alone(started):
    process = started("--execute", "--grant-all", "--log-format", "json")
    run = line("execute_skill", 2, name="local.wait", args={"seconds": 0.5})
    out, errors = process.communicate(line("list_skills") + run + line("list_skills", 3).rstrip(), timeout=PATIENCE)
    told = {answer["id"]: answer["result"] for answer in map(json.loads, out.splitlines())}
    assert [skill["name"] for skill in told[1]["skills"]] == ["local.notes", "local.wait"]
    assert told[1] == told[3]
    assert (told[2]["output"], told[2]["logs_preview"]) == ("done", "noise\n")
    assert process.returncode == 0
    assert all(json.loads(entry)["event"] for entry in errors.splitlines())


def test_what_takes_too_long_is_told_with_its_log(started):
    process = started("--execute", "--run-code", "--grant-all")
    code = "import time\ndef main(args):\n    print('step one')\n    time.sleep(60)\n"
    ask(  # a busy machine needs seconds to start the two
        process,
        line("execute_skill", 1, name="local.wait", args={"seconds": 60}, timeout_ms=8000),
        line("run_code", 2, code=code, limits={"timeout_ms": 8000}),
    )
    output, _ = process.communicate(timeout=PATIENCE)
    results = {answer["id"]: answer["result"] for answer in map(json.loads, output.splitlines())}
    told = [(results[number]["error"]["type"], results[number].get("logs_preview")) for number in (1, 2)]
    assert told == [("timeout", "noise\n"), ("timeout", "step one\n")]


def test_a_supervisor_talks_with_it_and_tells_it_to_end(started):
    process = started()
    ask(process, line("list_skills", "a"))
    assert hear(process)["id"] == "a"
    ask(process, line("execute_skill", "b", name="local.wait"))
    assert hear(process)["error"]["code"] == -32004
    process.terminate()
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, b"")
    assert b"Traceback" not in errors


def test_ctrl_c_ends_it_while_something_runs_and_nobody_reads(started):
    process = started("--execute", "--grant-all")
    ask(process, line("execute_skill", 1, name="local.wait", args={"seconds": 60}), line("list_skills", 2))
    assert hear(process)["id"] == 2
    large = line("load_skills_protocol_guide", 3)
    ask(process, large * 100)  # more than a pipe holds
    assert hear(process)["id"] == 3
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)  # once more cuts short what is given a while
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert b"Traceback" not in errors


def test_what_cannot_begin_is_told_on_standard_error(started, tmp_path):
    process = started("--config", str(tmp_path / "absent.toml"))
    out, errors = process.communicate(line("list_skills"), timeout=PATIENCE)
    assert (process.returncode, out) != (0, b"")
    assert out == b""
    assert b"absent.toml" in errors


def test_the_configuration_says_what_is_executed(started, tmp_path):
    (tmp_path / "server.toml").write_text("[rpc]\nrun_code = true\n")
    process = started("--config", str(tmp_path / "server.toml"))
    code = "def main(args):\n    return args['n'] + 1\n"
    asked = line("run_code", 1, language="python", code=code, args={"n": 1}) + line(
        "execute_skill", 2, name="local.wait"
    )
    out, _ = process.communicate(asked, timeout=PATIENCE)
    told = {answer["id"]: answer for answer in map(json.loads, out.splitlines())}
    assert told[1]["result"]["output"] == 2
    assert told[2]["error"]["code"] == -32004
