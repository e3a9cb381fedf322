"""``skillwire mcp`` lives and ends as every process does that serves the one who started it."""

import pytest
from tests.support.opened import open_ledger
from tests.support.publishing import write_skill

from skillwire.adapters.lines import lines_of
from skillwire.bridges.mcp import server as bridge
from skillwire.server import stdio
from skillwire.server.app import make_components


@pytest.mark.parametrize("protocol", ["mcp", "rpc"])
async def test_process_of_a_host_runs_what_it_accepts_and_looks_for_nothing_else(tmp_path, monkeypatch, protocol):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    write_skill(tmp_path / "skills", "open-notes")
    open_ledger()  # there is one, in which others may have left something
    parts = make_components([tmp_path / "skills"], blobs=tmp_path / "blobs", access_log=False)
    seen = []

    async def look(*_):
        assert await parts.catalog.first(20) is not None
        seen.append(bool(parts.executions._tasks) or parts.executions._awaiting is not None)
        parts.executions.runs.on_accept()
        seen.append(bool(parts.executions._tasks))

    if protocol == "mcp":
        monkeypatch.setattr(bridge, "serve_stdio", look)
        await stdio.serve_mcp_stdio(parts, lines_of(0, 1), ())
    else:
        async with stdio.started(parts):
            await look()
    assert seen == [False, True]
    assert all(task.done() for task in parts.executions._tasks)
