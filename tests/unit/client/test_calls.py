"""Calls through the client: what is sent, when it is sent again, what is followed, remembered, and refused."""

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from tests.unit.protocols.sharing_samples import DESCRIPTOR, ENTRY

from skillwire import AsyncClient, Client
from skillwire.adapters.files.atomic import state_directory
from skillwire.adapters.files.credentials import open_store
from skillwire.errors import (
    DecodeError,
    ExecutionError,
    FetchError,
    NotFoundError,
    PendingError,
    SkillwireError,
    TrustError,
    UsageError,
    ValidationError,
)
from skillwire.model.credential import Credential
from skillwire.model.execution import ExecutionStatus
from skillwire.testing.publisher import SimulatedPublisher
from skillwire.wire.exchange import HttpRequest, HttpResponse, Sleep, TimeLimit

ORIGIN = "https://skills.example.com"
API = f"{ORIGIN}/api"
STATUS = f"{API}/status/exec-1"
RESULT = f"{API}/result/exec-1"
NAME = "skills.example.com/forecast"
INPUTS = [
    {"name": "city", "type": "string", "description": "Where.", "required": True},
    {"name": "days", "type": "integer", "description": "How far.", "required": False, "default": 3},
]
STAMPS = {"created_at": "2025-07-01T12:00:00Z", "updated_at": "2025-07-01T12:00:01Z"}


def http(body: Any = b"", status=200, **headers):
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
        fields.setdefault("content-type", "application/json")
    return HttpResponse("", status, fields, body)


def told(status, code=200, *, execution_id="exec-1", headers=None, **more):
    document = {"execution_id": execution_id, "status": status, "skill_id": ENTRY["id"], "timestamps": STAMPS, **more}
    return http(document, code, **(headers or {}))


def refused(status, code, message="No.", details=None, retry=None, **headers):
    error = {"code": code, "message": message}
    error |= {"details": details} if details else {}
    error |= {"retry": retry} if retry else {}
    return http({"error": error}, status, **headers)


ACCEPTED = told("accepted", 202)
RUNNING = told("running")
DONE = told("completed", output={"high": 31})
NEVER = {"suggested_delay_ms": 9, "max_attempts": 0}
LOST = FetchError("CONNECTION_LOST", "it broke")


