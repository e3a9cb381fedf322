"""What a server does for its memory."""

from __future__ import annotations

import gc
import shutil
import sqlite3
import threading
import time
import weakref

import pytest
import structlog
from tests.support.publishing import Asgi, write_skill

from skillwire.adapters.files import loading
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sqlite.search import SearchIndex
from skillwire.errors import StorageError
from skillwire.folder.publish import prepare
from skillwire.model.search import SearchQuery
from skillwire.server import create_app
from skillwire.server.catalog_service import CatalogService, keep_what_is_loaded
from skillwire.server.folders import PublishedFolders


class Knot:
    """Something that holds itself."""

    def __init__(self):
        self.own = self


@pytest.fixture(autouse=True)
def _thawed():
    yield
    gc.unfreeze()


def test_what_is_loaded_is_kept_and_what_comes_later_is_still_collected():
    loaded = Knot()
    keep_what_is_loaded()
    assert gc.get_freeze_count() > 1_000
    assert loaded not in gc.get_objects()
    later = Knot()
    gone = weakref.ref(later)
    del later
    gc.collect()
    assert gone() is None


def test_skills_that_were_handed_out_stay_as_they_were(tmp_path):
    root = tmp_path / "skills"
    folders = PublishedFolders([str(root)], "acme", FileBlobs(tmp_path / "blobs"))
    for name in ("one", "two"):
        write_skill(root, name, description=f"Does {name}.")
    folders.refresh()
    before = seen = folders.public_skills()
    for number in range(5):
        write_skill(root, "two", description=f"Does two, {number}.")
        folders.refresh([str(root / "two" / "SKILL.md")])
        now = folders.public_skills()
        assert now.changes_since(seen) == ((), ("two",), ())
        assert now["two"].description == f"Does two, {number}."
        assert now["one"] == before["one"]
        seen = now
    assert before["two"].description == "Does two."


def test_a_skill_that_is_loaded_again_as_it_was_is_the_same(tmp_path):
    write_skill(tmp_path / "skills", "one", description="Does one.")
    folders = PublishedFolders([str(tmp_path / "skills")], "acme", FileBlobs(tmp_path / "blobs"))
    folders.refresh()
    first = folders.public_skills()
    (tmp_path / "skills" / "one" / "SKILL.md").touch()
    assert not folders.refresh([str(tmp_path / "skills" / "one")])
    assert folders.public_skills().packed("one") is first.packed("one")


class Published:
    """A publication that is driven by hand: nothing is watched."""

    def __init__(self, tmp_path, *roots):
        self.skills = tmp_path / "skills"
        self.skills.mkdir(exist_ok=True)
        self.blobs = FileBlobs(tmp_path / "blobs")
        self.folders = PublishedFolders([str(root) for root in roots or (self.skills,)], "acme", self.blobs)
        self.publication = CatalogService(self.folders, self.blobs, lambda: SearchIndex(self.blobs.directory))
        self.loaded = []

    def look(self, touched=None):
        """Look at the folders once; return the revision that is current then."""
        self.publication._refresh(touched)
        return self.publication.current

    @property
    def names(self):
        revision = self.publication.current
        assert revision is not None
        return list(revision.site.names)

    def description(self, name):
        return self.publication._skills[name].description


@pytest.fixture(autouse=True)
def _look_often(monkeypatch):
    """Let no test wait for the pauses that spare a server's processor."""
    monkeypatch.setattr("skillwire.server.catalog_service._TICK_MS", 50)
    monkeypatch.setattr("skillwire.server.catalog_service._POLL", 0.02)
    monkeypatch.setattr("skillwire.server.catalog_service._POLL_SHARE", 1.0)


@pytest.fixture
def published(tmp_path, monkeypatch):
    published = Published(tmp_path)

    def prepare_and_note(path, publisher, **options):
        published.loaded.append(path.name)
        return prepare(path, publisher, **options)

    monkeypatch.setattr(loading, "prepare", prepare_and_note)
    return published


