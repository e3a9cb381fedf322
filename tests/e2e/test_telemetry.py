"""``skillwire serve`` sends spans and metrics to a collector, and its JSON log names request and trace on each line."""

import gzip
import json

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.invoking import write_action
from tests.support.loopback_server import Handler, LoopbackServer
from tests.support.publishing import ServeProcess

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector(Handler):
    """Takes what an exporter sends, as an OpenTelemetry Collector does at port 4318."""

    received: dict[str, list[bytes]]

    def do_POST(self):
        body = self.body()
        body = gzip.decompress(body) if self.fields.get("content-encoding") == "gzip" else body
        self.received.setdefault(self.path, []).append(body)
        self.send(200, b"", "application/x-protobuf")


def _call(server):
    """Call a skill within a trace, wait for its end, and ask for the index; return the answer of the call."""
    request = {"caller": {"id": "ann", "type": "user"}, "skill_id": "local/sum-up", "inputs": {}}
    fields = {"content-type": "application/json", "prefer": "wait=30", "x-request-id": "r-1"}
    fields["traceparent"] = f"00-{TRACE}-{SPAN}-01"
    answer = server.get("/skills/sum-up/executions", fields, method="POST", body=json.dumps(request))
    assert answer.json()["status"] == "completed"
    for _ in range(2):  # the second is answered from prepared bytes
        assert server.get("/.well-known/agent-skills/index.json", {"x-request-id": "r-2"}).status == 200
        assert server.get("/.well-known/agent-skills/index.json").status == 200
    return answer.json()["execution_id"]


def _flat(exported, *names):
    """Return what the requests of an exporter hold, below these levels."""
    for name in names:
        exported = [inner for outer in exported for inner in getattr(outer, name)]
    return exported


def test_spans_and_metrics_reach_a_collector(tmp_path, monkeypatch):
    write_action(tmp_path / "skills", "sum-up")
    received: dict[str, list[bytes]] = {}
    with LoopbackServer(Collector, received=received) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{collector.host}")
        with ServeProcess(tmp_path / "skills", "--grant-all", home=tmp_path / "home") as server:
            server.wait_for(lambda ready: ready.get("revision"))
            _call(server)
            server.end()
    exported = [ExportTraceServiceRequest.FromString(body) for body in received["/v1/traces"]]
    spans = [
        span for one in exported for each in one.resource_spans for scope in each.scope_spans for span in scope.spans
    ]
    by_name = {span.name: span for span in spans}
    call, sent, attempt = (
        by_name[name] for name in ("POST /skills/{skill}/executions", "accept sum-up", "execute sum-up")
    )
    assert {one.trace_id.hex() for one in (call, sent, attempt)} == {TRACE}
    assert [one.parent_span_id.hex() for one in (call, sent, attempt)] == [SPAN, call.span_id.hex(), sent.span_id.hex()]
    assert len([span for span in spans if span.name == "GET /.well-known/agent-skills/index.json"]) == 4
    resource = {one.key: one.value.string_value for one in exported[0].resource_spans[0].resource.attributes}
    assert resource["service.name"] == "skillwire"
    measured = [ExportMetricsServiceRequest.FromString(body) for body in received["/v1/metrics"]]
    metrics = [
        one for each in measured for of in each.resource_metrics for scope in of.scope_metrics for one in scope.metrics
    ]
    (durations,) = {one.name: one for one in metrics}.items()
    name, metric = durations
    assert (name, metric.unit) == ("http.server.request.duration", "s")
    points = [{one.key for one in point.attributes} for point in metric.histogram.data_points]
    known = {"http.request.method", "url.scheme", "http.response.status_code", "http.route", "error.type"}
    assert all(point <= known for point in points)
    assert known - {"error.type"} in points


def test_each_line_of_the_json_log_names_its_request_and_trace(tmp_path):
    write_action(tmp_path / "skills", "sum-up")
    arguments = (tmp_path / "skills", "--grant-all", "--log-format", "json")
    with ServeProcess(*arguments, home=tmp_path / "home") as server:
        server.wait_for(lambda ready: ready.get("revision"))
        execution_id = _call(server)
        _, log = server.end()
    lines = [json.loads(line) for line in log.splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert [line for line in requests if not (line["request_id"] and len(line["trace_id"]) == 32)] == []
    (called,) = [line for line in requests if line["method"] == "POST"]
    assert (called["request_id"], called["trace_id"]) == ("r-1", TRACE)
    indexes = [line["request_id"] for line in requests if line["path"].endswith("index.json")]
    assert indexes[0] == indexes[2] == "r-2"
    assert len({*indexes}) == 3
    about = [line for line in lines if line.get("execution") == execution_id[:-24]]
    assert [line["event"] for line in about] == ["accepted", "ended"]
    assert {line["trace_id"] for line in about} == {TRACE}
    assert [line.get("request_id") for line in about] == ["r-1", None]
