"""Skill Sharing, what a provider does when it is called: each docstring quotes the sentence that the test proves."""

import asyncio
import json
import re
from copy import deepcopy
from datetime import datetime, timedelta

import pytest
import structlog
from tests.conformance import sharing_examples as example
from tests.conformance.conftest import WEATHER
from tests.support.invoking import failing, write_action
from tests.support.opened import open_ledger, open_tokens

from skillwire.model.execution import ExecutionSettings, ExecutionStatus, Moment, Outcome, Priority
from skillwire.protocols.skill_sharing.codec import execution_url
from skillwire.protocols.skill_sharing.validation import validate

FORECAST = "/v2/forecast"
CALL = json.loads(example.INVOCATION)
#: The same of somebody whom nobody asked for credentials.
PLAIN = {**CALL, "caller": {"id": "ifay-instance-001", "type": "ifay"}}
BOOKING = """
[inputs.cuisine]
type = "string"
description = "What is eaten."
required = true
[inputs.party_size]
type = "integer"
description = "How many come."
default = 2
schema = { type = "integer", minimum = 1, maximum = 12 }
[output]
content_type = "application/json"
schema = { type = "object", required = ["confirmation_code"] }
"""
BOOKED = {"restaurant": "Trattoria Roma", "confirmation_code": "TR-20250815-042", "time": "19:00"}


def compact(document):
    return json.dumps(json.loads(document), separators=(",", ":")).encode()


@pytest.fixture
def booking(tmp_path):
    write_action(tmp_path / "skills", "restaurant-booking", tables=BOOKING)


@pytest.fixture
def gate(serving, executor):  # noqa: ARG001  # it opens before the server waits for what runs
    """Hold every attempt until it is set, or the test is over."""
    gate = asyncio.Event()

    async def wait():
        await gate.wait()
        return Outcome(BOOKED)

    executor.script = lambda _: wait()
    yield gate
    gate.set()


async def anyone(caller, name="restaurant-booking", **options):
    return await caller.invoke(name, {"cuisine": "Italian"}, **options)


def path_of(answer):
    return f"/executions/{answer.json()['execution_id']}"


def kept(answer):
    execution = open_ledger().find(answer.json()["execution_id"])
    assert execution is not None
    return execution


