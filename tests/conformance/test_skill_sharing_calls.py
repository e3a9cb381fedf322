"""Skill Sharing, how a consumer calls: a test's name says the sentence, its mark the clause; data are of the text."""

import json
from typing import Any

import pytest
from tests.conformance import sharing_examples as example

from skillwire import Client, FetchError, SkillwireError
from skillwire.model.remote_execution import CallRecord
from skillwire.protocols.skill_sharing.calls import (
    InvocationOptions,
    cancel,
    encode_invocation,
    invocation,
    read_answer,
    result_url,
    status_url,
)
from skillwire.protocols.skill_sharing.validation import parse, validate
from skillwire.resolver.calls import known, updated
from skillwire.testing.publisher import SimulatedPublisher
from skillwire.wire.exchange import HttpResponse

ORIGIN = "https://skills.example.com"
API = f"{ORIGIN}/api/v1"
STATUS = f"{API}/status/exec-f5e4d3c2"
SUMMARIZER = {
    **json.loads(example.DESCRIPTOR),
    "id": "example/text-summarizer",
    "version": "1.2.0",
    "endpoint": {
        "url": f"{API}/summarize",
        "method": "POST",
        "status_url": f"{API}/status/{{execution_id}}",
        "result_url": f"{API}/result/{{execution_id}}",
    },
    "inputs": [
        {"name": "text", "type": "string", "description": "What to summarize.", "required": True},
        {"name": "max_length", "type": "number", "description": "In words.", "required": False, "default": 100},
    ],
    "output": {"content_type": "application/json"},
    "auth": {"type": "none"},
}
TEXT = "The Skill Sharing Protocol defines a decentralized mechanism..."


def http(body, status=200, **headers):
    fields = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return HttpResponse("", status, fields, body if isinstance(body, bytes) else json.dumps(body).encode())


class Workflow:
    """The provider of the text's appendix, and a client whose pauses take no time."""

    def __init__(self, folder):
        self.publisher = SimulatedPublisher()
        self.pauses: list[float] = []
        self.client = Client(folder)
        self.client.driver = self.publisher
        self.client._runner.sleep = self.pauses.append
        session = self.client._session
        session.calls = session.make_calls(chance=lambda: 1.0)
        self.publisher.answer(f"{ORIGIN}/.well-known/skill-sharing", example.WORKFLOW_INDEX)
        self.describe()

    def describe(self, **fields):
        document = json.dumps({**SUMMARIZER, **fields}).encode()
        self.publisher.answer(f"{ORIGIN}/skills/text-summarizer.json", document)

    def call(self, **options):
        options = {"caller_id": "ifay-instance-042", "caller_type": "ifay", **options}
        inputs = options.pop("inputs", {"text": TEXT})
        return self.client.call("skills.example.com/text-summarizer", inputs, **options)

    @property
    def posted(self):
        return [request for request in self.publisher.requests if request.method == "POST"]


@pytest.fixture
def workflow(tmp_path):
    return Workflow(tmp_path)


def code_of(call, **options):
    with pytest.raises(SkillwireError) as caught:
        call(**options)
    return caught.value.code


@pytest.mark.spec("SSP-call-request")
def test_the_request_of_the_text_is_what_is_sent(workflow):
    workflow.publisher.reply("POST", f"{API}/summarize", http(example.COMPLETED))
    workflow.call(trace_id="trace-9e8d7c6b", priority="normal")
    (request,) = workflow.posted
    assert json.loads(request.body) == json.loads(example.REQUEST)
    assert list(json.loads(request.body)) == list(json.loads(example.REQUEST))
    assert request.headers["Content-Type"] == "application/json"
    about = InvocationOptions("ifay-001", "ifay")
    other = encode_invocation("example-corp/weather-forecast", {"location": "Berlin"}, about)
    assert json.loads(other) == json.loads(example.OTHER_REQUEST)
    assert validate(other, "InvocationRequest").valid


@pytest.mark.spec("SSP-call-flow")
def test_the_workflow_of_the_text_leads_from_a_domain_to_a_summary(workflow):
    workflow.publisher.reply("POST", f"{API}/summarize", http(example.ACCEPTED, 202))
    workflow.publisher.reply("GET", STATUS, http(example.COMPLETED))
    seen = []
    execution = workflow.call(on_change=lambda one: seen.append(str(one.status)))
    assert [(request.method, request.url.removeprefix(ORIGIN)) for request in workflow.publisher.requests[-4:]] == [
        ("GET", "/.well-known/skill-sharing"),
        ("GET", "/skills/text-summarizer.json"),
        ("POST", "/api/v1/summarize"),
        ("GET", "/api/v1/status/exec-f5e4d3c2"),
    ]
    assert seen == ["accepted", "completed"]
    assert execution.output == json.loads(example.COMPLETED)["output"]
    assert (execution.created_at, execution.completed_at) == ("2025-07-01T12:00:00Z", "2025-07-01T12:00:02Z")