def test_what_was_added_changed_and_removed_is_what_the_next_revision_says(published):
    assert published.look().number == 1
    assert published.names == []
    one = write_skill(published.skills, "one")
    two = write_skill(published.skills, "two")
    assert published.look().number == 2
    assert published.names == ["one", "two"]
    write_skill(published.skills, "one", description="Does something else.")
    shutil.rmtree(two)
    assert published.look([str(one / "SKILL.md"), str(two)]).number == 3
    assert published.names == ["one"]
    assert published.description("one") == "Does something else."


def test_nothing_new_makes_no_revision_and_loads_nothing(published, settle):
    folder = write_skill(published.skills, "one")
    settle(folder)
    first = published.look()
    assert published.look() is first
    assert published.look([str(folder / "SKILL.md")]) is first
    assert published.loaded == ["one"]


def test_only_what_was_touched_is_looked_at(published, settle):
    settle(write_skill(published.skills, "one"), write_skill(published.skills, "two"))
    published.look()
    write_skill(published.skills, "one", description="Changed.")
    other = write_skill(published.skills, "two", description="Changed too.")
    published.look([str(other / "references" / "deep" / "file")])
    assert published.loaded == ["one", "two", "two"]
    published.look([str(published.skills)])
    assert published.loaded == ["one", "two", "two"]
    published.look()
    assert published.loaded == ["one", "two", "two", "one"]


def test_a_folder_that_changed_just_now_is_not_trusted_to_be_unchanged(published):
    folder = write_skill(published.skills, "one")
    first = published.look()
    assert published.look([str(folder)]) is first
    assert published.loaded == ["one", "one"]


def test_template_text_is_not_published_unnoticed(published):
    write_skill(published.skills, "mentions", {"notes.md": "PLACEHOLDER"})
    write_skill(published.skills, "new", body="Say what usually fails, and what to do then.\n")
    with structlog.testing.capture_logs() as log:
        published.look()
        write_skill(published.skills, "mentions", body="PLACEHOLDER\n")
        published.look()
    [warning] = [entry for entry in log if entry["log_level"] == "warning"]
    assert (warning["skills"], warning["code"]) == ("new", "PLACEHOLDER")


def test_a_skill_that_becomes_broken_keeps_its_last_good_version_and_says_why(published):
    folder = write_skill(published.skills, "one")
    first = published.look()
    (folder / "SKILL.md").write_text("---\nname: one\n---\n")
    with structlog.testing.capture_logs() as log:
        second = published.look()
    assert second.number == 2
    assert published.description("one") == "Does something useful."
    [broken] = second.broken
    assert (broken.name, broken.serving, [finding.code for finding in broken.findings]) == (
        "one",
        True,
        ["DESCRIPTION_FORM"],
    )
    [told] = [event for event in log if event["event"] == "skill broken"]
    assert told["skill"] == "one"
    assert told["place"].startswith(str(folder / "SKILL.md"))
    assert told["serving"] == "its last good version"
    assert first.broken == ()
    write_skill(published.skills, "one", description="Mended.")
    assert published.look().broken == ()
    assert published.description("one") == "Mended."


def test_a_skill_that_was_never_good_is_not_there_and_says_why(published):
    (published.skills / "one").mkdir()
    (published.skills / "one" / "SKILL.md").write_text("no frontmatter")
    revision = published.look()
    assert published.names == []
    assert [(broken.name, broken.serving) for broken in revision.broken] == [("one", False)]


def test_of_two_skills_of_one_name_the_published_one_stays_and_both_are_named(published):
    first = write_skill(published.skills / "b", "same", description="The first.")
    published.look()
    second = write_skill(published.skills / "a", "same", description="The second.")
    revision = published.look()
    assert published.description("same") == "The first."
    [broken] = revision.broken
    assert broken.folder == str(second)
    assert not broken.serving
    assert str(first) in broken.findings[0].message
    assert str(second) in broken.findings[0].message
    shutil.rmtree(first)
    assert published.look().broken == ()
    assert published.description("same") == "The second."


