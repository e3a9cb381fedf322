"""Servers and databases that fail under a load break no promise; ``bench/cluster_faults.py`` is the same for longer."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from tests.support.cluster import (
    FAIL_OVER,
    FILL_DISK,
    PAUSE_DATABASE,
    TAKE_CONNECTIONS,
    Cluster,
    Load,
    kill_server,
    pause_server,
    restart_server,
    suffer,
)

FAULTS = [
    *(kill_server(number) for number in range(3)),
    FAIL_OVER,
    pause_server(0),
    PAUSE_DATABASE,
    TAKE_CONNECTIONS,
    FAIL_OVER,
    *([FILL_DISK] if os.geteuid() == 0 else []),
    *(restart_server(number) for number in range(3)),
]


@pytest.fixture
def cluster():
    folder = Path(tempfile.mkdtemp(prefix="skillwire-cluster-", dir="/tmp"))
    folder.chmod(0o755)  # PostgreSQL runs as another user than root, who cannot enter the folders of tests
    made = Cluster(folder, clocks=(0.0, 300.0, -300.0))
    yield made
    made.close()
    shutil.rmtree(folder)


@pytest.mark.deep
@pytest.mark.timeout(900)
async def test_no_fault_of_servers_and_databases_breaks_a_promise(cluster):
    await cluster.start()
    load = Load(cluster)
    recovered = await suffer(cluster, load, FAULTS, lasting=1.0, between=1.0, advance=lambda _: None)
    assert await load.finish() == []
    assert all(seconds < float("inf") for seconds in recovered), recovered
    assert {one.kind for one in load.history if one.outcome == "ok"} == {"publish", "read", "accept", "end", "ran"}
