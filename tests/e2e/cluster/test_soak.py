"""Three servers under a steady load of all kinds answer every request, and no read goes back; ``bench/soak.py``."""

import os

import pytest
from tests.support.cluster import Servers
from tests.support.postgres import PostgresServer
from tests.support.soak import SHARES, Soak, fill

#: Of a long form, such as SKILLWIRE_SOAK_MINUTES=20; the memory is judged only there.
MINUTES = float(os.environ.get("SKILLWIRE_SOAK_MINUTES", "0"))
PACKAGES = 50_000 if MINUTES else 2_000


@pytest.fixture
def servers(tmp_path_factory):
    database = PostgresServer(fsync="off")
    database.execute("CREATE DATABASE skillwire")
    made = None
    try:
        made = Servers(tmp_path_factory.mktemp("servers"), database.url("skillwire"))
        yield made
    finally:
        if made is not None:
            made.close()
        database.close()


@pytest.mark.deep
@pytest.mark.timeout(1_800 + 60 * MINUTES)
async def test_a_steady_load_meets_no_error_and_leaves_the_memory_as_it_is(servers):
    await fill(servers.store, PACKAGES)
    await servers.start(600)
    soak = Soak(servers, PACKAGES, rate=20)
    assert await soak.run(60 * MINUTES or 15, 1.0) == []
    assert soak.errors == []
    assert soak.times.keys() >= SHARES.keys() - {"yank"}
    if MINUTES:
        assert max(soak.drift()) < 0.05