@pytest.mark.spec("SSP-call-flow")
def test_a_result_that_the_status_does_not_carry_is_fetched_from_its_own_place(workflow):
    completed = json.loads(example.COMPLETED)
    output = completed.pop("output")
    workflow.publisher.reply("POST", f"{API}/summarize", http(example.ACCEPTED, 202))
    workflow.publisher.reply("GET", STATUS, http(completed))
    workflow.publisher.reply("GET", f"{API}/result/exec-f5e4d3c2", http(example.COMPLETED))
    assert workflow.call().output == output


@pytest.mark.spec("SSP-call-response")
@pytest.mark.parametrize("status", ["accepted", "running", "completed", "failed", "timeout"])
def test_every_status_is_read(status):
    error = {"code": "EXECUTION_TIMEOUT", "message": "m", "retry": {"suggested_delay_ms": 1, "max_attempts": 2}}
    document = {**json.loads(example.ACCEPTED), "status": status}
    document |= {"error": error} if status in {"failed", "timeout"} else {}
    response = read_answer(http(document), execution_id="exec-f5e4d3c2").response
    assert response is not None
    assert response.status == status
    if response.error:
        assert response.error.code == "INVOCATION_TIMEOUT", "the blueprint's spelling"


@pytest.mark.spec("SSP-client-forms")
@pytest.mark.parametrize("retry", [{}, {"suggested_delay_ms": 5}, {"max_attempts": 2}])
def test_the_error_of_an_execution_may_have_the_form_of_the_blueprint(retry):
    violation = {"field": "/inputs", "expected": "array", "actual": "string"}
    error = {"code": "VALIDATION_ERROR", "message": "m", "details": {"violations": [violation]}, "retry": retry}
    response = read_answer(http({**json.loads(example.ACCEPTED), "status": "failed", "error": error})).response
    assert response is not None
    assert response.error
    failure = updated(known(CallRecord("", "", "", "", 0)), response).error
    assert failure
    assert failure.retry_after == (0.005 if "suggested_delay_ms" in retry else None)  # None is unknown
    (told,) = response.error.details
    assert (told["path"], told["expected"], told["actual"]) == ("/inputs", "array", "string")


@pytest.mark.spec("SSP-call-response")
@pytest.mark.parametrize(
    "change", [{"status": "done"}, {"timestamps": {}}, {"execution_id": 5}, {"execution_id": ".."}]
)
def test_what_is_no_response_is_refused(workflow, change):
    answer = {**json.loads(example.ACCEPTED), **change}
    workflow.publisher.reply("POST", f"{API}/summarize", http(answer, 202))
    assert code_of(workflow.call) in {"VALIDATION_ERROR", "FIELD"}


@pytest.mark.spec("SSP-execution-template")
def test_the_id_stands_where_the_template_wants_it_or_at_the_end():
    endpoint = parse(SUMMARIZER).endpoint
    assert status_url(endpoint, "exec-1") == f"{API}/status/exec-1"
    assert result_url(endpoint, "a/b") == f"{API}/result/a%2Fb"
    bare = {**SUMMARIZER, "endpoint": {**SUMMARIZER["endpoint"], "status_url": f"{API}/status/"}}
    assert status_url(parse(bare).endpoint, "exec-1") == f"{API}/status/exec-1"


@pytest.mark.spec("SSP-call-validated")
@pytest.mark.parametrize(
    ("fields", "code"),
    [({"protocol": {"version": "2.0.0"}}, "VERSION_INCOMPATIBLE"), ({"capability_type": "magic"}, "VALIDATION_ERROR")],
)
def test_a_descriptor_that_is_not_valid_is_never_invoked(workflow, fields, code):
    workflow.describe(**fields)
    assert code_of(workflow.call) == code
    assert workflow.posted == []


@pytest.mark.spec("SSP-call-inputs")
def test_inputs_are_held_against_the_descriptor_first(workflow):
    assert code_of(workflow.call, inputs={"max_length": "short"}) == "VALIDATION_ERROR"
    assert workflow.posted == []
    workflow.publisher.reply("POST", f"{API}/summarize", http(example.COMPLETED))
    workflow.call(inputs={"text": TEXT})
    assert json.loads(workflow.posted[0].body)["inputs"] == {"text": TEXT, "max_length": 100}


@pytest.mark.spec("SSP-call-credential")
@pytest.mark.parametrize(
    ("auth", "field", "value"),
    [
        ({"type": "api_key", "header": "X-API-Key"}, "X-API-Key", "secret-1"),
        ({"type": "api_key"}, "Authorization", "Bearer secret-1"),
        ({"type": "oauth2", "oauth2": {"authorization_url": "https://auth.example.com/authorize",
                                       "token_url": "https://auth.example.com/token", "scopes": {}}},
         "Authorization", "Bearer secret-1"),
    ],
)  # fmt: skip
def test_the_credential_goes_where_the_descriptor_says(workflow, auth, field, value):
    workflow.describe(auth=auth)
    workflow.client.set_token(ORIGIN, "secret-1")
    workflow.publisher.reply("POST", f"{API}/summarize", http(example.ACCEPTED, 202))
    workflow.publisher.reply("GET", STATUS, http(example.COMPLETED))
    workflow.call()
    for request in workflow.publisher.requests[-2:]:
        carrying = {name: text for name, text in request.headers.items() if "secret-1" in text}
        assert carrying == {field: value}
    assert "credentials" not in json.loads(workflow.posted[0].body)["caller"]


