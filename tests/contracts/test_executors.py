"""Whatever a skill does is an outcome, in its time and apart from other calls, however it is executed."""

import asyncio
import json
from typing import Any, cast

import pytest
from tests.support.attempts import attempt_of
from tests.support.eventually import eventually_async
from tests.support.sandbox_driver import make_attempt, make_skill
from tests.support.sandbox_world import sandbox_missing

from skillwire.adapters.executors.function import FunctionExecutor
from skillwire.adapters.executors.http import HttpExecutor
from skillwire.adapters.executors.python import PythonExecutor
from skillwire.adapters.executors.secrets import Secrets
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.errors import FetchError
from skillwire.folder.functions import read_function
from skillwire.model.execution import Outcome
from skillwire.model.skill import Action, Permissions
from skillwire.trust.hidden_text import find_hidden
from skillwire.wire.exchange import HttpResponse

MISSING = sandbox_missing()
#: Is said by a skill that fails.
SAID = "no\u202e such\x1b[31m order " + "z" * 50_000
#: What is no JSON value, or none that every reader of JSON gives back.
UNFIT = {"object": "object()", "nan": "float('nan')", "infinity": "[-float('inf')]", "surrogate": "chr(0xd800)"}


class Functions:
    """Skills that are functions of this process."""

    def __init__(self, _):
        self.begun = self.ended = 0

    def executor(self):
        async def demo(does: str, value: list[Any]):
            """Do it."""
            if does == "fail":
                raise RuntimeError(SAID)
            if does == "wait":
                self.begun += 1
                try:
                    await asyncio.sleep(60)
                finally:
                    self.ended += 1
            return eval(UNFIT[does]) if does in UNFIT else value[0]  # noqa: S307  # constants

        return FunctionExecutor({"demo": read_function(demo)})

    def attempt(self, does, value=None, seconds=30.0):
        name = "absent" if does == "absent" else "demo"
        return attempt_of("function", inputs={"does": does, "value": [value]}, seconds=seconds, name=name)


class Upstreams:
    """Skills that are requests to an API."""

    def __init__(self, _):
        self.begun = self.ended = 0

    def executor(self):
        return HttpExecutor(cast("AsyncDriver", self), lambda _: None)

    async def send(self, request):
        asked = json.loads(request.body)
        does, body, status = asked["does"], json.dumps(asked.get("value")).encode(), 200
        if does == "fail":
            body, status = SAID.encode(), 400
        elif does == "wait":
            self.begun += 1
            try:
                await asyncio.sleep(request.timeout)
            finally:
                self.ended += 1
            raise FetchError("TIMEOUT", "no whole answer")
        elif does in UNFIT:
            body = {"object": b"{", "nan": b"NaN", "infinity": b"[-Infinity]", "surrogate": b'"\xed\xa0\x80"'}[does]
        fields = {"content-type": "text/plain" if does == "fail" else "application/json"}
        return HttpResponse(request.url, status, fields, body)

    def attempt(self, does, value=None, seconds=30.0):
        inputs = {"does": does, "value": value}
        attempt = attempt_of("http", {"url": "https://api.example/"}, inputs=inputs, seconds=seconds)
        return attempt if does != "absent" else attempt._replace(skill=attempt.skill._replace(action=None))


class Sandboxed:
    """Skills that are Python code in a sandbox."""

    def __init__(self, folder):
        self.folder = folder
        self.blobs = FileBlobs(folder / "blobs")

    @property
    def begun(self):
        return any(self.folder.rglob("main.py"))

    ended = 1  # an executor that returns has waited for its processes

    def executor(self):
        return PythonExecutor(self.blobs, folder=self.folder / "unpacked", secrets=Secrets({}))

    def attempt(self, does, value=None, seconds=30.0):
        code = (
            "import time\ndef main(args):\n    does = args['does']\n"
            f"    if does == 'fail': raise RuntimeError({SAID!r})\n"
            "    if does == 'wait': time.sleep(60)\n"
            f"    return eval({UNFIT!r}[does]) if does in {[*UNFIT]} else args['value']\n"
        )
        skill = make_skill(self.blobs, {"main.py": code.encode()}, Action("python", "main.py", "main", Permissions()))
        skill = skill if does != "absent" else skill._replace(action=None)
        return make_attempt(skill, {"does": does, "value": value}, seconds)


@pytest.fixture(
    params=[
        Functions,
        Upstreams,
        pytest.param(Sandboxed, marks=pytest.mark.skipif(MISSING is not None, reason=str(MISSING))),
    ]
)
def skills(request, tmp_path):
    return request.param(tmp_path)


async def execute(skills, *calls):
    """Return the outcomes of calls at once."""
    executor = await asyncio.to_thread(skills.executor)
    attempts = [await asyncio.to_thread(skills.attempt, *call) for call in calls]
    return await asyncio.gather(*map(executor.execute, attempts))


async def test_a_value_is_the_output(skills):
    values: list[Any] = [
        None,
        {},
        [],
        "",
        0,
        -1.5,
        True,
        2**53,
        "ä\u2028\0\n😀",
        {"deep": [{"er": [None, [[]]]}]},
        "x" * 1_000_000,
    ]
    assert await execute(skills, *(("echo", value) for value in values)) == [Outcome(value) for value in values]


async def test_what_is_no_json_is_a_failed_output(skills):
    outcomes = await execute(skills, *((does,) for does in UNFIT))
    assert [one.output for one in outcomes] == [None] * len(UNFIT)
    failures = [
        (does, one.failure and (one.failure.reason, one.failure.is_passing))
        for does, one in zip(UNFIT, outcomes, strict=True)
    ]
    assert failures == [(does, ("output", False)) for does in UNFIT]


async def test_a_failure_is_told_shortly_without_hidden_text(skills):
    (outcome,) = await execute(skills, ("fail",))
    assert outcome.output is None
    told = json.dumps([outcome.failure.message, dict(outcome.failure.details), outcome.log], ensure_ascii=False)
    assert "no[U+202E] such" in told
    assert len(outcome.failure.message) < 1_000
    assert len(told) < 30_000
    assert not find_hidden(outcome.failure.message)
    assert str(__file__) not in told


async def test_a_skill_that_is_gone_is_unavailable(skills):
    (outcome,) = await execute(skills, ("absent",))
    assert outcome.failure.reason == "unavailable"


async def test_what_takes_too_long_is_past_its_deadline(skills):
    outcomes = await execute(skills, *(("wait", None, seconds) for seconds in (1.0, 0.0, -5.0)))
    assert [(one.failure.reason, one.failure.code) for one in outcomes] == [("deadline", "INVOCATION_TIMEOUT")] * 3


async def test_cancelling_ends_a_skill_before_it_returns(skills):
    task = asyncio.create_task(execute(skills, ("wait",)))
    await eventually_async(lambda: skills.begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert skills.ended


async def test_calls_at_once_do_not_mix(skills):
    calls = [("echo", {"n": number}) for number in range(6)]
    outcomes = await execute(skills, *calls, ("fail",), ("wait", None, 1.0))
    assert [outcome.output for outcome in outcomes] == [*({"n": number} for number in range(6)), None, None]
    assert [outcome.failure is None for outcome in outcomes] == [True] * 6 + [False] * 2
