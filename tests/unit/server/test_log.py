"""What the server's log tells."""

import json
from typing import Any

import pytest
import structlog
from tests.support.command import new_logging

from skillwire.executions.callable_skill import new_execution_id
from skillwire.server.log import RepeatLimiter, configure_logging


@pytest.fixture(autouse=True)
def _configuration():
    with new_logging():
        yield


def test_no_line_holds_a_whole_id_of_an_execution(capsys):
    told: list[Any] = []
    configure_logging("json", told.append)
    execution_id = new_execution_id(1_750_000_000.0)
    log = structlog.get_logger("skillwire")
    about = f"about {execution_id}"
    log.info(about, path=f"/executions/{execution_id}", number=1)
    try:
        int(execution_id)
    except ValueError:
        log.exception("it broke", execution=execution_id)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == [f"about {execution_id[:-24]}", "it broke"]
    assert lines[0]["path"] == f"/executions/{execution_id[:-24]}"
    assert execution_id[:-24] in lines[1]["exception"]
    assert execution_id not in json.dumps(lines)
    assert [one["execution"] for one in told[1:]] == [execution_id[:-24]]


def test_what_was_raised_can_fake_no_line_and_command_no_terminal(capsys):
    def fail(city):
        raise ValueError(f"no city {city}")

    configure_logging("human")
    try:
        fail("\x1b[2J\u202e\n12:00:00 info signed in account=root")
    except ValueError:
        structlog.get_logger("skillwire").exception("it broke")
    first, *others = capsys.readouterr().err.splitlines()
    assert "it broke" in first
    assert all(line.startswith("  ") for line in others), others
    assert "no city [U+001B][2J[U+202E]" in others[-2]


class Log:
    """What passes the limit, by a clock of its own."""

    def __init__(self):
        self.now = 0.0
        self.limit = RepeatLimiter(lambda: self.now)

    def passes(self, event, method="error", **fields):
        try:
            return self.limit(None, method, {"event": event, **fields})
        except structlog.DropEvent:
            return None


def test_an_error_that_repeats_is_logged_once_a_minute_with_a_count():
    log = Log()
    full = {"error": "DATABASE: database or disk is full"}
    assert log.passes("the ledger failed", **full, execution="exec-1") is not None
    log.now = 59.0
    assert [log.passes("the ledger failed", **full, execution=f"exec-{n}") for n in range(100)] == [None] * 100
    assert log.passes("the ledger failed", error="DATABASE: database is locked") is not None
    assert log.passes("ended", "info") == log.passes("ended", "info") == {"event": "ended"}
    log.now = 60.0
    assert log.passes("the ledger failed", **full)["repeats"] == 100
    log.now = 200.0
    assert "repeats" not in log.passes("the ledger failed", **full)


def test_faults_of_two_places_are_two_errors_and_the_path_of_a_request_is_none():
    log = Log()
    calls = [
        lambda: int("a"),
        lambda: int("a"),
    ]

    def failure(call):
        with pytest.raises(ValueError, match="invalid") as caught:
            call()
        return caught.value

    passed = [log.passes("a request failed", exc_info=failure(calls[n % 2]), path=f"/{n}") for n in range(6)]
    assert [one is not None for one in passed] == [True, True, False, False, False, False]


def test_few_errors_are_known_at_a_time(monkeypatch):
    monkeypatch.setattr("skillwire.server.log._ERRORS_KNOWN", 3)
    log = Log()
    assert [log.passes("e", error=str(n)) is not None for n in (1, 2, 3, 4, 4, 1)] == [True] * 4 + [False, True]
    assert len(log.limit._known) == 3
