"""An export of SQLite is one of PostgreSQL, byte for byte."""

import pytest
from tests.support.catalogs import make_skill
from tests.unit.adapters.sqlite.test_registry_export import (
    change_line,
    export,
    registry,  # noqa: F401  # a fixture
    set_at,
    tree,
)

from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sql.packages import SqlPackages
from skillwire.adapters.sql.registry_export import TABLES, export_registry, import_registry
from skillwire.errors import ConflictError, ValidationError
from skillwire.model.digest import Digest
from skillwire.model.package import Change, PackageVersion


@pytest.fixture
async def database(postgres_url):
    database = PostgresDatabase(postgres_url)
    yield database
    await database.close()


async def test_a_registry_moves_from_one_database_to_the_other_and_goes_on(registry, database, tmp_path):  # noqa: F811  # the fixture
    assert await registry.store.has_operator()
    rows = export(tmp_path / "one")
    assert await import_registry(database, None, tmp_path / "one") == rows
    with pytest.raises(ConflictError):
        await import_registry(database, None, tmp_path / "one")
    assert await export_registry(database, None, tmp_path / "two") == rows
    assert tree(tmp_path / "two") == tree(tmp_path / "one")
    store, skill = SqlPackages(database), make_skill("new", publisher="ann")
    artifact = skill.artifact._replace(digest=Digest.of(b"new"), size=3)
    version = PackageVersion(skill._replace(version="1.0.0", artifact=artifact), 2.0, "ann", artifact.digest)
    made = await store.publish(version, b"new", Change(3.0, "ann", "version.publish", "ann/new"))
    assert made.how == "created"


@pytest.mark.parametrize(
    "damage",
    [("versions", 0, 99), ("packages", 3, "soon"), ("members", 0, 7), ("accounts", 0, "a\0b"), ("packages", 0, 2**70)],
)
async def test_rows_that_the_database_refuses_are_named(registry, database, tmp_path, damage):  # noqa: F811  # the fixture
    assert await registry.store.has_operator()
    export(tmp_path / "one")
    table, column, value = damage
    change_line(tmp_path / f"one/{table}.jsonl", 0, set_at(column, value))
    with pytest.raises(ValidationError) as refused:
        await import_registry(database, None, tmp_path / "one")
    assert refused.value.code == "EXPORT_FORM"
    for each in TABLES:
        query = f"SELECT count(*) FROM {each}"  # noqa: S608  # a constant
        assert await database.read(lambda connection, query=query: connection.value(query)) == 0
