"""Operators are told of skills that nobody granted: when they are published, and once when they are called."""

import pytest
import structlog
from tests.support.invoking import write_action
from tests.support.opened import open_grants
from tests.support.publishing import write_skill

from skillwire.model.execution import ExecutionSettings


def warnings(log, what):
    return [entry for entry in log if entry["log_level"] == "warning" and what in entry["event"]]


async def test_a_call_of_what_nobody_granted_is_logged_once(tmp_path, serving):
    write_action(tmp_path / "skills", "one")
    write_action(tmp_path / "skills", "two")
    caller = await serving(ExecutionSettings())
    with structlog.testing.capture_logs() as log:
        for name in ("one", "one", "two", "one"):
            assert (await caller.invoke(name)).status == 503
    told = warnings(log, "refused: not granted")
    assert [entry["skill"] for entry in told] == ["one", "two"]
    assert "skillwire grant" in told[0]["fix"]


async def test_what_nobody_granted_is_named_when_it_is_published(tmp_path, serving):
    for number in range(7):
        write_action(tmp_path / "skills", f"act-{number}")
    write_skill(tmp_path / "skills", "read")
    with structlog.testing.capture_logs() as log:
        first = await serving(ExecutionSettings())
        await first.application.shutdown()
    [told] = warnings(log, "so that calls are refused")
    assert told["skills"] == "act-0, act-1, act-2, act-3, act-4 and 2 more"
    for number in range(6):
        skill = first.application.catalog.current.everything.skills[f"act-{number}"]
        open_grants().agree(skill, "tester")
    with structlog.testing.capture_logs() as log:
        second = await serving(ExecutionSettings())
        await second.application.shutdown()
    [told] = warnings(log, "so that calls are refused")
    assert told["skills"] == "act-6"


@pytest.mark.parametrize("settings", [ExecutionSettings(grant_all=True), ExecutionSettings()])
async def test_where_nothing_is_to_be_granted_nothing_is_said(tmp_path, serving, settings):
    write = write_action if settings.grant_all else write_skill
    write(tmp_path / "skills", "one")
    with structlog.testing.capture_logs() as log:
        served = await serving(settings)
        await served.application.shutdown()
    assert warnings(log, "granted") == []
