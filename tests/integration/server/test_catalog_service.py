"""What a server does for its memory."""

import errno
import shutil
import threading
from types import SimpleNamespace

import pytest
import structlog
from tests.support.eventually import eventually
from tests.support.publishing import Asgi, write_skill
from tests.support.sites import Published

from skillwire.adapters.sqlite.search import SearchIndex
from skillwire.errors import StorageError, one_line
from skillwire.model.digest import Digest
from skillwire.server import create_app
from skillwire.server.catalog_service import CatalogService


@pytest.fixture(autouse=True)
def _look_often(monkeypatch):
    """Let no test wait for the pauses that spare a server's processor."""
    monkeypatch.setattr("skillwire.server.catalog_service._TICK_MS", 50)
    monkeypatch.setattr("skillwire.server.catalog_service._POLL", 0.02)
    monkeypatch.setattr("skillwire.server.catalog_service._POLL_SHARE", 1.0)


def test_the_thread_loads_watches_and_ends(tmp_path):
    published = Published(tmp_path)
    write_skill(published.skills, "one")
    before = threading.enumerate()
    publication = published.publication
    publication.start()
    publication.start()
    try:
        eventually(lambda: publication.current is not None)
        write_skill(published.skills, "two")
        eventually(lambda: published.names == ["one", "two"])
        shutil.rmtree(published.skills / "one")
        eventually(lambda: published.names == ["two"])
    finally:
        publication.stop()
    assert set(threading.enumerate()) <= {*before}
    publication.stop()


@pytest.fixture(autouse=True)
def _retry_soon(monkeypatch):
    monkeypatch.setattr("skillwire.server.catalog_service._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("skillwire.server.catalog_service._LONGEST_PAUSE", 0.01)


@pytest.mark.parametrize("poll", [None, 0.02])
def test_a_folder_that_is_replaced_as_a_whole_is_noticed(tmp_path, poll):
    for name in ("blue", "green"):
        write_skill(tmp_path / name, f"from-{name}")
    current = tmp_path / "current"
    current.symlink_to("blue")
    published = Published(tmp_path, current)
    publication = CatalogService(
        published.folders, published.blobs, lambda: SearchIndex(published.blobs.directory), poll=poll
    )
    published.publication = publication
    publication.start()
    try:
        eventually(lambda: publication.current is not None and published.names == ["from-blue"])
        (tmp_path / "new").symlink_to("green")
        (tmp_path / "new").rename(current)
        eventually(lambda: published.names == ["from-green"])
        current.unlink()
        # Read at the moment of its removal, it is being replaced; the next attempt finds nothing.
        eventually(lambda: publication.watch.reason == "No such file or directory")
        assert (published.names, publication.watch.alive) == (["from-green"], False)
        current.symlink_to("blue")
        eventually(lambda: published.names == ["from-blue"])
        eventually(lambda: publication.watch.alive)
    finally:
        publication.stop()


def test_where_no_notifications_can_be_had_the_folders_are_polled(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr("skillwire.server.catalog_service.watchfiles.watch", refuse)
    published = Published(tmp_path)
    with structlog.testing.capture_logs() as log:
        published.publication.start()
        try:
            eventually(lambda: published.publication.current is not None)
            write_skill(published.skills, "one")
            eventually(lambda: published.names == ["one"])
        finally:
            published.publication.stop()
    [told] = [event for event in log if "no notifications" in event["event"]]  # a half-written folder warns too
    assert (told["log_level"], told["reason"]) == ("warning", "OS file watch limit reached")


@pytest.mark.parametrize("where", ["refresh", "_choose", "broken", "restore"])
@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (RuntimeError("unforeseen"), "an internal error, RuntimeError; the log has its traceback"),
        (StorageError("STORAGE", "no space left on device"), "no space left on device"),
        (StorageError("DATABASE", "Connection refused"), "the database fails: Connection refused"),
        (OSError(errno.EROFS, "Read-only file system", "/state/blobs"), "Read-only file system"),
    ],
)
async def test_a_failure_of_the_thread_is_told_and_closes_nothing_for_good(tmp_path, monkeypatch, where, error, cause):
    monkeypatch.setattr("skillwire.server.catalog_service._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("skillwire.server.catalog_service._LONGEST_PAUSE", 0.01)
    application = create_app([tmp_path], blobs=tmp_path.parent / "blobs")
    folder = write_skill(tmp_path, "one")
    publication, client = application.catalog, Asgi(application)
    works = getattr(publication.folders, where)
    broken = threading.Event()

    def fail(*arguments):
        if broken.is_set():
            raise error
        return works(*arguments)

    monkeypatch.setattr(publication.folders, where, fail)
    if where == "restore":
        broken.set()
    with structlog.testing.capture_logs() as log:
        await application.startup()
        if where != "restore":
            await publication.first(20)
            broken.set()
            (folder / "skill.toml").write_text('access = "private"\n')
        eventually(lambda: publication.watch.interruptions > 1)
        ready = await client.get("/readyz")
        assert ready.status == 503
        told = ready.json()["error"]["message"] if where == "restore" else ready.json()["reason"]
        assert told.removeprefix("no skills are loaded: ") == cause
        if where != "restore":
            assert (ready.json()["status"], ready.json()["watching"]) == ("stale", False)
            assert "skillwire_watching 0.0" in (await client.get("/metrics")).body.decode().splitlines()
        broken.clear()
        eventually(lambda: publication.watch.alive)
        assert (await client.get("/readyz")).json()["watching"]
        if where != "restore":
            assert (await client.get("/.well-known/agent-skills/one/SKILL.md")).status == 404
        await application.shutdown()
    events = {"the folders are not watched", "changes are not published", "the folders are watched again"}
    told = [event["log_level"] for event in log if event["event"] in events]
    assert told == ["error", "info"]  # once, however often it was tried
    reported = next(event for event in log if event["event"] in events)
    assert bool(reported.get("exc_info")) == isinstance(error, RuntimeError), "a disk is no fault of the program"
    assert one_line(error) in str(reported)


def test_blobs_that_nothing_needs_are_removed_at_the_start(tmp_path):
    published = Published(tmp_path)
    write_skill(published.skills, "one", {"a.md": "# A\n"})
    unused = published.blobs.put(b"of yesterday")
    published.publication.start()
    try:
        eventually(lambda: published.blobs.path(unused) is None)
        [skill] = published.publication._skills.usable.values()
        assert all(published.blobs.read(file.digest) for file in skill.files)
        assert published.blobs.read(skill.artifact.digest)
    finally:
        published.publication.stop()


@pytest.mark.parametrize("moment", ["as it is reported", "before it is reported"])
def test_a_lost_blob_that_is_made_again_at_this_moment_is_counted_once(tmp_path, monkeypatch, moment):
    published = Published(tmp_path)
    write_skill(published.skills, "one", {"a.md": "# A\n"})
    digest = Digest.of(b"# A\n")
    publication, blobs = published.publication, published.blobs
    published.look()
    blobs.remove(digest)
    if moment == "as it is reported":
        monkeypatch.setattr(publication, "_log", SimpleNamespace(warning=lambda *_, **__: published.look(())))
    assert blobs.read(digest) is None
    if moment == "before it is reported":
        published.look()
        blobs.on_lost(digest)  # as of a reader that found nothing before the folders were looked at
    if blobs.read(digest) is None:
        published.look()
    assert (blobs.read(digest), publication.lost_blobs) == (b"# A\n", 1)
    published.look()
    blobs.remove(digest)
    assert blobs.read(digest) is None
    assert publication.lost_blobs == 2
