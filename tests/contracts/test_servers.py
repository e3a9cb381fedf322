"""The servers of one database have one key, count a signature once, know how many they are, and one of them leads."""

import pytest
from tests.support.memory_stores import MemoryLeases
from tests.support.opened import Blocking

from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sql.servers import SqlLeases, SqlServers
from skillwire.errors import StorageError


@pytest.fixture
def servers(postgres_url):
    databases = [Blocking(PostgresDatabase(postgres_url)) for _ in range(2)]
    yield [Blocking(SqlServers(one.wrapped)) for one in databases]
    for one in databases:
        one.close()


def test_a_server_with_another_key_is_refused_with_the_file_to_copy(servers):
    first, second = servers
    first.check_key(b"a" * 32, "/state/server.key")
    second.check_key(b"a" * 32, "/state/server.key")
    with pytest.raises(StorageError, match="another key") as caught:
        second.check_key(b"b" * 32, "/other/server.key")
    assert caught.value.code == "SERVER_KEY"
    assert "/other/server.key" in caught.value.diagnostics().fix


def test_a_signature_counts_once_until_it_ends(servers):
    first, second = servers
    assert first.use_signature(b"digest", 100.0, 500.0)
    assert not second.use_signature(b"digest", 101.0, 501.0)
    assert second.use_signature(b"other", 101.0, 501.0)
    assert second.use_signature(b"digest", 500.5, 900.0)


def test_servers_know_how_many_they_are_until_one_leaves_or_is_silent(servers):
    first, second = servers
    assert first.count("a", 100.0, 15.0) == 1
    assert second.count("b", 101.0, 15.0) == 2
    assert first.count("a", 110.0, 15.0) == 2
    assert first.count("a", 117.0, 15.0) == 1, "the other was silent for longer than it said"
    assert second.count("b", 118.0, 15.0) == 2
    second.leave("b")
    assert first.count("a", 119.0, 15.0) == 1


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
