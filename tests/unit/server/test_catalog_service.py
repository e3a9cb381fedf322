"""What a server does for its memory."""

import asyncio
import errno
import json
import os
import shutil
import sqlite3
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from tests.support.eventually import PATIENCE
from tests.support.publishing import write_skill
from tests.support.sites import INDEX, Published

from skillwire import limits
from skillwire.adapters.files import loading
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.published_folders import PublishedFolders
from skillwire.adapters.sqlite.search import SearchIndex
from skillwire.errors import StorageError
from skillwire.folder.publish import prepare
from skillwire.model.access import Principal
from skillwire.model.catalog import SearchQuery
from skillwire.server import catalog_service
from skillwire.server.revision import Revision, make_access_view


def test_skills_that_were_handed_out_stay_as_they_were(tmp_path):
    root = tmp_path / "skills"
    folders = PublishedFolders([str(root)], "acme", FileBlobs(tmp_path / "blobs"))
    for name in ("one", "two"):
        write_skill(root, name, description=f"Does {name}.")
    folders.refresh()
    before = seen = folders.skills.usable
    for number in range(5):
        write_skill(root, "two", description=f"Does two, {number}.")
        folders.refresh([str(root / "two" / "SKILL.md")])
        now = folders.skills.usable
        assert now.changes_since(seen) == ((), ("two",), ())
        assert now["two"].description == f"Does two, {number}."
        assert now["one"] == before["one"]
        seen = now
    assert before["two"].description == "Does two."


def test_a_skill_that_is_loaded_again_as_it_was_is_the_same(tmp_path):
    write_skill(tmp_path / "skills", "one", description="Does one.")
    folders = PublishedFolders([str(tmp_path / "skills")], "acme", FileBlobs(tmp_path / "blobs"))
    folders.refresh()
    first = folders.skills.usable
    (tmp_path / "skills" / "one" / "SKILL.md").touch()
    assert not folders.refresh([str(tmp_path / "skills" / "one")])
    assert folders.skills.usable.packed("one") is first.packed("one")


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


@pytest.mark.parametrize("many", [1, 3])
def test_a_revision_is_served_with_its_own_indexes(published, monkeypatch, many):
    monkeypatch.setattr("skillwire.server.revision._MANY", many)
    served: list[Revision] = []
    published.publication.follows.append(served.append)
    names = ["one", "three", "two"]
    for name in names:
        write_skill(published.skills, name)
        published.look()
    shutil.rmtree(published.skills / "three")
    published.look()
    found = [json.loads(answer.body) for one in served if (answer := one.prepared[INDEX].ready(b"GET", []))]
    listed = [[entry["name"] for entry in index["skills"]] for index in found]
    assert listed == [["one"], ["one", "three"], names, ["one", "two"]]


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


def test_the_log_names_the_revision_that_readyz_shows(published):
    with structlog.testing.capture_logs() as log:
        for name, access in (("open", "public"), ("closed", "private"), ("another", "public")):
            write_skill(published.skills, name, {"skill.toml": f'access = "{access}"\n'})
            published.look()
    assert [event["revision"] for event in log if event["event"] == "published"] == [1, 1, 2]
    assert published.publication.current.catalog.revision == 2


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


@pytest.mark.spec("ASD-server-digest-url")
def test_a_replaced_artifact_of_a_guarded_skill_is_found_by_who_may_use_it(published):
    """One that was private stays so when its skill is opened; one that was public is closed with its skill."""
    closed, opened = {"skill.toml": 'access = "private"\n'}, {"skill.toml": 'access = "public"\n'}

    def found(path, *grants):
        revision = published.publication.current
        if not grants:
            return revision.site.lookup(path) is not None
        return make_access_view(revision, Principal("ann", frozenset(grants)), "").lookup(path) is not None

    def path_of_skill():
        digest = published.publication._skills.everything["one"].artifact
        return f"/.well-known/agent-skills/sha256/{digest.digest.hex}{digest.extension}"

    paths = []
    for number, access in enumerate((closed, closed, opened, opened, closed)):
        write_skill(published.skills, "one", access, description=f"Version {number}.")
        published.look()
        paths.append(path_of_skill())
        assert [found(path, "one") for path in paths] == [True] * len(paths)
        assert not any(found(path, "two") for path in paths[:2])
        assert [found(path) for path in paths] == [access is opened and nth >= 2 for nth in range(len(paths))]