class Place:
    """A provider without a network, and a client whose time passes only by pauses."""

    def __init__(self, folder):
        self.publisher = SimulatedPublisher()
        self.findings = []
        self.pauses = []
        self.seconds = 1000.0
        self.chance = 1.0
        self.folder = folder
        self.describe()
        self.takes("*", "Idempotency-Key")
        self.client = self.open()

    def open(self, **options):
        client = Client(self.folder, report=self.findings.append, **options)
        client.driver = self.publisher
        client._runner.sleep = self._pause
        session = client._session
        session.calls = session.make_calls(clock=self._clock, chance=lambda: self.chance)
        return client

    def _clock(self):
        return self.seconds

    def _pause(self, seconds):
        assert seconds > 0
        self.pauses.append(seconds)
        self.seconds += seconds

    def describe(self, *, cache_control="", **fields):
        headers = {"cache_control": cache_control} if cache_control else {}
        endpoint = {
            "url": f"{API}/call",
            "method": "POST",
            "status_url": f"{API}/status/{{execution_id}}",
            "result_url": f"{API}/result/{{execution_id}}",
            **fields.pop("endpoint", {}),
        }
        index = {"protocol": {"version": "1.0.0"}, "provider": {"name": "Example"}, "skills": [ENTRY]}
        document = {**DESCRIPTOR, "endpoint": endpoint, "inputs": INPUTS, **fields}
        self.publisher.answer(f"{ORIGIN}/.well-known/skill-sharing", json.dumps(index).encode(), **headers)
        self.publisher.answer(ENTRY["descriptor_url"], json.dumps(document).encode(), **headers)

    def takes(self, *fields, status=204):
        """Say to OPTIONS which fields may be sent."""
        answer = http("", status, access_control_allow_headers=", ".join(fields))
        self.publisher.reply("OPTIONS", f"{API}/call", answer)

    def post(self, *outcomes):
        self.publisher.reply("POST", f"{API}/call", *outcomes)

    def status(self, *outcomes):
        self.publisher.reply("GET", STATUS, *outcomes)

    def accepts(self, *outcomes, **headers):
        """Accept a call; answer the questions for its status so."""
        self.post(told("accepted", 202, headers=headers))
        if outcomes:
            self.status(*outcomes)

    def moves(self, base, *outcomes):
        """Name an endpoint at another place in the descriptor."""
        urls = {
            "url": f"{base}/call",
            "status_url": f"{base}/{{execution_id}}",
            "result_url": f"{base}/r/{{execution_id}}",
        }
        self.describe(endpoint=urls)
        self.publisher.reply("POST", f"{base}/call", *outcomes)

    def call(self, client=None, **options):
        inputs = options.pop("inputs", {"city": "Bern"})
        return (client or self.client).call(NAME, inputs, **options)

    def sent(self, method, url=None):
        url = url or {"POST": f"{API}/call", "GET": STATUS, "DELETE": STATUS}[method]
        return [one for one in self.publisher.requests if one.method == method and one.url == url]

    @property
    def bodies(self):
        return [json.loads(request.body) for request in self.sent("POST")]

    @property
    def keys(self):
        return [request.headers["Idempotency-Key"] for request in self.sent("POST")]

    @property
    def codes(self):
        return [finding.code for finding in self.findings]

    @property
    def book(self):
        return json.loads((state_directory() / "calls.json").read_text())["calls"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(TimeLimit, "left", lambda limit: limit.seconds)  # no time passes before a call
    project = tmp_path / "project"
    project.mkdir()
    return Place(project)


def nobody():
    return FetchError("CONNECT_FAILED", "nobody listens there")


def failing(call, *arguments, **options) -> Any:
    with pytest.raises(SkillwireError) as caught:
        call(*arguments, **options)
    return caught.value


class TestSending:
    def test_a_call_is_an_invocation_request_with_defaults(self, place):
        place.post(DONE)
        execution = place.call(timeout=30, priority="high", trace_id="trace-7")
        (request,) = place.sent("POST")
        (body,) = place.bodies
        caller = body.pop("caller")
        assert body == {
            "skill_id": "example-corp/forecast",
            "inputs": {"city": "Bern", "days": 3},
            "context": {"trace_id": "trace-7", "priority": "high", "timeout_ms": 30000},
        }
        assert (caller["id"][:10], caller["type"], caller.keys()) == ("skillwire-", "user", {"id", "type"})
        assert request.headers["Content-Type"] == "application/json"
        assert request.headers["Prefer"] == "wait=2"
        assert (execution.status, execution.output, execution.execution_id) == ("completed", {"high": 31}, "exec-1")
        assert execution.check() is execution

    def test_without_circumstances_there_is_no_context(self, place):
        place.post(DONE)
        place.call(caller_id="ifay-001", caller_type="ifay")
        assert place.bodies == [
            {
                "caller": {"id": "ifay-001", "type": "ifay"},
                "skill_id": "example-corp/forecast",
                "inputs": {"city": "Bern", "days": 3},
            }
        ]

    @pytest.mark.parametrize("name", ["city", "skill", "descriptor"])
    @pytest.mark.parametrize("way", ["reference", "skill"])
    def test_an_unknown_option_is_named_with_the_way_to_pass_inputs(self, place, way, name):
        options = {name: "Bern"}
        call = place.client.show(NAME).call if way == "skill" else place.call
        error = failing(call, **options)
        assert (error.code, error.message) == ("USAGE", f"a call has no option {name}")
        assert f"{{'{name}': ...}}" in error.fix
        assert place.sent("POST") == []

    def test_who_calls_is_the_same_for_one_origin_and_another_for_the_next(self, place):
        place.post(DONE)
        place.call()
        place.call(place.open())
        first, second = (body["caller"]["id"] for body in place.bodies)
        place.moves("https://other.example", DONE)
        place.call()
        (third,) = place.sent("POST", "https://other.example/call")
        assert first == second != json.loads(third.body)["caller"]["id"]

    @pytest.mark.parametrize("method", ["GET", "DELETE"])
    def test_a_method_without_a_body_carries_inputs_in_the_query(self, place, method):
        place.describe(endpoint={"method": method, "url": f"{API}/call?v=1"})
        url = f"{API}/call?v=1&city=Z%C3%BCrich%20%26%20more&days=5"
        place.publisher.reply(method, url, http(b"sunny", content_type="text/plain"))
        execution = place.call(inputs={"city": "Zürich & more", "days": 5})
        (request,) = place.sent(method, url)
        assert request.body is None
        assert (execution.output, execution.content_type, execution.execution_id) == ("sunny", "text/plain", None)

    def test_inputs_that_are_too_long_for_a_url_are_refused(self, place):
        place.describe(endpoint={"method": "GET"})
        assert failing(place.call, inputs={"city": "x" * 3000}).code == "URL"
        assert place.book == []

    def test_a_put_carries_a_body(self, place):
        place.describe(endpoint={"method": "PUT"})
        place.publisher.reply("PUT", f"{API}/call", DONE)
        place.call()
        (request,) = place.sent("PUT", f"{API}/call")
        assert json.loads(request.body)["inputs"]["city"] == "Bern"

    def test_what_does_not_fit_the_descriptor_is_never_sent(self, place):
        error = failing(place.call, inputs={"citty": "Bern", "days": "many"})
        assert error.code == "VALIDATION_ERROR"
        assert [row["path"] for row in error.details["errors"]] == ["/inputs/citty", "/inputs/days", "/inputs/city"]
        assert not place.sent("POST")

    @pytest.mark.parametrize("way", ["reference", "skill"])
    def test_inputs_that_a_kept_descriptor_refuses_are_checked_by_a_new_one(self, place, way):
        place.describe(cache_control="max-age=60")
        skill = place.client.show(NAME)
        skill.descriptor()
        place.describe(inputs=[{**INPUTS[0], "name": "place"}])
        place.post(DONE)
        call = skill.call if way == "skill" else lambda inputs: place.call(inputs=inputs)
        assert call({"place": "Bern"}).output == {"high": 31}
        assert [body["inputs"] for body in place.bodies] == [{"place": "Bern"}]

    @pytest.mark.parametrize("way", ["reference", "skill"])
    def test_what_the_provider_refuses_is_checked_by_a_new_descriptor(self, place, way):
        place.describe(cache_control="max-age=60")
        skill = place.client.show(NAME)
        skill.descriptor()
        place.describe(inputs=[{**INPUTS[0], "name": "place"}])
        place.post(refused(422, "VALIDATION_ERROR"))
        call = skill.call if way == "skill" else lambda inputs: place.call(inputs=inputs)
        error = failing(call, {"city": "Bern"})
        assert [row["path"] for row in error.details["errors"]] == ["/inputs/city", "/inputs/place"]
        assert len(place.sent("POST")) == 1

    @pytest.mark.parametrize("way", ["reference", "skill"])
    @pytest.mark.parametrize(
        ("base", "method", "auth"),
        [
            ("https://bank.example", "POST", {"type": "none"}),
            ("https://a.example", "PUT", {"type": "none"}),
            ("https://a.example", "POST", {"type": "api_key", "header": "X-Key"}),
        ],
        ids=["url", "method", "auth"],
    )
    def test_consent_to_an_endpoint_holds_for_no_other_that_a_new_descriptor_names(
        self, place, way, base, method, auth
    ):
        def describe(base, method, auth, **headers):
            urls = {"status_url": f"{base}/{{execution_id}}", "result_url": f"{base}/r/{{execution_id}}"}
            place.describe(endpoint={"url": f"{base}/call", "method": method, **urls}, auth=auth, **headers)

        for origin in ("https://a.example", "https://bank.example"):
            open_store().keep(Credential(origin, "api_key", "key-1", "login"))
        client = place.open()
        describe("https://a.example", "POST", {"type": "none"}, cache_control="max-age=60")
        skill = client.show(NAME)
        skill.descriptor()
        describe(base, method, auth)
        place.publisher.reply("POST", "https://a.example/call", refused(422, "VALIDATION_ERROR", "No such city."))
        place.publisher.reply(method, f"{base}/call", refused(422, "VALIDATION_ERROR", "No such city."), DONE)
        call = skill.call if way == "skill" else lambda inputs, **options: client.call(NAME, inputs, **options)
        assert "No such city." in failing(call, {"city": "Bern"}, consent=True).message
        asked = [(one.method, one.url) for one in place.publisher.requests if not one.url.startswith(ORIGIN)]
        assert asked == [("POST", "https://a.example/call")]

    def test_a_refusal_by_an_unchanged_descriptor_is_the_providers(self, place):
        place.post(refused(422, "VALIDATION_ERROR", "No such city."))
        assert "No such city." in failing(place.call).message
        assert len(place.sent("POST")) == 1

    def test_a_malformed_answer_is_no_refusal_and_is_not_sent_again(self, place):
        place.describe(cache_control="max-age=60")
        place.client.show(NAME).descriptor()
        place.describe(description="It is another one.")
        place.post(told("accepted", 202))
        place.status(told("accepted", timestamps={}))
        assert failing(place.call).code == "VALIDATION_ERROR"
        assert len(place.sent("POST")) == 1

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"protocol": {"version": "2.0.0"}}, "VERSION_INCOMPATIBLE"),
            ({"access": "anyone"}, "VALIDATION_ERROR"),
            ({"endpoint": {"url": "http://169.254.169.254/"}}, "DESCRIPTOR"),
            ({"endpoint": {"content_type": "multipart/form-data"}}, "DESCRIPTOR"),
            ({"inputs": [{**INPUTS[0], "schema": {"pattern": "(a+)+$"}}]}, "DESCRIPTOR"),
        ],
    )
    def test_a_descriptor_that_must_not_be_used_is_never_called(self, place, fields, code):
        place.describe(**fields)
        assert failing(place.call).code == code
        assert not [request for request in place.publisher.requests if request.method == "POST"]

    @pytest.mark.parametrize(
        "options", [{"timeout": 0}, {"timeout": 1e9}, {"priority": "urgent"}, {"idempotency_key": "two\nlines"}]
    )
    def test_options_that_make_no_sense_are_refused(self, place, options):
        error = failing(place.call, **options)
        assert isinstance(error, UsageError)
        assert not place.sent("POST")

    def test_the_time_limit_is_one_of_index_and_descriptor_too(self, place):
        place.post(DONE)
        assert place.call(timeout=20).is_completed
        asked = [one.timeout for one in place.publisher.requests if one.method == "GET"]
        assert len(asked) == len([seconds for seconds in asked if 0 < seconds <= 20]) > 1

    def test_what_json_cannot_say_is_refused(self, place):
        place.describe(inputs=[{"name": "any", "type": "anything", "description": "", "required": False}])
        for value in (float("nan"), "\ud800", object(), {1: 2}):
            assert failing(place.call, inputs={"any": value}).code == "VALIDATION_ERROR"
        assert not place.sent("POST")
        assert place.book == []

    def test_nothing_is_called_offline(self, place):
        place.client.show(NAME).descriptor()
        assert failing(place.call, place.open(offline=True)).code == "OFFLINE"

    def test_a_prepared_call_sends_nothing_and_shows_no_secret(self, place):
        place.client.set_token(ORIGIN, "secret-1")
        prepared = place.client.show(NAME).prepare({"city": "Bern"})
        assert (prepared.method, prepared.url, prepared.inputs["days"]) == ("POST", f"{API}/call", 3)
        assert prepared.headers["Authorization"] == "..."
        assert "secret-1" not in repr(prepared)
        assert not place.sent("POST")


