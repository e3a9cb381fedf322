"""The dashboard, the alert rules and ``/metrics``: every query names a metric and labels that there are."""

import json
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import promql_parser
import pytest
import yaml
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily
from tests.support.publishing import Asgi, write_skill

from skillwire.adapters.postgres.connection import Counters
from skillwire.server.app import create_app
from skillwire.server.prometheus import METRICS

PROJECT = Path(__file__).parents[2]
RULES = PROJECT / "deploy" / "alerts.yaml"
CASES = Path(__file__).with_name("alert_cases.yaml")
DASHBOARD = json.loads((PROJECT / "deploy" / "grafana-dashboard.json").read_text())
#: Labels that Prometheus adds to every series.
ADDED = {"job", "instance"}
PROMTOOL = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed (apt: prometheus)")


def _series():
    """Return each name at ``/metrics``, and its labels."""
    found: dict[str, set[str]] = {}
    for name, family in METRICS.items():
        labels = {*family.labels, *ADDED}
        if family.kind is HistogramMetricFamily:
            found |= {f"skillwire_{name}_bucket": {*labels, "le"}}
            found |= dict.fromkeys((f"skillwire_{name}_count", f"skillwire_{name}_sum"), labels)
        else:
            found[f"skillwire_{name}{'_total' if family.kind is CounterMetricFamily else ''}"] = labels
    own = ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds")
    return {**found, "up": ADDED, **{f"process_{name}": ADDED for name in own}}


SERIES = _series()


def _selectors(expression):
    """Yield each selector of a query; with it the labels that its results are grouped by."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression, ()
    for name in ("expr", "lhs", "rhs", "vs", "vector_selector", "param"):
        if isinstance(inner := getattr(expression, name, None), promql_parser.Expr):
            by = getattr(getattr(expression, "modifier", None), "labels", None) or ()
            yield from ((one, (*by, *outer)) for one, outer in _selectors(inner))
    for inner in getattr(expression, "args", ()):
        yield from _selectors(inner)


def _queries():
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield f"dashboard: {panel['title']}: {target['refId']}", target["expr"], target["legendFormat"]
    for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]:
        yield f"alert: {rule['alert']}", rule["expr"], rule["annotations"]["summary"].replace("$labels.", "")


@pytest.mark.parametrize(("expression", "text"), [pytest.param(*rest, id=name) for name, *rest in _queries()])
def test_a_query_names_metrics_and_labels_that_there_are(expression, text):
    parsed = promql_parser.parse(expression.replace("$__rate_interval", "5m"))
    selectors = list(_selectors(parsed))
    assert len(selectors) == len(re.findall(r"\b(?:skillwire_|process_|up\b)", expression))
    shown = set(re.findall(r"{{ ?(\w+) ?}}", text))
    for selector, grouped in selectors:
        matched = {matcher.name for matcher in selector.matchers.matchers}
        assert matched | {*grouped} | shown <= SERIES[selector.name], selector.name


@pytest.fixture
async def exposed(tmp_path, monkeypatch):
    """Return what ``/metrics`` of a registry answers."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    write_skill(tmp_path / "skills", "notes")
    application = create_app([tmp_path / "skills"], blobs=tmp_path / "blobs", access_log=False, registry=True)
    await (caller := Asgi(application)).get("/.well-known/agent-skills/index.json")
    text = (await caller.get("/metrics")).body.decode()
    await application.shutdown()
    return text


def test_every_metric_is_exposed_under_its_name(exposed):
    typed = set(re.findall(r"^# TYPE skillwire_(\w+?)(?:_total)? \w+$", exposed, re.MULTILINE))
    assert typed <= METRICS.keys()
    assert {"build_info", "registry_lag_seconds", "executions_oldest_queued_seconds", "store_wait_seconds"} <= typed
    assert {f"store_{one.name}" for one in fields(Counters)} - {"store_waited"} <= METRICS.keys()
    assert {name for name in METRICS.keys() - typed if not name.startswith(("lan_", "dht_", "store_"))} == set()


@PROMTOOL
def test_the_metrics_keep_the_conventions_of_prometheus(exposed):
    done = subprocess.run(["promtool", "check", "metrics"], input=exposed, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@PROMTOOL
def test_the_alert_rules_are_right_and_each_of_them_can_fire():
    for command in (("check", "rules", str(RULES)), ("test", "rules", str(CASES))):
        done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_is_one_of_grafana():
    panels = DASHBOARD["panels"]
    read = Dashboard.from_json(DASHBOARD)
    assert [getattr(one, "title", None) for one in read.panels or ()] == [one["title"] for one in panels]
    assert len({one["id"] for one in panels}) == len(panels)
    boxes = [one["gridPos"] for one in panels]
    places = [(box["x"] + x, box["y"] + y) for box in boxes for x in range(box["w"]) for y in range(box["h"])]
    assert len(set(places)) == len(places)  # no panel covers another
    assert max(x for x, _ in places) < 24
    variables = {one["name"] for one in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) - {"__rate_interval"}
    assert used == variables
