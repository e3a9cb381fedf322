"""Calls between us and who knows nothing of us: the workflow of SSP 10, from both of its sides.

Our client calls a provider that was written by hand from the text; curl and the standard library's urllib call ours,
with the very requests of the text.
"""

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

import jsonschema_rs
import pytest
from tests.interop.peers import PATIENCE, environment
from tests.support.command import run_command
from tests.support.eventually import eventually
from tests.support.processes import started
from tests.support.textbook_provider import COMPLETED, EXECUTION, REFUSED, SUMMARY, TextbookProvider, told

from skillwire import AsyncClient, Client, FetchError

SCHEMA = json.loads((Path(__file__).parents[2] / "schema" / "draft" / "schema.json").read_text())
TEXT = "The Skill Sharing Protocol defines a decentralized mechanism..."
FLOW = [
    "GET /.well-known/skill-sharing",
    "GET /skills/text-summarizer.json",
    "POST /api/v1/summarize",
    *[f"GET /api/v1/status/{EXECUTION}"] * 3,
]


def fits(definition, document):
    """Hold a document against a definition of the protocol's schema, as any other validator would."""
    schema = SCHEMA if definition is None else {"$defs": SCHEMA["$defs"], "$ref": f"#/$defs/{definition}"}
    jsonschema_rs.validate(schema, document)
    return document


def asked(provider):
    """Return what was asked of a provider but for the indexes of the other protocol."""
    return [one for one in provider.asked if "/agent-skills/" not in one and "/skills/index.json" not in one]


class TestTheirProvider:
    @pytest.mark.spec("SSP-call-flow")
    def test_our_client_goes_through_the_workflow_of_the_text(self):
        seen = []
        with TextbookProvider() as provider, Client() as client:
            done = client.call(
                f"{provider.host}/text-summarizer",
                {"text": TEXT, "max_length": 100},
                caller_id="ifay-instance-042",
                caller_type="ifay",
                trace_id="trace-9e8d7c6b",
                priority="normal",
                on_change=lambda execution: seen.append(str(execution.status)),
            )
        assert done.check().output == {"summary": SUMMARY}
        assert (done.execution_id, done.completed_at) == (EXECUTION, "2025-07-01T12:00:02Z")
        assert seen == ["accepted", "running", "completed"]
        assert asked(provider) == FLOW
        [body] = [body for method, _, _, body in provider.requests if method == "POST"]
        assert fits("InvocationRequest", body) == {
            "caller": {"id": "ifay-instance-042", "type": "ifay"},
            "skill_id": "example/text-summarizer",
            "inputs": {"text": TEXT, "max_length": 100},
            "context": {"trace_id": "trace-9e8d7c6b", "priority": "normal"},
        }

    async def test_so_does_the_asynchronous_one(self):
        with TextbookProvider() as provider:
            async with AsyncClient() as client:
                done = await client.call(f"{provider.host}/text-summarizer", {"text": TEXT})
        assert done.output == {"summary": SUMMARY}
        assert asked(provider) == FLOW

    def test_so_does_the_command_line(self, tmp_path):
        def run(*arguments):
            done = run_command(*arguments, env=environment(tmp_path))
            return done.code, done.out

        with TextbookProvider() as provider:
            call = ("call", f"{provider.host}/text-summarizer", f"text={TEXT}", "max_length=100")
            assert run(*call, "--no-wait", "--quiet") == (0, f"{EXECUTION}\n")
            assert re.match(r"status +accepted\n", run("executions", "show", EXECUTION)[1])
            code, result = run("executions", "result", EXECUTION)
            assert (code, json.loads(result)) == (0, {"summary": SUMMARY})
            [request] = [body for method, _, _, body in provider.requests if method == "POST"]
            fits("InvocationRequest", request)

    def test_a_provider_that_answers_a_call_with_200_is_followed_all_the_same(self):
        with TextbookProvider(answer=200) as provider, Client() as client:
            assert client.call(f"{provider.host}/text-summarizer", {"text": TEXT}).is_completed

    def test_an_output_that_only_the_result_has_is_fetched_there(self):
        bare = {name: value for name, value in COMPLETED.items() if name != "output"}
        with TextbookProvider(bare, result=COMPLETED) as provider, Client() as client:
            assert client.call(f"{provider.host}/text-summarizer", {"text": TEXT}).output == {"summary": SUMMARY}
        assert provider.asked[-1] == f"GET /api/v1/result/{EXECUTION}"

    @pytest.mark.parametrize("status", ["failed", "timeout"])
    def test_how_it_ended_is_told_in_the_words_of_the_provider(self, status):
        error = {"code": "INVOCATION_TIMEOUT", "message": "Skill execution timed out after 30000ms"}
        with TextbookProvider(told(status, error=error)) as provider, Client() as client:
            done = client.call(f"{provider.host}/text-summarizer", {"text": TEXT})
        assert done.error is not None
        assert (str(done.status), done.error.code, done.error.message) == (status, error["code"], error["message"])

    @pytest.mark.spec("SSP-call-refused")
    def test_without_a_key_it_is_refused_and_with_one_it_is_not(self):
        with TextbookProvider(key="sk-abc123") as provider, Client() as client:
            with pytest.raises(FetchError) as caught:
                client.call(f"{provider.host}/text-summarizer", {"text": TEXT})
            assert caught.value.code == "AUTH_REQUIRED"
            client.set_token(f"http://{provider.host}", "sk-abc123")
            assert client.call(f"{provider.host}/text-summarizer", {"text": TEXT}).is_completed


