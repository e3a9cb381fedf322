"""OpenTelemetry for ``skillwire serve`` and ``worker``: needs the extra ``otel``.

An application that mounts ours sets up OpenTelemetry itself, as does ``opentelemetry-instrument``. The variables are
those of OpenTelemetry: ``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_SERVICE_NAME``, ``OTEL_TRACES_SAMPLER`` and the others
that its SDK reads.
"""

from __future__ import annotations

import os

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from skillwire.version import VERSION


def export_telemetry() -> None:
    """Export the spans and metrics of this process over OTLP/HTTP."""
    name = os.environ.get("OTEL_SERVICE_NAME") or "skillwire"
    resource = Resource.create({"service.name": name, "service.version": VERSION})
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource=resource))