class TestCredentials:
    def test_it_goes_to_the_endpoint_and_is_in_no_body(self, place):
        place.client.set_token(ORIGIN, "secret-1")
        place.accepts(DONE)
        place.call()
        assert [request.headers["Authorization"] for request in [*place.sent("POST"), *place.sent("GET")]] == [
            "Bearer secret-1"
        ] * 2
        assert b"secret-1" not in place.sent("POST")[0].body
        assert "secret-1" not in (state_directory() / "calls.json").read_text()

    def test_an_api_key_goes_in_the_field_that_the_descriptor_names(self, place):
        place.describe(auth={"type": "api_key", "header": "X-API-Key"})
        place.client.set_token(ORIGIN, "key-1")
        place.accepts(RUNNING, DONE)
        place.call(wait=False)
        later = place.open()
        later.set_token(ORIGIN, "key-1")
        later.result("exec-1")
        for request in [*place.sent("POST"), *place.sent("GET")]:
            assert request.headers["X-API-Key"] == "key-1"
            assert "Authorization" not in request.headers

    @pytest.mark.parametrize("is_late", [False, True], ids=["before", "after the skill was looked at"])
    def test_a_stored_key_is_put_in_its_field(self, place, is_late):
        login = Credential(ORIGIN, "api_key", "key-1", "login", header="X-Key")
        if not is_late:
            open_store().keep(login)
        skill = place.open().show(NAME)
        skill.descriptor()
        if is_late:
            open_store().keep(login)
        place.accepts(DONE)
        skill.call({"city": "Bern"})
        assert {request.headers["X-Key"] for request in [*place.sent("POST"), *place.sent("GET")]} == {"key-1"}

    def test_a_key_to_sign_with_signs_the_body_and_stays_here(self, place):
        open_store().keep(Credential(ORIGIN, "custom", "key-1", "login", key_id="k"))
        place.post(DONE)
        place.call(place.open())
        (request,) = place.sent("POST")
        assert "Authorization" not in request.headers
        assert not [value for value in request.headers.values() if "key-1" in value]

    def test_no_redirect_takes_it_elsewhere(self, place):
        place.client.set_token(ORIGIN, "secret-1")
        place.post(http(status=307, location="https://evil.example/call"))
        assert failing(place.call).code == "REDIRECT_REFUSED"
        assert not [request for request in place.publisher.requests if "evil" in request.url]

    def test_a_401_says_where_to_log_in(self, place):
        details = {"required_auth_type": "oauth2", "authorization_url": "https://id.example/authorize"}
        place.post(refused(401, "AUTH_REQUIRED", details=details))
        error = failing(place.call)
        where = "It takes oauth2, https://id.example/authorize."
        assert (error.code, error.fix) == ("AUTH_REQUIRED", f"Run skillwire auth login {ORIGIN}. {where}")
        assert len(place.sent("POST")) == 1
        assert place.book == []

    def test_no_descriptor_makes_calls_in_the_users_name_elsewhere(self, place):
        bank = "https://bank.example"
        place.moves(bank, DONE)
        open_store().keep(Credential(bank, "api_key", "key-1", "login"))
        client = place.open()
        error = failing(place.call, client)
        assert (type(error), error.code) == (TrustError, "ENDPOINT_FOREIGN")
        assert not place.sent("POST", f"{bank}/call")
        place.call(client, consent=True)
        (request,) = place.sent("POST", f"{bank}/call")
        assert request.headers["Authorization"] == "Bearer key-1"

    def test_an_endpoint_that_nobody_is_known_at_needs_no_consent(self, place):
        place.moves("https://other.example", DONE)
        place.client.set_token(ORIGIN, "secret-1")
        place.call()
        (request,) = place.sent("POST", "https://other.example/call")
        assert "Authorization" not in request.headers

    def test_an_endpoint_below_the_named_host_gets_its_own_credential(self, place):
        below = "https://api.skills.example.com"
        place.moves(below, ACCEPTED)
        place.publisher.reply("GET", f"{below}/exec-1", DONE)
        open_store().keep(Credential(below, "api_key", "key-1", "login"))
        place.call(place.open(), wait=False)
        place.open().result("exec-1")
        for method, url in (("POST", f"{below}/call"), ("GET", f"{below}/exec-1")):
            (request,) = place.sent(method, url)
            assert request.headers["Authorization"] == "Bearer key-1"


