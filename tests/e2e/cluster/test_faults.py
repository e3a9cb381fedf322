"""Servers and databases that fail under a load break no promise; ``bench/cluster_faults.py`` is the same for longer."""

import pytest
from tests.support.cluster import Cluster, Load, make_faults, suffer


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    made.close()


@pytest.mark.deep
@pytest.mark.timeout(900)
async def test_no_fault_of_servers_and_databases_breaks_a_promise(cluster):
    await cluster.start()
    load = Load(cluster)
    faults = make_faults(kills=3, fail_overs=2)
    recovered = await suffer(cluster, load, faults, lasting=1.0, between=1.0, advance=lambda _: None)
    assert await load.finish() == []
    assert all(seconds < float("inf") for seconds in recovered), recovered
    assert {one.kind for one in load.history if one.outcome == "ok"} == {"publish", "read", "accept", "end", "ran"}
