# ruff: noqa: S608  # every query is made of constants
"""Reads of the catalog in PostgreSQL beside bare asyncpg: ``python bench/postgres_reads.py [ROUNDS]``.

A registry has 5,000 packages. Read are one package, one version with its packed skill, and a list of 100 packages,
eight at a time, in turns: by the store, which makes values of rows, and by a pool of asyncpg with the same query, which
makes nothing of them. Compared are reads a second.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import asyncpg

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.catalogs import make_skill
from tests.support.postgres import PostgresServer

from comparison import Goal, compare
from skillwire.adapters.postgres.connection import translate
from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sql.packages import SqlPackages
from skillwire.model.digest import Digest
from skillwire.model.package import Change, Namespace, PackageName, PackageVersion

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ROUNDS: Final = 7
PACKAGES: Final = 5_000
READS: Final = 1_500
AT_ONCE: Final = 8
CHANGE: Final = Change(1.0, "ann", "test", "acme", {}, "192.0.2.1", "r-1")
PACKAGE: Final = "namespace, name, created, access, status, reason, successor, latest, renamed_to"
VERSION: Final = "skill, published, publisher, uploaded, status, reason, successor"
NUMBER: Final = "(SELECT number FROM packages WHERE namespace = ? AND name = ?)"


async def fill(store: SqlPackages) -> None:
    """Publish the packages."""
    await store.add_namespace(Namespace("acme", 1.0), "ann", CHANGE)

    async def publish(number: int) -> None:
        content = b"%d" % number
        skill = make_skill(f"skill-{number}", publisher="acme")  # type: ignore[no-untyped-call]  # of the tests
        artifact = skill.artifact._replace(digest=Digest.of(content), size=len(content))
        version = PackageVersion(skill._replace(version="1.0.0", artifact=artifact), 2.0, "ann", Digest.of(content))
        await store.publish(version, content, CHANGE)

    begin = time.monotonic()
    await asyncio.gather(*map(publish, range(PACKAGES)))
    print(f"published {PACKAGES / (time.monotonic() - begin):,.0f} packages a second")


async def rate(read: Callable[[PackageName], Awaitable[Any]], reads: int) -> float:
    """Return reads a second."""
    names = iter([PackageName("acme", f"skill-{random.randrange(PACKAGES)}") for _ in range(reads)])  # noqa: S311  # nothing secret

    async def one_by_one() -> None:
        for name in names:
            await read(name)

    begin = time.monotonic()
    await asyncio.gather(*(one_by_one() for _ in range(AT_ONCE)))
    return reads / (time.monotonic() - begin)


async def measure(url: str, rounds: int) -> None:
    """Print the ratios."""
    database = PostgresDatabase(url)
    store = SqlPackages(database)
    await fill(store)
    async with asyncpg.create_pool(url, min_size=AT_ONCE, max_size=AT_ONCE) as pool:
        await pool.execute("ANALYZE")
        package = translate(f"SELECT number, {PACKAGE} FROM packages WHERE namespace = ? AND name = ?")
        version = translate(f"SELECT {VERSION} FROM versions WHERE package = {NUMBER} AND version = ?")
        page = translate(
            f"SELECT {PACKAGE} FROM packages WHERE namespace = ? AND name > ? AND status != ? ORDER BY name LIMIT ?"
        )
        pairs: dict[str, tuple[Callable[[PackageName], Awaitable[Any]], Callable[[PackageName], Awaitable[Any]], int]]
        pairs = {
            "a package": (store.package, lambda name: pool.fetchrow(package, *name), READS),
            "a version": (
                lambda name: store.version(name, "1.0.0"),
                lambda name: pool.fetchrow(version, *name, "1.0.0"),
                READS,
            ),
            "a list of 100 packages": (
                lambda name: store.packages("acme", name.name, 100, grants=("*",)),
                lambda name: pool.fetch(page, *name, "deleted", 100),
                READS // 5,
            ),
        }
        for what, (ours, theirs, reads) in pairs.items():
            figures = [(await rate(ours, reads), await rate(theirs, reads)) for _ in range(rounds + 1)][1:]
            first, second = zip(*figures, strict=True)
            compare(what, first, second, Goal("at least", 0.7), peer="asyncpg", unit="reads/s")
    await database.close()


def main(rounds: int = ROUNDS) -> None:
    """Print the figures."""
    server = PostgresServer()
    try:
        asyncio.run(measure(server.url(), rounds))
    finally:
        server.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
