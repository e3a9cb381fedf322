"""Skill Sharing, what a provider says when a call goes wrong: the examples of the text, as far as they fix words."""

import ast
import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from tests.conformance import sharing_examples as example
from tests.support.executions import make_execution
from tests.support.invoking import failing
from tests.support.opened import open_tokens

import skillwire
from skillwire import errors
from skillwire.adapters.sqlite.database import Database
from skillwire.codes import CODES
from skillwire.errors import SkillwireError, StorageError, UsageError, ValidationError
from skillwire.executions.view import encode_execution
from skillwire.model.execution import ExecutionSettings, ExecutionStatus, Failure, Moment, Reason
from skillwire.protocols.skill_sharing.codec import check_version
from skillwire.protocols.skill_sharing.errors import ERRORS
from skillwire.server.configuration import read_configuration
from skillwire.server.execution_responses import ROWS, problem_for

FORECAST = "/v2/forecast"
REQUEST = json.loads(example.OTHER_REQUEST)
OAUTH2 = b"""
[auth]
offer = "oauth2"
[oauth2]
issuer = "https://auth.example.com"
audience = "skills"
authorization_url = "https://auth.example.com/authorize"
token_url = "https://auth.example.com/token"
[oauth2.scopes]
"read:forecast" = "Read forecast data"
[grants.scopes]
"read:forecast" = ["weather-forecast"]
"""
NO_AUTH = {"auth": {"type": "none"}}
#: What an execution is said to have failed of.
FAILED = {*ERRORS, "EXECUTION_FAILED"}
SOURCES = Path(skillwire.__file__).parent


def told(example_of_the_text):
    return json.loads(example_of_the_text)["error"]


def kinds(parent=SkillwireError):
    """Yield every class of the tree of errors."""
    yield parent
    for kind in parent.__subclasses__():
        yield from kinds(kind)


def failures():
    """Yield the arguments of every failure that the code makes, by name."""
    for file in SOURCES.rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Failure":
                named = {one.arg: one.value for one in call.keywords}
                yield dict(zip(Failure._fields, call.args, strict=False)) | named


class TestTotal:
    @pytest.mark.spec("SSP-error-total")
    @pytest.mark.parametrize("kind", [kind for kind in kinds() if kind.__module__ == errors.__name__])
    def test_every_error_of_ours_is_told_with_a_code_and_a_status_of_the_table(self, kind):
        """'error.code: One of the seven error codes listed above.'"""
        for code in CODES:
            problem = problem_for(kind(code, "why"))
            error = json.loads(problem.body())["error"]
            assert {"code", "message"} <= error.keys() <= {"code", "message", "details", "retry"}
            assert error["code"] in ERRORS
            own = {ROWS[code].status} if code in ROWS else {400} if issubclass(kind, UsageError) else set()
            assert problem.status in own | set(ERRORS[error["code"]].statuses), code

    @pytest.mark.spec("SSP-error-total")
    def test_rows_are_of_codes_that_exist(self):
        assert set(ROWS) <= set(CODES)
        assert {row.code for row in ROWS.values()} <= set(ERRORS)

    @pytest.mark.spec("SSP-error-total")
    def test_every_failure_that_the_code_makes_has_a_reason_and_a_code_that_are_known(self):
        """'error: Error information (present when status is "failed" or "timeout")'; EXECUTION_FAILED is ours."""
        made = list(failures())
        texts = {
            name: {one[name].value for one in made if isinstance(one.get(name), ast.Constant)}
            for name in ("reason", "code")
        }
        assert len(made) > 20
        assert texts["reason"] <= set(get_args(Reason))
        assert texts["code"] <= FAILED

    @pytest.mark.spec("SSP-error-total")
    @pytest.mark.parametrize("code", sorted(FAILED))
    def test_every_failure_is_told_in_the_form_of_an_error(self, code):
        """'error.code: string, Yes*', 'error.message: string, Yes*'."""
        for reason in get_args(Reason):
            failure = Failure(reason, "why", code, {"limit": "memory"})
            ended = replace(make_execution(), status=ExecutionStatus.FAILED, completed=1.0, failure=failure)
            error = json.loads(encode_execution(ended))["error"]
            assert (error["code"], error["message"]) == (code, "why")
            assert error["details"] == {"limit": "memory", "reason": reason}


