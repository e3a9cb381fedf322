"""A clock shows one time on both of its faces, which never goes back."""

import pytest
from tests.support.opened import Blocking

from skillwire.adapters.clock import moment
from skillwire.adapters.postgres.database import PostgresClock, PostgresDatabase
from skillwire.testing import VirtualClock


@pytest.fixture(params=["machine", "postgres", "virtual"])
def clock(request):
    if request.param != "postgres":
        yield moment if request.param == "machine" else VirtualClock().moment
        return
    database = Blocking(PostgresDatabase(request.getfixturevalue("postgres_url")))
    clock = PostgresClock(database.wrapped)
    Blocking(clock).measure()
    yield clock
    database.close()


def test_the_steady_time_goes_on_and_belongs_to_one_start(clock):
    moments = [clock() for _ in range(1_000)]
    assert moments == sorted(moments, key=lambda one: one.steady)
    assert len({one.boot for one in moments}) == 1
    first, last = moments[0], moments[-1]
    assert last.wall - first.wall == pytest.approx(last.steady - first.steady, abs=5)