class TestFlow:
    @pytest.mark.spec("SSP-invoke-flow")
    @pytest.mark.usefixtures("booking")
    async def test_accepted_then_running_then_completed(self, serving, executor, gate):
        """'202 Accepted (InvocationResponse:accepted)', '200 OK (…:running)', '200 OK (…:completed)'."""
        caller = await serving()
        accepted = await anyone(caller)
        assert (accepted.status, accepted.json()["status"]) == (202, "accepted")
        await executor.began()
        running = await caller.get(path_of(accepted))
        assert (running.status, running.json()["status"]) == (200, "running")
        gate.set()
        await caller.ended(accepted)
        completed = await caller.get(f"{path_of(accepted)}/result")
        assert (completed.status, completed.json()["status"], completed.json()["output"]) == (200, "completed", BOOKED)

    @pytest.mark.spec("SSP-invoke-endpoints")
    @pytest.mark.usefixtures("booking")
    async def test_the_three_urls_of_a_descriptor_are_answered(self, serving, executor):
        """'The Skill Descriptor's endpoint field defines three URL templates': url, status_url and result_url."""
        caller = await serving()
        executor.script = lambda _: Outcome(BOOKED)
        host = {"Host": "skills.example.com"}
        endpoint = (await caller.get("/skills/restaurant-booking.json", host)).json()["endpoint"]
        base = "http://skills.example.com"
        accepted = await anyone(caller, path=endpoint["url"].removeprefix(base))
        await caller.ended(accepted)
        for template in (endpoint["status_url"], endpoint["result_url"]):
            assert "{execution_id}" in template
            url = execution_url(template, accepted.json()["execution_id"])
            answer = await caller.get(url.removeprefix(base))
            assert (answer.status, answer.json()["status"]) == (200, "completed")

    @pytest.mark.spec("SSP-invoke-endpoints")
    @pytest.mark.parametrize("base", [WEATHER, "https://weather.example.com:8443", "http://192.168.1.100:8080"])
    async def test_urls_that_the_publisher_chose_are_answered(self, weather, serving, base):
        """'status_url: Status query endpoint template containing {execution_id} placeholder.'"""
        paths = {"url": FORECAST, "status_url": "/v2/status/{execution_id}", "result_url": "/v2/result/{execution_id}"}
        weather(open_to_all=True, endpoint={"method": "POST", **{name: base + path for name, path in paths.items()}})
        caller = await serving(base_url=base)
        accepted = await caller.post(FORECAST, PLAIN)
        assert accepted.status == 202
        await caller.ended(accepted)
        name = accepted.json()["execution_id"]
        assert (await caller.get(f"/v2/status/{name}")).body == (await caller.get(f"/v2/result/{name}")).body

    @pytest.mark.spec("SSP-invoke-methods")
    @pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
    async def test_a_skill_is_called_with_its_method_and_no_other(self, weather, serving, method):
        """'method: HTTP method. One of: "GET", "POST", "PUT", "DELETE".'"""
        base = weather(
            open_to_all=True, endpoint={"url": f"https://api.weather.example.com{FORECAST}", "method": method}
        )
        caller = await serving(base_url=base)
        for other in ("GET", "POST", "PUT", "DELETE"):
            if method in {"GET", "DELETE"}:
                answer = await caller.request(f"{FORECAST}?location=Tokyo&days=5", method=other)
            else:
                answer = await caller.post(FORECAST, PLAIN, method=other)
            assert answer.status == (202 if other == method else 405), other
        assert answer.fields.get("allow", f"{method}, OPTIONS") == f"{method}, OPTIONS"

    @pytest.mark.spec("SSP-invoke-query")
    async def test_a_query_spells_inputs(self, weather, serving, executor):
        """Ours: a text is a parameter as it is, every other input is JSON."""
        base = weather(
            open_to_all=True, endpoint={"url": f"https://api.weather.example.com{FORECAST}", "method": "GET"}
        )
        caller = await serving(base_url=base)
        await caller.ended(await caller.get(f"{FORECAST}?location=35.7,139.7&days=5"))
        assert executor.attempts[0].inputs == {"location": "35.7,139.7", "days": 5}
        assert executor.attempts[0].execution.caller_id == "anonymous"
        for query in ("location=x&days=five", "location=x&location=y", "location=x&size=1"):
            assert (await caller.get(f"{FORECAST}?{query}")).status == 422, query