class TestRefusals:
    @pytest.mark.spec("SSP-error-validation")
    async def test_what_is_wrong_with_a_request_is_a_list(self, weather, serving):
        """'The details field SHOULD contain an array of validation errors, each with: path, message, expected,
        actual'; in the words of the text's example."""
        caller = await serving(base_url=weather(**NO_AUTH))
        wrong = {**REQUEST, "inputs": {"location": 5}, "context": {"priority": "urgent"}}
        (violation,) = (await caller.post(FORECAST, wrong)).json()["error"]["details"]
        assert violation == {
            "path": "/context/priority",
            "message": told(example.VALIDATION_TOLD)["details"][0]["message"],
            "expected": ["low", "normal", "high"],
            "actual": "urgent",
        }
        for body, path in ((b"{", ""), (b"[]", ""), ({**REQUEST, "inputs": {"location": 5}}, "/inputs/location")):
            answer = await caller.post(FORECAST, body)
            error = answer.json()["error"]
            assert (answer.status, error["code"]) == (422, "VALIDATION_ERROR")
            assert [one.keys() for one in error["details"]] == [{"path", "message", "expected", "actual"}]
            assert error["details"][0]["path"] == path

    @pytest.mark.spec("SSP-error-validation")
    @pytest.mark.parametrize(
        ("body", "fields", "status"), [(b" " * 1_048_577, {}, 413), (b"a,b", {"Content-Type": "text/csv"}, 415)]
    )
    async def test_http_says_it_by_its_own_status(self, weather, serving, body, fields, status):
        """Ours: too large is 413, no JSON is 415."""
        caller = await serving(base_url=weather(**NO_AUTH))
        answer = await caller.post(FORECAST, body, fields)
        assert (answer.status, answer.json()["error"]["code"]) == (status, "VALIDATION_ERROR")

    @pytest.mark.spec("SSP-error-auth-required")
    async def test_who_shows_nothing_is_told_how_to(self, weather, serving):
        """'The details field SHOULD describe the required authentication method to help the consumer complete
        authentication automatically.'"""
        configuration = read_configuration(OAUTH2, "server.toml")
        caller = await serving(configuration=configuration, base_url=weather(access="restricted"))
        answer = await caller.post(FORECAST, REQUEST)
        error, expected = answer.json()["error"], told(example.AUTH_TOLD)
        assert answer.status == 401
        assert error.pop("details").items() >= expected.pop("details").items()
        assert error == expected
        assert "oauth-protected-resource" in answer.fields["www-authenticate"]

    @pytest.mark.spec("SSP-error-permission-denied")
    async def test_who_may_not_is_told_what_it_lacks(self, weather, serving):
        """'Returned when credentials are valid but the consumer lacks the required permissions.'"""
        configuration = read_configuration(OAUTH2, "server.toml")
        caller = await serving(configuration=configuration, base_url=weather(access="restricted"))
        key = {"X-API-Key": open_tokens().issue("other", skills=["nothing"]).secret}
        answer = await caller.post(FORECAST, REQUEST, key)
        expected = told(example.PERMISSION_TOLD)
        expected["details"]["required_scopes"].insert(0, "skill:weather-forecast")  # which opens it, too
        assert (answer.status, answer.json()["error"]) == (403, expected)

    @pytest.mark.spec("SSP-error-not-found")
    async def test_what_is_not_there_is_told_by_its_id(self, weather, serving):
        """'Returned when the requested skill ID or descriptor URL does not exist.'"""
        caller = await serving(base_url=weather(**NO_AUTH))
        expected = told(example.NOT_FOUND_TOLD)
        answer = await caller.invoke("nonexistent", publisher="example-corp")
        assert (answer.status, answer.json()["error"]) == (404, expected)
        absent = await caller.get("/executions/exec-0")
        assert (absent.status, absent.json()["error"]["code"]) == (404, "SKILL_NOT_FOUND")


