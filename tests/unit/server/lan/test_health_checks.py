"""One check of a skill: what a function of its folder or an API says, and every way in which they say nothing."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest
from blockbuster import blockbuster_ctx
from tests.support.attempts import skill_of
from tests.support.sandbox_driver import make_skill
from tests.support.sandbox_world import sandbox_missing

from skillwire import limits
from skillwire.adapters.executors.python import PythonExecutor
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.adapters.sandbox.bounds import Bounds
from skillwire.adapters.sandbox.secrets import Secrets
from skillwire.errors import FetchError, TrustError
from skillwire.model.action import Action, HealthCheck, Permissions
from skillwire.model.execution import Failure, Outcome
from skillwire.server.lan.conditions import FAILED, GOOD, SENSELESS, SILENT, UNCHECKABLE
from skillwire.server.lan.health_checks import HealthChecks
from skillwire.server.lan.obstacles import UNGRANTED
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpResponse, follow

pytestmark = pytest.mark.spec("SDP-heartbeat-callback")
MISSING = sandbox_missing()
URL = "https://api.example.com/healthz"


class Driver:
    """Answers each request alike, and keeps them."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.is_closed = False

    async def run(self, exchange):
        def seen():
            request = next(exchange)
            self.requests.append(request)
            try:
                exchange.send((yield request))
            except StopIteration as stop:
                return stop.value

        return follow(seen(), [self.answer])

    async def close(self):
        self.is_closed = True


def never():
    pytest.fail("made in vain")


def answered(status, body=b"", content_type="application/json"):
    return HttpResponse(URL, status, {"content-type": content_type}, body)


async def asked(answer, seconds=5):
    """Return what a check of an API says that answers so, and its request."""
    driver = Driver(answer)
    checks = HealthChecks(never, lambda: cast("AsyncDriver", driver), lambda _: True)
    check = HealthCheck(URL, timeout=seconds)
    found = await checks.ask(skill_of(Action("http", health=check)), check)
    await checks.close()
    assert driver.is_closed
    return found, driver.requests[0]


async def test_an_api_is_asked_with_nothing_that_its_calls_have():
    found, request = await asked(answered(204), seconds=3)
    assert found == (GOOD, "")
    assert (request.url, request.method, request.body, request.timeout) == (URL, "GET", None, 3)
    assert set(request.headers) == {"accept", "cache-control"}
    assert request.max_bytes == limits.LAN_HEALTH_BYTES


@pytest.mark.parametrize("status", ["DEGRADED", "UNHEALTHY", "MAINTENANCE"])
async def test_an_api_may_say_how_it_is_while_it_answers_503(status):
    found, _ = await asked(answered(503, json.dumps({"status": status, "detail": "/home/alice"}).encode()))
    assert found.condition == (status, "")


HOSTILE = [
    b"",
    b"<html>",
    b"[]",
    b'"DEGRADED"',
    b'{"status": "HEALTHY"}',
    b'{"status": "OFFLINE"}',
    b'{"status": "UNKNOWN"}',
    b'{"status": "degraded"}',
    b'{"status": ["DEGRADED"]}',
    b'{"status": true}',
    b'{"status": null}',
    b'{"status": "DEGRADED"} more',
    b'{"status": "DEGR\xff"}',
    b"[" * 30_000,
    b'{"status": ' + b"9" * 30_000 + b"}",
]


@pytest.mark.parametrize("body", HOSTILE)
async def test_what_is_no_word_is_unhealthy(body):
    found, _ = await asked(answered(503, body))
    assert found == (FAILED, "it answered 503")


@pytest.mark.parametrize("status", [199, 301, 302, 400, 401, 404, 429, 500, 502, 504])
async def test_any_other_answer_is_unhealthy(status):
    found, _ = await asked(answered(status, b'{"status": "DEGRADED"}'))
    assert found == (FAILED, f"it answered {status}")


@pytest.mark.parametrize(
    "error",
    [
        FetchError("TIMEOUT", "api.example.com did not answer"),
        FetchError("CONNECT", "api.example.com at 10.0.0.7"),
        TrustError("ADDRESS_FORBIDDEN", "10.0.0.7 is no public address"),
    ],
)
async def test_no_answer_is_unhealthy_and_only_the_operator_is_told_why(error):
    found, _ = await asked(error)
    assert found.condition == FAILED
    assert error.message in found.why
    assert "api.example.com" not in FAILED.detail


async def test_where_nobody_granted_it_nothing_is_asked():
    checks = HealthChecks(never, never, lambda _: False)
    for check in (HealthCheck(URL), HealthCheck("", "main.py", "health")):
        found = await checks.ask(skill_of(Action("http", health=check)), check)
        assert found.condition == ("DEGRADED", UNGRANTED)
    await checks.close()