class TestSendingAgain:
    def test_after_a_lost_answer_the_same_call_goes_out_under_the_same_key(self, place):
        place.post(LOST, FetchError("TIMEOUT", "no answer"), DONE)
        assert place.call().output == {"high": 31}
        assert len(set(place.keys)) == 1
        assert place.bodies[0] == place.bodies[1] == place.bodies[2]
        assert place.pauses == [0.5, 1.0]

    @pytest.mark.parametrize("status", [429, 502, 503, 504])
    def test_a_busy_provider_is_asked_again_when_it_says(self, place, status):
        place.chance = 0.0
        place.post(refused(status, "ENDPOINT_UNREACHABLE", retry_after="7"), DONE)
        place.call()
        assert place.pauses == [7.0]

    @pytest.mark.parametrize(
        ("advice", "posts"), [({"suggested_delay_ms": 10, "max_attempts": 2}, 3), (None, 1)], ids=["advised", "bare"]
    )
    def test_a_timeout_with_advice_is_sent_again_as_a_gateways_is(self, place, advice, posts):
        place.takes()
        place.post(refused(408, "INVOCATION_TIMEOUT", retry=advice))
        assert failing(place.call).code == "INVOCATION_TIMEOUT"
        assert len(place.keys) == posts
        assert len(set(place.keys)) == 1

    def test_the_advice_of_the_error_counts_where_no_field_says_more(self, place):
        place.chance = 0.0
        advice = {"suggested_delay_ms": 2500, "max_attempts": 2}
        place.post(refused(503, "ENDPOINT_UNREACHABLE", retry=advice))
        assert failing(place.call).code == "ENDPOINT_UNREACHABLE"
        assert place.pauses == [2.5, 2.5]

    @pytest.mark.parametrize("first", [LOST, FetchError("TIMEOUT", "no answer"), refused(502, "ENDPOINT_UNREACHABLE")])
    @pytest.mark.parametrize("status", [204, 404, 501])
    def test_what_may_have_arrived_is_not_sent_again_to_whom_keys_say_nothing(self, place, first, status):
        place.takes(
            "*", "Content-Type", "Idempotency-Keys", *(["Idempotency-Key"] if status != 204 else []), status=status
        )
        place.post(first, DONE)
        assert failing(place.call).code in {"CONNECTION_LOST", "TIMEOUT", "ENDPOINT_UNREACHABLE"}
        assert len(place.keys) == 1

    def test_it_is_not_sent_again_where_asking_fails_too(self, place):
        place.publisher.reply("OPTIONS", f"{API}/call", LOST)
        place.post(LOST, DONE)
        assert "It may have been accepted" in failing(place.call).fix
        assert len(place.keys) == 1

    @pytest.mark.parametrize("first", [nobody(), refused(429, "ENDPOINT_UNREACHABLE")])
    def test_what_has_not_arrived_is_sent_again_to_everybody(self, place, first):
        place.takes()
        place.post(first, DONE)
        assert place.call().is_completed
        assert not place.sent("OPTIONS", f"{API}/call")

    @pytest.mark.parametrize("status", [502, 503, 504])
    def test_whoever_asks_for_it_is_sent_it_again(self, place, status):
        place.takes()
        place.post(refused(status, "ENDPOINT_UNREACHABLE", retry_after="7"), DONE)
        assert place.call().is_completed

    def test_a_descriptor_may_allow_it(self, place):
        place.takes()
        place.describe(endpoint={"retry": {"max_attempts": 2, "backoff_ms": 100}})
        place.post(LOST, LOST, DONE)
        assert place.call().is_completed

    def test_the_descriptor_says_how_often_and_with_which_pause(self, place):
        place.describe(endpoint={"retry": {"max_attempts": 1, "backoff_ms": 4000}})
        place.post(LOST)
        assert failing(place.call).code == "CONNECTION_LOST"
        assert (len(place.keys), place.pauses) == (2, [4.0])

    def test_a_descriptor_may_forbid_it(self, place):
        place.describe(endpoint={"retry": {"max_attempts": 0, "backoff_ms": 0}})
        place.post(LOST)
        failing(place.call)
        assert len(place.keys) == 1

    def test_it_ends_after_some_attempts_and_some_time(self, place):
        place.post(LOST)
        assert "It may have been accepted. Make the same call again" in failing(place.call).fix
        assert len(place.keys) == 5
        other = place.open()
        place.post(refused(503, "ENDPOINT_UNREACHABLE", retry_after="300"))
        failing(place.call, other, inputs={"city": "Basel"})
        assert len(place.keys) == 6

    @pytest.mark.parametrize("first", [LOST, refused(503, "ENDPOINT_UNREACHABLE")])
    def test_the_last_attempt_does_not_hide_that_one_before_may_have_arrived(self, place, first):
        place.post(first, nobody())
        error = failing(place.call)
        assert error.code == "CONNECT_FAILED"
        assert "It may have been accepted." in error.fix
        place.post(DONE)
        assert place.call(place.open()).is_completed
        assert len(set(place.keys)) == 1

    @pytest.mark.parametrize(
        ("answers", "may_be_accepted"),
        [
            ([refused(503, "ENDPOINT_UNREACHABLE", retry_after="300")], False),
            # Without a time to come back it may have been, whatever the advice; and a gateway does not know.
            *[([refused(status, "ENDPOINT_UNREACHABLE", retry=NEVER)], True) for status in (502, 503, 504)],
            *[([refused(status, "ENDPOINT_UNREACHABLE", retry_after="300")], True) for status in (502, 504)],
            ([LOST, refused(503, "ENDPOINT_UNREACHABLE", retry_after="300")], True),
        ],
    )
    def test_a_call_that_was_put_off_was_not_accepted(self, place, answers, may_be_accepted):
        place.post(*answers)
        assert failing(place.call).may_be_accepted is may_be_accepted

    def test_a_call_that_never_left_is_not_said_to_have_been_accepted(self, place):
        place.post(nobody())
        assert failing(place.call).fix is None

    def test_a_lost_call_is_remembered_while_its_origin_is_left_alone(self, place):
        place.post(LOST)
        failing(place.call)
        assert failing(place.call).code == "CIRCUIT_OPEN"
        place.seconds += 31
        place.post(DONE)
        assert place.call().is_completed
        assert len(set(place.keys)) == 1

    def test_no_longer_than_the_timeout(self, place):
        place.post(refused(429, "ENDPOINT_UNREACHABLE", retry_after="20"))
        failing(place.call, timeout=30)
        assert place.seconds <= 1030
        assert len(place.keys) == 2

    @pytest.mark.parametrize(
        "answer",
        [
            refused(422, "VALIDATION_ERROR"),
            refused(403, "PERMISSION_DENIED"),
            refused(404, "SKILL_NOT_FOUND"),
            refused(500, "ENDPOINT_UNREACHABLE"),
            refused(503, "ENDPOINT_UNREACHABLE", details={"reason": "not_granted"}),
        ],
    )
    def test_what_will_not_change_is_asked_once(self, place, answer):
        place.post(answer)
        failing(place.call)
        assert len(place.keys) == 1
        assert place.book == []

    @pytest.mark.parametrize(
        "answer",
        [
            http(b"<html>", 404, content_type="text/html"),
            http(b"", 405),
            http(b"<html>", 501, content_type="text/html"),
        ],
    )
    def test_a_static_site_is_named_as_what_it_is(self, place, answer):
        place.post(answer)
        error = failing(place.call)
        assert (error.code, len(place.keys), place.book) == ("NOT_CALLABLE", 1, [])
        assert f"{ORIGIN} answers the call with {answer.status}: the site is static" in error.message
        assert "skillwire serve FOLDER" in error.fix

    def test_an_answer_of_a_provider_is_not_that_of_a_static_site(self, place):
        place.post(http({"error": {"code": "METHOD_NOT_ALLOWED", "message": "this resource answers GET"}}, 405))
        assert failing(place.call).message == "this resource answers GET"

    def test_inputs_that_are_too_large_are_to_be_smaller(self, place):
        place.post(refused(413, "VALIDATION_ERROR"))
        assert "Send smaller inputs" in failing(place.call).fix

    def test_a_skill_that_nobody_has_granted_says_who_can(self, place):
        place.post(refused(503, "ENDPOINT_UNREACHABLE", details={"reason": "not_granted"}))
        assert "skillwire grant" in failing(place.call).fix

    def test_an_origin_that_keeps_failing_is_left_alone(self, place):
        place.post(LOST)
        failing(place.call)
        error = failing(place.call, inputs={"city": "Basel"})
        assert (error.code, error.retryable) == ("CIRCUIT_OPEN", True)
        assert len(place.keys) == 5
        place.seconds += 31
        place.post(DONE)
        assert place.call(inputs={"city": "Basel"}).is_completed

    def test_another_client_asks_for_itself(self, place):
        place.post(LOST)
        failing(place.call)
        place.post(DONE)
        assert place.call(place.open()).is_completed


