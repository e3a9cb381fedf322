"""A full disk, a folder that cannot be written, a broken database: a clear answer, and nothing half done."""

import errno
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest
from tests.support.registry_site import RegistrySite, skill_archive

from skillwire import limits
from skillwire.adapters.files import blobs, uploads
from skillwire.adapters.files.atomic import storage_errors
from skillwire.adapters.sql import packages
from skillwire.adapters.sqlite import search
from skillwire.errors import StorageError
from skillwire.model.digest import Digest
from skillwire.model.package import PackageName

LARGE = skill_archive(a_bin=os.urandom(limits.REGISTRY_ROW_BYTES + 1))


@pytest.fixture
async def site(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    site = RegistrySite(tmp_path)
    await site.account("ann")
    assert (await site.publish("ann", skill_archive("before"))).status == 201
    return site


def fail(number):
    def raise_error(*_, **__):
        raise OSError(number, os.strerror(number))

    return raise_error


async def check_refused(site, answer):
    """Check the answer, that nothing of the version is there, and that it can be published once the fault is over."""
    error = answer.json()["error"]
    assert (answer.status, answer.fields["retry-after"], error["retry"]["suggested_delay_ms"]) == (503, "2", 2000)
    assert error["code"] in {"STORAGE", "DATABASE"}
    assert await site.store.version(PackageName("ann", "notes"), "1.0.0") is None
    entries = await site.store.audit(0, 99)
    assert [one.change.target for one in entries if one.change.action == "version.publish"] == ["ann/before@1.0.0"]


FAULTS = {
    "a large artifact": (blobs.FileBlobs, "put", LARGE),
    "the folder of uploads": (uploads, "make_folder", LARGE),
    "a body": (tempfile, "TemporaryFile", LARGE),
}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("what", FAULTS)
async def test_a_disk_that_takes_no_file(site, monkeypatch, number, what):
    place, name, archive = FAULTS[what]
    with monkeypatch.context() as fault:
        error = fail(number)
        fault.setattr(place, name, (lambda *_: _as_storage(error)) if place is blobs.FileBlobs else error)
        refused = await site.publish("ann", archive)
    await check_refused(site, refused)
    assert (await site.publish("ann", archive)).status == 201


def _as_storage(raise_error):
    with storage_errors(Path("artifact")):
        raise_error()


@pytest.mark.parametrize(
    "error", [sqlite3.OperationalError("database or disk is full"), sqlite3.DatabaseError("malformed")]
)
async def test_a_database_that_fails_in_the_middle_of_a_publication(site, monkeypatch, error):
    def broken(*_):
        raise error

    with monkeypatch.context() as fault:
        fault.setattr(packages, "append_entry", broken)
        refused = await site.publish("ann")
    await check_refused(site, refused)
    assert (await site.publish("ann")).status == 201


async def test_a_lost_blob_folder_delays_nothing(site, monkeypatch):
    """The served bytes are derived: a version is published although they cannot be written."""
    with monkeypatch.context() as fault:
        fault.setattr(blobs.FileBlobs, "put", lambda *_: _as_storage(fail(errno.ENOSPC)))
        assert (await site.publish("ann")).status == 201
    assert (await site.call("GET", "/packages/ann/notes/1.0.0/download")).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/registry/packages/ann/before/1.0.0/download",
        "/@ann/before@1.0.0/.well-known/agent-skills/before/SKILL.md",
        "/v1/packages/ann/before/versions/1.0.0/download",
        "/v1/skills/ann--before/versions/1.0.0/content",
        "/api/v1/download?slug=before&version=1.0.0",
        "/packages/ann/before@1.0.0/raw/SKILL.md",
        "/api/v1/skills/before/file?path=SKILL.md&version=1.0.0",
        "/.well-known/agent-skills/before/SKILL.md",
    ],
)
async def test_what_no_disk_takes_is_sent_from_the_database(site, monkeypatch, path):
    if path.startswith("/.well-known"):
        site.look()
        shutil.rmtree(site.application.catalog.blobs.directory)
    with monkeypatch.context() as fault:
        fault.setattr(blobs, "write_atomically", lambda *_, **__: _as_storage(fail(errno.ENOSPC)))
        full = await site.get(path)
        part = await site.get(path, {"Range": "bytes=2-4"})
    assert (full.status, part.status) == (200, 206)
    written = await site.get(path)
    assert (written.status, written.body) == (200, full.body)
    assert part.body == full.body[2:5]


