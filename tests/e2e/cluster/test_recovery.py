"""What the page about many machines says to do when a machine or the data are lost, run as it is printed."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest
from tests.support.cluster import NAMESPACE, Server, Servers, make_archive
from tests.support.eventually import PATIENCE, eventually
from tests.support.free_port import free_port
from tests.support.pages import shown
from tests.support.postgres import PostgresServer
from tests.support.postgres_pair import Pair

PAGE = Path(__file__).parents[3] / "docs" / "topics" / "many-machines.md"
KEY = Path(".local/state/skillwire/server.key")

pytestmark = [pytest.mark.deep, pytest.mark.timeout(600)]


@pytest.fixture
def folder():
    """Return a folder that the user of PostgreSQL may read."""
    made = Path(tempfile.mkdtemp(prefix="skillwire-recovery-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def ending():
    """Give a list of what is called at the end, last one first."""
    calls: list[Callable[[], object]] = []
    yield calls
    for call in reversed(calls):
        call()


async def serve(folder, url, ending):
    """Start one server over a new database, which has one package."""
    servers = Servers(folder, url, (0.0,))
    ending.append(servers.close)
    await servers.start()
    (server,) = servers.servers
    assert publish(server, servers, "kept")
    return servers, server


def ask(server, method, path, *arguments):
    """Return the body of an answer; nothing while the server is not ready."""
    connection = HTTPConnection(server.place, timeout=PATIENCE)
    with contextlib.closing(connection), contextlib.suppress(OSError, HTTPException):
        connection.request(method, path, *arguments)
        answer = connection.getresponse()
        return answer.read() if answer.status < 300 else b""
    return b""


def publish(server, servers, name):
    path = f"/api/registry/namespaces/{NAMESPACE}/packages"
    return ask(server, "POST", path, make_archive(name, "1.0.0"), servers.credentials)


def packages(server):
    """Return the names of the published skills in the index of a server."""
    found = ask(server, "GET", "/.well-known/agent-skills/index.json")
    return {one["name"] for one in json.loads(found)["skills"]} - {"count", "order"} if found else set()


def another(servers, folder, url, ending):
    """Return a server on another machine: with the key, and without anything else."""
    home = folder / "another"
    (home / KEY).parent.mkdir(parents=True, mode=0o700)
    shutil.copy(servers.servers[0].folder / KEY, home / KEY)
    server = Server(home, url)
    ending.append(server.stop)
    return server


def follow(title, database, folder, **variables):
    """Run the commands of a box of the page as the user of PostgreSQL."""
    path = f"{database.programs}:{os.environ['PATH']}"
    for command, _ in shown(PAGE, title):
        environment = {**os.environ, "PATH": path, **variables}
        subprocess.run(
            ["sh", "-c", command], cwd=folder, env=environment, check=True, timeout=PATIENCE, **database.user
        )


async def test_a_lost_primary_is_replaced_by_its_standby(folder, ending):
    (folder / "postgres").mkdir()
    pair = Pair(folder / "postgres")
    ending.append(pair.close)
    pair.primary.execute("CREATE DATABASE skillwire")
    servers, server = await serve(folder, pair.url("skillwire"), ending)
    pair.primary.kill()
    pair.primary.process.wait()
    standby = pair.standby.url("skillwire")
    follow("promote", pair.standby, folder, STANDBY=standby)
    eventually(lambda: publish(server, servers, "later"), every=0.2)
    new = another(servers, folder, standby, ending)
    new.start()
    eventually(lambda: packages(new) == {"kept", "later"}, every=0.2)
    servers.servers[0].stop(signal.SIGKILL)  # a lost server, whose place the new one takes
    assert publish(new, servers, "last")


async def test_a_database_goes_back_to_a_moment(folder, ending):
    database = PostgresServer(folder=folder / "postgres", port=free_port())
    ending.append(database.close)
    database.execute("CREATE DATABASE skillwire")
    url, archive, work = database.url("skillwire"), folder / "archive", folder / "work"
    for made in (archive, work):
        made.mkdir()
        if database.user:
            shutil.chown(made, database.user["user"], database.user["group"])
    follow("archive", database, work, PRIMARY=url, ARCHIVE=str(archive))
    database.stop()
    database.start()
    follow("base", database, work, PRIMARY=url)
    servers, server = await serve(folder, url, ending)
    moment = database.ask("SELECT clock_timestamp()")
    assert publish(server, servers, "mistake")
    archived = archive / database.ask("SELECT pg_walfile_name(pg_switch_wal())")
    eventually(archived.exists, every=0.1)
    servers.close()
    database.stop()
    port = str(free_port())
    follow("recover", database, work, ARCHIVE=str(archive), MOMENT=moment, PGPORT=port)
    ending.append(lambda: database.run("pg_ctl", "stop", "-m", "fast", "-D", work / "base"))
    new = another(servers, folder, f"postgresql://postgres@127.0.0.1:{port}/skillwire", ending)
    new.start()
    eventually(lambda: packages(new) == {"kept"}, every=0.2)
    assert eventually(lambda: publish(new, servers, "next"), every=0.2)


async def test_an_export_is_imported_into_an_empty_database(folder, ending):
    database = PostgresServer(folder=folder / "postgres")
    ending.append(database.close)
    for name in ("skillwire", "imported"):
        database.execute(f"CREATE DATABASE {name}")
    servers, server = await serve(folder, database.url("skillwire"), ending)
    server.run("registry", "export", str(folder / "export"))
    new = another(servers, folder, database.url("imported"), ending)
    new.run("registry", "import", str(folder / "export"))
    new.start()
    eventually(lambda: packages(new) == {"kept"}, every=0.2)
    assert publish(new, servers, "next")
