"""A database is reached over TLS, whose certificate is verified, and through a pooler."""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trustme
from tests.support.eventually import PATIENCE, eventually
from tests.support.free_port import free_port
from tests.support.postgres import PostgresServer, set_deadlines

from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sql import Connection
from skillwire.errors import StorageError

pytestmark = pytest.mark.deep
COUNT = "SELECT count(*) FROM used_signatures"


async def write_and_count(url: str, rows: int = 10) -> int:
    """Return the number of rows after so many were written and all were read at once."""
    database = PostgresDatabase(url)
    try:
        for _ in range(rows):
            statement = "INSERT INTO used_signatures VALUES (?, ?)"
            await database.write(lambda connection: connection.run(statement, (os.urandom(8), 1.0)))  # noqa: B023  # awaited
        return int(await database.read(lambda connection: connection.value(COUNT)))
    finally:
        await database.close()


async def problem_of(url: str) -> StorageError:
    with pytest.raises(StorageError) as caught:
        await write_and_count(url)
    assert caught.value.code == "DATABASE"
    return caught.value


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    set_deadlines(monkeypatch, PATIENCE)


@pytest.fixture
def _debians_postgres(monkeypatch):
    if not (installed := sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))):
        pytest.skip("the wheel's PostgreSQL has no TLS, and Debian's is missing; fix: sh tools/system_packages.sh")
    monkeypatch.setenv("SKILLWIRE_TEST_POSTGRES", str(installed[-1].parent))


@pytest.mark.usefixtures("_debians_postgres")
async def test_a_database_over_tls_is_reached_where_its_certificate_is_good(tmp_path):
    authority, other = trustme.CA(), trustme.CA()
    leaf = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "root.pem")
    other.cert_pem.write_to_path(tmp_path / "other.pem")
    server = PostgresServer(port=free_port())
    try:
        for name, content in (("server.crt", leaf.cert_chain_pems[0]), ("server.key", leaf.private_key_pem)):
            path = server.data / name
            content.write_to_path(path)
            path.chmod(0o600)
            if os.geteuid() == 0:
                shutil.chown(path, "nobody", "nogroup")
        access = server.data / "pg_hba.conf"
        access.write_text("hostssl all all 127.0.0.1/32 trust\n")
        server.stop()
        server.settings["ssl"] = "on"
        server.start()
        verified = f"{server.url()}?sslmode=verify-full&sslrootcert={tmp_path}"
        assert await write_and_count(f"{verified}/root.pem") == 10
        assert "certificate verify failed" in str(await problem_of(f"{verified}/other.pem"))
        assert "no encryption" in str(await problem_of(f"{server.url()}?sslmode=disable"))
    finally:
        server.close()


def accepts_connections(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextmanager
def pooler(database: PostgresServer, mode: str) -> Iterator[str]:
    """Give the address of a PgBouncer in front of a database."""
    program = shutil.which("pgbouncer")
    if program is None:
        pytest.skip("pgbouncer is not installed; fix: sh tools/system_packages.sh")
    port = free_port()
    places = f"[databases]\npostgres = host=127.0.0.1 port={database.settings['port']} user=postgres\n"
    options = f"listen_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\nunix_socket_dir =\npool_mode = {mode}\n"
    settings = database.folder / "pgbouncer.ini"
    settings.write_text(f"{places}[pgbouncer]\n{options}")
    process = subprocess.Popen([program, "-q", settings], stderr=subprocess.DEVNULL, **database.user)
    try:
        eventually(lambda: accepts_connections(port))
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        process.terminate()
        process.wait(PATIENCE)


async def test_a_pooler_keeps_a_connection_for_a_session_or_the_error_says_so():
    server = PostgresServer(port=free_port())
    try:
        with pooler(server, "session") as url:
            assert await write_and_count(url) == 10
        with pooler(server, "transaction") as url:
            found = [error for _ in range(3) for error in await at_once(url, 20)]
            assert any("pool_mode = session" in error.diagnostics().fix for error in found), found
    finally:
        server.close()


async def at_once(url: str, number: int) -> list[StorageError]:
    """Return the errors of reads that all ask at once, so that they use several connections."""
    database = PostgresDatabase(url)

    async def read(connection: Connection) -> None:
        for _ in range(2):
            await connection.value(COUNT)

    answers = await asyncio.gather(*[database.read(read) for _ in range(number)], return_exceptions=True)
    await database.close()
    return [one for one in answers if isinstance(one, StorageError)]