def test_what_not_everyone_may_see_is_not_published(published):
    write_skill(published.skills, "open")
    write_skill(published.skills, "closed", {"skill.toml": 'access = "private"\n'})
    published.look()
    assert published.names == ["open"]
    write_skill(published.skills, "open", {"skill.toml": 'access = "restricted"\n'})
    revision = published.look()
    assert published.names == []
    assert revision.site.lookup("/.well-known/agent-skills/open/SKILL.md") is None


@pytest.mark.spec("ASD-server-digest-url")
def test_an_artifact_that_was_replaced_is_found_by_digest_for_a_while(published, monkeypatch):
    write_skill(published.skills, "one")
    write_skill(published.skills, "two")
    first = published.look()
    paths = [path for path in first.site.paths() if "/sha256/" in path]
    write_skill(published.skills, "one", description="Changed.")
    second = published.look()
    assert all(second.site.lookup(path) for path in paths)
    assert len({path for path in second.site.paths() if "/sha256/" in path} & set(paths)) == 1
    shutil.rmtree(published.skills / "one")
    third = published.look()
    assert [third.site.lookup(path) is None for path in paths].count(True) == 1
    clock = time.monotonic() + 901
    write_skill(published.skills, "two", description="Changed.")
    published.look()
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    write_skill(published.skills, "three")
    assert not [path for path in paths if published.look().site.lookup(path)]


def test_a_folder_that_goes_on_changing_is_not_published(published, monkeypatch):
    folder = write_skill(published.skills, "one")

    def disturb(path, publisher, **_):
        prepared = prepare(path, publisher)
        with (folder / "SKILL.md").open("a") as file:
            file.write("More.\n")
        return prepared

    monkeypatch.setattr(loading, "prepare", disturb)
    revision = published.look()
    assert published.names == []
    assert [finding.code for finding in revision.broken[0].findings] == ["FOLDER_UNSTEADY"]
    monkeypatch.setattr(loading, "prepare", prepare)
    assert published.look().broken == ()
    assert published.names == ["one"]


def test_a_folder_that_changes_once_while_it_is_read_is_read_again(published, monkeypatch):
    write_skill(published.skills, "one", description="Before.")
    reads: list[str] = []

    def change_once(path, publisher, **_):
        prepared = prepare(path, publisher)
        if not reads:
            write_skill(published.skills, "one", description="After.")
        reads.append(path.name)
        return prepared

    monkeypatch.setattr(loading, "prepare", change_once)
    published.look()
    assert published.description("one") == "After."
    assert len(reads) == 2


def test_a_disk_that_fails_leaves_what_is_served_and_is_tried_again(published, monkeypatch):
    write_skill(published.skills, "one")
    first = published.look()
    write_skill(published.skills, "one", description="Changed.")
    put = FileBlobs.put

    def fail(_, __):
        raise StorageError("STORAGE", "no space left on device")

    monkeypatch.setattr(FileBlobs, "put", fail)
    with structlog.testing.capture_logs() as log:
        assert published.look() is first
    assert [event["code"] for event in log] == ["STORAGE"]
    monkeypatch.setattr(FileBlobs, "put", put)
    assert published.look() is not first
    assert published.description("one") == "Changed."


def test_a_restart_reads_nothing_that_has_not_changed(published, tmp_path, settle):
    settle(*[write_skill(published.skills, name) for name in ("one", "two", "three")])
    published.look()
    assert sorted(published.loaded) == ["one", "three", "two"]
    write_skill(published.skills, "two", description="Changed.")
    (tmp_path / "blobs" / "extra").mkdir()
    again = Published(tmp_path)
    again.folders.restore()
    published.loaded.clear()
    again.look()
    assert again.names == ["one", "three", "two"]
    assert published.loaded == ["two"]


def test_a_restart_makes_again_what_the_store_has_lost(published, tmp_path, settle):
    settle(write_skill(published.skills, "one", {"scripts/a.sh": "echo\n"}))
    published.look()
    shutil.rmtree(tmp_path / "blobs")
    again = Published(tmp_path)
    again.folders.restore()
    published.loaded.clear()
    revision = again.look()
    assert published.loaded == ["one"]
    for path in revision.site.paths():
        answer = revision.site.lookup(path)
        assert not hasattr(answer, "digest") or again.blobs.read(answer.digest) is not None


