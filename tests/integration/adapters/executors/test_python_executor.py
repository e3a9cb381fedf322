"""Python skills: what a function returns, raises and prints is an outcome, and nothing of it is left."""

import asyncio

import pytest
from blockbuster import blockbuster_ctx
from tests.support.sandbox_driver import make_attempt, make_skill
from tests.support.sandbox_world import sandbox_missing

from skillwire import limits
from skillwire.adapters.executors.python import PythonExecutor
from skillwire.adapters.executors.secrets import Secrets
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sandbox import Sandbox
from skillwire.adapters.sandbox.bubblewrap import Program, find_interpreter
from skillwire.adapters.sandbox.resources import ResourceLimits
from skillwire.errors import TrustError
from skillwire.model.execution import Outcome
from skillwire.model.skill import Action, Permissions

MISSING = sandbox_missing()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.fixture
def blobs(tmp_path):
    return FileBlobs(tmp_path / "blobs")


@pytest.fixture
def executor(tmp_path, blobs):
    return PythonExecutor(blobs, folder=tmp_path / "unpacked", secrets=Secrets({}))


def attempt_of(
    blobs, code, inputs=None, seconds=10.0, *, entrypoint="main.py", export="main", files=None, **permissions
):
    action = Action("python", entrypoint, export, Permissions(**permissions))
    contents = {"SKILL.md": b"# A skill", entrypoint: code.encode(), **(files or {})}
    return make_attempt(make_skill(blobs, contents, action), inputs or {}, seconds)


async def test_what_the_function_returns_is_the_output(executor, blobs):
    code = "def main(args):\n    return {'twice': args['n'] * 2, 'text': 'ä\\u2028', 'list': (1, None, 1.5, True)}"
    outcome = await executor.execute(attempt_of(blobs, code, {"n": 21}))
    assert outcome == Outcome({"twice": 42, "text": "ä\u2028", "list": [1, None, 1.5, True]})


async def test_a_skill_imports_its_own_files_and_the_standard_library(executor, blobs):
    code = "import decimal, here, tools.there\ndef run(args):\n    return [here.X, tools.there.Y, __file__, __name__]"
    files = {
        "scripts/here.py": b"X = 1",
        "tools/there.py": b"from dataclasses import dataclass\nY = 2",
        "tools/__init__.py": b"",
    }
    attempt = attempt_of(blobs, code, entrypoint="scripts/go-on.py", export="run", files=files)
    assert (await executor.execute(attempt)).output == [1, 2, "/skill/scripts/go-on.py", "go-on"]


async def test_installed_packages_are_not_there(executor, blobs):
    outcome = await executor.execute(attempt_of(blobs, "def main(args):\n    import msgspec"))
    assert outcome.failure.message == "the skill raised ModuleNotFoundError: No module named 'msgspec'"


async def test_an_exception_is_told_with_its_place_in_the_skill(executor, blobs):
    code = "import json\ndef main(args):\n    print('before')\n    json.loads('{')\n"
    failure = (await executor.execute(attempt_of(blobs, code))).failure
    assert failure.reason == "exception"
    assert failure.code == "EXECUTION_FAILED"
    assert failure.is_passing
    assert failure.details["exception"] == "JSONDecodeError"
    assert failure.details["log"] == "before\n"
    lines = failure.details["traceback"]
    assert 'File "/skill/main.py", line 4, in main\n    json.loads(' in lines
    assert 'File "<python>/json/decoder.py"' in lines
    assert "runner.py" not in lines
    assert find_interpreter().library not in str(failure)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def main(args:\n", "SyntaxError"),
        ("def other(args): pass", "main.py has no function main"),
        ("raise RuntimeError('at once')", "RuntimeError: at once"),
        ("main = 7", "TypeError: 'int' object is not callable"),
        ("def main(): pass", "TypeError: main() takes 0 positional arguments"),
    ],
)
async def test_what_cannot_be_called_is_told(executor, blobs, code, said):
    failure = (await executor.execute(attempt_of(blobs, code))).failure
    assert failure.reason == "exception"
    assert said in failure.message


@pytest.mark.parametrize(("threads", "each"), [(9, 0), (32, 2 << 20)])
async def test_a_pool_of_threads_is_no_use_of_memory(executor, blobs, threads, each):
    code = (
        "from concurrent.futures import ThreadPoolExecutor\nfrom threading import Barrier\n"
        "def main(args):\n"
        "    all_run = Barrier(args['threads'])\n"
        "    def work(_):\n"
        "        held = b'x' * args['each']\n        all_run.wait()\n        return len(held)\n"
        "    with ThreadPoolExecutor(args['threads']) as pool:\n"
        "        return sum(pool.map(work, range(args['threads'])))\n"
    )
    outcome = await executor.execute(attempt_of(blobs, code, {"threads": threads, "each": each}, seconds=60.0))
    assert outcome == Outcome(threads * each)


