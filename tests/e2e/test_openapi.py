"""The server does what ``/openapi.json`` says: schemathesis drives every operation, as a stranger and as who has a key.

Requests go over the wire to a real ``skillwire serve``. Every check that schemathesis brings is on; two of them
do not ask where a document cannot say what is right.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from tests.support.publishing import ServeProcess, write_skill

from skillwire import limits
from skillwire.server.openapi import document

schema = schemathesis.openapi.from_dict(document())
CONFIGURATION = """
[rate_limit]
principal_per_minute = 1000000
principal_burst = 1000000
[oauth2]
issuer = "https://login.example.com"
audience = "skills"
"""
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


locked = schemathesis.openapi.from_dict(_locked())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("openapi")


@pytest.fixture(scope="module")
def server(folder):
    write_skill(folder / "skills", "csv-profile", {"scripts/run.py": "print()\n"})
    write_skill(folder / "skills", "open-notes")
    write_skill(folder / "skills", "staff-guide", {"skill.toml": 'access = "restricted"\n'})
    (folder / "server.toml").write_text(CONFIGURATION)
    with ServeProcess(folder / "skills", "--config", folder / "server.toml", "--no-access-log", home=folder) as running:
        running.wait_for(lambda ready: ready["skills"] == 2)
        yield running


@pytest.fixture(scope="module")
def key(server, folder):
    command = [sys.executable, "-m", "skillwire", "token", "create", "schemathesis", "--skill", "*", "-q"]
    environment = {**os.environ, "SKILLWIRE_HOME": str(folder)}
    made = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    secret = made.stdout.strip()
    assert server.get("/skills", {"X-API-Key": secret}).status == 200
    return {"X-API-Key": secret}


def _check(case, server, fields):
    """Send a request, and hold its answer to the document; return the answer."""
    answer = case.call(base_url=f"http://127.0.0.1:{server.port}", headers=fields)
    case.validate_response(answer, excluded_checks=list(_not_asked(case, answer)), headers=fields)
    return answer


def _not_asked(case, answer):
    """Yield the checks that would ask for what no document can say."""
    query = case.query or {}
    if case.method.upper() == "OPTIONS" or answer.status_code == 414:
        yield negative_data_rejection  # a preflight is answered wherever something may be, and 414 is a refusal, too
    if answer.status_code == 414 or "after" in query or len(str(query.get("q", ""))) > limits.SEARCH_WORDS:
        yield positive_data_acceptance  # cursors that are made up are refused, and queries of too many words


@schema.parametrize()
@few
def test_a_stranger_is_answered_as_the_document_says(case, server):
    _check(case, server, {})


@schema.parametrize()
@few
def test_who_has_a_key_is_answered_as_the_document_says(case, server, key):
    answer = _check(case, server, key)
    assert answer.status_code not in {401, 403}
    assert answer.status_code in {405, 414} or "ratelimit-remaining" in answer.headers


@locked.parametrize()
@few
def test_what_wants_a_key_is_not_given_without_one(case, server, key):
    """The check ``ignored_auth`` asks again without the key, and with a wrong one."""
    case.call_and_validate(base_url=f"http://127.0.0.1:{server.port}", headers=key)
