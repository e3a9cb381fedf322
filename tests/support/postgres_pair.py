"""A PostgreSQL primary with a synchronous standby, which take each other's place."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING, Any, Final

from tests.support.eventually import eventually
from tests.support.free_port import free_port
from tests.support.postgres import PostgresServer

if TYPE_CHECKING:
    from pathlib import Path

_SETTINGS: Final[dict[str, Any]] = {"shared_buffers": "64MB", "wal_keep_size": "256MB"}
_FOLLOWS: Final = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'"


class Pair:
    """A primary and its standby in ``folder``; a commit is acknowledged when both have it.

    They listen at ports of loopback, and at the same ports of ``addresses``.
    """

    def __init__(self, folder: Path, *addresses: str) -> None:
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody", "nogroup")
        settings = {**_SETTINGS, "listen_addresses": ",".join(("127.0.0.1", *addresses))}
        self.primary = PostgresServer(folder=folder / "one", port=free_port(), **settings)
        self.standby = PostgresServer(self.primary, folder=folder / "two", port=free_port(), **settings)
        self.servers = (self.primary, self.standby)
        self.ports = [server.settings["port"] for server in self.servers]
        self._wait_for_both()

    def url(self, database: str) -> str:
        """Return the URL that finds the primary of the two."""
        places = ",".join(server.place for server in self.servers)
        return f"postgresql://postgres@{places}/{database}?target_session_attrs=primary"

    def fail_over(self) -> None:
        """Cut the primary's power; the standby becomes the primary, and goes on alone until :meth:`repair`."""
        self.primary.kill()
        self.primary.process.wait()
        self.primary, self.standby = self.standby, self.primary
        self.primary.promote()
        self._set_standbys("")

    def repair(self) -> None:
        """Make the server that failed the standby of the other one."""
        self.standby.follow(self.primary)
        self._wait_for_both()

    def close(self) -> None:
        """End both."""
        for server in self.servers:
            server.kill(signal.SIGCONT)
            server.kill()
            server.process.wait()
            server.close()

    def _wait_for_both(self) -> None:
        self._set_standbys("*")
        eventually(lambda: self.primary.has(_FOLLOWS))

    def _set_standbys(self, names: str) -> None:
        self.primary.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.primary.execute("SELECT pg_reload_conf()")
