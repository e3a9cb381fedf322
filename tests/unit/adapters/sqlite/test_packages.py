"""The packages of a registry in SQLite: the work for a stranger does not show whether there is a private package."""

import asyncio

import pytest
from tests.support.catalogs import make_skill

from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sql.packages import SqlPackages
from skillwire.adapters.sqlite.database import AsyncDatabase, Database, SqliteConnection, finish
from skillwire.model.access import Access
from skillwire.model.digest import Digest
from skillwire.model.package import Change, PackageName, PackageVersion


@pytest.fixture
def database(tmp_path):
    database = Database(tmp_path / "state.db")
    store = SqlPackages(AsyncDatabase(database), FileBlobs(tmp_path / "artifacts", durable=True))

    async def publish():
        for number in range(20):
            skill = make_skill(f"plan-{number:02}", publisher="acme")
            skill = skill._replace(access=Access.PRIVATE if number % 2 else Access.PUBLIC)
            version = PackageVersion(skill, 1.0, "ann", Digest.of(b"sent"))
            await store.publish(version, b"artifact", Change(1.0, "ann", "version.publish", "acme"))

    asyncio.run(publish())
    return database


def steps(database, call, *arguments, **options):
    """Return what a read of the store returns, and how many steps of SQLite's machine it takes."""
    taken = []
    with database.reading() as connection:
        connection.set_progress_handler(lambda: taken.append(1), 1)
        found = finish(call.__wrapped__(None, SqliteConnection(database, connection), *arguments, **options))
        connection.set_progress_handler(None, 1)
    return found, len(taken)


def test_a_private_package_takes_a_stranger_as_many_steps_as_an_absent_one(database):
    private, absent = PackageName("acme", "plan-05"), PackageName("acme", "plan-0x")
    assert steps(database, SqlPackages.package, private, with_private=False) == (
        steps(database, SqlPackages.package, absent, with_private=False)
    )
    assert steps(database, SqlPackages.package, private)[0].name == private


def test_a_page_takes_a_stranger_no_steps_for_private_packages(database):
    found, taken = steps(database, SqlPackages.packages, "acme", "", 100, grants=())
    assert [one.name.name for one in found] == [f"plan-{number:02}" for number in range(0, 20, 2)]
    with database.reading() as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
    with database.writing() as connection:
        connection.execute("DELETE FROM packages WHERE access = 'private'")
    assert steps(database, SqlPackages.packages, "acme", "", 100, grants=()) == (found, taken)
