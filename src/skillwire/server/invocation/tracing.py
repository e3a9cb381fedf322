"""Attempts as spans of OpenTelemetry, where its API is installed (the extra ``otel``).

Which spans go where is set up by whoever starts the process, such as with ``opentelemetry-instrument skillwire serve``;
without that they cost nothing. A caller's ``context.trace_id`` that is a trace of W3C Trace Context, alone or within a
``traceparent``, becomes the trace of the span, so that the call is one trace on both sides; any other is an attribute.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from skillwire.invocation.log_ids import without_ids
from skillwire.invocation.trace_context import read_trace

try:
    from opentelemetry import trace

    is_installed = True
except ImportError:
    is_installed = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.context import Context

    from skillwire.model.execution import Execution


class Told(Protocol):
    """What is told how an attempt ended."""

    def __call__(self, outcome: str) -> None:
        """Tell ``completed``, or the reason of the failure."""


@contextmanager
def attempt_span(execution: Execution) -> Iterator[Told]:
    """Give what tells the outcome of an attempt, which is a span from here to the end."""
    if not is_installed:
        yield _tell_nobody
        return
    attributes: dict[str, str | int] = {
        "skillwire.execution.id": without_ids(execution.execution_id),
        "skillwire.execution.attempt": execution.attempt,
        "skillwire.execution.executor": execution.executor,
        "skillwire.skill.name": execution.skill,
        "skillwire.skill.version": execution.version,
        "skillwire.trace_id": execution.trace_id or "",
    }
    tracer = trace.get_tracer("skillwire")
    parent = _parent(execution.trace_id)
    with tracer.start_as_current_span(f"execute {execution.skill}", context=parent, attributes=attributes) as span:

        def tell(outcome: str) -> None:
            span.set_attribute("skillwire.execution.outcome", outcome)
            if outcome != "completed":
                span.set_status(trace.StatusCode.ERROR, outcome)

        yield tell


def _tell_nobody(outcome: str) -> None:
    """Tell it to nobody."""


def _parent(trace_id: str | None) -> Context | None:
    """Return the context of the caller's trace, if it named one."""
    found = read_trace(trace_id)
    if found is None:
        return None
    span_id = int(found.span_id or secrets.token_hex(8), 16) or 1
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if found.is_sampled else trace.TraceFlags.DEFAULT)
    caller = trace.SpanContext(int(found.trace_id, 16), span_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(trace.NonRecordingSpan(caller))
