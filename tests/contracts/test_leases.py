"""One server leads at a time, and each lease that is another one has a higher number."""

import pytest
from tests.support.memory_stores import MemoryLeases
from tests.support.opened import Blocking

from skillwire.adapters.sql.servers import SqlLeases

NOW = 1_000_000.0


@pytest.fixture
def leases(database):
    return Blocking(SqlLeases(database) if database else MemoryLeases())


def test_one_server_leads_until_its_lease_is_over(leases):
    assert leases.lead("sweep", "a", NOW, 10) == 1
    assert leases.lead("sweep", "b", NOW + 9.9, 10) is None
    assert leases.lead("sweep", "b", NOW + 10, 10) == 2
    assert leases.lead("sweep", "a", NOW + 10, 10) is None


def test_a_lease_that_is_prolonged_in_time_keeps_its_number(leases):
    assert [leases.lead("sweep", "a", NOW + seconds, 10) for seconds in (0, 5, 14.9)] == [1, 1, 1]
    assert leases.lead("sweep", "b", NOW + 24, 10) is None


def test_a_lease_that_ran_out_gets_another_number_even_for_the_same_server(leases):
    assert [leases.lead("sweep", "a", NOW + seconds, 10) for seconds in (0, 10)] == [1, 2]


def test_names_are_led_one_by_one(leases):
    assert leases.lead("sweep", "a", NOW, 10) == 1
    assert leases.lead("webhooks", "b", NOW, 10) == 1


def test_a_server_that_resigns_leaves_the_lease_to_the_next(leases):
    leases.resign("sweep", "a")
    assert leases.lead("sweep", "a", NOW, 10) == 1
    leases.resign("sweep", "b")
    assert leases.lead("sweep", "b", NOW, 10) is None
    leases.resign("sweep", "a")
    assert leases.lead("sweep", "b", NOW, 10) == 2


def test_a_clock_that_was_set_back_ends_the_lease(leases):
    assert leases.lead("sweep", "a", NOW, 10) == 1
    assert leases.lead("sweep", "b", NOW - 5, 10) is None
    assert leases.lead("sweep", "b", NOW - 3600, 10) == 2