class TestFollowing:
    def test_until_it_has_ended(self, place):
        seen = []
        place.accepts(RUNNING, RUNNING, DONE)
        execution = place.call(on_change=lambda one: seen.append(str(one.status)))
        assert (execution.output, execution.created_at) == ({"high": 31}, STAMPS["created_at"])
        assert seen == ["accepted", "running", "completed"]

    def test_the_provider_is_asked_to_wait_for_news(self, place):
        waited = {"preference_applied": "wait=30", "etag": '"1"'}
        place.post(told("accepted", 202, headers=waited))
        place.status(
            told("running", headers={**waited, "etag": '"2"'}), http(status=304, preference_applied="wait=30"), DONE
        )
        place.call()
        asked = [(one.headers.get("Prefer"), one.headers.get("If-None-Match")) for one in place.sent("GET")]
        assert asked == [("wait=30", '"1"'), ("wait=30", '"2"'), ("wait=30", '"2"')]
        assert all(one.timeout == 50 for one in place.sent("GET"))

    def test_one_that_does_not_wait_is_asked_in_growing_pauses(self, place):
        place.accepts(*[RUNNING] * 12, DONE)
        place.call()
        assert all(0.25 <= seconds <= 5 for seconds in place.pauses)
        assert all(after >= before for before, after in pairwise(place.pauses[1:]))

    def test_it_says_when_to_come_back(self, place):
        place.chance = 0.0
        place.post(told("accepted", 202, headers={"retry_after": "4"}))
        place.status(
            told("running", headers={"retry_after": "9"}), told("running", headers={"retry_after": "86400"}), DONE
        )
        place.call()
        assert place.pauses == [4.0, 9.0, 60.0]

    def test_who_pretends_to_have_waited_is_not_asked_all_the_time(self, place):
        waited = {"preference_applied": "wait=30"}
        turns = [told(status, headers=waited) for status in ("running", "accepted") * 20]
        place.post(told("accepted", 202, headers=waited))
        place.status(*turns, DONE)
        place.call()
        assert len(place.pauses) >= 35

    def test_what_was_accepted_is_not_given_up_for_some_failures(self, place):
        place.accepts(refused(500, "X"), LOST, refused(503, "X"), LOST, LOST, LOST, RUNNING, LOST, DONE)
        assert place.call().output == {"high": 31}
        assert sum(place.pauses) > 30, "the circuit was open for a while"

    def test_after_many_failures_it_says_how_to_go_on(self, place):
        place.accepts(LOST)
        error = failing(place.call)
        assert error.code == "CONNECTION_LOST"
        assert "skillwire executions result exec-1" in error.fix
        assert [row["execution_id"] for row in place.book] == ["exec-1"]

    def test_the_output_is_fetched_where_the_status_does_not_have_it(self, place):
        place.accepts(told("completed"))
        place.publisher.reply("GET", RESULT, DONE)
        assert place.call().output == {"high": 31}

    def test_a_result_may_be_the_output_itself(self, place):
        place.accepts(told("completed"))
        place.publisher.reply("GET", RESULT, http(b"\x89PNG", content_type="image/png"))
        execution = place.call()
        assert (execution.output, execution.content_type) == (b"\x89PNG", "image/png")

    def test_an_output_that_is_null_is_one(self, place):
        place.accepts(told("completed", output=None))
        assert place.call().output is None
        assert not place.sent("GET", RESULT)

    def test_a_forgotten_output_is_an_error(self, place):
        place.accepts(told("completed"))
        place.publisher.reply("GET", RESULT, refused(410, "SKILL_NOT_FOUND", "The output was forgotten."))
        assert isinstance(failing(place.call), NotFoundError)

    def test_where_the_descriptor_names_no_status_the_location_does(self, place):
        endpoint = {"url": f"{API}/call", "method": "POST"}
        place.describe(endpoint=endpoint)
        document = {**DESCRIPTOR, "endpoint": endpoint, "inputs": INPUTS}
        place.publisher.answer(ENTRY["descriptor_url"], json.dumps(document).encode())
        place.post(told("accepted", 202, headers={"location": "/api/status/exec-1"}))
        place.status(DONE)
        assert place.call().status_url == STATUS
        place.post(told("accepted", 202, headers={"location": "https://evil.example/status/exec-1"}))
        assert failing(place.call).code == "ENDPOINT_UNREACHABLE"
        assert not [request for request in place.publisher.requests if "evil" in request.url]

    def test_without_waiting_it_comes_back_when_it_was_accepted(self, place):
        place.accepts()
        execution = place.call(wait=False)
        assert (execution.status, execution.is_final, execution.output) == (ExecutionStatus.ACCEPTED, False, None)
        assert "Prefer" not in place.sent("POST")[0].headers
        assert not place.sent("GET")
        with pytest.raises(PendingError):
            execution.check()

    def test_when_the_time_is_over_it_looks_once_more_and_comes_back(self, place):
        place.accepts(RUNNING)
        execution = place.call(timeout=20)
        assert execution.status is ExecutionStatus.RUNNING
        assert 1020 <= place.seconds < 1021
        assert place.sent("GET")[-1].timeout == 5

    @pytest.mark.parametrize(("timeout", "end"), [(None, 1035), (3600, 1035), (20, 1020)])
    def test_it_is_not_waited_for_much_longer_than_the_descriptor_promises(self, place, timeout, end):
        place.describe(endpoint={"timeout_ms": 5000})
        place.accepts(RUNNING)
        execution = place.call(timeout=timeout)
        assert execution.status is ExecutionStatus.RUNNING
        assert end <= place.seconds < end + 1
        assert failing(execution.check).code == "EXECUTION_PENDING"

    @pytest.mark.parametrize(("timeout", "wait"), [(1, None), (2, "wait=1"), (30, "wait=2")])
    def test_a_short_timeout_leaves_time_for_the_answer(self, place, timeout, wait):
        place.post(DONE)
        place.call(timeout=timeout)
        (request,) = place.sent("POST")
        assert request.headers.get("Prefer") == wait
        assert request.timeout == timeout + 5

    def test_the_last_look_may_tell_the_end(self, place):
        place.post(told("accepted", 202, headers={"retry_after": "60"}))
        place.status(told("timeout", error={"code": "EXECUTION_TIMEOUT", "message": "Too long."}))
        execution = place.call(timeout=20)
        assert (execution.status, execution.error.code) == ("timeout", "INVOCATION_TIMEOUT")
        error = failing(execution.check)
        assert (error.code, error.exit_code) == ("EXECUTION_TIMED_OUT", 8)

    def test_a_failure_is_an_answer_and_no_error(self, place):
        details = {"reason": "exception"}
        retry = {"suggested_delay_ms": 1500, "max_attempts": 1}
        place.post(
            told(
                "failed",
                error={"code": "EXECUTION_FAILED", "message": "Boom\x1b[2J", "details": details, "retry": retry},
            )
        )
        execution = place.call()
        assert execution.error == ("EXECUTION_FAILED", "Boom[U+001B][2J", details, 1.5)
        error = failing(execution.check)
        assert (type(error), error.code, error.details["execution_id"]) == (
            ExecutionError,
            "EXECUTION_FAILED",
            "exec-1",
        )

    @pytest.mark.parametrize(
        ("reason", "fix"),
        [
            ("worker_lost", "call the skill again"),
            ("unavailable", "Ask the operator of the provider"),
            ("not_granted", "grant the skill"),
        ],
    )
    def test_a_reason_that_is_not_the_inputs_has_a_fix_of_its_own(self, place, reason, fix):
        error = {"code": "EXECUTION_FAILED", "message": "Lost.", "details": {"reason": reason}}
        place.post(told("failed", error=error))
        assert fix in failing(place.call().check).fix

    def test_an_execution_that_is_forgotten_is_no_matter_of_the_skills_name(self, place):
        place.accepts(refused(404, "SKILL_NOT_FOUND"))
        assert "delete executions" in failing(place.call).fix

    def test_an_output_that_was_not_promised_is_told(self, place):
        place.describe(output={"content_type": "application/json", "schema": {"required": ["low"]}})
        place.post(DONE)
        assert place.call().output == {"high": 31}
        assert place.codes == ["OUTPUT_DIFFERS"]


