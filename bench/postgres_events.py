"""Changes in PostgreSQL, tailed by their numbers: ``python bench/postgres_events.py [EVENTS]``.

Sixteen writers on four servers (four databases of one process, each with its own connections) append numbered entries,
each in the turn of its table, and four readers follow them by ``number > last``. Every event has to arrive once. The
same is measured without the groups of a server, where each event is a transaction of its own. PostgreSQL waits for the
disk (fsync), as it does by default.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Final

from tests.support.postgres import PostgresServer

from skillwire.adapters.postgres import database as module
from skillwire.adapters.postgres.database import PostgresDatabase

if TYPE_CHECKING:
    from skillwire.adapters.sql.connection import Connection

EVENTS: Final = 100_000
SERVERS: Final = 4
WRITERS: Final = 16
#: Events that each writer has under way at once, as the requests of a busy server are.
AT_ONCE: Final = 16
APPEND: Final = """INSERT INTO audit (number, at, account, action, target, details, address, request, digest)
    VALUES ((SELECT coalesce(max(number), 0) + 1 FROM audit), 0, ?, '', '', '', '', '', '')"""
TAIL: Final = "SELECT number, account FROM audit WHERE number > ? ORDER BY number LIMIT 1000"


async def write(database: PostgresDatabase, writer: int, events: int) -> None:
    """Append the events of one writer, some at once."""
    numbers = iter(range(events))

    async def one_by_one() -> None:
        for number in numbers:
            row = (f"{writer}-{number}",)

            async def append(connection: Connection, row: tuple[str] = row) -> int:
                return await connection.run(APPEND, row)

            await database.write(append, "packages")

    await asyncio.gather(*(one_by_one() for _ in range(AT_ONCE)))


async def follow(database: PostgresDatabase, events: int) -> list[str]:
    """Return the events as a reader finds them."""
    found: list[str] = []
    after = 0

    async def read(connection: Connection) -> list[tuple[int, str]]:
        return list(await connection.rows(TAIL, (after,)))

    while len(found) < events:
        rows = await database.read(read)
        found += [account for _, account in rows]
        after = rows[-1][0] if rows else after
        if not rows:
            await asyncio.sleep(0.01)
    return found


async def measure(url: str, events: int) -> float:
    """Return how many events a second were written; print what the readers missed."""
    servers = [PostgresDatabase(url) for _ in range(SERVERS)]
    await servers[0].write(lambda connection: connection.run("DELETE FROM audit"))
    each = events // WRITERS
    readers = asyncio.gather(*(follow(server, each * WRITERS) for server in servers))
    begin = time.monotonic()
    await asyncio.gather(*(write(servers[number % SERVERS], number, each) for number in range(WRITERS)))
    seconds = time.monotonic() - begin
    sent = {f"{writer}-{number}" for writer in range(WRITERS) for number in range(each)}
    for found in await readers:
        print(f"  a reader missed {len(sent - set(found))}, and got {len(found) - len(set(found))} twice")
    for server in servers:
        await server.close()
    return each * WRITERS / seconds


def main(events: int = EVENTS) -> None:
    """Print the figures."""
    server = PostgresServer()
    try:
        print(f"{events:,} events in groups: {asyncio.run(measure(server.url(), events)):,.0f} a second")
        module._GROUP = 1  # type: ignore[misc]  # noqa: SLF001  # as if there were none
        print(
            f"{events // 10:,} events, each by itself: {asyncio.run(measure(server.url(), events // 10)):,.0f} a second"
        )
    finally:
        server.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