def test_more_skills_than_clients_read_are_published_with_a_warning(published, monkeypatch):
    monkeypatch.setattr(limits, "INDEX_ENTRIES", 1)
    with structlog.testing.capture_logs() as log:
        for name in ("one", "two", "three"):
            write_skill(published.skills, name)
            published.look()
    assert [event["skills"] for event in log if event["log_level"] == "warning"] == [2]


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


async def test_the_attempt_after_one_that_failed_answers_the_callers_that_still_wait(published, monkeypatch):
    catalog, refresh = published.publication, published.folders.refresh
    failures = [StorageError("DATABASE", "Connection refused")] * 2

    def fail(touched):
        if failures:
            raise failures.pop()
        return refresh(touched)

    monkeypatch.setattr(published.folders, "refresh", fail)
    following = asyncio.create_task(catalog.follow(2 * PATIENCE))
    await asyncio.sleep(0)
    published.look()
    assert not catalog._followers, "it cuts the pause before the next attempt short"
    await catalog.follow(0.0)
    published.look()
    await asyncio.sleep(0)
    assert (following.done(), len(catalog._unserved)) == (False, 1)
    published.look()
    assert not catalog._unserved
    await asyncio.wait_for(following, PATIENCE)


async def test_a_blob_folder_that_cannot_be_locked_is_tried_again_after_a_pause_though_callers_wait(
    published, monkeypatch
):
    catalog, failures, pauses, ended = published.publication, [OSError(errno.EIO, "EIO")] * 2, [], threading.Event()

    def lock():
        if failures:
            raise failures.pop()

    def watch_once(*_, **_options):
        yield None
        ended.set()

    def pause(seconds):
        pauses.append(seconds)
        return True

    monkeypatch.setattr(published.blobs, "lock", lock)
    monkeypatch.setattr(catalog_service, "watch_folders", watch_once)
    catalog._stop = SimpleNamespace(is_set=ended.is_set, wait=pause)
    following = asyncio.create_task(catalog.follow(2 * PATIENCE))
    await asyncio.sleep(0)
    catalog._run()
    assert len(pauses) == 2
    await asyncio.wait_for(following, PATIENCE)
    assert catalog.watch.alive


def test_a_ledger_that_cannot_be_read_keeps_no_skill_back(published):
    write_skill(published.skills, "one")

    def fail():
        raise StorageError("DATABASE", "file is not a database")

    published.publication._needed = fail
    assert published.look().skills == 1
    assert published.publication.watch.interruptions == 0


def unmount(published, _):
    """Put another, empty folder in the place of the skills, as an unmounted volume leaves it."""
    published.skills.rename(published.skills.parent / "away")
    published.skills.mkdir()


def move_away(published, _):
    published.skills.rename(published.skills.parent / "away")


def refuse(published, monkeypatch, *, number=errno.EMFILE, calls=("scandir", "open")):
    """Let no folder and no file below the skills be opened."""
    for name in calls:
        real = getattr(os, name)

        def fail(path, *arguments, real=real, **options):
            if str(path).startswith(str(published.skills)):
                raise OSError(number, os.strerror(number), str(path))
            return real(path, *arguments, **options)

        monkeypatch.setattr(os, name, fail)


