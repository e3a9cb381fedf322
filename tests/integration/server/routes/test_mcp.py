"""Answers at ``/mcp``: whole however large, bounded together, and not held for those who do not read them."""

import asyncio
import json
import subprocess
import sys

import pytest
import structlog
from tests.support.eventually import PATIENCE, eventually_async
from tests.support.mcp_host import EXECUTES, published
from tests.support.opened import open_tokens
from tests.support.publishing import Asgi, write_skill
from tests.unit.bridges.mcp.conftest import MAIN, MANIFEST

from skillwire.model.execution import ExecutionQuery

PLAIN = {
    "Host": "skills.example.com",
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


@pytest.fixture
def tokens():
    return open_tokens()


def test_no_server_imports_the_sdk_before_somebody_speaks_mcp():
    code = "import sys, skillwire.server.app, skillwire.cli.mcp; print([n for n in sys.modules if n[:3] == 'mcp'])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


async def test_run_of_a_caller_who_goes_away_is_cancelled(tmp_path, tokens):  # noqa: ARG001  # state
    write_skill(tmp_path / "skills", "double", {"skill.toml": MANIFEST, "main.py": MAIN})
    call = {"name": "call_skill", "arguments": {"name": "double", "arguments": {"number": 1, "seconds": 40}}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    async with published(tmp_path, EXECUTES) as application:
        desk = application.services.executions.service

        async def receive():
            if not asked:
                asked.append(True)
                return {"type": "http.request", "body": body, "more_body": False}
            await eventually_async(lambda: desk.ledger.search(ExecutionQuery()), lambda found: found.executions)
            return {"type": "http.disconnect"}

        async def send(_):
            pass

        asked, client = [], Asgi(application)
        scope = client.scope("/mcp", PLAIN, method="POST")
        async with asyncio.timeout(PATIENCE):
            await application(scope, receive, send)
            (begun,) = (await desk.ledger.search(ExecutionQuery())).executions
            found = await eventually_async(
                lambda: desk.ledger.find(begun.execution_id), lambda found: found.status.is_final
            )
    assert found.failure.reason == "cancelled"


async def test_operator_is_told_at_the_start_which_pins_are_not_published(tmp_path, tokens):  # noqa: ARG001  # state
    with structlog.testing.capture_logs() as logs:
        async with published(tmp_path, '[mcp]\npin = ["open-notes", "nothing"]\n') as application:
            write_skill(tmp_path / "skills", "another")
            await eventually_async(lambda: "another" in application.catalog.current.everything.skills)
    told = [line["skills"] for line in logs if line["event"] == "pinned, but not published"]
    assert told == ["nothing"]