class TestHostileAnswers:
    @pytest.mark.parametrize(
        ("answer", "code"),
        [
            (http(b"{", content_type="application/json"), "JSON_SYNTAX"),
            (http(b"[" * 100 + b"]" * 100, content_type="application/json"), "JSON_DEPTH"),
            (told("finished"), "VALIDATION_ERROR"),
            (told("accepted", execution_id=".."), "FIELD"),
            (told("accepted", execution_id=""), "FIELD"),
            (told("accepted", execution_id="x" * 5000), "FIELD"),
            (told("accepted", execution_id="a\x1b[2J"), "FIELD"),
            (http({"execution_id": 5, "status": "accepted", "skill_id": "x"}), "VALIDATION_ERROR"),
        ],
    )
    def test_a_malformed_answer_is_an_error(self, place, answer, code):
        place.post(answer)
        error = failing(place.call)
        assert isinstance(error, DecodeError | ValidationError)
        assert error.code == code

    def test_the_status_of_another_execution_is_refused(self, place):
        place.accepts(told("completed", execution_id="exec-2", output="theirs"))
        assert failing(place.call).code == "ID_DIFFERS"

    def test_an_answer_about_another_skill_is_refused(self, place):
        place.post(told("completed", skill_id="acme/other", output="theirs"))
        error = failing(place.call)
        assert (error.code, error.message) == (
            "ID_DIFFERS",
            f"called the skill {ENTRY['id']}, the provider answered for acme/other",
        )
        place.accepts(told("completed", skill_id="acme/other", output="theirs"))
        assert failing(place.call).code == "ID_DIFFERS"

    def test_a_page_in_place_of_a_status_is_an_error(self, place):
        place.accepts(http(b"<html>", content_type="text/html"))
        assert failing(place.call).code == "CONTENT_TYPE"

    def test_a_status_that_moves_to_another_origin_is_asked_for_without_the_credential(self, place):
        place.client.set_token(ORIGIN, "secret-1")
        place.accepts(http(status=302, location="https://cdn.example/1"))
        place.publisher.reply("GET", "https://cdn.example/1", DONE)
        assert place.call().output == {"high": 31}
        (request,) = place.sent("GET", "https://cdn.example/1")
        assert "secret-1" not in str(request.headers)

    def test_an_id_with_a_slash_stays_below_its_place(self, place):
        place.post(told("accepted", 202, execution_id="../../admin"))
        place.publisher.reply(
            "GET", f"{API}/status/..%2F..%2Fadmin", told("completed", execution_id="../../admin", output=1)
        )
        assert place.call().output == 1

    @pytest.mark.parametrize(
        ("answer", "output"),
        [
            (http({"execution_id": "x", "high": 1}), {"execution_id": "x", "high": 1}),
            (http([1, 2]), [1, 2]),
            (http(b"a,b\n", content_type="text/csv; charset=utf-8"), "a,b\n"),
            (http(b"\xff\xfe", content_type="text/plain"), b"\xff\xfe"),
            (http(b"PK", content_type="application/zip"), b"PK"),
            (http(status=204), None),
        ],
    )
    def test_what_is_no_invocation_response_is_the_output(self, place, answer, output):
        place.post(answer)
        execution = place.call()
        assert (execution.status, execution.output, execution.execution_id) == ("completed", output, None)
        assert (execution.status_url, execution.result_url) == (None, None)
        assert place.book == []


