"""An export carries everything of a registry, byte for byte; an import takes all of it or nothing."""

import asyncio
import json
import random
import shutil
import threading

import pytest
from tests.support.opened import run_blocking
from tests.support.registry_site import RegistrySite, skill_archive

from skillwire import limits
from skillwire.adapters.sql.registry_export import TABLES, export_registry, import_registry
from skillwire.adapters.sqlite.database import Database
from skillwire.adapters.stores import close_stores, open_stores
from skillwire.errors import ConflictError, SkillwireError
from skillwire.model.package import PackageName

#: Tables that are not of a registry: executions, grants, the schema, and what is derived or stored as files.
OTHERS = {
    "executions",
    "idempotency_keys",
    "skill_versions",
    "grants",
    "leaders",
    "worker_leases",
    "run_mounts",
    "run_blobs",
    "ended_sessions",
    "device_logins",
    "announced_files",
    "migrations",
    "artifacts",
}


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
async def registry(tmp_path, monkeypatch):
    """A registry with something in every table."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    site = RegistrySite(tmp_path)
    for name, is_operator in (("root", True), ("ann", False), ("bob", False)):
        await site.account(name, is_operator=is_operator)
    await open_stores().tokens().issue("of the server, of no account", skills=("*",))
    archives = (
        skill_archive(),
        skill_archive(version="1.1.0", a_txt="x"),
        skill_archive("large", a_bin=random.Random(7).randbytes(limits.REGISTRY_ROW_BYTES)),  # noqa: S311  # nothing secret
    )
    for archive in archives:
        assert (await site.publish("ann", archive)).status == 201
    requires = 'requires = ["ann/notes"]\n'
    assert (await site.publish("ann", skill_archive("user", skill_toml=requires))).status == 201
    await site.publish("bob", skill_archive("gone", skill_toml='access = "private"\n'))
    await site.call("PUT", "/namespaces/ann/members/bob", {"role": "reader"}, by="ann")
    await site.call("PUT", "/packages/bob/gone/readers/ann", by="bob")
    await site.call("PATCH", "/packages/ann/notes/1.0.0", {"status": "yanked", "reason": "ü \u2028"}, by="ann")
    await site.call("GET", "/packages/ann/notes/1.1.0/download", by="ann")
    await site.call("POST", "/namespaces/bob/rename", {"to": "bert"}, by="bob")
    await site.call("DELETE", "/packages/bert/gone", by="bob")
    await site.parts.downloads.close()
    return site


def export(folder):
    return run_blocking(export_registry(open_stores().database, open_stores().artifacts, folder))


def into(home, folder, monkeypatch):
    """Import ``folder`` in the empty state under ``home``."""
    monkeypatch.setenv("SKILLWIRE_HOME", str(home))
    close_stores()
    return run_blocking(import_registry(open_stores().database, open_stores().artifacts, folder))


async def test_export_import_and_export_again_are_the_same_bytes(registry, tmp_path, monkeypatch):
    rows = export(tmp_path / "one")
    assert all(rows.values()), rows
    assert into(tmp_path / "other", tmp_path / "one", monkeypatch) == rows
    export(tmp_path / "two")
    assert tree(tmp_path / "two") == tree(tmp_path / "one")
    assert all((path.stat().st_mode & 0o077) == 0 for path in (tmp_path / "one").rglob("*.json*"))
    assert b"of the server" not in (tmp_path / "one/tokens.jsonl").read_bytes()
    shutil.copy(tmp_path / "home/state/server.key", tmp_path / "other/state/server.key")
    (tmp_path / "other/state/server.key").chmod(0o600)
    close_stores()
    moved = RegistrySite(tmp_path / "other")
    moved.tokens = registry.tokens
    assert (await moved.call("GET", "/whoami", by="ann")).json()["account"] == "ann"
    assert (await moved.call("GET", "/packages/ann/notes/1.1.0/download")).status == 200
    assert (await moved.call("GET", "/packages/ann/large/1.0.0/download")).status == 200
    assert (await moved.publish("ann", skill_archive())).json()["status"] == "repeated"


def test_every_table_is_exported_or_known_not_to_be(tmp_path):
    database = Database(tmp_path / "state.db")
    with database.reading() as connection:
        query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        assert {name for (name,) in connection.execute(query)} == OTHERS | TABLES.keys()
        for table, columns in TABLES.items():
            found = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            assert sorted(columns.split(", ")) == sorted(found)


async def test_neither_an_export_nor_an_import_writes_over_anything(registry, tmp_path):
    assert await registry.store.has_operator()
    export(tmp_path / "one")
    with pytest.raises(ConflictError, match="not empty"):
        export(tmp_path / "one")
    with pytest.raises(ConflictError) as refused:
        await import_registry(open_stores().database, open_stores().artifacts, tmp_path / "one")
    assert refused.value.code == "REGISTRY_NOT_EMPTY"


def change_line(path, number, change):
    lines = path.read_text().splitlines()
    row = json.loads(lines[number])
    change(row)
    lines[number] = json.dumps(row, separators=(",", ":"))
    path.write_text("\n".join(lines) + "\n")


def set_at(column, value):
    return lambda row: row.__setitem__(column, value)


def empty_log(folder):
    (folder / "audit.jsonl").write_text("")
    header = json.loads((folder / "registry.json").read_text())
    header["rows"]["audit"] = 0
    (folder / "registry.json").write_text(json.dumps(header))


DAMAGES = [
    lambda folder: (folder / "registry.json").unlink(),
    lambda folder: (folder / "registry.json").write_text('{"form": "skillwire/registry-export/9"}'),
    lambda folder: (folder / "packages.jsonl").write_text(""),
    lambda folder: (folder / "members.jsonl").write_text("{}\n"),
    lambda folder: (folder / "members.jsonl").write_text("[" * 100_000),
    lambda folder: (folder / "members.jsonl").write_bytes(b"\xff\n"),
    lambda folder: next(path for path in folder.glob("artifacts/*/*")).write_bytes(b"other"),
    lambda folder: next(path for path in folder.glob("artifacts/*/*")).unlink(),
    lambda folder: change_line(folder / "packages.jsonl", 0, set_at(2, "../x")),
    lambda folder: change_line(folder / "packages.jsonl", 0, set_at(2, "other")),
    lambda folder: change_line(folder / "packages.jsonl", 0, set_at(3, "soon")),
    lambda folder: change_line(folder / "packages.jsonl", 0, set_at(5, "fine")),
    lambda folder: change_line(folder / "versions.jsonl", 0, set_at(0, 99)),
    lambda folder: change_line(folder / "versions.jsonl", 0, set_at(4, "AAAA")),
    lambda folder: change_line(folder / "versions.jsonl", 0, set_at(4, "!")),
    lambda folder: change_line(folder / "accounts.jsonl", 0, set_at(0, ["x"])),
    lambda folder: change_line(folder / "members.jsonl", 0, set_at(2, "king")),
    lambda folder: change_line(folder / "audit.jsonl", 1, set_at(2, "eve")),
    lambda folder: change_line(folder / "audit.jsonl", 1, set_at(5, "no JSON")),
    empty_log,
]


async def test_a_folder_that_is_no_export_is_named(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SkillwireError, match=r"it has no registry\.json") as refused:
        into(tmp_path / "other", tmp_path / "empty", monkeypatch)
    assert refused.value.code == "EXPORT_FORM"
    assert str(refused.value.place) == str(tmp_path / "empty")
    assert "registry export" in (refused.value.fix or "")


async def test_what_was_damaged_or_changed_is_refused_whole(registry, tmp_path, monkeypatch):
    assert await registry.store.has_operator()
    export(tmp_path / "one")
    for number, damage in enumerate(DAMAGES):
        folder = tmp_path / f"damaged-{number}"
        shutil.copytree(tmp_path / "one", folder)
        damage(folder)
        with pytest.raises(SkillwireError) as refused:
            into(tmp_path / f"other-{number}", folder, monkeypatch)
        assert refused.value.code in {"EXPORT_FORM", "AUDIT_BROKEN", "STORAGE"}, number
        with open_stores().sqlite.database.reading() as connection:
            for table in (*TABLES, "artifacts"):
                query = f"SELECT count(*) FROM {table}"  # noqa: S608  # constants
                assert connection.execute(query).fetchone() == (0,), number
        stored = [path for path in (tmp_path / f"other-{number}/state/artifacts").rglob("*") if path.is_file()]
        assert not [path for path in stored if not path.name.startswith(".")], number


async def test_an_export_under_load_is_one_moment(registry, tmp_path, monkeypatch):
    acknowledged: list[str] = []
    is_over, has_begun = threading.Event(), asyncio.Event()

    async def publish():
        number = 0
        while not is_over.is_set():
            number += 1
            assert (await registry.publish("ann", skill_archive(version=f"2.0.{number}"))).status == 201
            acknowledged.append(f"2.0.{number}")
            has_begun.set()

    publishing = asyncio.create_task(publish())
    await has_begun.wait()
    before = list(acknowledged)
    await asyncio.to_thread(export, tmp_path / "one")
    is_over.set()
    await publishing
    into(tmp_path / "other", tmp_path / "one", monkeypatch)
    versions = await open_stores().packages.versions(PackageName("ann", "notes"))
    assert {one.version for one in versions} >= set(before)