FAILURES: dict[str, tuple[Any, str]] = {
    "no descriptors": (refuse, "Too many open files"),
    "no descriptors for files": (lambda *them: refuse(*them, calls=("open",)), "Too many open files"),
    "a stale network disk": (lambda *them: refuse(*them, number=errno.ESTALE), os.strerror(errno.ESTALE)),
    "closed": (lambda *them: refuse(*them, number=errno.EACCES), "Permission denied"),
    "moved away": (move_away, "No such file or directory"),
    "unmounted": (unmount, "another folder without any skill is in its place"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_folder_that_cannot_be_read_keeps_its_skills_and_the_reason_is_logged_once(published, monkeypatch, failure):
    write_skill(published.skills, "one")
    write_skill(published.skills / "team", "two")
    first = published.look()
    write_skill(published.skills, "one", description="Changed, so that it is read.")
    fail, reason = FAILURES[failure]
    with monkeypatch.context() as patch, structlog.testing.capture_logs() as log:
        fail(published, patch)
        for touched in (None, [str(published.skills / "one" / "SKILL.md")], None):
            assert published.look(touched) is first
        assert (published.publication.watch.alive, published.publication.watch.reason) == (False, reason)
    [error] = log
    assert (error["log_level"], reason in error["reason"]) == ("error", True)
    if (away := published.skills.parent / "away").exists():
        shutil.rmtree(published.skills, ignore_errors=True)
        away.rename(published.skills)
    shutil.rmtree(published.skills / "one")
    published.look()
    assert published.names == ["two"]
    assert published.folders.unreadable == {}


def test_a_closed_folder_below_a_root_keeps_its_skills_and_lets_others_go(published, monkeypatch):
    write_skill(published.skills / "team", "one")
    write_skill(published.skills / "others", "two")
    published.look()
    scan = os.scandir

    def refuse_team(path):
        if str(path).endswith("team"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse_team)
    shutil.rmtree(published.skills / "others" / "two")
    published.look()
    assert published.names == ["one"]
    assert published.folders.unreadable == {str(published.skills / "team"): "Permission denied"}


def test_of_two_folders_the_one_that_can_be_read_is_followed(tmp_path):
    published = Published(tmp_path, tmp_path / "skills", tmp_path / "volume")
    write_skill(published.skills, "one")
    write_skill(tmp_path / "volume", "two")
    published.look()
    (tmp_path / "volume").rename(tmp_path / "away")
    write_skill(published.skills, "three")
    published.look()
    assert published.names == ["one", "three", "two"]
    assert list(published.folders.unreadable) == [str(tmp_path / "volume")]


def test_at_a_start_a_folder_that_cannot_be_read_keeps_no_other_one_unpublished(tmp_path):
    published = Published(tmp_path, tmp_path / "skills", tmp_path / "volume")
    assert published.look() is None, "of nothing at all is not known that it is gone"
    write_skill(published.skills, "one")
    assert published.look() is not None
    assert (published.names, published.publication.watch.alive) == (["one"], False)
    assert published.publication.watch.reason == "No such file or directory"
    write_skill(tmp_path / "volume", "two")
    published.look()
    assert published.names == ["one", "two"]


def test_at_a_start_a_folder_that_cannot_be_read_keeps_the_skills_of_the_earlier_run(tmp_path, settle):
    roots = tmp_path / "skills", tmp_path / "volume"
    published = Published(tmp_path, *roots)
    settle(write_skill(roots[0], "one"), write_skill(roots[1], "two"))
    published.look()
    roots[1].rename(tmp_path / "away")
    again = Published(tmp_path, *roots)
    again.folders.restore()
    again.look()
    assert again.names == ["one", "two"]


def test_what_was_never_readable_below_a_folder_does_not_matter(published, monkeypatch):
    write_skill(published.skills, "one")
    (published.skills / "circle").symlink_to("circle")
    (published.skills / "lost+found").mkdir()
    scan = os.scandir

    def refuse_lost(path):
        if str(path).endswith("lost+found"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse_lost)
    published.look()
    assert (published.names, published.folders.unreadable) == (["one"], {})


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
    assert other.skills.usable["one"].publisher == "other"


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


@pytest.mark.parametrize(("took", "waited"), [(0.1, 1.9), (0.4, 2.0), (3.0, 6.0), (700.0, 10.0)])
def test_the_next_push_waits_longer_after_a_slow_revision_but_not_for_minutes(took, waited, monkeypatch):
    class Stop(threading.Event):
        def wait(self, timeout=None):
            waits.append(timeout)
            self.set()
            return True

    waits: list[float | None] = []
    now = iter([0.0, took])
    monkeypatch.setattr(catalog_service, "time", SimpleNamespace(monotonic=lambda: next(now)))
    assert list(catalog_service._polled(60.0, Stop(), threading.Event())) == [None]
    assert waits == [pytest.approx(waited)]


@pytest.mark.parametrize(("long", "pause", "returned"), [(60.0, 60.0, 0), (-1.0, 60.0, 2), (60.0, -1.0, 2)])
def test_memory_is_returned_after_long_revisions_and_now_and_then(long, pause, returned, published, monkeypatch):
    catalog, calls = published.publication, list[bool]()
    monkeypatch.setattr(catalog_service, "_LONG", long)
    monkeypatch.setattr(catalog_service, "_TIDY_SECONDS", pause)
    catalog.tidy = lambda: calls.append(True)

    def looks(*_, **__):
        write_skill(published.skills, "one")
        yield None
        yield None  # nothing has changed
        write_skill(published.skills, "two")
        yield None

    monkeypatch.setattr(catalog_service, "watch_folders", looks)
    catalog._follow()
    assert published.names == ["one", "two"]
    assert len(calls) == returned
