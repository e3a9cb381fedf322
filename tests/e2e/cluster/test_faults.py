"""Servers and databases that fail under a load break no promise; ``bench/cluster_faults.py`` is the same for longer."""

import pytest
from tests.support.cluster import CUT_SERVER, Cluster, Load, make_faults, suffer
from tests.support.eventually import PATIENCE, eventually_async
from tests.support.history import recoveries

pytestmark = [pytest.mark.deep, pytest.mark.timeout(900)]


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    made.close()


async def test_no_fault_of_servers_and_databases_breaks_a_promise(cluster):
    await cluster.start()
    load = Load(cluster)
    faults = make_faults(kills=3, fail_overs=2)
    recovered = await suffer(cluster, load, faults, lasting=1.0, between=1.0, advance=lambda _: None)
    assert await load.finish() == []
    assert all(seconds < float("inf") for seconds in recovered), recovered
    assert {one.kind for one in load.history if one.outcome == "ok"} == {"publish", "read", "accept", "end", "ran"}


async def test_a_server_that_is_cut_off_from_the_database_answers_in_time_and_comes_back(cluster):
    if cluster.island is None:
        pytest.skip("a network partition needs root and ip (iproute2)")
    await cluster.start()
    load, cut = Load(cluster, answer=PATIENCE), cluster.servers[-1].url
    recovered = await suffer(cluster, load, [CUT_SERVER], lasting=12.0, between=3.0, advance=lambda _: None)

    def here():
        return [one for one in load.history if one.server == cut]

    await eventually_async(
        lambda: recoveries(here(), load.mended, ["read", "accept"]), lambda healed: max(healed) < float("inf")
    )
    assert await load.finish() == []
    assert max(recovered) < float("inf")
    assert [one for one in here() if one.outcome.startswith("failed 503")], "nothing was cut off"
    assert not [one for one in here() if one.outcome == "unknown"], "a client gave up waiting"
