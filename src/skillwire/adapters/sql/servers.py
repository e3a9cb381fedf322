"""What the servers of one database have to agree on, as rows.

That is their key, the signed requests that count once, how many servers share the rate limits of callers, and which of
them does the work that one does for all. The number of such a lease rises when the lease passes to another server and
when it ran out. So a write that carries an older number than the row's comes from a server that no longer leads.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from skillwire.adapters.sql import Connection, Store, writes
from skillwire.errors import SourceLocation, StorageError

_PURPOSE: Final = b"skillwire server key 1"


class SqlServers(Store):
    """The servers of a database."""

    async def check_key(self, key: bytes, path: str) -> None:
        """Check that all servers have one key; the first one stores its hash. Raises StorageError (``SERVER_KEY``).

        ``path`` is its file.
        """
        if not await self._has_key(hmac.digest(key, _PURPOSE, hashlib.sha256)):
            fix = f"Copy the server.key of another server to {path}, for its owner alone, and start this one again."
            message = "the servers of this database have another key"
            raise StorageError("SERVER_KEY", message, place=SourceLocation(path), fix=fix)

    @writes
    async def _has_key(self, connection: Connection, check: bytes) -> bool:
        await connection.run("INSERT INTO server_key VALUES (1, ?) ON CONFLICT DO NOTHING", (check,))
        stored: bytes = await connection.value("SELECT digest FROM server_key")
        return hmac.compare_digest(stored, check)

    @writes
    async def use_signature(self, connection: Connection, digest: bytes, now: float, ends: float) -> bool:
        """Store a signature until it ``ends``; False when a server has it already."""
        await connection.run("DELETE FROM used_signatures WHERE ends < ?", (now,))
        statement = "INSERT INTO used_signatures VALUES (?, ?) ON CONFLICT DO NOTHING"
        return await connection.run(statement, (digest, ends)) == 1

    @writes
    async def count(self, connection: Connection, server: str, now: float, seconds: float) -> int:
        """Store that ``server`` is up until ``now + seconds``; return how many servers are."""
        statement = "INSERT INTO present_servers VALUES (?, ?) ON CONFLICT (server) DO UPDATE SET ends = excluded.ends"
        await connection.run(statement, (server, now + seconds))
        await connection.run("DELETE FROM present_servers WHERE ends < ?", (now,))
        number: int = await connection.value("SELECT count(*) FROM present_servers")
        return number

    @writes
    async def leave(self, connection: Connection, server: str) -> None:
        """Store that ``server`` is not up any more."""
        await connection.run("DELETE FROM present_servers WHERE server = ?", (server,))


#: A lease that ends later than any server may have written was written before the clock was set back.
_IS_OVER: Final = "(leaders.ends <= ? OR leaders.ends > ?)"
_LEAD: Final = (
    "INSERT INTO leaders (name, server, number, ends) VALUES (?, ?, 1, ?) ON CONFLICT (name) DO UPDATE SET"  # noqa: S608  # a constant
    f" number = leaders.number + CASE WHEN leaders.server <> excluded.server OR {_IS_OVER} THEN 1 ELSE 0 END,"
    f" server = excluded.server, ends = excluded.ends WHERE leaders.server = excluded.server OR {_IS_OVER}"
    " RETURNING number"
)


class SqlLeases(Store):
    """Which of several servers does the work of a name, such as deleting what has expired. Raises StorageError."""

    @writes
    async def lead(self, connection: Connection, name: str, server: str, now: float, seconds: float) -> int | None:
        """Let ``server`` lead until ``now + seconds``; return the number of its lease, or None while another one leads.

        The number stays while a server prolongs its lease in time, and rises with each other lease of ``name``.
        """
        bounds = (now, now + 2 * seconds)
        number: int | None = await connection.value(_LEAD, (name, server, now + seconds, *bounds, *bounds))
        return number

    @writes
    async def resign(self, connection: Connection, name: str, server: str) -> None:
        """End the lease of ``server``, if it has one, so that another server need not wait for its end."""
        await connection.run("UPDATE leaders SET ends = 0 WHERE name = ? AND server = ?", (name, server))