PROGRAM = '''
"""A provider written with skillwire: the skill of SSP 10, for everybody and for some."""
import asyncio
import skillwire

publisher = skillwire.Publisher("example")

async def summarize(text: str, max_length: int = 200) -> dict[str, str]:
    """Summarizes long text into concise paragraphs. Use when a text is too long."""
    await asyncio.sleep(0.5)
    return {"summary": " ".join(text.split()[:max_length])}

publisher.skill(name="text-summarizer", version="1.2.0")(summarize)
publisher.skill(name="weather-forecast", access="restricted")(summarize)
publisher.serve(port=0, on_ready=lambda address: print(address, flush=True))
'''


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: bytes

    def json(self):
        return json.loads(self.body)


def by_urllib(method, url, document=None):
    """Ask as a program does that has nothing but the standard library."""
    data = None if document is None else json.dumps(document).encode()
    headers = {"Accept": "application/json"} | ({} if data is None else {"Content-Type": "application/json"})
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310  # of loopback
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:  # noqa: S310  # of loopback
            return Answer(response.status, response.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read())


def by_curl(method, url, document=None):
    """Ask as a person does at a terminal."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed; fix: apt-get install curl")
    data = [] if document is None else ["-H", "Content-Type: application/json", "--data", json.dumps(document)]
    command = ["curl", "-sS", "-X", method, "-H", "Accept: application/json", "-w", "\n%{http_code}", *data, url]
    printed = subprocess.check_output(command, timeout=PATIENCE)
    body, _, status = printed.rpartition(b"\n")
    return Answer(int(status), body)


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("provider")
    (folder / "service.py").write_text(PROGRAM)
    with started(folder / "service.py", home=folder / "home") as address:
        yield address


@pytest.mark.parametrize("ask", [by_urllib, by_curl])
class TestOurProvider:
    STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")

    @pytest.mark.spec("SSP-invoke-flow")
    def test_it_answers_the_workflow_of_the_text(self, ask, origin):
        index = fits("SkillIndex", ask("GET", f"{origin}/.well-known/skill-sharing").json())
        [entry] = [entry for entry in index["skills"] if entry["id"] == "example/text-summarizer"]
        expected = {"name": "Text Summarizer", "capability_type": "api", "access": "public", "version": "1.2.0"}
        assert {name: entry[name] for name in expected} == expected

        descriptor = fits(None, ask("GET", entry["descriptor_url"]).json())
        endpoint = descriptor["endpoint"]

        accepted = ask(
            "POST",
            endpoint["url"],
            {
                "caller": {"id": "ifay-instance-042", "type": "ifay"},
                "skill_id": "example/text-summarizer",
                "inputs": {"text": TEXT, "max_length": 100},
                "context": {"trace_id": "trace-9e8d7c6b", "priority": "normal"},
            },
        )
        told = fits("InvocationResponse", accepted.json())
        assert (accepted.status, told["status"], told["skill_id"]) == (202, "accepted", "example/text-summarizer")
        assert list(told) == ["execution_id", "status", "skill_id", "timestamps"]
        assert list(told["timestamps"]) == ["created_at", "updated_at"]

        status_url = endpoint["status_url"].replace("{execution_id}", told["execution_id"])
        seen = ["accepted"]

        def poll():
            answer = ask("GET", status_url)
            assert answer.status == 200
            seen.append(fits("InvocationResponse", answer.json())["status"])
            return answer

        polled = eventually(poll, lambda _: seen[-1] not in {"accepted", "running"}, every=0.1)
        told = polled.json()
        assert list(dict.fromkeys(seen)) == ["accepted", "running", "completed"]
        assert list(told) == ["execution_id", "status", "skill_id", "output", "timestamps"]
        assert told["output"] == {"summary": TEXT}
        assert list(told["timestamps"]) == ["created_at", "updated_at", "completed_at"]
        assert all(self.STAMP.fullmatch(stamp) for stamp in told["timestamps"].values())

        result_url = endpoint["result_url"].replace("{execution_id}", told["execution_id"])
        assert ask("GET", result_url) == polled

    @pytest.mark.spec("SSP-auth-required")
    def test_without_a_credential_it_answers_the_bytes_of_the_text(self, ask, origin):
        answer = ask(
            "POST",
            f"{origin}/skills/weather-forecast/executions",
            {
                "caller": {"id": "ifay-001", "type": "ifay"},
                "skill_id": "example/weather-forecast",
                "inputs": {"location": "Berlin"},
            },
        )
        assert answer.status == 401
        assert json.dumps(answer.json()) == json.dumps(REFUSED)  # the order of the members, too

    def test_what_does_not_fit_is_told_member_by_member(self, ask, origin):
        body = {"caller": {"id": "a", "type": "ifay"}, "skill_id": "example/text-summarizer", "inputs": {"text": 7}}
        answer = ask("POST", f"{origin}/skills/text-summarizer/executions", body)
        error = answer.json()["error"]
        assert (answer.status, error["code"]) == (422, "VALIDATION_ERROR")
        assert [(one["path"], set(one)) for one in error["details"]] == [
            ("/inputs/text", {"path", "message", "expected", "actual"})
        ]
        assert ask("GET", f"{origin}/executions/exec-none").json()["error"]["code"] == "SKILL_NOT_FOUND"
