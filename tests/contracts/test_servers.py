"""The servers of one database have one key, and a signed request counts once for all of them."""

import pytest
from tests.support.opened import Blocking

from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sql.servers import SqlServers
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
