"""OpenTelemetry for ``skillwire serve`` and ``worker``, when the environment names a collector.

An application that mounts ours sets up OpenTelemetry itself, as does ``opentelemetry-instrument``. The variables are
those of OpenTelemetry: ``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_SERVICE_NAME``, ``OTEL_TRACES_SAMPLER`` and the others
that its SDK reads.
"""

from __future__ import annotations

import os

import structlog

from skillwire.version import VERSION
from skillwire.wire.tracing import is_tracing


def configure_telemetry() -> None:
    """Export spans and metrics over OTLP/HTTP if ``OTEL_EXPORTER_OTLP_ENDPOINT`` is set and nothing else does."""
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or is_disabled or is_tracing():
        return
    try:
        from opentelemetry import metrics, trace  # noqa: PLC0415  # an extra
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415  # same
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  # same
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415  # same
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415  # same
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  # same
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  # same
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  # same
    except ModuleNotFoundError as error:
        fix = "Install it: pip install 'skillwire[otel]'"
        structlog.get_logger("skillwire").warning("traces are not exported", missing=error.name, fix=fix)
        return
    name = os.environ.get("OTEL_SERVICE_NAME") or "skillwire"
    resource = Resource.create({"service.name": name, "service.version": VERSION})
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource=resource))