@pytest.mark.parametrize("hidden", [{"access": "private"}, {"status": "quarantined", "reason": "steals keys"}])
async def test_what_is_hidden_is_not_served_although_the_disk_is_full(site, monkeypatch, hidden):
    await site.account("root", is_operator=True)
    site.look()
    paths = (
        "/.well-known/agent-skills/before/SKILL.md",
        "/.well-known/agent-skills/index.json",
        "/api/search?q=before",
    )
    assert [(await site.get(path)).status for path in paths] == [200, 200, 200]
    manifest = 'kind = "action"\n[runtime]\nlanguage = "python"\nentrypoint = "main.py"\n'
    action = skill_archive("sums", skill_toml=manifest, main_py="def main(inputs):\n    return 1\n")
    assert (await site.publish("ann", action)).status == 201
    await site.call("PATCH", "/packages/ann/before", hidden, by="root")
    with monkeypatch.context() as fault:
        fault.setattr(blobs, "write_atomically", lambda *_, **__: _as_storage(fail(errno.ENOSPC)))
        fault.setattr(search, "_INSERT", "INSERT INTO full VALUES (?, ?, ?, ?, ?)")
        assert not site.application.catalog._refresh(None)
        assert site.application.catalog.watch.reason
        file, index, found = [await site.get(path) for path in paths]
        assert (file.status, found.status) == (404, 503)
        assert [one["name"] for one in index.json()["skills"]] == ["sums"]
        assert not site.application.catalog._refresh(None)
    assert site.application.catalog._refresh(None)
    file, index, found = [await site.get(path) for path in paths]
    assert (file.status, found.json()["total"]) == (404, 0)
    assert (await site.get("/api/search?q=sums")).json()["total"] == 1


async def test_a_large_artifact_is_not_sent_from_memory(site, monkeypatch):
    await site.publish("ann", LARGE)
    path = "/api/registry/packages/ann/notes/1.0.0/download"
    with monkeypatch.context() as fault:
        fault.setattr(blobs, "write_atomically", lambda *_, **__: _as_storage(fail(errno.ENOSPC)))
        refused = await site.get(path)
    assert (refused.status, refused.json()["error"]["code"]) == (503, "STORAGE")
    assert (await site.get(path)).status == 200


async def test_a_full_disk_in_the_middle_of_an_upload_keeps_what_came(site, monkeypatch):
    number = (await site.call("POST", "/uploads", {"size": len(LARGE), "digest": Digest.of(LARGE)}, by="ann")).json()[
        "id"
    ]
    assert (await site.call("PATCH", f"/uploads/{number}", by="ann", body=LARGE[:1000])).status == 200
    fields = {"Upload-Offset": "1000"}
    with monkeypatch.context() as fault:
        fault.setattr(uploads, "write_all", fail(errno.ENOSPC))
        refused = await site.call("PATCH", f"/uploads/{number}", by="ann", body=LARGE[1000:], fields=fields)
    assert refused.status == 503
    assert (await site.call("PATCH", f"/uploads/{number}", by="ann", body=LARGE[1000:], fields=fields)).status == 200
    assert (await site.publish("ann", b"", query=f"upload={number}")).status == 201


@pytest.mark.parametrize(
    ("accept", "media_type", "shown"),
    [
        ("text/html", "text/html; charset=utf-8", "The database does not answer"),
        ("*/*", "application/json", "DATABASE"),
    ],
)
async def test_a_page_without_the_database_is_a_page(site, monkeypatch, accept, media_type, shown):
    async def raise_error(*_, **__):
        raise StorageError("DATABASE", "it did not answer in time")

    monkeypatch.setattr(type(site.store), "namespaces", raise_error)
    answer = await site.get("/publishers", {"Accept": accept})
    assert (answer.status, answer.fields["content-type"], answer.fields["retry-after"]) == (503, media_type, "2")
    assert shown in answer.body.decode()
