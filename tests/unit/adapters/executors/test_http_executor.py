"""What a call sends to an API, and what each answer of it comes to."""

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import cast

import pytest
from tests.support.attempts import attempt_of

from skillwire import limits
from skillwire.adapters.executors.http import HttpExecutor
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.errors import FetchError, TrustError
from skillwire.model.execution import Failure
from skillwire.wire.exchange import HttpResponse

URL = "https://api.example.com/v1/{id}"
KEY = "k-123456789"


class Driver:
    """Answers one request, and keeps it."""

    def __init__(self, answer):
        self.answer = answer
        self.request = None

    async def send(self, request):
        self.request = request
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def call(answer, settings=None, *, secrets=None, inputs=None, **fields):
    driver = Driver(answer)
    executor = HttpExecutor(cast("AsyncDriver", driver), (secrets or {}).get)
    attempt = attempt_of("http", {"url": URL, **(settings or {})}, inputs=inputs or {"id": 7, "x": "y"}, **fields)
    return driver.request, await executor.execute(attempt), driver


def answer(status=200, body=b"", content_type="application/json", **headers):
    fields = {"content-type": content_type, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return HttpResponse("https://api.example.com/", status, fields, body)


async def outcome(response, settings=None, **options):
    return (await call(response, settings, **options))[1]


async def sent(settings=None, **options):
    driver = (await call(answer(), settings, **options))[2]
    return driver.request


async def test_inputs_go_into_a_json_body():
    request = await sent()
    assert (request.method, request.url, request.body) == ("POST", "https://api.example.com/v1/7", b'{"x":"y"}')
    assert request.headers["content-type"] == "application/json"
    assert request.max_bytes == limits.UPSTREAM_BYTES
    assert request.timeout == 20.0


async def test_or_into_a_form_or_the_query():
    request = await sent({"body": "form", "method": "PUT"}, inputs={"id": "a", "x": ["1", 2], "y": "ä &"})
    assert (request.method, request.body) == ("PUT", b"x=1&x=2&y=%C3%A4%20%26")
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    request = await sent({"method": "GET"}, inputs={"id": "a", "x": "z"})
    assert (request.url, request.body) == ("https://api.example.com/v1/a?x=z", None)
    assert "content-type" not in request.headers


async def test_nothing_of_the_caller_but_the_trace_is_sent():
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    request = await sent(trace_id=trace, caller_id="alice")
    assert set(request.headers) == {"accept", "content-type", "idempotency-key", "traceparent"}
    assert request.headers["traceparent"].startswith(f"00-{trace}-")
    again = await sent(trace_id=f"00-{trace}-00f067aa0ba902b7-00", attempt=2)
    assert again.headers["traceparent"].split("-")[1] == trace
    assert [one.headers["traceparent"][-3:] for one in (request, again)] == ["-01", "-00"]
    assert again.headers["traceparent"] != request.headers["traceparent"]
    for none in (None, "order 66", "0" * 32, trace.upper()):
        assert "traceparent" not in (await sent(trace_id=none)).headers


async def test_a_repeated_write_has_the_key_of_its_execution():
    first, again = await sent(attempt=1), await sent(attempt=2)
    other = await sent(execution_id="exec-" + "1" * 32)
    assert len(first.headers["idempotency-key"]) == 32
    assert first.headers["idempotency-key"] == again.headers["idempotency-key"] != other.headers["idempotency-key"]
    assert "exec-" not in repr(first.headers)
    assert "idempotency-key" in (await sent({"method": "PATCH"})).headers
    for method in ("GET", "PUT", "DELETE"):
        assert "idempotency-key" not in (await sent({"method": method})).headers


async def test_secrets_stand_in_header_fields():
    headers = {"Authorization": "Bearer ${API_KEY}", "X-Version": "2"}
    request = await sent({"headers": headers}, secrets={"API_KEY": KEY})
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-version"] == "2"


@pytest.mark.parametrize("value", [None, "", "a\r\nHost: b", "\u00e9", " a"])
async def test_a_secret_that_is_not_there_or_cannot_be_sent_ends_the_call(value):
    _, result, driver = await call(
        answer(), {"headers": {"X-Key": "${API_KEY}"}}, secrets={"API_KEY": value} if value is not None else {}
    )
    assert driver.request is None
    assert result.failure == Failure("unavailable", "The operator has not set API_KEY")


async def test_an_input_that_cannot_stand_in_the_path_is_the_callers_mistake():
    _, result, driver = await call(answer(), inputs={"id": "../admin"})
    assert driver.request is None
    assert result.failure.code == "VALIDATION_ERROR"
    assert result.failure.details["errors"][0]["path"] == "/inputs/id"
    assert not result.failure.is_passing


@pytest.mark.parametrize(
    ("body", "content_type", "output"),
    [
        (b'{"a": [1, 2.5, null]}', "application/json; charset=utf-8", {"a": [1, 2.5, None]}),
        (b'{"title": "x"}', "application/problem+json", {"title": "x"}),
        (b"3", "APPLICATION/JSON", 3),
        ("grün".encode(), "text/plain", "grün"),
        ("grün".encode("latin-1"), "text/csv; charset=ISO-8859-1", "grün"),
        (b"", "application/json", None),
        (b"\x89PNG", "image/png", {"content_type": "image/png", "base64": "iVBORw=="}),
        (b"\x89PNG", "", {"content_type": "", "base64": "iVBORw=="}),
        ("価格 100".encode("shift_jis"), "text/plain; charset=Shift_JIS", "価格 100"),
        ("12 €".encode("iso-8859-15"), 'text/plain; charset="iso-8859-15"', "12 €"),
        (b"abc", "text/plain; charset=utf-7", {"content_type": "text/plain; charset=utf-7", "base64": "YWJj"}),
    ],
)
async def test_an_answer_becomes_the_output(body, content_type, output):
    result = await outcome(answer(201, body, content_type))
    assert result.failure is None
    assert result.output == output


@pytest.mark.parametrize(
    ("body", "content_type", "why"),
    [
        (b"{", "application/json", "expecting property name enclosed in double quotes (line 1, column 2)"),
        (b'{"a":1,\n"a":2}', "application/json", 'the key "a" occurs twice in one object (line 2, column 1)'),
        (b"NaN", "application/json", "NaN is not JSON (line 1, column 1)"),
        (b"[" * 1000, "application/json", "nests 1000 levels deep, at most 64 are read (line 1, column 65)"),
        (b"[" + b"1" * 30 + b"]", "text/json", "1111111111111111... (30 characters) is beyond what a field can hold"),
        (b"a\xff", "text/plain", "it is not utf-8 at byte 1"),
        (b'"\xff"', "application/json", "not UTF-8 at byte 1 (line 1, column 2)"),
        (
            b'{"%s":1,"%s":2}' % (KEY.encode(), KEY.encode()),
            "application/json",
            "it breaks the rule JSON_DUPLICATE_KEY",
        ),
    ],
)
async def test_an_answer_that_breaks_a_rule_fails_with_the_rule_and_the_place(body, content_type, why):
    headers = {"X-Key": "${API_KEY}"}
    result = await outcome(answer(200, body, content_type), {"headers": headers}, secrets={"API_KEY": KEY})
    assert (result.failure.reason, result.failure.is_passing) == ("output", False)
    assert result.failure.message.startswith(f"The upstream's answer cannot be used: {why}")
    assert KEY not in repr(result)


async def test_a_pointer_takes_a_part():
    assert (await outcome(answer(body=b'{"d":{"i":[1]}}'), {"result": "/d/i"})).output == [1]
    failure = (await outcome(answer(body=b'{"d":{}}'), {"result": "/d/i"})).failure
    assert failure == Failure("output", "The upstream's answer has no /d/i")
    assert (await outcome(answer(body=b"x", content_type="text/plain"), {"result": "/d"})).failure.reason == "output"


@pytest.mark.parametrize(
    ("status", "code", "passing"),
    [
        (301, "EXECUTION_FAILED", False),
        (307, "EXECUTION_FAILED", False),
        (400, "EXECUTION_FAILED", False),
        (401, "EXECUTION_FAILED", False),
        (404, "EXECUTION_FAILED", False),
        (429, "EXECUTION_FAILED", True),
        (500, "EXECUTION_FAILED", False),
        (502, "ENDPOINT_UNREACHABLE", True),
        (503, "ENDPOINT_UNREACHABLE", True),
        (504, "INVOCATION_TIMEOUT", True),
    ],
)
async def test_what_a_status_means(status, code, passing):
    failure = (await outcome(answer(status, b"{}", location="http://169.254.169.254/"))).failure
    assert (failure.reason, failure.code, failure.is_passing) == ("upstream", code, passing)
    assert failure.details["status"] == status
    assert "169.254" not in repr(failure)


@pytest.mark.parametrize("status", [429, 503])
async def test_how_long_an_api_wants_to_be_left_alone_is_told(status):
    async def seconds(value):
        now = format_datetime(datetime.now(UTC), usegmt=True)
        return (await outcome(answer(status, retry_after=value, date=now))).failure.details.get("retry_after")

    assert await seconds("7") == 7
    assert await seconds("9" * 40) == limits.UPSTREAM_RETRY_SECONDS
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 90 < await seconds(when) <= 100
    assert await seconds("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    for nonsense in ("", "soon", "-1", "Wed, 99 Foo 2015", "1e9"):
        assert await seconds(nonsense) is None


async def test_an_excerpt_of_an_error_is_short_and_has_no_hidden_text():
    body = ("no\u202e such\r\n\x1b[31m order " + "z" * 5000).encode()
    failure = (await outcome(answer(404, body, "text/html"))).failure
    excerpt = failure.details["excerpt"]
    assert excerpt.startswith("no[U+202E] such")
    assert len(excerpt) == limits.UPSTREAM_EXCERPT
    assert "\x1b" not in excerpt
    assert "excerpt" not in (await outcome(answer(404, b"\x89PNG", "image/png"))).failure.details


async def test_a_secret_that_an_api_repeats_is_taken_out():
    settings = {"headers": {"Authorization": "Bearer ${API_KEY}"}}
    echoed = f"you sent Bearer {KEY}".encode()
    for status in (200, 401, 500):
        result = await outcome(answer(status, echoed, "text/plain"), settings, secrets={"API_KEY": KEY})
        assert KEY not in repr(result)
        assert "[secret]" in repr(result)
    body = json.dumps({"headers": {"Authorization": f"Bearer {KEY}"}}).encode()
    result = await outcome(answer(200, body), settings, secrets={"API_KEY": KEY})
    assert result.output == {"headers": {"Authorization": "Bearer [secret]"}}
    encoded = answer(200, b"\x00" + KEY.encode(), "image/png")
    result = await outcome(encoded, settings, secrets={"API_KEY": KEY})
    assert result.output["base64"] == "AFtzZWNyZXRd"
    basic = answer(500, b64encode(f"{KEY}/x".encode()).rstrip(b"="), "text/plain")
    result = await outcome(basic, settings, secrets={"API_KEY": f"{KEY}/x"})
    assert result.failure.details["excerpt"] == "[secret]"


@pytest.mark.parametrize(
    "echo", [lambda text: text.replace("/", r"\/"), lambda text: "".join(f"\\u{ord(one):04x}" for one in text)]
)
async def test_a_secret_that_an_api_escapes_is_taken_out(echo):
    settings, key = {"headers": {"Authorization": "Bearer ${API_KEY}"}}, "sk/AbC+123=xyz&q"
    body = b'{"auth": "Bearer ' + echo(key).encode() + b'", "amount": 1}'
    assert (await outcome(answer(200, body), settings, secrets={"API_KEY": key})).output == {
        "auth": "Bearer [secret]",
        "amount": 1,
    }
    for text in (body, b"\xff\xfe" + f"Bearer {key}".encode("utf-16-le")):
        failure = (await outcome(answer(500, text, "text/plain"), settings, secrets={"API_KEY": key})).failure
        assert "Bearer [secret]" in failure.details["excerpt"]


async def test_a_short_secret_is_left_in_outputs_and_taken_out_of_failures():
    settings = {"headers": {"X-Pin": "${PIN}"}}
    assert (await outcome(answer(200, b'"a1b"'), settings, secrets={"PIN": "1"})).output == "a1b"
    failure = (await outcome(answer(400, b'"a1b"'), settings, secrets={"PIN": "1"})).failure
    assert failure.details["excerpt"] == '"a[secret]b"'


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (
            FetchError("CONNECT_FAILED", "10.0.0.7 does not answer"),
            Failure("upstream", "The upstream cannot be reached", "ENDPOINT_UNREACHABLE", is_passing=True),
        ),
        (
            FetchError("HOST_NOT_FOUND", "no address for db.internal"),
            Failure("upstream", "The upstream cannot be reached", "ENDPOINT_UNREACHABLE", is_passing=True),
        ),
        (
            FetchError("TIMEOUT", "no whole answer"),
            Failure("deadline", "The upstream took too long", "INVOCATION_TIMEOUT", is_passing=True),
        ),
        (
            TrustError("ADDRESS_REFUSED", "api.example.com leads to 10.0.0.7, private"),
            Failure("upstream", "The upstream is not where this server may connect", "ENDPOINT_UNREACHABLE"),
        ),
        (
            FetchError("BODY_TOO_LARGE", "the body is larger"),
            Failure("upstream", "The upstream's answer cannot be used", details={"code": "BODY_TOO_LARGE"}),
        ),
    ],
)
async def test_what_a_request_without_an_answer_means(error, failure):
    assert (await outcome(error)).failure == failure


async def test_no_time_left_is_no_negative_timeout():
    assert (await sent(seconds=-1.0)).timeout > 0