class TestRemembering:
    def test_an_execution_is_asked_for_by_its_id_in_another_run(self, place):
        place.accepts()
        place.call(wait=False)
        (row,) = place.book
        assert row["status_url"] == STATUS
        assert not {"fingerprint", "inputs"} & row.keys()
        assert "Bern" not in (state_directory() / "calls.json").read_text()
        place.status(RUNNING, RUNNING, DONE)
        assert place.open().execution("exec-1").status == "running"
        assert place.open().result("exec-1").output == {"high": 31}

    @pytest.mark.parametrize("chance", [0.1, 1.0])
    def test_a_look_says_soon_that_nobody_is_there(self, place, chance):
        place.accepts()
        place.call(wait=False)
        place.status(nobody())
        before, place.chance = place.seconds, chance
        error = failing(place.open().execution, "exec-1")
        assert (error.code, error.message) == ("CONNECT_FAILED", "nobody listens there")
        assert "skillwire executions result exec-1" in error.fix
        assert place.seconds - before <= 5

    def test_printed_in_a_program_an_error_says_what_to_write_there(self, place):
        place.post(ACCEPTED)
        place.status(*[nobody()] * 40)
        assert str(failing(place.call)).endswith("\n  in Python: client.result('exec-1')")
        inputs = f"client.show({ENTRY['descriptor_url']!r}).descriptor().inputs"
        assert str(failing(place.client.call, NAME, {})).endswith(f"\n  in Python: {inputs}")
        place.post(refused(401, "AUTH_REQUIRED"))
        refusal = failing(place.open().call, NAME, {"city": "Bern"})
        assert refusal.in_python == f'client.set_token("{ORIGIN}", "TOKEN")'
        assert "in Python" not in str(nobody())

    def test_who_waited_in_vain_is_told_the_last_cause(self, place):
        place.accepts()
        place.call(wait=False)
        place.status(nobody())
        error = failing(place.open().result, "exec-1", timeout=20)
        assert error.code == "TIMEOUT"
        assert "CONNECT_FAILED, nobody listens there" in error.message

    def test_it_is_cancelled_by_its_id(self, place):
        place.accepts()
        place.call(wait=False)
        error = {"code": "EXECUTION_FAILED", "message": "Cancelled.", "details": {"reason": "cancelled"}}
        place.publisher.reply("DELETE", STATUS, told("failed", error=error))
        execution = place.open().cancel("exec-1")
        assert execution.is_cancelled
        assert failing(execution.check).code == "EXECUTION_CANCELLED"

    def test_a_url_will_do_for_one_that_was_called_elsewhere(self, place):
        place.status(DONE)
        execution = place.client.execution(STATUS)
        assert (execution.execution_id, execution.skill_id, execution.output) == ("exec-1", ENTRY["id"], {"high": 31})

    def test_an_id_that_nobody_knows_is_said_to_be(self, place):
        place.accepts()
        place.call(wait=False)
        error = failing(place.client.execution, "exec-l")
        assert (error.code, error.fix) == ("EXECUTION_UNKNOWN", "Did you mean exec-1?")

    def test_so_much_of_an_id_as_no_other_call_begins_with_will_do(self, place):
        for execution_id in ("exec-0123456789", "exec-0124000000", "job-9876543"):
            place.post(told("accepted", 202, execution_id=execution_id))
            place.call(wait=False)
            place.publisher.reply("GET", f"{API}/status/{execution_id}", told("running", execution_id=execution_id))
        for beginning, meant in {
            "exec-0123": "exec-0123456789",
            "0123": "exec-0123456789",
            "job-": "job-9876543",
        }.items():
            assert place.client.execution(beginning).execution_id == meant
        error = failing(place.client.execution, "exec-012")
        assert error.code == "EXECUTION_UNKNOWN"  # too short to be meant
        place.post(told("accepted", 202, execution_id="exec-0123999999"))
        place.call(wait=False)
        error = failing(place.client.execution, "0123")
        assert (error.code, error.message) == ("REFERENCE", "2 calls have an id that begins with 0123")
        assert error.fix == "Give more characters: exec-0123999999, exec-0123456789."
        assert place.client.execution("exec-0123456789").execution_id == "exec-0123456789"

    def test_an_id_of_two_providers_is_not_guessed(self, place):
        place.accepts()
        place.call(wait=False)
        place.moves("https://other.example", ACCEPTED)
        place.call(wait=False)
        error = failing(place.client.execution, "exec-1")
        assert error.code == "REFERENCE"
        assert STATUS in error.fix
        place.status(DONE)
        assert place.client.execution(STATUS).is_completed

    def test_a_call_whose_answer_was_lost_is_taken_up_by_the_same_call(self, place):
        place.post(LOST)
        failing(place.call, timeout=50, trace_id="first")
        place.post(DONE)
        place.call(place.open(), timeout=90)
        assert len(set(place.keys)) == 1
        assert place.bodies[0] == place.bodies[-1], "the circumstances are those of the first time"
        assert place.codes == ["CALL_TAKEN_UP"]

    def test_a_call_that_never_left_is_not_taken_up(self, place):
        place.post(nobody())
        failing(place.call)
        place.post(DONE)
        assert place.call(place.open()).is_completed
        assert place.codes == []

    def test_another_call_is_another_one(self, place):
        place.post(LOST)
        failing(place.call)
        place.post(DONE)
        place.call(place.open(), inputs={"city": "Basel"})
        assert len(set(place.keys)) == 2
        assert place.codes == []

    def test_what_was_answered_is_called_anew(self, place):
        place.accepts()
        place.call(wait=False)
        place.call(wait=False)
        assert len(set(place.keys)) == 2

    def test_a_key_of_ones_own_is_sent_as_it_is(self, place):
        place.post(LOST)
        failing(place.call)
        place.post(DONE)
        place.call(place.open(), idempotency_key="mine")
        assert place.keys[-1] == "mine"
        assert place.codes == []

    def test_an_interruption_leaves_a_call_that_can_be_taken_up(self, place):
        def interrupt(_):
            raise KeyboardInterrupt

        place.post(LOST, DONE)
        place.client._runner.sleep = interrupt
        with pytest.raises(KeyboardInterrupt):
            place.call()
        assert place.call(place.open()).is_completed
        assert len(set(place.keys)) == 1

    def test_where_nothing_can_be_kept_it_is_told_and_goes_on(self, place):
        state_directory().mkdir(parents=True)
        (state_directory() / "calls.lock").mkdir()
        place.post(DONE)
        assert place.call().is_completed
        assert set(place.codes) == {"STORAGE"}