class TestRequest:
    @pytest.mark.spec("SSP-invoke-request")
    async def test_the_example_of_the_text_is_taken(self, weather, serving, executor):
        """'Example: Invocation Request'; its key is replaced by one that is good here."""
        caller = await serving(base_url=weather())
        key = open_tokens().issue("ifay", skills=["weather-forecast"]).secret
        own = {**CALL, "caller": {**CALL["caller"], "credentials": {"api_key": key}}}
        await caller.ended(await caller.post(FORECAST, own), fields={"X-API-Key": key})
        (attempt,) = executor.attempts
        assert attempt.inputs == {"location": "Tokyo", "days": 5}
        assert (attempt.execution.caller_id, attempt.execution.caller_type) == ("ifay-instance-001", "ifay")

    @pytest.mark.spec("SSP-invoke-request")
    @pytest.mark.parametrize("missing", ["caller", "caller.id", "caller.type", "skill_id", "inputs", "context"])
    async def test_what_is_required_has_to_be_there(self, weather, serving, missing):
        """'caller, caller.id, caller.type, skill_id, inputs: Required: Yes'; 'context: No'."""
        caller = await serving(base_url=weather(open_to_all=True))
        request = deepcopy(PLAIN)
        outer, _, inner = missing.partition(".")
        del (request[outer] if inner else request)[inner or outer]
        answer = await caller.post(FORECAST, request)
        if missing == "context":
            assert answer.status == 202
            return
        assert answer.status == 422
        assert [one["path"] for one in answer.json()["error"]["details"]] == ["/" + missing.replace(".", "/")]

    @pytest.mark.spec("SSP-invoke-content-type")
    @pytest.mark.usefixtures("booking")
    async def test_json_is_read_and_nothing_else(self, serving):
        """'content_type: Request content type. Defaults to "application/json".'"""
        caller = await serving()
        for kind, status in (("", 202), ("application/json; charset=utf-8", 202), ("text/csv", 415)):
            assert (await anyone(caller, fields={"Content-Type": kind})).status == status

    @pytest.mark.spec("SSP-invoke-skill-id")
    @pytest.mark.usefixtures("booking")
    async def test_the_skill_that_is_named_is_the_one_that_is_called(self, serving):
        """'skill_id: The target skill's unique identifier.'"""
        caller = await serving()
        answer = await anyone(caller, path="/skills/restaurant-booking/executions", publisher="other")
        (wrong,) = answer.json()["error"]["details"]
        assert (answer.status, wrong["path"]) == (422, "/skill_id")
        assert (wrong["expected"], wrong["actual"]) == ("acme/restaurant-booking", "other/restaurant-booking")

    @pytest.mark.spec("SSP-invoke-credentials")
    async def test_credentials_are_used_and_forgotten(self, weather, serving, executor, home):
        """'caller.credentials: Authentication credentials.'"""
        caller = await serving(base_url=weather())
        assert (await caller.post(FORECAST, CALL)).status == 401  # the key of the example is none of ours
        for name in ("api_key", "access_token"):
            secret = open_tokens().issue(name, skills=["weather-forecast"]).secret
            own = {**CALL, "caller": {**CALL["caller"], "credentials": {name: secret}}}
            with structlog.testing.capture_logs() as logs:
                accepted = await caller.post(FORECAST, own, {"Idempotency-Key": name})
                assert accepted.status == 202
                await caller.ended(accepted, fields={"X-API-Key": secret})
            assert secret not in repr(logs)
            assert not [file for file in home.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]
        assert len(executor.attempts) == 2

    @pytest.mark.spec("SSP-invoke-trace")
    @pytest.mark.usefixtures("booking")
    async def test_the_trace_is_kept_and_logged(self, serving):
        """'context.trace_id: Distributed tracing identifier.'"""
        with structlog.testing.capture_logs() as logs:
            caller = await serving()
            accepted = await anyone(caller, context={"trace_id": "trace-7f3a9b2c"})
        assert kept(accepted).trace_id == "trace-7f3a9b2c"
        (line,) = [line for line in logs if line["event"] == "accepted"]
        assert (line["trace_id"], line["execution"]) == ("trace-7f3a9b2c", accepted.json()["execution_id"][:-24])

    @pytest.mark.spec("SSP-invoke-priority")
    @pytest.mark.usefixtures("booking")
    async def test_what_is_more_urgent_is_next(self, serving, executor, gate):
        """'context.priority: Execution priority: "low", "normal", or "high".'"""
        caller = await serving(ExecutionSettings(grant_all=True, concurrency=1))
        first = await anyone(caller)
        await executor.began()
        calls = [await anyone(caller, context={"priority": priority}) for priority in ("low", "normal", "high")]
        assert (await anyone(caller, context={"priority": "urgent"})).status == 422
        gate.set()
        for call in (first, *calls):
            await caller.ended(call)
        order = [attempt.execution.priority for attempt in executor.attempts]
        assert order == [Priority.NORMAL, Priority.HIGH, Priority.NORMAL, Priority.LOW]

    @pytest.mark.spec("SSP-invoke-timeout")
    @pytest.mark.parametrize(
        ("times", "least"), [((30_000, 20_000, 99), 20), ((30_000, 40_000, 99), 30), ((None, None, 7), 7)]
    )
    async def test_the_least_limit_counts(self, weather, serving, times, least):
        """'timeout_ms: Invocation timeout in milliseconds'; 'context.timeout_ms: Client-side timeout'."""
        published, asked, allowed = times
        endpoint = {"url": f"https://api.weather.example.com{FORECAST}", "method": "POST"}
        base = weather(open_to_all=True, endpoint=endpoint | ({"timeout_ms": published} if published else {}))
        caller = await serving(ExecutionSettings(grant_all=True, longest=allowed), base_url=base)
        accepted = await caller.post(FORECAST, {**PLAIN, "context": {"timeout_ms": asked} if asked else {}})
        execution = kept(accepted)
        assert execution.deadline - execution.created == pytest.approx(least)

    @pytest.mark.spec("SSP-invoke-inputs")
    @pytest.mark.usefixtures("booking")
    @pytest.mark.parametrize(
        ("inputs", "path"),
        [
            ({}, "/inputs/cuisine"),
            ({"cuisine": 3}, "/inputs/cuisine"),
            ({"cuisine": "Thai", "party_size": 13}, "/inputs/party_size"),
            ({"cuisine": "Thai", "party_size": 2.5}, "/inputs/party_size"),
            ({"cuisine": "Thai", "table": 1}, "/inputs/table"),
        ],
    )
    async def test_inputs_are_checked_before_anything_is_stored(self, serving, inputs, path):
        """'type: JSON Schema type', 'required: Whether this parameter is required', 'schema: Nested JSON Schema'."""
        answer = await (await serving()).invoke("restaurant-booking", inputs)
        assert answer.status == 422
        assert {one["path"] for one in answer.json()["error"]["details"]} == {path}
        assert open_ledger().count() == {}

    @pytest.mark.spec("SSP-invoke-defaults")
    @pytest.mark.usefixtures("booking")
    async def test_defaults_stand_in(self, serving, executor):
        """'default: Default value if the parameter is not provided.'"""
        caller = await serving()
        executor.script = lambda _: Outcome(BOOKED)
        await caller.ended(await anyone(caller))
        assert executor.attempts[0].inputs == {"cuisine": "Italian", "party_size": 2}

    @pytest.mark.spec("SSP-invoke-retry")
    async def test_a_call_is_made_again_as_the_descriptor_says(self, weather, serving, executor):
        """'retry: Retry configuration with max_attempts and backoff_ms.'"""
        endpoint = json.loads(example.DESCRIPTOR)["endpoint"] | {"retry": {"max_attempts": 3, "backoff_ms": 1}}
        caller = await serving(base_url=weather(open_to_all=True, endpoint=endpoint))
        executor.script = lambda _: failing("upstream", "no answer", code="ENDPOINT_UNREACHABLE", is_passing=True)
        ended = await caller.ended(await caller.post(FORECAST, PLAIN))
        assert (ended.json()["status"], len(executor.attempts)) == ("failed", 3)


