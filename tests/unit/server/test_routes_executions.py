"""Calling a skill over HTTP: accepted, followed, taken back. Spec: SSP §5, §7, §8, §10."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from tests.support.eventually import PATIENCE
from tests.support.invoking import Caller, failing, look_descriptor, write_action
from tests.support.opened import open_grants, open_ledger, open_tokens
from tests.support.publishing import write_skill

from skillwire import limits
from skillwire.errors import ValidationError
from skillwire.model.execution import ExecutionSettings, Moment, Outcome
from skillwire.protocols.skill_sharing.validation import validate
from skillwire.server.routes.executions import request_of_query

INPUTS = """
[inputs.text]
type = "string"
description = "What is summed up."
required = true
[inputs.max_length]
type = "number"
description = "How long the summary is."
default = 100
"""


@pytest.fixture
def skills(tmp_path):
    folder = tmp_path / "skills"
    write_action(folder, "sum-up", tables=INPUTS)
    return folder


@pytest.mark.usefixtures("skills")
async def test_a_call_is_accepted_run_and_followed_to_its_output(serving, executor):
    caller = await serving()
    executor.script = lambda attempt: Outcome(
        {"summary": attempt.inputs["text"][:3], "of": attempt.inputs["max_length"]}
    )
    accepted = await caller.invoke("sum-up", {"text": "skills"}, context={"trace_id": "trace-1", "priority": "high"})
    assert accepted.status == 202
    assert accepted.json().keys() == {"execution_id", "status", "skill_id", "timestamps"}
    assert validate(accepted.json(), "InvocationResponse").valid
    assert accepted.fields["location"] == f"http://skills.example.com/executions/{accepted.json()['execution_id']}"
    assert accepted.fields["retry-after"] == "1"
    ended = await caller.ended(accepted)
    assert ended.json()["status"] == "completed"
    assert ended.json()["output"] == {"summary": "ski", "of": 100}
    assert ended.json()["timestamps"]["completed_at"]
    result = await caller.get(f"/executions/{accepted.json()['execution_id']}/result")
    assert (result.status, result.json()) == (200, ended.json())


@pytest.mark.parametrize("text", ["[" * 1_900, "{", "[1", "\ud800"])
def test_a_query_that_is_no_json_is_refused(text):
    skill: Any = SimpleNamespace(text_inputs=frozenset(), skill_id="sum-up")
    with pytest.raises(ValidationError):
        request_of_query(f"max_length={quote(text, errors='surrogatepass')}".encode(), skill, "")


@pytest.mark.usefixtures("skills")
async def test_inputs_are_checked_before_anything_is_stored(serving):
    caller = await serving()
    answer = await caller.invoke("sum-up", {"max_length": "long", "txet": 1})
    assert answer.status == 422
    error = answer.json()["error"]
    assert error["code"] == "VALIDATION_ERROR"
    assert {one["path"] for one in error["details"]} == {"/inputs/text", "/inputs/max_length", "/inputs/txet"}
    assert open_ledger().count() == {}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"[]", 422),
        (b"{", 422),
        (b'{"caller":{"id":"x"},"skill_id":"acme/sum-up","inputs":{}}', 422),
        (b'{"caller":{"id":"x","type":"y"},"skill_id":"acme/other","inputs":{"text":"a"}}', 422),
        (b'{"caller":{"id":"x\\n","type":"y"},"skill_id":"acme/sum-up","inputs":{"text":"a"}}', 422),
        (
            b'{"caller":{"id":"x","type":"y"},"skill_id":"acme/sum-up","inputs":{"text":"a"},"context":{"timeout_ms":-1}}',
            422,
        ),
        (
            b'{"caller":{"id":"x","type":"y"},"skill_id":"acme/sum-up","inputs":{"text":"a"},"context":{"priority":"urgent"}}',
            422,
        ),
        (b'{"inputs":' + b"[" * 100_000, 422),
        (b" " * (1024 * 1024 + 1), 413),
    ],
)
@pytest.mark.usefixtures("skills")
async def test_a_request_that_is_none_is_refused_with_the_unified_error(serving, body, status):
    caller = await serving()
    answer = await caller.post("/skills/sum-up/executions", body)
    assert answer.status == status
    error = answer.json()["error"]
    assert error["message"]
    assert {"path", "message", "expected", "actual"} <= error["details"][0].keys()
    if b"timeout_ms" in body:
        assert (error["details"][0]["path"], error["details"][0]["actual"]) == ("/context/timeout_ms", -1)
    assert open_ledger().count() == {}


@pytest.mark.parametrize(
    ("fields", "status", "actual"),
    [
        ({"Idempotency-Key": "\x7f"}, 422, "\x7f"),
        ({"Callback-Url": "javascript:alert(1)"}, 422, "javascript:alert(1)"),
        ({"Content-Type": "text/csv"}, 415, "text/csv"),
        ({"Content-Encoding": "gzip"}, 415, None),
    ],
)
@pytest.mark.spec("SSP-error-validation")
@pytest.mark.usefixtures("skills")
async def test_a_refused_header_field_has_its_violation(serving, fields, status, actual):
    caller = await serving()
    answer = await caller.invoke("sum-up", {"text": "a"}, fields)
    error = answer.json()["error"]
    assert (answer.status, error["code"]) == (status, "VALIDATION_ERROR")
    assert [(one["message"], one["actual"]) for one in error["details"]] == [(error["message"], actual)]


async def test_a_skill_that_is_absent_hidden_or_instructions_is_not_called(skills, serving, executor):
    write_skill(skills, "notes")
    write_action(skills, "secret", more='access = "private"')
    write_action(skills, "staff", more='access = "restricted"')
    caller = await serving()
    absent, hidden = await caller.invoke("nothing"), await caller.invoke("secret")
    assert (absent.status, hidden.status) == (404, 404)
    assert hidden.json() == json.loads(absent.body.replace(b"nothing", b"secret"))
    assert (await caller.invoke("notes")).status == 422
    locked = await caller.invoke("staff")
    assert locked.status == 401
    assert locked.json()["error"]["details"]["required_auth_type"] == "api_key"
    key = open_tokens().issue("other", skills=["nothing"]).secret
    assert (await caller.invoke("staff", fields={"X-API-Key": key})).status == 403
    assert executor.attempts == []


async def test_credentials_in_the_body_prove_who_calls_and_are_nowhere_afterwards(skills, serving, executor, home):
    write_action(skills, "staff", more='access = "restricted"')
    caller = await serving()
    secret = open_tokens().issue("robot", skills=["staff"]).secret
    accepted = await caller.invoke("staff", credentials={"api_key": secret})
    assert accepted.status == 202
    await executor.began()
    for file in home.rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes(), file
    assert (await caller.invoke("staff", credentials={"api_key": "sw_wrong"})).status == 401


async def test_an_execution_belongs_to_who_called(skills, serving):
    write_action(skills, "staff", more='access = "restricted"')
    caller = await serving()
    mine, other = ({"X-API-Key": open_tokens().issue(name, skills=["staff"]).secret} for name in ("mine", "other"))
    operator = {"X-API-Key": open_tokens().issue("ops", scopes=["operator"]).secret}
    accepted = await caller.invoke("staff", fields=mine)
    path = f"/executions/{accepted.json()['execution_id']}"
    statuses = [(await caller.get(path, fields)).status for fields in (mine, other, {}, operator)]
    assert statuses == [200, 404, 404, 200]
    assert (await caller.request(path, other, method="DELETE")).status == 404
    absent = await caller.get("/executions/exec-" + "0" * 32, other)
    assert (
        absent.json()["error"]["code"] == (await caller.get(path, other)).json()["error"]["code"] == "SKILL_NOT_FOUND"
    )


@pytest.mark.usefixtures("skills")
async def test_a_request_with_the_same_key_is_the_same_execution(serving, executor):
    caller = await serving()
    key = {"Idempotency-Key": "order-7"}
    first = await caller.invoke("sum-up", {"text": "a"}, key)
    again = await caller.invoke("sum-up", {"text": "a"}, key)
    assert again.json()["execution_id"] == first.json()["execution_id"]
    another = await caller.invoke("sum-up", {"text": "b"}, key)
    assert another.status == 422
    assert another.json()["error"]["code"] == "VALIDATION_ERROR"
    await caller.ended(first)
    assert len(executor.attempts) == 1
    done = await caller.invoke("sum-up", {"text": "a"}, key)
    assert (done.status, done.json()["status"]) == (200, "completed")


async def test_a_failure_that_may_pass_is_tried_again_as_the_publisher_says(tmp_path, serving, executor):
    retry = "[endpoint.retry]\nmax_attempts = 3\nbackoff_ms = 1\n"
    write_action(tmp_path / "skills", "flaky", tables=retry)
    caller = await serving()
    executor.script = lambda attempt: (
        Outcome("done") if attempt.execution.attempt == 3 else failing("upstream", is_passing=True)
    )
    ended = await caller.ended(await caller.invoke("flaky"))
    assert ended.json()["output"] == "done"
    assert [attempt.execution.attempt for attempt in executor.attempts] == [1, 2, 3]


async def test_an_output_that_is_not_what_was_promised_is_a_failure(tmp_path, serving, executor):
    output = '[output]\ncontent_type = "application/json"\nschema = { type = "object", required = ["total"] }\n'
    write_action(tmp_path / "skills", "count", tables=output)
    caller = await serving()
    executor.script = lambda _: Outcome({"sum": 1})
    ended = await caller.ended(await caller.invoke("count"))
    assert ended.json()["error"]["details"]["reason"] == "output"
    assert ended.json()["error"]["details"]["errors"][0]["path"] == "/output/total"


@pytest.mark.usefixtures("skills")
async def test_what_nobody_granted_is_refused_before_anything_is_stored(serving):
    caller = await serving(ExecutionSettings())
    answer = await caller.invoke("sum-up", {"text": "a"})
    assert answer.status == 503
    assert answer.json()["error"]["code"] == "ENDPOINT_UNREACHABLE"
    assert answer.json()["error"]["details"]["reason"] == "not_granted"
    revision = caller.application.catalog.current
    open_grants().agree(revision.everything.skills["sum-up"], "tester")
    accepted = await caller.invoke("sum-up", {"text": "a"})
    assert accepted.status == 202
    assert (await caller.ended(accepted)).json()["status"] == "completed"


async def test_a_descriptor_of_the_publisher_names_other_paths_and_methods(tmp_path, serving, executor, monkeypatch):
    """The workflow of the appendix, byte for byte where the text fixes bytes. Spec: SSP §10.1."""
    base = "https://skills.example.com"
    descriptor = {
        "protocol": {"version": "1.0.0"},
        "id": "example/text-summarizer",
        "name": "Text Summarizer",
        "version": "1.2.0",
        "capability_type": "api",
        "description": "Summarizes long text into concise paragraphs.",
        "provider": {"name": "Example Skills Provider", "url": base},
        "endpoint": {
            "url": f"{base}/api/v1/summarize",
            "method": "POST",
            "status_url": f"{base}/api/v1/status/{{execution_id}}",
            "result_url": f"{base}/api/v1/result/{{execution_id}}",
        },
        "inputs": [
            {"name": "text", "type": "string", "description": "The text.", "required": True},
            {"name": "max_length", "type": "number", "description": "At most.", "required": False},
        ],
        "output": {"content_type": "application/json"},
        "auth": {"type": "none"},
        "access": "public",
    }
    write_action(
        tmp_path / "skills",
        "text-summarizer",
        more='id = "example/text-summarizer"\nversion = "1.2.0"',
        files={"descriptor.json": json.dumps(descriptor)},
        version="1.2.0",
        description="Summarizes long text into concise paragraphs.",
    )
    noon = 1_751_371_200.0  # 2025-07-01T12:00:00Z
    now = [noon]
    monkeypatch.setattr("skillwire.adapters.stores.moment", lambda: Moment(now[0], now[0], "boot"))
    monkeypatch.setattr("skillwire.executions.callable_skill.new_execution_id", lambda *_, **__: "exec-f5e4d3c2")
    gate = asyncio.Event()
    summary = "The Skill Sharing Protocol enables decentralized skill discovery and invocation across the internet."

    async def summarize():
        await gate.wait()
        return Outcome({"summary": summary})

    executor.script = lambda _: summarize()
    caller = await serving(base_url=base)
    index = (await caller.get("/.well-known/skill-sharing")).json()
    (entry,) = index["skills"]
    assert entry == {
        "id": "example/text-summarizer",
        "name": "Text Summarizer",
        "capability_type": "api",
        "description": "Summarizes long text into concise paragraphs.",
        "descriptor_url": f"{base}/skills/text-summarizer.json",
        "access": "public",
        "version": "1.2.0",
    }
    described = await caller.get("/skills/text-summarizer.json")
    assert described.json() == descriptor
    request = {
        "caller": {"id": "ifay-instance-042", "type": "ifay"},
        "skill_id": "example/text-summarizer",
        "inputs": {"text": "The Skill Sharing Protocol defines a decentralized mechanism...", "max_length": 100},
        "context": {"trace_id": "trace-9e8d7c6b", "priority": "normal"},
    }
    accepted = await caller.post("/api/v1/summarize", request)
    assert accepted.status == 202
    assert accepted.body == _compact(
        """{
  "execution_id": "exec-f5e4d3c2",
  "status": "accepted",
  "skill_id": "example/text-summarizer",
  "timestamps": {
    "created_at": "2025-07-01T12:00:00Z",
    "updated_at": "2025-07-01T12:00:00Z"
  }
}"""
    )
    await executor.began()
    now[0] = noon + 2
    gate.set()
    async with asyncio.timeout(PATIENCE):
        while True:
            polled = await caller.get("/api/v1/status/exec-f5e4d3c2")
            if polled.json()["status"] == "completed":
                break
    assert polled.body == _compact(
        """{
  "execution_id": "exec-f5e4d3c2",
  "status": "completed",
  "skill_id": "example/text-summarizer",
  "output": {
    "summary": "The Skill Sharing Protocol enables decentralized skill discovery and invocation across the internet."
  },
  "timestamps": {
    "created_at": "2025-07-01T12:00:00Z",
    "updated_at": "2025-07-01T12:00:02Z",
    "completed_at": "2025-07-01T12:00:02Z"
  }
}"""
    )
    assert (await caller.get("/api/v1/result/exec-f5e4d3c2")).body == polled.body
    assert (await caller.request("/api/v1/summarize", method="GET")).status == 405


def _compact(text):
    return json.dumps(json.loads(text), separators=(",", ":")).encode()


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_endpoints_of_other_methods_take_inputs_their_own_way(tmp_path, serving, method):
    base = "https://skills.example.com"
    inputs = [
        {"name": "word", "type": "string", "description": "A word.", "required": True},
        {"name": "size", "type": "integer", "description": "A number.", "required": False, "default": 1},
    ]
    descriptor = look_descriptor(base, method, inputs)
    write_action(tmp_path / "skills", "look", files={"descriptor.json": json.dumps(descriptor)})
    caller = await serving(base_url=base)
    if method == "PUT":
        request = {"caller": {"id": "a", "type": "b"}, "skill_id": "acme/look", "inputs": {"word": "12", "size": 3}}
        answer = await caller.post("/look", request, method="PUT")
    else:
        answer = await caller.request("/look?word=12&size=3", method=method)
    assert answer.status == 202, answer.body
    ended = await caller.ended(answer)
    assert ended.json()["output"] == {"word": "12", "size": 3}
    assert isinstance(caller, Caller)


async def test_the_own_paths_of_a_private_skill_are_answered_as_if_nothing_were_there(tmp_path, serving):
    base = "https://skills.acme.com"
    descriptor = look_descriptor(base, "POST") | {"access": "private", "auth": {"type": "api_key"}}
    descriptor["endpoint"] |= {f"{kind}_url": f"{base}/look/{kind}/{{execution_id}}" for kind in ("status", "result")}
    files = {"descriptor.json": json.dumps(descriptor)}
    write_action(tmp_path / "skills", "look", more='access = "private"', files=files)
    caller = await serving(base_url=base)
    key = {"X-API-Key": open_tokens().issue("given", skills=["look"]).secret}
    assert (await caller.request("/look", key)).status == 405  # its path is one that means something
    for path, other in (("/look", "/kool"), ("/look/status/x", "/kool/status/x"), ("/look/result/x", "/kool/result/x")):
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"):
            for fields in (
                {},
                {"Accept": "text/html"},
                {"Idempotency-Key": "\x7f"},
                {"Origin": "https://evil.example"},
            ):
                answers = [await caller.request(one, fields, method=method) for one in (path, other)]
                assert answers[0] == answers[1], (method, path, fields)


async def test_bodies_show_no_private_skill_at_its_own_path(tmp_path, serving):
    base = "https://skills.acme.com"
    descriptor = look_descriptor(base, "POST") | {"access": "private", "auth": {"type": "api_key"}}
    files = {"descriptor.json": json.dumps(descriptor)}
    write_action(tmp_path / "skills", "look", more='access = "private"', files=files)
    caller = await serving(base_url=base)
    who = {"id": "a", "type": "user", "credentials": {"api_key": "wrong"}}
    credentials = json.dumps({"caller": who, "skill_id": "acme/look", "inputs": {}}).encode()
    large = b" " * (limits.EXECUTION_REQUEST_BYTES + 1)
    for body, fields in ((credentials, {}), (large, {}), (b"{}", {"Content-Encoding": "gzip"})):
        answers = [await caller.request(path, fields, method="POST", body=body) for path in ("/look", "/kool")]
        assert answers[0] == answers[1], (answers[0].status, body[:80], fields)
    key = {"X-API-Key": open_tokens().issue("given", skills=["look"]).secret}
    assert (await caller.request("/look", key, method="POST", body=large)).status == 413


async def test_skills_that_share_a_status_path_are_followed_there_also_beside_a_private_one(tmp_path, serving):
    base = "https://skills.acme.com"
    for name in ("hidden", "look"):
        descriptor = look_descriptor(base, "POST") | {"id": f"acme/{name}"}
        descriptor["endpoint"] |= {"url": f"{base}/{name}", "status_url": f"{base}/runs/{{execution_id}}"}
        access = "private" if name == "hidden" else "public"
        files = {"descriptor.json": json.dumps(descriptor | {"access": access})}
        write_action(tmp_path / "skills", name, more=f'access = "{access}"', files=files)
    caller = await serving(base_url=base)
    accepted = await caller.invoke("look", path="/look")
    status = await caller.get(f"/runs/{accepted.json()['execution_id']}")
    assert (accepted.status, status.status) == (202, 200)


@pytest.mark.usefixtures("skills")
async def test_whoever_wants_to_be_told_is_given_the_secret_of_what_tells(serving):
    caller = await serving()
    wanted = {"Callback-Url": "https://hooks.example.com/done"}
    accepted = await caller.invoke("sum-up", {"text": "a"}, wanted)
    assert accepted.fields["webhook-secret"].startswith("whsec_")
    execution = open_ledger().find(accepted.json()["execution_id"])
    assert execution is not None
    assert execution.webhook == wanted["Callback-Url"]
    refused = await caller.invoke("sum-up", {"text": "a"}, {"Callback-Url": "ftp://hooks.example.com"})
    assert refused.status == 422
    for never in (
        "https://127.0.0.1/hook",
        "https://169.254.169.254/",
        "http://hooks.example.com/",
        "https://nas.local/",
    ):
        assert (await caller.invoke("sum-up", {"text": "a"}, {"Callback-Url": never})).status == 422
    assert "webhook-secret" not in (await caller.invoke("sum-up", {"text": "a"})).fields


@pytest.mark.usefixtures("skills")
async def test_what_is_open_to_skills_is_not_open_to_callbacks(serving):
    there = {"Callback-Url": "https://10.1.2.3/hook"}
    caller = await serving(ExecutionSettings(grant_all=True, allow=("10.0.0.0/8",)))
    assert (await caller.invoke("sum-up", {"text": "a"}, there)).status == 422
    caller = await serving(ExecutionSettings(grant_all=True, allow_callbacks=("10.0.0.0/8",)))
    assert (await caller.invoke("sum-up", {"text": "a"}, there)).status == 202


@pytest.mark.usefixtures("skills")
async def test_whoever_asks_what_may_be_sent_is_told_of_keys(serving):
    caller = await serving()
    answer = await caller.request("/skills/sum-up/executions", method="OPTIONS")
    assert answer.status == 204
    assert "Idempotency-Key" in answer.fields["access-control-allow-headers"].split(", ")
