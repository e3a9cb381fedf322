"""Servers that share a ledger: each runs what it accepted, by its own configuration and with its own secrets."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import structlog
from tests.support.invoking import write_action
from tests.support.publishing import write_skill

from skillwire.errors import StorageError, TrustError
from skillwire.model.execution import ExecutionSettings, RunSettings
from skillwire.server.app import make_components, make_worker
from skillwire.server.configuration import ServerConfiguration, use_local_defaults
from skillwire.server.runs import check_allowed

ALL = ExecutionSettings(grant_all=True)


def test_a_process_that_serves_its_host_alone_has_a_queue_of_its_own():
    configuration = ServerConfiguration(executions=replace(ALL, queue="/srv/a.toml"))
    names = {use_local_defaults(configuration).executions.queue for _ in range(2)}
    assert len(names) == 2
    assert "/srv/a.toml" not in names
    leaving = replace(configuration, executions=replace(configuration.executions, concurrency=0))
    assert use_local_defaults(leaving).executions.queue == "/srv/a.toml"  # skillwire worker runs it, or nobody would


def local_log(tmp_path, home, runs=None, executions=None, *, is_local=True):
    """Publish once; return what is logged."""
    assert home
    configuration = ServerConfiguration(runs=runs or RunSettings(), executions=executions or ExecutionSettings())
    with structlog.testing.capture_logs() as log:
        parts = make_components(
            [tmp_path / "skills"],
            blobs=tmp_path / "blobs",
            access_log=False,
            configuration=configuration,
            is_local=is_local,
        )
        parts.catalog.start()
        asyncio.run(parts.catalog.first(20))
        parts.catalog.stop()
    return log


def warned(log, words):
    return [entry for entry in log if entry["log_level"] == "warning" and words in entry["event"]]


def test_nothing_is_said_of_grants_where_nothing_may_run(tmp_path, home):
    write_action(tmp_path / "skills", "sum-up")
    assert warned(local_log(tmp_path, home), "granted") == []
    assert warned(local_log(tmp_path, home, RunSettings(run_code=True)), "granted") == []
    assert len(warned(local_log(tmp_path, home, RunSettings(execute_skill=True)), "not granted")) == 1
    assert len(warned(local_log(tmp_path, home, is_local=False), "not granted")) == 1


def test_what_is_shown_is_counted(tmp_path, home):
    write_action(tmp_path / "skills", "sum-up")
    write_skill(tmp_path / "skills", "closed", {"skill.toml": 'access = "private"\n'})
    for is_local, number in ((True, 2), (False, 1)):
        [told] = [one for one in local_log(tmp_path, home, is_local=is_local) if one["event"] == "published"]
        assert told["skills"] == number
        assert ("closed" in told["added"]) == is_local


def test_a_refusal_names_the_option_to_whoever_started_the_process():
    readers = {"execute_skill": False, "run_code": False}
    with pytest.raises(TrustError) as local:
        check_allowed("local", readers, "keep blobs", is_local=True)
    with pytest.raises(TrustError) as served:
        check_allowed("local", readers, "keep blobs")
    assert local.value.fix == "Start this command with --execute or --run-code."
    assert "[rpc]" in str(served.value.fix)


def test_secrets_that_nobody_has_set_are_named_of_skills_that_may_run(tmp_path, home, monkeypatch):
    monkeypatch.setenv("SET_KEY", "value")
    permissions = '[permissions]\nsecrets = ["UNSET_KEY", "SET_KEY"]\n'
    write_action(tmp_path / "skills", "sum-up", tables=permissions)
    [told] = warned(local_log(tmp_path, home, executions=ALL, is_local=False), "secrets are not set")
    assert (told["secrets"], told["skills"]) == ("UNSET_KEY", "sum-up")
    assert "secrets_file" in told["fix"]
    file = tmp_path / "secrets.env"
    file.write_text("UNSET_KEY=value\n")
    file.chmod(0o600)
    for settings in (ExecutionSettings(), replace(ALL, concurrency=0), replace(ALL, secrets_file=str(file))):
        assert warned(local_log(tmp_path, home, executions=settings, is_local=False), "secrets are not set") == []


@pytest.mark.parametrize("is_local", [True, False, None])
def test_a_file_of_secrets_that_cannot_be_used_is_told_at_the_start(tmp_path, home, is_local):
    assert home
    (tmp_path / "skills").mkdir()
    file = tmp_path / "secrets.env"
    configuration = ServerConfiguration(executions=replace(ALL, secrets_file=str(file)))

    def start():
        if is_local is None:
            return make_worker(configuration)
        return make_components([tmp_path / "skills"], configuration=configuration, is_local=is_local)

    with pytest.raises(StorageError, match="no such file") as missing:
        start()
    assert "correct secrets_file" in str(missing.value.fix)
    file.write_text("A_KEY=value\n")
    file.chmod(0o644)
    with pytest.raises(StorageError, match="others may read") as opened:
        start()
    assert opened.value.fix == f"Take that away: chmod 600 {file}"
    file.chmod(0o600)
    assert start()
