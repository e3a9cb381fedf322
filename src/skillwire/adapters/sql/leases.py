"""Which of several servers does the work that one of them does for all, as rows.

The number of a lease rises when the lease passes to another server and when it ran out. So a write that carries an
older number than the row's comes from a server that no longer leads.
"""

from __future__ import annotations

from typing import Final

from skillwire.adapters.sql.connection import Connection, Store, writes

#: A lease that ends later than any server may have written was written before the clock was set back.
_IS_OVER: Final = "(leaders.ends <= ? OR leaders.ends > ?)"
_LEAD: Final = (
    "INSERT INTO leaders (name, server, number, ends) VALUES (?, ?, 1, ?) ON CONFLICT (name) DO UPDATE SET"  # noqa: S608  # a constant
    f" number = leaders.number + CASE WHEN leaders.server <> excluded.server OR {_IS_OVER} THEN 1 ELSE 0 END,"
    f" server = excluded.server, ends = excluded.ends WHERE leaders.server = excluded.server OR {_IS_OVER}"
    " RETURNING number"
)


class SqlLeases(Store):
    """Fills :class:`skillwire.ports.Leases`."""

    @writes
    async def lead(self, connection: Connection, name: str, server: str, now: float, seconds: float) -> int | None:
        bounds = (now, now + 2 * seconds)
        number: int | None = await connection.value(_LEAD, (name, server, now + seconds, *bounds, *bounds))
        return number

    @writes
    async def resign(self, connection: Connection, name: str, server: str) -> None:
        await connection.run("UPDATE leaders SET ends = 0 WHERE name = ? AND server = ?", (name, server))