async def test_as_many_threads_run_as_are_documented(executor, blobs):
    code = (
        "from threading import Event, Thread\ndef main(args):\n    end, number = Event(), 0\n"
        "    try:\n        while True:\n            Thread(target=end.wait).start()\n            number += 1\n"
        "    except RuntimeError:\n        end.set()\n        return number\n"
    )
    assert (await executor.execute(attempt_of(blobs, code, seconds=60.0))).output == limits.SANDBOX_PROCESSES


async def test_exit_is_no_result(executor, blobs):
    failure = (await executor.execute(attempt_of(blobs, "import sys\ndef main(args):\n    sys.exit('enough')"))).failure
    assert failure.reason == "exit"
    assert failure.message == "the skill called exit with enough"


async def test_the_end_of_a_long_log_is_kept(tmp_path, blobs):
    executor = PythonExecutor(
        blobs, folder=tmp_path / "unpacked", bounds=lambda seconds: ResourceLimits(seconds, log_shown_bytes=100)
    )
    outcome = await executor.execute(attempt_of(blobs, "def main(args):\n    for n in range(1000): print(n)"))
    log = outcome.log
    assert outcome == Outcome(None, log=log)
    assert log.startswith("… ")
    assert log.endswith("998\n999\n")
    assert len(log) <= 102


@pytest.mark.parametrize("length", range(97, 103))
async def test_a_log_is_cut_at_a_character(tmp_path, blobs, length):
    executor = PythonExecutor(
        blobs, folder=tmp_path / "unpacked", bounds=lambda seconds: ResourceLimits(seconds, log_shown_bytes=length)
    )
    outcome = await executor.execute(attempt_of(blobs, "def main(args):\n    print('ä€😀' * 1000, end='')"))
    assert set(outcome.log.removeprefix("… ")) == set("ä€😀")


async def test_what_takes_too_long_has_ended_with_its_log(executor, blobs):
    code = "import time\ndef main(args):\n    print('step one')\n    time.sleep(60)"
    outcome = await executor.execute(attempt_of(blobs, code, seconds=8.0))  # to start, too
    assert (outcome.failure.reason, outcome.log) == ("deadline", "step one\n")
    assert outcome.failure.details["log"] == "step one\n"


@pytest.mark.parametrize("body", ["return 1", "yield 1"])
async def test_a_function_that_would_have_to_be_awaited_is_told_so(executor, blobs, body):
    outcome = await executor.execute(attempt_of(blobs, f"async def go(args):\n    {body}", export="go"))
    assert outcome.failure.reason == "output"
    assert outcome.failure.message.startswith("go gave a coroutine")
    assert "plain function" in outcome.failure.message
    assert outcome.log == ""


async def test_several_run_at_once_apart_and_the_loop_is_not_kept_waiting(executor, blobs):
    code = (
        "import os, time\ndef main(args):\n    time.sleep(0.5)\n    open('mine', 'x')\n"
        "    return [args['n'], len(os.listdir())]"
    )
    attempts = [attempt_of(blobs, code, {"n": n}) for n in range(6)]
    with blockbuster_ctx("skillwire"):
        outcomes = await asyncio.gather(*map(executor.execute, attempts))
    assert [outcome.output for outcome in outcomes] == [[n, 3] for n in range(6)]


async def test_a_granted_network_keeps_the_loop_as_free(executor, blobs):
    code = "import os\ndef main(args):\n    return os.environ['HTTPS_PROXY'][:17]"
    attempt = attempt_of(blobs, code, network=("https://api.example.com",))
    with blockbuster_ctx("skillwire"):
        assert (await executor.execute(attempt)).output == "http://127.0.0.1:"


@pytest.mark.parametrize("after", [0, 0.005, 0.02, 0.04, 0.3])
async def test_cancelling_ends_it_before_it_returns(executor, blobs, after):
    task = asyncio.create_task(executor.execute(attempt_of(blobs, "import time\ndef main(args):\n    time.sleep(60)")))
    await asyncio.sleep(after)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_secret_that_nobody_set_is_named(executor, blobs):
    failure = (await executor.execute(attempt_of(blobs, "main = str", secrets=("A_KEY", "B_KEY")))).failure
    assert failure.reason == "unavailable"
    assert failure.message == "the operator has not set A_KEY, B_KEY"


async def test_where_no_sandbox_can_be_made_nothing_runs(tmp_path, blobs):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    executor = PythonExecutor(blobs, folder=tmp_path / "unpacked", sandbox=Sandbox(Program(str(broken), ())))
    failure = (await executor.execute(attempt_of(blobs, "def main(args): return 1"))).failure
    assert failure is not None
    assert failure.reason == "unavailable"
    assert failure.message == "the server cannot run the skill"
    with pytest.raises(TrustError, match="SANDBOX_UNAVAILABLE"):
        await executor.check()


async def test_a_skill_without_an_entry_point_or_whose_files_are_gone_is_unavailable(executor, blobs):
    attempt = attempt_of(blobs, "def main(args): return 1")
    blobs.path(attempt.skill.files[1].digest).unlink()
    assert (await executor.execute(attempt)).failure.reason == "unavailable"
    instruction = attempt._replace(skill=attempt.skill._replace(action=None))
    assert (await executor.execute(instruction)).failure.reason == "unavailable"