class TestResponse:
    @pytest.mark.spec("SSP-invoke-output")
    @pytest.mark.usefixtures("booking")
    async def test_an_output_that_was_not_promised_is_none(self, serving, executor):
        """'output.schema: JSON Schema describing the output structure.'"""
        caller = await serving()
        executor.script = lambda _: Outcome({"restaurant": "Trattoria Roma"})
        ended = (await caller.ended(await anyone(caller))).json()
        assert (ended["status"], "output" in ended) == ("failed", False)
        assert ended["error"]["details"]["errors"][0]["path"] == "/output/confirmation_code"

    @pytest.mark.spec("SSP-invoke-status")
    @pytest.mark.spec("SSP-invoke-response")
    @pytest.mark.spec("SSP-invoke-output-present")
    @pytest.mark.spec("SSP-invoke-error-present")
    @pytest.mark.spec("SSP-invoke-timestamps")
    @pytest.mark.usefixtures("booking")
    @pytest.mark.parametrize(
        ("script", "context", "final"),
        [
            (lambda _: Outcome(BOOKED), {}, "completed"),
            (lambda _: failing(), {}, "failed"),
            (lambda _: asyncio.sleep(60), {"timeout_ms": 150}, "timeout"),
        ],
    )
    async def test_every_answer_has_the_fields_of_its_status(self, serving, executor, script, context, final):
        """'output: present when status is "completed"', 'error: present when status is "failed" or "timeout"',
        'timestamps.completed_at: When the execution completed (ISO 8601)'."""
        caller = await serving()
        executor.script = script
        accepted = await anyone(caller, context=context)
        async with asyncio.timeout(20):
            stream = await caller.get(path_of(accepted), {"Accept": "text/event-stream"})
        told = [json.loads(data) for data in re.findall(r"^data: (.*)$", stream.body.decode(), re.MULTILINE)]
        seen = [accepted.json(), *told]
        order = ["accepted", "running", final]
        assert [one["status"] for one in seen] == sorted((one["status"] for one in seen), key=order.index)
        assert seen[0]["status"] == "accepted"
        assert seen[-1]["status"] == final
        for one in seen:
            assert validate(one, "InvocationResponse").valid
            assert one["execution_id"] == accepted.json()["execution_id"]
            assert one["skill_id"] == "acme/restaurant-booking"
            status = ExecutionStatus(one["status"])
            assert ("output" in one) == (status == "completed")
            assert ("error" in one) == (status in {"failed", "timeout"})
            assert ("completed_at" in one["timestamps"]) == status.is_final
            for stamp in one["timestamps"].values():
                assert datetime.fromisoformat(stamp).utcoffset() == timedelta(0)

    @pytest.mark.spec("SSP-invoke-response")
    @pytest.mark.usefixtures("booking", "gate")
    async def test_each_execution_has_an_id_of_its_own(self, serving):
        """'execution_id: Unique identifier for this execution.'"""
        caller = await serving()
        names = {(await anyone(caller)).json()["execution_id"] for _ in range(10)}
        assert len(names) == 10
        assert all(re.fullmatch(r"exec-[0-9a-f]{44}", name) for name in names)


