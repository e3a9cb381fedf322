"""What the server's log tells."""

import json
from typing import Any

import pytest
import structlog
from tests.support.command import new_logging

from skillwire.executions.accept import new_execution_id
from skillwire.server.log import configure_logging


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
