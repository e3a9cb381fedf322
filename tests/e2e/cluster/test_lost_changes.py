"""Servers that run while their database goes back: they serve what it has, and no change of afterwards is missed."""

import os
import signal
import subprocess
from contextlib import ExitStack
from functools import partial

import pytest
from tests.e2e.cluster.conftest import REVISION, Cluster
from tests.e2e.cluster.test_cluster import call
from tests.support.eventually import PATIENCE, eventually
from tests.support.free_port import free_port
from tests.support.postgres import PostgresServer


class Promotion:
    """The database goes back because the standby that becomes the primary was behind."""

    def __init__(self, folder, stack):
        self.primary = PostgresServer(port=free_port(), fsync="off")
        stack.callback(self.primary.close)
        self.standby = self.primary.standby(port=free_port(), fsync="off")
        stack.callback(self.standby.close)
        places = f"{self.primary.place},{self.standby.place}"
        self.cluster = Cluster(folder, stack, url=f"postgresql://postgres@{places}/postgres", servers=2)

    def keep(self):
        """From here on everything will be lost."""
        eventually(lambda: self.standby.has("SELECT EXISTS (SELECT FROM packages WHERE name = 'kept')"))
        self.standby.stop()

    def go_back(self):
        self.primary.stop(signal.SIGQUIT)
        self.standby.start()
        self.standby.promote()


class Restore:
    """The database goes back because a backup is restored into it."""

    def __init__(self, folder, stack):
        self.cluster, self.dump = Cluster(folder, stack, servers=2), folder / "dump"

    def keep(self):
        self.run("pg_dump", "--format=custom", f"--file={self.dump}", self.cluster.url)

    def go_back(self):
        options = ("--clean", "--if-exists", "--single-transaction", "--no-owner")
        self.run("pg_restore", *options, f"--dbname={self.cluster.url}", self.dump)

    def run(self, program, *arguments):
        path = self.cluster.database.programs / program
        # Of two that wait for each other, a server that reads is refused, and the restore is not.
        variables = {**os.environ, "PGOPTIONS": f"-c deadlock_timeout={PATIENCE:.0f}s"}
        subprocess.run([path, *arguments], env=variables, check=True, timeout=PATIENCE)


@pytest.mark.parametrize("way", [Promotion, Restore])
def test_lost_changes_go_and_those_of_afterwards_are_served_by_all(way, tmp_path):
    with ExitStack() as stack:
        place = way(tmp_path, stack)
        cluster = place.cluster
        a, b = cluster.servers
        assert cluster.publish(a, "kept").status == 201
        place.keep()
        lost = [cluster.publish(a, f"lost-{number}").fields[REVISION.lower()] for number in range(3)][-1]
        for server in (a, b):
            assert "lost-2" in cluster.index(server, lost)
            ended(server, call(server, 0))  # the version of the skill is in the ledger, and will not be
        place.go_back()
        answer = eventually(lambda: cluster.publish(a, "next"), lambda answer: answer.status == 201, every=0.2)
        for server in (a, b):
            # A client that saw lost changes gets all that there is; others within seconds.
            found = eventually(partial(cluster.index, server, lost), lambda index: "lost-2" not in index)
            assert {"kept", "next"} <= found.keys()
            found = cluster.index(server, answer.fields[REVISION.lower()])
            assert (found.keys() & {"lost-0", "lost-1", "lost-2"}, "next" in found) == (set(), True)
            ended(server, call(server, 0))
            server.wait_for(lambda ready: ready["status"] == "ready")


def ended(server, accepted):
    ask = f"/executions/{accepted['execution_id']}"
    answer = eventually(
        lambda: server.get(ask, {"Accept": "application/json"}).json(),
        lambda execution: execution["status"] not in {"accepted", "running"},
        every=0.1,
    )
    assert answer["status"] == "completed", answer