class TestAccess:
    @pytest.mark.spec("SSP-invoke-access")
    @pytest.mark.spec("SSP-invoke-auth-flow")
    async def test_who_may_call(self, tmp_path, serving):
        """'public: No authentication required', 'restricted, private: Authentication required; only authorized
        consumers may invoke'; missing or invalid credentials are 'a 401 error with details about the required
        authentication method', insufficient ones 'a 403 error'."""
        for access in ("public", "restricted", "private"):
            write_action(tmp_path / "skills", f"{access}-one", more=f'access = "{access}"')
        caller = await serving()
        given = {"X-API-Key": open_tokens().issue("given", skills=["restricted-one", "private-one"]).secret}
        other = {"X-API-Key": open_tokens().issue("other", skills=["public-one"]).secret}
        bad = {"X-API-Key": "sk-abc123"}
        expected = {
            "public": (202, 202, 202, 401),
            "restricted": (401, 202, 403, 401),
            "private": (404, 202, 404, 401),  # who may not know of it is told what is told of one that is not there
        }
        for access, statuses in expected.items():
            answers = [await caller.invoke(f"{access}-one", fields=fields) for fields in ({}, given, other, bad)]
            assert tuple(answer.status for answer in answers) == statuses, access
            assert all(
                answer.json()["error"]["details"]["required_auth_type"] == "api_key"
                for answer in answers
                if answer.status == 401
            )

    @pytest.mark.spec("SSP-invoke-access")
    @pytest.mark.spec("SSP-invoke-unauthenticated")
    async def test_a_public_skill_may_want_authentication(self, weather, serving):
        """'No authentication required (unless auth.type is not "none")'; the 401 of 10.2, byte for byte."""
        caller = await serving(base_url=weather())
        refused = await caller.post(FORECAST, example.OTHER_REQUEST)
        assert (refused.status, refused.body) == (401, compact(example.AUTH_REQUIRED))
        assert refused.fields["www-authenticate"].startswith("Bearer")
        key = {"X-API-Key": open_tokens().issue("any", skills=["weather-forecast"]).secret}
        assert (await caller.post(FORECAST, example.OTHER_REQUEST, key)).status == 202

    @pytest.mark.spec("SSP-invoke-owner")
    @pytest.mark.usefixtures("booking")
    async def test_an_execution_is_its_callers(self, serving):
        """Ours: to anyone else it is one that is not there."""
        caller = await serving()
        mine, other = ({"X-API-Key": open_tokens().issue(name, skills=["*"]).secret} for name in ("mine", "other"))
        operator = {"X-API-Key": open_tokens().issue("ops", scopes=["operator"]).secret}
        path = path_of(await anyone(caller, fields=mine))
        assert [(await caller.get(path, who)).status for who in (mine, operator, other, {})] == [200, 200, 404, 404]
        absent = await caller.get("/executions/exec-1", other)
        assert absent.body.replace(b"exec-1", path[12:].encode()) == (await caller.get(path, other)).body