class Executor:
    """Ends every attempt alike."""

    def __init__(self, outcome):
        self.outcome = outcome
        self.attempts = []

    async def execute(self, attempt):
        self.attempts.append(attempt)
        if isinstance(self.outcome, Outcome):
            return self.outcome
        return await self.outcome()


async def called(outcome, seconds=5):
    executor = Executor(outcome)
    check = HealthCheck("", "look.py", "check", 30, seconds)
    action = Action("python", "main.py", "main", Permissions(("https://a.example",), ("A_KEY",)), health=check)
    found = await HealthChecks(lambda: executor, never, lambda _: True).ask(skill_of(action), check)
    return found, executor.attempts


async def test_a_function_is_called_as_the_skill_would_be():
    found, [attempt] = await called(Outcome(output=True), seconds=3)
    assert found == (GOOD, "")
    action = attempt.skill.action
    assert (action.entrypoint, action.export) == ("look.py", "check")
    assert action.permissions == Permissions(("https://a.example",), ("A_KEY",))
    assert (attempt.inputs, attempt.seconds, attempt.mounts) == ({}, 3, {})
    assert attempt.execution.attachments is None


@pytest.mark.parametrize(
    ("output", "condition"),
    [
        (None, GOOD),
        ("HEALTHY", GOOD),
        (False, ("UNHEALTHY", "its health check says so")),
        ("DEGRADED", ("DEGRADED", "its health check says so")),
        ("MAINTENANCE", ("MAINTENANCE", "its health check says so")),
        ("fine", SENSELESS),
        ("UNKNOWN", SENSELESS),
        (1, SENSELESS),
        (0.0, SENSELESS),
        ({"status": "HEALTHY"}, SENSELESS),
        (["HEALTHY"], SENSELESS),
    ],
)
async def test_what_a_function_returns_is_a_bool_or_a_word(output, condition):
    assert (await called(Outcome(output)))[0].condition == condition


@pytest.mark.parametrize(
    ("reason", "condition"),
    [
        ("exception", FAILED),
        ("exit", FAILED),
        ("limit", FAILED),
        ("output", FAILED),
        ("deadline", SILENT),
        ("unavailable", UNCHECKABLE),
    ],
)
async def test_a_function_that_gives_no_answer(reason, condition):
    failure = Failure(reason, "the operator has not set A_KEY")
    found, _ = await called(Outcome(failure=failure, log="at /skill/main.py"))
    assert found == (condition, "the operator has not set A_KEY; it printed: at /skill/main.py")
    assert "A_KEY" not in condition.detail


async def test_an_executor_that_takes_too_long_is_ended():
    ended = []

    async def forever():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    found, _ = await called(forever, seconds=0.05)
    assert (found.condition, ended) == (SILENT, [1])


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
@pytest.mark.parametrize(
    ("code", "condition"),
    [
        ("def health(args):\n    return not args", GOOD),
        (
            "import os\ndef health(args):\n    return 'DEGRADED' if os.environ['A_KEY'] == 's3' else 'HEALTHY'",
            "DEGRADED",
        ),
        ("def health(args):\n    raise OSError('/home/alice')", FAILED),
        ("def health(args):\n    return 'x' * 5000", FAILED),
        ("def health(args):\n    import os\n    os._exit(0)", FAILED),
        ("async def health(args):\n    return True", FAILED),
        ("import time\ndef health(args):\n    time.sleep(60)", SILENT),
        ("def health(args):\n    return [[[[True]]]]", SENSELESS),
    ],
)
async def test_it_runs_in_a_sandbox_with_what_was_granted(tmp_path, code, condition):
    blobs = FileBlobs(tmp_path / "blobs")
    check = HealthCheck("", "look.py", "health", 30, 2)
    action = Action("python", "main.py", permissions=Permissions((), ("A_KEY",)), health=check)
    files = {"SKILL.md": b"#", "main.py": b"def main(args): ...\n", "look.py": code.encode()}
    skill = make_skill(blobs, files, action)
    executor = PythonExecutor(
        blobs,
        folder=tmp_path / "unpacked",
        secrets=Secrets({"A_KEY": "s3"}),
        bounds=lambda seconds: Bounds(seconds, output_bytes=limits.LAN_HEALTH_OUTPUT_BYTES),
    )
    found = await HealthChecks(lambda: executor, never, lambda _: True).ask(skill, check)
    assert (found.condition.status if isinstance(condition, str) else found.condition) == condition
    assert "s3" not in found.why


async def test_an_address_that_policy_refuses_is_never_connected_to():
    check = HealthCheck("https://127.0.0.1:9/healthz", timeout=2)
    checks = HealthChecks(never, lambda: AsyncDriver(AddressPolicy()), lambda _: True)
    with blockbuster_ctx():
        found = await checks.ask(skill_of(Action("http", health=check)), check)
        await checks.close()
    assert found.condition == FAILED
    assert "ADDRESS" in found.why
