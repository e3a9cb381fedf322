"""Whatever happens to processes, disks, clocks and power, no accepted execution is lost, and each ends once.

The long forms are ``bench/crash.py``, ``bench/crash_servers.py`` and ``bench/power_cuts.py``.
"""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.support.eventually import PATIENCE
from tests.support.executions import NO_QUOTA, Office, claim_of, make_execution

from skillwire.model.execution import ExecutionQuery, ExecutionStatus

PROJECT = Path(__file__).parents[2]
CHILD = PROJECT / "tests" / "support" / "ledger_child.py"
NUMBER = 150
INTACT = "0 lost, each ended once, intact"


def run_bench(name, *arguments):
    command = [sys.executable, str(PROJECT / "bench" / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_processes_that_are_killed_lose_nothing():
    said = run_bench("crash.py", "--kills", "100", "--invocations", "1500", "--every", "0.4")
    kills, invocations = (line for line in said.splitlines() if not line.startswith(" "))
    assert INTACT in kills
    assert INTACT in invocations


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is missing")
def test_servers_and_workers_that_are_killed_lose_no_call():
    assert INTACT in run_bench("crash_servers.py", "5")


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_power_cuts_lose_nothing_and_a_disk_that_ignores_syncs_does():
    sys.path.append(str(PROJECT / "bench"))
    try:
        from disk_recorder import can_record  # noqa: PLC0415  # a bench, that is on no path
    finally:
        sys.path.remove(str(PROJECT / "bench"))
    if not can_record():
        pytest.skip("this Python hides the functions of its SQLite")
    assert "power cuts: 200, 0 lost something" in run_bench("power_cuts.py", "200")


class Race:
    """An office whose ledger is used by several processes at once."""

    def __init__(self, office):
        self.office = office

    def run(self, *orders):
        """Let each order be done by a process of its own, all at once; return what came of each."""
        command = [sys.executable, str(CHILD), str(self.office.folder)]
        pipe = subprocess.PIPE
        children: list[Any] = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in orders]
        try:
            assert [child.stdout.readline() for child in children] == ["ready\n"] * len(children)
            for child, order in zip(children, orders, strict=True):
                child.stdin.write(json.dumps(order) + "\n")
                child.stdin.flush()
            return [json.loads(child.communicate(timeout=PATIENCE)[0]) for child in children]
        finally:
            for child in children:
                child.kill()
                child.communicate()

    def check(self):
        for execution in self.office.ledger.search(ExecutionQuery(limit=1_000)).executions:
            ends = [event.what for event in execution.timeline if event.what in ENDS]
            assert len(ends) == execution.status.is_final


ENDS = {"complete", "fail", "abandon", "cancel", "expire"}


@pytest.fixture
def office(tmp_path):
    made = Office(tmp_path)
    yield made
    made.close()


@pytest.fixture
def race(office):
    return Race(office)


def accept_many(office, **fields):
    executions = [make_execution(office.clock, **fields) for _ in range(NUMBER)]
    return [one.execution.execution_id for one in office.ledger.accept_all(executions)]


def test_two_servers_that_claim_at_once_share_what_there_is(office, race):
    ids = accept_many(office)
    first, second = race.run(*[{"do": "claim", "worker": name, "now": office.clock.now} for name in ("w1", "w2")])
    assert sorted(first + second) == sorted(ids)
    for worker, mine in (("w1", first), ("w2", second)):
        assert {office.ledger.find(name).worker for name in mine} <= {worker}


def test_of_a_cancellation_and_a_deadline_one_counts(office, race):
    ids = accept_many(office, timeout=100.0)
    wall, steady, boot = office.clock.now
    nows = [(wall + 100, steady + number, boot) for number in range(5)]
    cancelled, expired = race.run(
        {"do": "cancel", "ids": ids, "now": nows[0]}, {"do": "expire", "nows": [(wall, steady, boot), *nows]}
    )
    statuses = {name: office.ledger.find(name).status for name in ids}
    assert cancelled == statuses
    assert sorted(expired) == sorted(name for name in ids if statuses[name] is ExecutionStatus.TIMEOUT)
    assert set(statuses.values()) <= {ExecutionStatus.FAILED, ExecutionStatus.TIMEOUT}
    race.check()


@pytest.mark.parametrize("is_repeatable", [False, True])
def test_of_a_late_completion_and_a_loss_one_counts(office, race, is_repeatable):
    ids = accept_many(office, is_repeatable=is_repeatable)
    claims = [claim_of(one) for one in office.claim(limit=NUMBER)]
    assert len(claims) == NUMBER
    office.clock.pass_(NO_QUOTA.lease + 1)
    now = office.clock.now
    completed, recovered = race.run(
        {"do": "complete", "claims": claims, "now": now}, {"do": "recover", "nows": [now] * 5}
    )
    assert sorted(completed + recovered) == sorted(ids)
    for name in ids:
        lost = ExecutionStatus.RUNNING if is_repeatable else ExecutionStatus.FAILED
        assert office.ledger.find(name).status is (ExecutionStatus.COMPLETED if name in completed else lost)
    race.check()


def test_of_two_completions_of_one_claim_one_counts(office, race):
    ids = accept_many(office)
    order = {"do": "complete", "claims": [claim_of(one) for one in office.claim(limit=NUMBER)], "now": office.clock.now}
    first, second = race.run(order, order)
    assert sorted(first + second) == sorted(ids)


def test_clock_that_jumps_ends_what_its_deadline_says_and_no_lease(office, race):
    ids = accept_many(office, timeout=1000.0)
    claims = [claim_of(one) for one in office.claim(limit=NUMBER)]
    wall, steady, boot = office.clock.now
    back, ahead = (wall - 1e6, steady + 1, boot), (wall + 999, steady + 2, boot)
    completed, expired, recovered = race.run(
        {"do": "complete", "claims": claims, "now": back},
        {"do": "expire", "nows": [back, ahead] * 5},
        {"do": "recover", "nows": [back, ahead] * 5},
    )
    assert (sorted(completed), expired, recovered) == (sorted(ids), [], [])


@pytest.mark.parametrize("kind", ["limit", "full"])
def test_disk_that_is_full_refuses_new_ones_and_loses_none(tmp_path, kind):
    command = [sys.executable, str(CHILD), str(tmp_path)]
    room = 2_000_000
    if kind == "full":
        if shutil.which("unshare") is None:
            pytest.skip("no unshare here")
        script = (
            'mount -t tmpfs -o size=4m tmpfs "$1" || exit 77; shift; "$@"; code=$?; cp -r "$0"/. "$KEEP"; exit $code'
        )
        command = ["unshare", "-m", "sh", "-c", script, str(tmp_path), str(tmp_path), *command]
    kept = tmp_path.with_name(f"{tmp_path.name}-kept")
    kept.mkdir()
    order = {"do": "fill", "room": room if kind == "limit" else None, "number": 800}
    child = subprocess.run(
        command,
        input=json.dumps(order),
        env={"KEEP": str(kept)},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    if kind == "full" and "ready" not in child.stdout:
        pytest.skip("file systems cannot be mounted here")
    assert child.returncode == 0, child.stderr
    came = json.loads(child.stdout.splitlines()[1])
    assert came["first"] > 0
    assert came["readable"]
    office = Office(kept if kind == "full" else tmp_path)
    assert all(office.ledger.find(name) is not None for name in came["accepted"])
    assert all(office.ledger.find(name) is None for name in came["refused"])
    assert len(came["accepted"]) > 50
    if kind == "limit":
        assert sum(name.startswith("exec-more-") for name in came["accepted"]) == 800
    office.close()
    with closing(sqlite3.connect(office.database.path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