class TestOurs:
    @pytest.mark.spec("SSP-invoke-idempotency")
    @pytest.mark.usefixtures("booking", "gate")
    async def test_a_request_that_is_repeated_is_one_execution(self, serving):
        """Ours: Idempotency-Key."""
        caller = await serving()
        first, again = [await anyone(caller, fields={"Idempotency-Key": "a"}) for _ in range(2)]
        assert first.json()["execution_id"] == again.json()["execution_id"]
        other = await caller.invoke("restaurant-booking", {"cuisine": "Thai"}, {"Idempotency-Key": "a"})
        assert (other.status, other.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
        assert (await anyone(caller, fields={"Idempotency-Key": "a" * 256})).status == 422

    @pytest.mark.spec("SSP-invoke-wait")
    @pytest.mark.usefixtures("booking")
    async def test_who_polls_may_wait(self, serving, executor, gate):
        """Ours, with RFC 7240 and RFC 9110: Prefer, ETag, Retry-After."""
        caller = await serving()
        accepted = await anyone(caller)
        await executor.began()
        seen = await caller.get(path_of(accepted))
        tag = {"If-None-Match": seen.fields["etag"]}
        assert ((await caller.get(path_of(accepted), tag)).status, seen.fields["retry-after"]) == (304, "1")
        waiting = asyncio.create_task(caller.get(path_of(accepted), {**tag, "Prefer": "wait=30"}))
        await asyncio.sleep(0.05)
        gate.set()
        answer = await waiting
        assert (answer.json()["status"], answer.fields["preference-applied"]) == ("completed", "wait=30")
        at_once = await anyone(caller, fields={"Prefer": "wait=30"})
        assert (at_once.status, at_once.json()["output"]) == (200, BOOKED)

    @pytest.mark.spec("SSP-invoke-stream")
    @pytest.mark.usefixtures("booking")
    async def test_a_stream_ends_with_the_execution(self, serving, executor):
        """Ours: text/event-stream."""
        caller = await serving()
        executor.script = lambda _: asyncio.sleep(0.05, Outcome(BOOKED))
        accepted = await anyone(caller)
        async with asyncio.timeout(20):
            answer = await caller.get(path_of(accepted), {"Accept": "text/event-stream"})
        last = re.findall(r"^event: status\nid: (.*)\ndata: (.*)$", answer.body.decode(), re.MULTILINE)[-1]
        polled = await caller.get(path_of(accepted))
        assert last == (polled.fields["etag"], polled.body.decode())

    @pytest.mark.spec("SSP-invoke-cancel")
    @pytest.mark.usefixtures("booking", "gate")
    async def test_a_caller_takes_a_call_back(self, serving, executor):
        """Ours: DELETE of the status."""
        caller = await serving()
        accepted = await anyone(caller)
        await executor.began()
        cancelled = await caller.request(path_of(accepted), method="DELETE")
        assert (cancelled.status, cancelled.json()["status"]) == (200, "failed")
        error = cancelled.json()["error"]
        assert (error["code"], error["details"]) == ("EXECUTION_FAILED", {"reason": "cancelled"})
        refused = await caller.request(f"{path_of(accepted)}/result", method="DELETE")
        assert (refused.status, refused.fields["allow"]) == (405, "GET, HEAD, OPTIONS")

    @pytest.mark.spec("SSP-invoke-result")
    @pytest.mark.usefixtures("booking")
    async def test_a_result_is_to_come_there_or_gone(self, serving, executor, gate):
        """Ours: 202 until there is a result, 410 once it is forgotten."""
        caller = await serving()
        accepted = await anyone(caller)
        await executor.began()
        early = await caller.get(f"{path_of(accepted)}/result")
        assert (early.status, early.fields["retry-after"]) == (202, "1")
        gate.set()
        ended = await caller.ended(accepted)
        late = datetime.fromisoformat(ended.json()["timestamps"]["completed_at"]).timestamp() + 100
        assert open_ledger().forget(Moment(late, 0.0), outputs=10.0, rows=1000.0) == 1
        gone = await caller.get(f"{path_of(accepted)}/result")
        assert (gone.status, gone.json()["error"]["code"]) == (410, "SKILL_NOT_FOUND")
        assert (await caller.get(path_of(accepted))).json()["status"] == "completed"

    @pytest.mark.spec("SSP-invoke-callback")
    @pytest.mark.usefixtures("booking", "gate")
    async def test_who_wants_to_be_told_is_given_the_secret(self, serving):
        """Ours: Callback-Url."""
        caller = await serving()
        accepted = await anyone(caller, fields={"Callback-Url": "https://hooks.example.com/done"})
        assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", accepted.fields["webhook-secret"])
        exposed = accepted.fields["access-control-expose-headers"].split(", ")
        assert {"Location", "ETag", "Retry-After", "Webhook-Secret", "Preference-Applied"} <= set(exposed)
        assert (await anyone(caller, fields={"Callback-Url": "hooks"})).status == 422


@pytest.mark.spec("SSP-invoke-workflow")
async def test_the_workflow_of_the_appendix(tmp_path, serving, executor, gate, monkeypatch):
    """10.1, 'Full Discovery and Invocation Workflow': every byte that the text fixes, but for the spaces."""
    base = "https://skills.example.com"
    (listed,) = json.loads(example.WORKFLOW_INDEX)["skills"]
    descriptor = json.loads(example.DESCRIPTOR) | {
        **{name: listed[name] for name in ("id", "name", "version", "capability_type", "description", "access")},
        "endpoint": {
            "url": f"{base}/api/v1/summarize",
            "method": "POST",
            "status_url": f"{base}/api/v1/status/{{execution_id}}",
        },
        "inputs": [
            {"name": "text", "type": "string", "description": "A text.", "required": True},
            {"name": "max_length", "type": "number", "description": "In characters.", "required": False},
        ],
        "output": {"content_type": "application/json"},
        "auth": {"type": "none"},
    }
    write_action(
        tmp_path / "skills",
        "text-summarizer",
        more='id = "example/text-summarizer"\nversion = "1.2.0"',
        files={"descriptor.json": json.dumps(descriptor)},
        version="1.2.0",
        description=listed["description"],
    )
    noon = datetime.fromisoformat("2025-07-01T12:00:00Z").timestamp()
    now = [noon]
    monkeypatch.setattr("skillwire.adapters.stores.moment", lambda: Moment(now[0], now[0], "boot"))
    monkeypatch.setattr("skillwire.executions.callable_skill.new_execution_id", lambda *_, **__: "exec-f5e4d3c2")
    summary = json.loads(example.COMPLETED)["output"]

    async def summarize():
        await gate.wait()
        return Outcome(summary)

    executor.script = lambda _: summarize()
    caller = await serving(base_url=base)
    assert (await caller.get("/.well-known/skill-sharing")).json()["skills"] == [listed]
    described = await caller.get(listed["descriptor_url"].removeprefix(base))
    assert validate(described.json()).valid
    accepted = await caller.post("/api/v1/summarize", example.REQUEST)
    assert (accepted.status, accepted.body) == (202, compact(example.ACCEPTED))
    await executor.began()
    now[0] = noon + 2
    gate.set()
    completed = await caller.ended(accepted)
    assert completed.body == compact(example.COMPLETED)
    assert (await caller.get("/api/v1/status/exec-f5e4d3c2")).body == compact(example.COMPLETED)
