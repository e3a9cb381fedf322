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
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.postgres import PostgresServer

from skillwire.adapters.postgres import database as module
from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.errors import StorageError

if TYPE_CHECKING:
    from skillwire.adapters.sql import Connection

EVENTS: Final = 100_000
SERVERS: Final = 4
WRITERS: Final = 16
#: Events that each writer has under way at once, as the requests of a busy server are.
AT_ONCE: Final = 16
APPEND: Final = """INSERT INTO audit (number, at, account, action, target, details, address, request, digest)
    VALUES ((SELECT coalesce(max(number), 0) + 1 FROM audit), 0, ?, '', '', '', '', '', '')"""
TAIL: Final = "SELECT number, account FROM audit WHERE number > ? ORDER BY number LIMIT 1000"


async def write(database: PostgresDatabase, writer: int, events: int) -> set[str]:
    """Append the events of one writer, some at once; return those that were acknowledged."""
    numbers = iter(range(events))
    acknowledged: set[str] = set()

    async def one_by_one() -> None:
        for number in numbers:
            row = (f"{writer}-{number}",)

            async def append(connection: Connection, row: tuple[str] = row) -> int:
                return await connection.run(APPEND, row)

            with suppress(StorageError):  # a disk that is busy for seconds: the caller would try again
                await database.write(append, "packages")
                acknowledged.add(row[0])

    await asyncio.gather(*(one_by_one() for _ in range(AT_ONCE)))
    return acknowledged


async def follow(database: PostgresDatabase, is_over: asyncio.Event) -> list[str]:
    """Return the events as a reader finds them, until nothing comes any more."""
    found: list[str] = []
    after = 0

    async def read(connection: Connection) -> list[tuple[int, str]]:
        return list(await connection.rows(TAIL, (after,)))

    while True:
        was_over = is_over.is_set()
        try:
            rows = await database.read(read)
        except StorageError:
            continue
        found += [account for _, account in rows]
        after = rows[-1][0] if rows else after
        if not rows:
            if was_over:
                return found
            await asyncio.sleep(0.01)


async def measure(url: str, events: int) -> float:
    """Return how many events a second were written; print what the readers missed."""
    servers = [PostgresDatabase(url) for _ in range(SERVERS)]
    await servers[0].write(lambda connection: connection.run("DELETE FROM audit"))
    each, is_over = events // WRITERS, asyncio.Event()
    readers = asyncio.gather(*(follow(server, is_over) for server in servers))
    begin = time.monotonic()
    written = await asyncio.gather(*(write(servers[number % SERVERS], number, each) for number in range(WRITERS)))
    seconds = time.monotonic() - begin
    is_over.set()
    sent = {event for events_of_one in written for event in events_of_one}
    for found in await readers:
        print(
            f"  of {len(sent):,} a reader missed {len(sent - set(found))}, and got {len(found) - len(set(found))} twice"
        )
    for server in servers:
        await server.close()
    return len(sent) / seconds


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