class TestFailures:
    @pytest.mark.spec("SSP-error-timeout")
    async def test_a_timeout_is_told_in_the_words_of_the_text(self, weather, serving, executor, monkeypatch):
        """'Returned when skill execution exceeds the configured timeout. The retry field provides guidance for retry
        attempts.'"""
        now = [1_751_371_200.0]
        monkeypatch.setattr("skillwire.adapters.stores.moment", lambda: Moment(now[0], 5.0, "boot"))
        monkeypatch.setattr("skillwire.executions.callable_skill.new_execution_id", lambda *_, **__: "exec-a1b2c3d4")
        monkeypatch.setattr("skillwire.server.worker.attempt_seconds", lambda *_: 0.05)
        executor.script = lambda _: asyncio.sleep(60)
        caller = await serving(base_url=weather(**NO_AUTH))
        accepted = await caller.post(FORECAST, REQUEST)
        await executor.began()
        now[0] += 30.0  # the descriptor's timeout_ms
        ended = await caller.ended(accepted)
        expected = told(example.TIMEOUT_TOLD)
        expected["details"]["reason"] = "deadline"  # ours
        assert (ended.status, ended.json()["status"], ended.json()["error"]) == (200, "timeout", expected)

    @pytest.mark.spec("SSP-error-unreachable")
    async def test_an_upstream_that_does_not_answer_is_told_as_such(self, weather, serving, executor):
        """'Returned when the invocation endpoint cannot be reached.'"""
        executor.script = lambda _: failing("upstream", "The upstream cannot be reached", code="ENDPOINT_UNREACHABLE")
        caller = await serving(base_url=weather(**NO_AUTH))
        error = (await caller.ended(await caller.post(FORECAST, REQUEST))).json()["error"]
        assert (error["code"], error["details"]["reason"]) == ("ENDPOINT_UNREACHABLE", "upstream")
        assert error["retry"] == told(example.UNREACHABLE_TOLD)["retry"]

    @pytest.mark.spec("SSP-error-unreachable")
    async def test_a_skill_that_nobody_granted_is_told_as_such(self, weather, serving):
        """The same; ours: asking again does not help, so nothing is said about it."""
        caller = await serving(ExecutionSettings(), base_url=weather(**NO_AUTH))
        answer = await caller.post(FORECAST, REQUEST)
        error = answer.json()["error"]
        assert (answer.status, error["code"], error["details"]["reason"]) == (
            503,
            "ENDPOINT_UNREACHABLE",
            "not_granted",
        )
        assert "retry" not in error

    @pytest.mark.spec("SSP-error-unreachable")
    async def test_who_has_too_many_that_wait_is_told_when_to_come_again(self, weather, serving, executor):
        """The same; ours: 429."""
        executor.script = lambda _: asyncio.sleep(60)
        caller = await serving(ExecutionSettings(grant_all=True, waiting=1), base_url=weather(**NO_AUTH))
        assert (await caller.post(FORECAST, REQUEST)).status == 202
        answer = await caller.post(FORECAST, REQUEST)
        error = answer.json()["error"]
        assert (answer.status, answer.fields["retry-after"]) == (429, "10")
        assert (error["code"], error["details"]) == ("ENDPOINT_UNREACHABLE", {"reason": "too_many_executions"})
        assert error["retry"] == {"suggested_delay_ms": 10_000, "max_attempts": 3}

    @pytest.mark.spec("SSP-error-unreachable")
    async def test_a_disk_that_is_full_is_told_without_a_word_about_this_machine(self, weather, serving, monkeypatch):
        """The same; ours: nothing was accepted."""
        caller = await serving(base_url=weather(**NO_AUTH))

        def refuse(*_):
            raise StorageError("DATABASE", "[Errno 28] No space left on device: '/srv/state/skillwire.db'")

        monkeypatch.setattr(Database, "writing", refuse)
        answer = await caller.post(FORECAST, REQUEST)
        assert (answer.status, answer.json()["error"]["details"]) == (503, {"reason": "storage"})
        assert answer.fields["retry-after"] == "2"
        assert b"srv" not in answer.body

    @pytest.mark.spec("SSP-error-version")
    def test_versions_that_do_not_fit_are_both_told(self):
        """'The details field SHOULD include both the consumer's supported version range and the descriptor's required
        version.'"""
        with pytest.raises(ValidationError) as caught:
            check_version("2.0.0", consumer="1.5.0")
        problem = problem_for(caught.value)
        error, expected = json.loads(problem.body())["error"], told(example.INCOMPATIBLE_TOLD)
        expected["details"]["supported_range"] = "<2.0.0"
        assert (problem.status, error) == (422, expected)
