"""The server does what ``/openapi.json`` says: schemathesis drives every operation, as a stranger and as who has a key.

Requests go over the wire to a real ``skillwire serve``. Every check that schemathesis brings is on; two of them
do not ask where a document cannot say what is right.
"""

import json
import time
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.python._constants.orchestrator import make_constants_value_source
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from tests.support.command import run_command
from tests.support.eventually import eventually
from tests.support.invoking import write_action
from tests.support.loopback_lan import discovery, own_lan
from tests.support.openapi import document
from tests.support.publishing import ServeProcess, write_skill

from skillwire import limits
from skillwire.adapters.files.authority import AuthorityFolder

CONFIGURATION = """
[rate_limit]
principal_per_minute = 1000000
principal_burst = 1000000
[oauth2]
issuer = "https://login.example.com"
audience = "skills"
[rpc]
execute_skill = true
[executions]
grant_all = true
[bridges]
ai_catalog = "1.0"
agent_card = "1.0"
"""
QUESTION = """
[executor]
kind = "human"
[inputs.question]
type = "string"
description = "What is asked."
required = true
"""
JSON = {"Content-Type": "application/json"}
few = settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))


def _locked():
    """Return the document of the one operation that wants a key: a file of a skill that is not for everybody."""
    path = "/.well-known/agent-skills/{skill}/{file}"
    whole = document()
    operation = {**whole["paths"][path]["get"], "security": [{"ApiKey": []}], "parameters": []}
    named = [
        {"name": name, "in": "path", "required": True, "schema": {"const": value}}
        for name, value in (("skill", "staff-guide"), ("file", "SKILL.md"))
    ]
    return {**whole, "paths": {path: {"parameters": named, "get": operation}}}


CALL = {
    "caller": {"id": "ifay-instance-042", "type": "ifay"},
    "skill_id": "local/ask-somebody",
    "inputs": {"question": "Is it right?"},
}
SOME = f"exec-{0:032}"


def _called():
    """Return the operations of calls: of a skill that a person does, and nobody will, and of :data:`SOME` execution."""
    whole = document()
    for name, value in {"skill": "ask-somebody", "execution": SOME}.items():
        parameter = whole["components"]["parameters"][name]
        whole["components"]["parameters"][name] = {**parameter, "schema": {"const": value}, "example": value}
    fields = {name: {"const": value} for name, value in CALL.items()}
    request = {"type": "object", "properties": fields, "required": list(fields)}
    whole["components"]["schemas"]["InvocationRequest"] = request
    return {**whole, "paths": {path: one for path, one in whole["paths"].items() if "/executions/" in f"{path}/"}}


def each_operation(whole):
    """Run a test for each operation of a document."""
    operations = [(path, method) for path, item in whole["paths"].items() for method in item if method != "parameters"]
    schemas = [pytest.param((whole, *one), id=f"{one[1].upper()} {one[0]}") for one in operations]
    return pytest.mark.parametrize("operation", schemas)


def drive(operation, ask):
    """Call ``ask`` with each case of an operation. The plugin of schemathesis makes all cases before the first test."""
    whole, path, method = operation
    schema = schemathesis.openapi.from_dict(whole).include(path=path, method=method)
    found: Any = next(schema.get_all_operations())
    load_all_checks()
    feedback = FeedbackSources(constants_value_source=make_constants_value_source(schema))
    cases: Any = {"operation": found.ok(), "given_kwargs": {}, "explicit_settings": few, "feedback": feedback}
    build_operation_test(config=schema.config, test_func=ask, **cases)()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("openapi")


