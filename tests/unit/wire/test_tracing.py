"""W3C trace context in and out, and the spans of OpenTelemetry."""

import asyncio
import sys
from contextlib import nullcontext
from unittest.mock import ANY

import pytest
from opentelemetry import trace
from tests.support.telemetry import recorded_spans

from skillwire.errors import FetchError
from skillwire.wire.exchange import HttpRequest, HttpResponse
from skillwire.wire.tracing import TraceContext, open_span, read_trace, send_traced

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TRACE, TraceContext(TRACE)),
        (f"00-{TRACE}", TraceContext(TRACE)),
        (f"00-{TRACE}-{SPAN}-01", TraceContext(TRACE, SPAN)),
        (f"00-{TRACE}-{SPAN}-00", TraceContext(TRACE, SPAN, is_sampled=False)),
        (f"00-{TRACE}-{SPAN}-03", TraceContext(TRACE, SPAN)),
        (f"00-{TRACE}-{SPAN}-02", TraceContext(TRACE, SPAN, is_sampled=False)),
        *(
            (none, None)
            for none in (None, "", "trace-7", "0" * 32, TRACE.upper(), f"00-{TRACE}-{'0' * 16}-01", TRACE + "0")
        ),
    ],
)
def test_a_trace_is_read_in_each_of_its_forms(text, expected):
    assert read_trace(text) == expected


@pytest.fixture
def spans(monkeypatch):
    return recorded_spans(monkeypatch)


def test_without_opentelemetry_the_callers_trace_goes_on(monkeypatch):
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    with open_span("outer", "server", read_trace(f"00-{TRACE}-{SPAN}-00"), {}) as span:
        span.set({"a": 1})
        span.fail("X")
        span.rename("y")
        assert span.traceparent == f"00-{TRACE}-{SPAN}-00"
        with open_span("inner", "producer", TraceContext("1" * 32), {}) as inner:
            assert inner.traceparent == f"00-{TRACE}-{SPAN}-00"
    with open_span("alone", "client", None, {}) as span:
        assert span.traceparent is None
    with open_span("outer", "server", TraceContext(TRACE), {}) as span:
        assert read_trace(span.traceparent) == TraceContext(TRACE, ANY, is_sampled=True)


def test_a_span_within_a_span_is_its_child(spans):
    with (
        open_span("outer", "server", read_trace(f"00-{TRACE}-{SPAN}-01"), {}),
        open_span("inner", "producer", TraceContext("1" * 32), {"x": 1}) as span,
    ):
        traceparent = span.traceparent
    inner, outer = spans()
    assert (inner.parent.span_id, f"{inner.context.trace_id:032x}") == (outer.context.span_id, TRACE)
    assert (f"{outer.parent.span_id:016x}", outer.kind.name, inner.kind.name) == (SPAN, "SERVER", "PRODUCER")
    assert traceparent == f"00-{TRACE}-{inner.context.span_id:016x}-01"


def test_what_a_caller_does_not_record_is_not_recorded_here(spans):
    with open_span("outer", "server", read_trace(f"00-{TRACE}-{SPAN}-00"), {}) as span:
        assert read_trace(span.traceparent) == TraceContext(TRACE, ANY, is_sampled=False)
    assert spans() == ()


@pytest.mark.parametrize(
    ("raised", "status", "kind"),
    [(None, 204, None), (None, 503, "503"), (FetchError("TIMEOUT", "https://secret.example"), 0, "TIMEOUT")],
)
async def test_a_request_has_a_span_of_its_own_and_names_no_path(spans, raised, status, kind):
    sent = []

    async def send(request):
        sent.append(request)
        await asyncio.sleep(0)
        if raised:
            raise raised
        return HttpResponse(request.url, status, {}, b"")

    request = HttpRequest("https://api.example.com:8443/v1/secret?key=hush", "POST", {"accept": "*/*"}, b"{}")
    with pytest.raises(FetchError) if raised else nullcontext():
        await send_traced(send, request, TraceContext(TRACE, SPAN))
    (span,) = spans()
    assert sent[0].headers == {"accept": "*/*", "traceparent": f"00-{TRACE}-{span.context.span_id:016x}-01"}
    attributes = {
        "http.request.method": "POST",
        "url.scheme": "https",
        "server.address": "api.example.com",
        "server.port": 8443,
        **({"http.response.status_code": status} if status else {}),
        **({"error.type": kind} if kind else {}),
    }
    assert (span.name, span.kind, dict(span.attributes)) == ("POST", trace.SpanKind.CLIENT, attributes)
    assert (span.status.status_code is trace.StatusCode.ERROR) == bool(kind)
    assert "secret" not in span.to_json()