@pytest.mark.spec("SSP-call-refused")
def test_the_refusal_of_the_text_is_told_with_the_required_method(workflow):
    workflow.publisher.reply("POST", f"{API}/summarize", http(example.AUTH_REQUIRED, 401))
    with pytest.raises(FetchError) as caught:
        workflow.call()
    assert caught.value.code == "AUTH_REQUIRED"
    assert caught.value.details["details"] == {"required_auth_type": "api_key", "header": "X-API-Key"}


@pytest.mark.spec("SSP-call-again")
def test_a_call_is_made_again_as_the_advice_says_and_else_with_exponential_backoff(workflow):
    advice = {"suggested_delay_ms": 2000, "max_attempts": 3}
    busy = http({"error": {"code": "ENDPOINT_UNREACHABLE", "message": "m", "retry": advice}}, 503)
    workflow.publisher.reply("POST", f"{API}/summarize", busy)
    assert code_of(workflow.call) == "ENDPOINT_UNREACHABLE"
    assert [round(seconds, 3) for seconds in workflow.pauses] == [2.2, 2.2, 2.2], "a tenth is jitter"
    workflow.pauses.clear()
    takes_keys = HttpResponse("", 204, {"access-control-allow-headers": "Idempotency-Key"}, b"")
    workflow.publisher.reply("OPTIONS", f"{API}/summarize", takes_keys)
    lost = FetchError("CONNECTION_LOST", "it broke")
    workflow.publisher.reply("POST", f"{API}/summarize", lost, lost, lost, http(example.COMPLETED))
    workflow.client._session.calls = workflow.client._session.make_calls(chance=lambda: 1.0)
    assert workflow.call(inputs={"text": "other"}).is_completed
    assert workflow.pauses == [0.5, 1.0, 2.0]
    assert len({request.headers["Idempotency-Key"] for request in workflow.posted[-4:]}) == 1


@pytest.mark.spec("SSP-client-forms")
@pytest.mark.parametrize(
    ("retry", "pauses"), [({}, [0.5, 1.0, 2.0]), ({"suggested_delay_ms": 20}, [0.02] * 3), ({"max_attempts": 1}, [0.5])]
)
def test_advice_without_a_field_leaves_that_to_the_client(workflow, retry, pauses):
    takes_keys = HttpResponse("", 204, {"access-control-allow-headers": "Idempotency-Key"}, b"")
    workflow.publisher.reply("OPTIONS", f"{API}/summarize", takes_keys)
    busy = http({"error": {"code": "ENDPOINT_UNREACHABLE", "message": "m", "retry": retry}}, 503)
    workflow.publisher.reply("POST", f"{API}/summarize", busy, busy, busy, http(example.COMPLETED))
    if len(pauses) == 1:
        assert code_of(workflow.call) == "ENDPOINT_UNREACHABLE"
    else:
        assert workflow.call().is_completed
    assert [round(seconds, 2) for seconds in workflow.pauses] == pauses


@pytest.mark.spec("SSP-call-query")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_inputs_without_a_body_are_in_the_query(method):
    descriptor = parse({**SUMMARIZER, "endpoint": {"url": f"{API}/summarize?v=1", "method": method}})
    inputs = {"text": "a & b", "max_length": 5, "deep": {"list": [True, None]}}
    request = invocation(descriptor, inputs, InvocationOptions("me"), key="k", credential={})
    query = "text=a%20%26%20b&max_length=5&deep=%7B%22list%22%3A%5Btrue%2Cnull%5D%7D"
    assert (request.method, request.url, request.body) == (method, f"{API}/summarize?v=1&{query}", None)


@pytest.mark.spec("SSP-call-at-once")
def test_what_is_no_invocation_response_is_the_output(workflow):
    workflow.publisher.reply("POST", f"{API}/summarize", http({"summary": "Short."}))
    execution = workflow.call()
    assert (execution.status, execution.output, execution.execution_id) == ("completed", {"summary": "Short."}, None)


@pytest.mark.spec("SSP-call-cancel")
def test_an_execution_is_taken_back_by_delete_of_its_status(workflow):
    request: Any = next(cancel(STATUS, {}))
    assert (request.method, request.url) == ("DELETE", STATUS)
    error = {"code": "EXECUTION_FAILED", "message": "Cancelled.", "details": {"reason": "cancelled"}}
    workflow.publisher.reply("POST", f"{API}/summarize", http(example.ACCEPTED, 202))
    failed = {**json.loads(example.ACCEPTED), "status": "failed", "error": error}
    workflow.publisher.reply("DELETE", STATUS, http(failed))
    workflow.call(wait=False)
    assert workflow.client.cancel("exec-f5e4d3c2").is_cancelled