@pytest.fixture(scope="module")
def server(folder):
    write_skill(folder / "skills", "csv-profile", {"scripts/run.py": "print()\n"})
    write_skill(folder / "skills", "open-notes")
    write_skill(folder / "skills", "staff-guide", {"skill.toml": 'access = "restricted"\n'})
    write_action(folder / "skills", "ask-somebody", tables=QUESTION)
    write_action(folder / "skills", "adder")
    AuthorityFolder.create(folder / "ca", "Example", time.time())
    trust = '[discovery.trust]\nauthority = "ca"\n'
    (folder / "server.toml").write_text(CONFIGURATION + discovery(own_lan(), agent="agent-001", trust=trust))
    options = ("--lan", "--config", folder / "server.toml", "--no-access-log")
    with ServeProcess(folder / "skills", *options, home=folder) as running:
        running.wait_for(lambda ready: ready["skills"] == 4)
        eventually(lambda: running.get("/.well-known/skill-discovery").status, lambda status: status == 200)
        yield running


@pytest.fixture(scope="module")
def key(server, folder):
    command = ("token", "create", "schemathesis", "--skill", "*", "--scope", "operator", "-q")
    secret = run_command(*command, env={"SKILLWIRE_HOME": str(folder)}).out.strip()
    assert server.get("/skills", {"X-API-Key": secret}).status == 200
    return {"X-API-Key": secret}


@pytest.fixture(scope="module")
def execution(server):
    answer = server.get("/skills/ask-somebody/executions", JSON, method="POST", body=json.dumps(CALL))
    assert answer.status == 202
    return answer.json()["execution_id"]


def _check(case, server, fields):
    """Send a request, and hold its answer to the document; return the answer."""
    answer = case.call(base_url=f"http://127.0.0.1:{server.port}", headers=fields)
    case.validate_response(answer, excluded_checks=list(_not_asked(case, answer)), headers=fields)
    return answer


def _not_asked(case, answer):
    """Yield the checks that would ask for what no document can say."""
    query = case.query or {}
    is_told_inside = case.path == "/rpc"  # JSON-RPC tells its errors with 200
    is_unknown = "x-schemathesis-unknown-property" in query  # unknown parameters are ignored
    if case.method.upper() == "OPTIONS" or answer.status_code in {413, 414} or is_told_inside or is_unknown:
        yield negative_data_rejection  # a preflight is answered anywhere; 413 and 414 are refusals, too
    is_call = case.method.upper() == "POST"  # each skill takes inputs of its own, and none takes those of another
    # 416: a range may lie behind the end, which the document cannot know.
    if (
        is_call
        or answer.status_code in {413, 414, 416}
        or "after" in query
        or len(str(query.get("q", ""))) > limits.SEARCH_WORDS
    ):
        yield positive_data_acceptance  # cursors that are made up are refused, and queries of too many words


@each_operation(document())
def test_a_stranger_is_answered_as_the_document_says(server, operation):
    def ask(case):
        _check(case, server, {})

    drive(operation, ask)


@each_operation(document())
def test_who_has_a_key_is_answered_as_the_document_says(server, key, operation):
    def ask(case):
        answer = _check(case, server, key)
        is_uncertified = case.path == "/lan/certificates"  # a certificate is proven by another one, and not by a key
        assert answer.status_code not in {401, 403} or is_uncertified
        assert answer.status_code in {405, 414} or "ratelimit-remaining" in answer.headers

    drive(operation, ask)


@each_operation(_called())
def test_a_call_is_accepted_and_followed_as_the_document_says(server, execution, operation):
    def ask(case):
        if case.path_parameters.get("execution") == SOME:
            case.path_parameters["execution"] = execution
        answer = case.call(base_url=f"http://127.0.0.1:{server.port}")
        excluded = [negative_data_rejection] if case.method.upper() == "OPTIONS" else []
        # A number of many digits, in a field that nobody knows; or a made-up host, which no address belongs to.
        if "is beyond what a field can hold" in answer.text or "callbacks may not lead there" in answer.text:
            excluded.append(positive_data_acceptance)
        case.validate_response(answer, excluded_checks=excluded)
        assert answer.status_code not in {401, 403, 503}

    drive(operation, ask)


@each_operation(_locked())
def test_what_wants_a_key_is_not_given_without_one(server, key, operation):
    """The check ``ignored_auth`` asks again without the key, and with a wrong one."""

    def ask(case):
        case.call_and_validate(base_url=f"http://127.0.0.1:{server.port}", headers=key)

    drive(operation, ask)
