"""A PostgreSQL primary with a synchronous standby, which take each other's place: real servers of the wheel."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.support.postgres import programs

_USER: Final = 65534 if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "64MB",
    "max_connections": "100",
    "wal_level": "replica",
    "hot_standby": "on",
    "wal_keep_size": "256MB",
    "synchronous_commit": "on",
    "tcp_keepalives_idle": "2",
}
PATIENCE: Final = 60.0


def free_port() -> int:
    """Return a port of loopback that is free now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Node:
    """One PostgreSQL server in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, program: str, *arguments: str | Path) -> str:
        """Run one of PostgreSQL's programs to its end; return what it prints."""
        environment = {"HOME": str(self.folder.parent), "PATH": os.defpath, "LC_ALL": "C"}
        command = [str(programs() / program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, user=_USER, group=_USER, env=environment)  # noqa: PLW1510  # the status is looked at
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.strip()}")
        return done.stdout

    def initialize(self) -> None:
        """Make the files of an empty cluster."""
        self.run("initdb", "-D", self.folder, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")

    def copy_of(self, primary: Node) -> None:
        """Make the files of a standby of ``primary``."""
        shutil.rmtree(self.folder, ignore_errors=True)
        source = f"host=127.0.0.1 port={primary.port} user=postgres application_name=standby"
        self.run("pg_basebackup", "-D", self.folder, "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", source)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        (self.folder / "postmaster.pid").unlink(missing_ok=True)  # of a killed one
        options = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        command = [str(programs() / "postgres"), "-D", str(self.folder), "-k", "", "-p", str(self.port), *options]
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, user=_USER, group=_USER, start_new_session=True
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(RuntimeError):
                self.run("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port))
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder.parent / f"{self.folder.name}.log").read_text()[-2000:])
            time.sleep(0.05)

    def query(self, statement: str, database: str = "postgres") -> str:
        """Return what a statement gives."""
        place = ("-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", database)
        return self.run("psql", "-XAtq", *place, "-c", statement).strip()

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal to the server and all of its processes."""
        if self._process is None:
            return
        for process in self._processes(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def kill(self) -> None:
        """End it as a cut of the power does."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            self._process = None

    def _processes(self, parent: int) -> list[int]:
        children = Path(f"/proc/{parent}/task/{parent}/children")
        found = children.read_text().split() if children.exists() else []
        return [parent, *map(int, found)]


class Pair:
    """A primary and its standby in ``folder``; a commit is acknowledged when both have it."""

    def __init__(self, folder: Path) -> None:
        if _USER is not None:
            os.chown(folder, _USER, _USER)
        self.primary, self.standby = Node(folder / "one"), Node(folder / "two")
        self._nodes = (self.primary, self.standby)
        self.primary.initialize()
        self.primary.start()
        self._follow()

    def url(self, database: str) -> str:
        """Return the URL that finds the primary of the two."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self._nodes)
        return f"postgresql://postgres@{hosts}/{database}?target_session_attrs=primary"

    def fail_over(self) -> None:
        """Cut the primary's power; the standby becomes the primary, and goes on alone until :meth:`repair`."""
        self.primary.kill()
        self.primary, self.standby = self.standby, self.primary
        self.primary.run("pg_ctl", "promote", "-D", self.primary.folder, "-w")
        self._set_standbys("")

    def repair(self) -> None:
        """Make the node that failed the standby of the other one."""
        self._follow()

    def close(self) -> None:
        """End both."""
        for node in self._nodes:
            node.signal(signal.SIGCONT)
            node.kill()

    def _follow(self) -> None:
        self.standby.copy_of(self.primary)
        self.standby.start()
        self._set_standbys("*")
        deadline = time.monotonic() + PATIENCE
        while self.primary.query("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") != "1":
            if time.monotonic() > deadline:
                raise RuntimeError("the standby does not follow")
            time.sleep(0.05)

    def _set_standbys(self, names: str) -> None:
        self.primary.query(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.primary.query("SELECT pg_reload_conf()")
