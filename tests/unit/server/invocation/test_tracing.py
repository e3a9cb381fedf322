"""An attempt is a span of the caller's trace."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.invoking import failing, write_action

from skillwire.server.invocation import tracing

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def spans(monkeypatch):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter.get_finished_spans


@pytest.mark.parametrize("trace_id", [TRACE, f"00-{TRACE}-00f067aa0ba902b7-01"])
async def test_an_attempt_is_a_span_of_the_trace_that_its_caller_names(tmp_path, serving, spans, trace_id):
    write_action(tmp_path / "skills", "sum-up")
    caller = await serving()
    accepted = await caller.invoke("sum-up", context={"trace_id": trace_id})
    await caller.ended(accepted)
    await caller.application.shutdown()
    (span,) = spans()
    assert f"{span.context.trace_id:032x}" == TRACE
    assert accepted.json()["execution_id"][:-24] == span.attributes["skillwire.execution.id"]
    assert span.attributes["skillwire.skill.name"] == "sum-up"
    assert span.attributes["skillwire.execution.outcome"] == "completed"


@pytest.mark.parametrize("trace_id", ["trace-9e8d7c6b", "0" * 32])
async def test_a_trace_of_another_form_is_an_attribute_and_a_failure_a_status(
    tmp_path, serving, executor, spans, trace_id
):
    write_action(tmp_path / "skills", "sum-up")
    caller = await serving()
    executor.script = lambda _: failing()
    await caller.ended(await caller.invoke("sum-up", context={"trace_id": trace_id}))
    await caller.application.shutdown()
    (span,) = spans()
    assert span.attributes["skillwire.trace_id"] == trace_id
    assert span.parent is None
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.status.description == "exception"


async def test_a_trace_that_its_caller_does_not_record_is_not_recorded_here(tmp_path, serving, spans):
    write_action(tmp_path / "skills", "sum-up")
    caller = await serving()
    await caller.ended(await caller.invoke("sum-up", context={"trace_id": f"00-{TRACE}-00f067aa0ba902b7-00"}))
    await caller.application.shutdown()
    assert spans() == ()


async def test_without_the_library_nothing_is_told(tmp_path, serving, spans, monkeypatch):
    monkeypatch.setattr(tracing, "is_installed", False)
    write_action(tmp_path / "skills", "sum-up")
    caller = await serving()
    assert (await caller.ended(await caller.invoke("sum-up"))).json()["status"] == "completed"
    assert spans() == ()
