"""Traces: W3C Trace Context, and the spans of OpenTelemetry in a process that has set it up.

A process records spans only after it imported OpenTelemetry, so the library is looked up among the loaded modules and
never imported here: a process without it pays nothing. Attributes are named as in the semantic conventions for HTTP and
messaging; ours begin with ``skillwire``. No attribute holds a query, inputs, outputs or credentials.

Spec: W3C Trace Context (``traceparent``), OpenTelemetry semantic conventions 1.30.
"""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal, NamedTuple

from skillwire.errors import SkillwireError
from skillwire.model.url import parse_url
from skillwire.wire.exchange import HttpRequest, HttpResponse

_FORM: Final = re.compile(
    r"(?:00-)?(?!0{32})(?P<trace>[0-9a-f]{32})(?:-(?!0{16})(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2}))?"
)
_SAMPLED: Final = 1
_TRACER: Final = "skillwire"
#: Statuses from here on are failures to a client.
_REFUSED: Final = 400
#: Upper bounds of the buckets in seconds, as the conventions advise.
_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)


class TraceContext(NamedTuple):
    """A trace: its ID, the caller's span, and whether the caller records it, which it does without a flag."""

    trace_id: str
    span_id: str | None = None
    is_sampled: bool = True


def read_trace(text: str | None) -> TraceContext | None:
    """Return the trace that a ``traceparent`` or the ID of a trace names; None when ``text`` names none."""
    found = _FORM.fullmatch(text or "")
    if found is None:
        return None
    flags = found["flags"]
    return TraceContext(found["trace"], found["span"], flags is None or bool(int(flags, 16) & _SAMPLED))


class Span:
    """The current part of a trace; OpenTelemetry records it where it is set up."""

    def __init__(self, parent: TraceContext | None, recorded: Any = None) -> None:
        self._parent = parent
        self._recorded = recorded

    @property
    def is_recorded(self) -> bool:
        """Whether OpenTelemetry records it, and so its attributes."""
        return self._recorded is not None

    @property
    def trace(self) -> TraceContext | None:
        """What continues the trace elsewhere: this span, or the caller's where none is recorded; None without both."""
        own = None if self._recorded is None else self._recorded.get_span_context()
        if own is not None and own.is_valid:
            return TraceContext(f"{own.trace_id:032x}", f"{own.span_id:016x}", own.trace_flags.sampled)
        return self._parent

    @property
    def traceparent(self) -> str | None:
        """The header field of :attr:`trace`; a trace without a span gets a random one."""
        if (trace := self.trace) is None:
            return None
        return f"00-{trace.trace_id}-{trace.span_id or secrets.token_hex(8)}-{int(trace.is_sampled):02x}"

    def set(self, attributes: Mapping[str, str | int]) -> None:
        """Add attributes."""
        if self._recorded is not None:
            self._recorded.set_attributes(attributes)

    def rename(self, name: str) -> None:
        """Change the name, once it is known."""
        if self._recorded is not None:
            self._recorded.update_name(name)

    def fail(self, kind: str) -> None:
        """Mark as failed; ``kind`` is one of a few words: the code of an error, a status, or a class."""
        if self._recorded is not None:
            self._recorded.set_attribute("error.type", kind)
            self._recorded.set_status(sys.modules["opentelemetry.trace"].StatusCode.ERROR, kind)


_current: ContextVar[Span | None] = ContextVar("skillwire_span", default=None)


@contextmanager
def open_span(
    name: str,
    kind: Literal["server", "client", "producer", "consumer"],
    parent: TraceContext | None,
    attributes: Mapping[str, str | int],
) -> Iterator[Span]:
    """Open a span within the open one, or else within ``parent``."""
    outer, library = _current.get(), sys.modules.get("opentelemetry.trace")
    if outer is not None and outer.trace is not None:
        parent = outer.trace
    if library is None:
        yield from _as_current(Span(parent))
        return
    context = None
    if parent is not None and not library.get_current_span().get_span_context().is_valid:
        span_id = int(parent.span_id or secrets.token_hex(8), 16) or 1
        flags = library.TraceFlags(_SAMPLED if parent.is_sampled else 0)
        remote = library.SpanContext(int(parent.trace_id, 16), span_id, is_remote=True, trace_flags=flags)
        context = library.set_span_in_context(library.NonRecordingSpan(remote))
    options = {"context": context, "kind": library.SpanKind[kind.upper()], "attributes": attributes}
    options |= {"record_exception": False, "set_status_on_exception": False}  # messages may name what is private
    with library.get_tracer(_TRACER).start_as_current_span(name, **options) as recorded:
        yield from _as_current(Span(parent, recorded))


def _as_current(span: Span) -> Iterator[Span]:
    token = _current.set(span)
    try:
        yield span
    except Exception as error:
        span.fail(error.code if isinstance(error, SkillwireError) else type(error).__qualname__)
        raise
    finally:
        _current.reset(token)


async def send_traced(
    send: Callable[[HttpRequest], Awaitable[HttpResponse]], request: HttpRequest, parent: TraceContext | None
) -> HttpResponse:
    """Send a request within a span of its own, and with its ``traceparent``. No attribute has the path."""
    url = parse_url(request.url)
    attributes = {"http.request.method": request.method, "url.scheme": url.scheme, "server.address": url.host}
    with open_span(request.method, "client", parent, {**attributes, "server.port": url.port}) as span:
        if (traceparent := span.traceparent) is not None:
            request = request._replace(headers={**request.headers, "traceparent": traceparent})
        response = await send(request)
        span.set({"http.response.status_code": response.status})
        if response.status >= _REFUSED:
            span.fail(str(response.status))
        return response


def is_loaded() -> bool:
    """Whether this process has imported OpenTelemetry."""
    return "opentelemetry.trace" in sys.modules


def is_tracing() -> bool:
    """Whether this process has set up OpenTelemetry, so that each request gets a span."""
    library = sys.modules.get("opentelemetry.trace")
    return library is not None and not isinstance(library.get_tracer_provider(), library.ProxyTracerProvider)


def duration_histogram() -> Any:
    """Return the instrument ``http.server.request.duration``; None without OpenTelemetry."""
    library = sys.modules.get("opentelemetry.metrics")
    if library is None:
        return None
    return library.get_meter(_TRACER).create_histogram(
        "http.server.request.duration",
        unit="s",
        description="Duration of HTTP server requests.",
        explicit_bucket_boundaries_advisory=_BOUNDS,
    )