def test_a_record_of_another_publisher_is_not_used(published, settle):
    settle(write_skill(published.skills, "one"))
    published.look()
    other = PublishedFolders([str(published.skills)], "other", published.blobs)
    other.restore()
    other.refresh()
    assert other.public_skills()["one"].publisher == "other"


def test_the_thread_loads_watches_and_ends(tmp_path):
    published = Published(tmp_path)
    write_skill(published.skills, "one")
    before = threading.active_count()
    publication = published.publication
    publication.start()
    publication.start()
    try:
        _wait_for(lambda: publication.current is not None)
        write_skill(published.skills, "two")
        _wait_for(lambda: published.names == ["one", "two"])
        shutil.rmtree(published.skills / "one")
        _wait_for(lambda: published.names == ["two"])
    finally:
        publication.stop()
    assert threading.active_count() == before
    publication.stop()


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
        _wait_for(lambda: publication.current is not None and published.names == ["from-blue"])
        (tmp_path / "new").symlink_to("green")
        (tmp_path / "new").rename(current)
        _wait_for(lambda: published.names == ["from-green"])
        current.unlink()
        _wait_for(lambda: published.names == [])
        current.symlink_to("blue")
        _wait_for(lambda: published.names == ["from-blue"])
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
            _wait_for(lambda: published.publication.current is not None)
            write_skill(published.skills, "one")
            _wait_for(lambda: published.names == ["one"])
        finally:
            published.publication.stop()
    [warning] = [event for event in log if event["log_level"] == "warning"]
    assert "watch limit" in warning["reason"]


@pytest.mark.parametrize("where", ["refresh", "_choose", "known_skills", "restore"])
@pytest.mark.parametrize("error", [RuntimeError("unforeseen"), StorageError("STORAGE", "no space left on device")])
async def test_a_failure_of_the_thread_is_told_and_closes_nothing_for_good(tmp_path, monkeypatch, where, error):
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
        _wait_for(lambda: publication.watch.interruptions > 1)
        ready = await client.get("/readyz")
        assert ready.status == 503
        if where != "restore":
            assert (ready.json()["status"], ready.json()["watching"]) == ("stale", False)
            assert "skillwire_watching 0.0" in (await client.get("/metrics")).body.decode().splitlines()
        broken.clear()
        _wait_for(lambda: publication.watch.alive)
        assert (await client.get("/readyz")).json()["watching"]
        if where != "restore":
            assert (await client.get("/.well-known/agent-skills/one/SKILL.md")).status == 404
        await application.shutdown()
    assert {"error"} == {event["log_level"] for event in log if "folders" in event["event"]}


def test_a_search_index_that_fails_is_made_anew(published, monkeypatch):
    write_skill(published.skills, "one")
    published.look()
    update = SearchIndex.update

    def fail(*_):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(SearchIndex, "update", fail)
    write_skill(published.skills, "two")
    with pytest.raises(sqlite3.OperationalError):
        published.look()
    monkeypatch.setattr(SearchIndex, "update", update)
    revision = published.look()
    assert published.names == ["one", "two"]
    assert sorted(revision.search.search(SearchQuery("useful")).names) == ["one", "two"]


def test_blobs_that_nothing_needs_are_removed_at_the_start(tmp_path):
    published = Published(tmp_path)
    write_skill(published.skills, "one", {"a.md": "# A\n"})
    unused = published.blobs.put(b"of yesterday")
    published.publication.start()
    try:
        _wait_for(lambda: published.blobs.path(unused) is None)
        [skill] = published.publication._skills.values()
        assert all(published.blobs.read(file.digest) for file in skill.files)
        assert published.blobs.read(skill.artifact.digest)
    finally:
        published.publication.stop()


def _wait_for(condition):
    """Wait until ``condition`` holds; fail when it never does."""
    ended = threading.Event()
    for _ in range(1500):
        if condition():
            return
        ended.wait(0.01)
    pytest.fail("it never came about")