async def test_the_asynchronous_client_calls_the_same_way(place):
    class Driver:
        async def send(self, request):
            return place.publisher.send(request)

        async def close(self):
            """Close nothing."""

    place.post(LOST, ACCEPTED)
    place.status(RUNNING, DONE)
    async with AsyncClient(place.folder) as client:
        client.driver = Driver()
        pauses = []

        async def pause(seconds):
            pauses.append(seconds)

        client._runner.sleep = pause
        execution = await client.call(NAME, {"city": "Bern"})
        assert execution.output == {"high": 31}
        assert (await client.execution("exec-1")).is_completed
    assert len(pauses) >= 2


def kinds(events):
    return [event.kind for event in events]


class TestWatching:
    def test_each_change_is_an_event_and_the_last_has_the_output(self, place):
        running = told("running", headers={"etag": '"1"'})
        place.accepts(ACCEPTED, running, http("", 304), told("completed"))
        place.publisher.reply("GET", RESULT, told("completed", output={"high": 31}))
        events = list(place.client.watch(NAME, {"city": "Bern"}, timeout=None))
        assert kinds(events) == ["accepted", "waiting", "running", "waiting", "completed"]
        assert events[-1].execution.check().output == {"high": 31}
        waits = [one.headers.get("Prefer") for one in place.publisher.requests if "exec-1" in one.url]
        assert {one for one in waits if one} == {"wait=30"}

    def test_closing_stops_asking_and_says_that_the_execution_goes_on(self, place):
        place.accepts(RUNNING)
        with place.client.watch(NAME, {"city": "Bern"}) as watch:
            assert not watch.goes_on
            assert kinds([next(watch), next(watch)]) == ["accepted", "running"]
        requests = len(place.publisher.requests)
        assert (watch.goes_on, watch.close(), list(watch)) == (True, True, [])
        assert len(place.publisher.requests) == requests
        assert place.client.result(watch.execution.execution_id, timeout=1).status == "running"

    def test_a_watch_that_is_closed_before_its_first_event_calls_nothing(self, place):
        watch = place.client.watch(NAME, {"city": "Bern"})
        assert (watch.close(), list(watch), watch.execution) == (False, [], None)
        assert not place.publisher.requests

    def test_a_failed_execution_is_an_event_and_no_error(self, place):
        place.accepts(told("failed", error={"code": "EXECUTION_FAILED", "message": "No."}))
        watch = place.client.watch(NAME, {"city": "Bern"})
        assert kinds(watch) == ["accepted", "failed"]
        assert (watch.execution.error.message, watch.goes_on) == ("No.", False)

    def test_an_output_that_comes_at_once_is_one_event(self, place):
        place.post(http({"high": 31}))
        assert kinds(place.client.watch(NAME, {"city": "Bern"})) == ["completed"]

    def test_a_refused_call_is_an_error_and_ends_the_watch(self, place):
        watch = place.client.watch(NAME, {"town": "Bern"})
        assert failing(lambda: next(watch)).code == "VALIDATION_ERROR"
        assert list(watch) == []
        assert failing(place.client.watch, NAME, timeout=0).code == "USAGE"

    async def test_it_is_the_same_awaited(self, place):
        place.accepts(RUNNING, DONE)
        client = AsyncClient(place.folder)
        runner: Any = client._runner
        runner._do_plain = _without_waiting(place, runner._do_plain)
        async with client.watch(NAME, {"city": "Bern"}) as watch:
            assert [event.kind async for event in watch] == ["accepted", "running", "completed"]
        assert await watch.close() is False


def _without_waiting(place, do):
    async def do_plain(step):
        if isinstance(step, HttpRequest):
            return place.publisher.send(step)
        return None if isinstance(step, Sleep) else await do(step)

    return do_plain


@dataclass
class Forecast:
    high: int


class TestTypedOutputs:
    def test_the_output_is_a_value_of_the_type(self, place):
        place.post(DONE)
        assert place.client.call(NAME, {"city": "Bern"}, into=Forecast) == Forecast(31)

    @pytest.mark.parametrize(
        ("answers", "into", "code"),
        [
            ((told("completed", output={"high": "warm"}),), Forecast, "OUTPUT_DIFFERS"),
            ((told("failed", error={"code": "EXECUTION_FAILED", "message": "No."}),), Forecast, "EXECUTION_FAILED"),
            ((), object(), "USAGE"),
        ],
    )
    def test_another_end_is_an_error(self, place, answers, into, code):
        if answers:
            place.post(*answers)
        assert failing(place.client.call, NAME, {"city": "Bern"}, into=into).code == code
        assert len(place.sent("POST")) == len(answers)
