"""Blobs: whoever made one has it, for as long as it is used, and nobody else knows of it."""

import asyncio
import errno
import hashlib
import os
import stat
import time

import pytest
from tests.support.opened import Blocking

from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sql.blobs import PIECE_BYTES, Pieces, SqlRunBlobs, hold_blobs
from skillwire.adapters.sqlite.database import AsyncDatabase, Database
from skillwire.errors import ConflictError, DecodeError, NotFoundError, StorageError
from skillwire.model.digest import Digest
from skillwire.model.execution import BlobHold, RunSettings, check_kind, digest_of, is_blob_id

NOW = 1_000_000.0
HOUR = 3600.0
KIB = 1024
SETTINGS = RunSettings(blob_bytes=100 * KIB, blobs_per_owner=300 * KIB, blob_seconds=24 * HOUR)


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request, tmp_path):
    """Return what opens the blobs again, by default those of the same machine."""
    is_shared = request.param == "postgres"
    database = Database(tmp_path / "skillwire.db")
    shared = Blocking(PostgresDatabase(request.getfixturevalue("postgres_url"))) if is_shared else None

    def opened(folder="run-blobs", **options):
        if shared is None:
            return Blocking(SqlRunBlobs(AsyncDatabase(database), tmp_path / folder, SETTINGS, **options))
        options["pieces"] = Pieces("run_blob_pieces")
        return Blocking(SqlRunBlobs(shared.wrapped, tmp_path / folder, SETTINGS, **options))

    yield opened
    database.close()
    if shared is not None:
        shared.close()


@pytest.fixture
def blobs(opened):
    return opened()


def put(blobs, content, owner="anna", kind="text/plain", now=NOW):
    """Keep a blob in two pieces."""

    async def pieces():
        half = len(content) // 2
        yield content[:half]
        yield content[half:]

    (blob,) = blobs.store(owner, [(pieces(), kind)], now)
    return blob


def test_a_removed_blob_leaves_its_bytes_to_other_owners(blobs):
    digests = {put(blobs, b"x", owner).digest for owner in ("anna", "ben")}
    (digest,) = digests
    assert [blobs.remove(owner, digest) for owner in ("eve", "anna", "anna")] == [False, True, False]
    assert blobs.find("anna", digest, NOW) is None
    assert blobs.file_of(digest).read_bytes() == b"x"
    assert blobs.remove("ben", digest)
    assert blobs.file_of(digest) is None


async def whole(content):
    yield content


def hold(blobs, digests, now, until):
    """Keep blobs of Anna for an execution."""

    async def call(connection):
        await hold_blobs(connection, BlobHold("anna", tuple(digests), now, until))

    Blocking(blobs._database).write(call)


def files(blobs):
    """Return the names of all files in the folder of blobs."""
    return sorted(path.name for path in blobs._folder.rglob("*") if path.is_file())


def test_a_blob_is_known_by_what_is_in_it(blobs):
    blob = put(blobs, b"hello", kind="text/csv; charset=utf-8")
    assert blob.blob_id == "blob:" + hashlib.sha256(b"hello").hexdigest()
    assert (blob.kind, blob.size, blob.expires) == ("text/csv; charset=utf-8", 5, NOW + 24 * HOUR)
    assert blobs.find("anna", blob.digest, NOW) == blob
    path = blobs.file_of(blob.digest)
    assert path.read_bytes() == b"hello"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444  # the sandbox may read it as somebody else
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700  # and nobody else comes so far
    assert len(files(blobs)) == 1


def test_an_empty_one_is_one(blobs):
    blob = put(blobs, b"")
    assert blob.size == 0
    assert blobs.file_of(blob.digest).read_bytes() == b""


def test_that_of_another_owner_is_not_there(blobs):
    blob = put(blobs, b"hello")
    assert blobs.find("bert", blob.digest, NOW) is None
    bert = BlobHold("bert", (blob.digest,), NOW, NOW + HOUR)
    with pytest.raises(NotFoundError, match="BLOB_NOT_FOUND"):
        Blocking(blobs._database).write(lambda connection: hold_blobs(connection, bert))


def test_the_same_of_two_owners_is_one_file_that_stays_for_the_other(blobs):
    anna = put(blobs, b"hello")
    bert = put(blobs, b"hello", "bert", "text/csv", NOW + HOUR)
    assert len(files(blobs)) == 1
    assert blobs.expire(anna.expires) == 1
    assert blobs.find("anna", anna.digest, NOW) is None
    assert blobs.find("bert", bert.digest, anna.expires).kind == "text/csv"
    assert blobs.file_of(bert.digest).read_bytes() == b"hello"
    assert blobs.expire(bert.expires + 24 * HOUR) == 1  # being found was a use of it
    assert files(blobs) == []


def test_making_it_again_renews_it_and_leaves_its_kind(blobs):
    put(blobs, b"hello")
    again = put(blobs, b"hello", kind="text/html", now=NOW + HOUR)
    assert (again.kind, again.expires) == ("text/plain", NOW + 25 * HOUR)
    assert blobs.find("anna", again.digest, NOW + HOUR) == again
    late = put(blobs, b"hello", kind="text/html", now=NOW + 26 * HOUR)  # that one has expired, swept or not
    assert late.kind == "text/html"
    assert blobs.find("anna", late.digest, NOW + 26 * HOUR) == late


def test_it_expires_unless_it_is_used(blobs):
    blob = put(blobs, b"hello")
    assert blobs.find("anna", blob.digest, NOW + HOUR).expires == blob.expires  # not each use is a write
    late = blobs.find("anna", blob.digest, NOW + 20 * HOUR)
    assert late.expires == NOW + 44 * HOUR
    assert blobs.find("anna", blob.digest, NOW + 43 * HOUR) is not None
    other = put(blobs, b"unused")
    assert blobs.find("anna", other.digest, other.expires - 1) is not None
    forgotten = put(blobs, b"forgotten")
    assert blobs.find("anna", forgotten.digest, forgotten.expires) is None  # swept or not


def test_it_is_held_as_long_as_somebody_needs_it(blobs):
    blob = put(blobs, b"hello")
    hold(blobs, [blob.digest], NOW, NOW + 72 * HOUR)
    assert blobs.expire(NOW + 71 * HOUR) == 0
    assert blobs.find("anna", blob.digest, NOW + 71 * HOUR) is not None
    assert blobs.expire(NOW + 200 * HOUR) == 1
    with pytest.raises(NotFoundError):
        hold(blobs, [blob.digest], NOW, NOW + HOUR)


def test_what_is_expired_is_held_no_more(blobs):
    blob = put(blobs, b"hello")
    with pytest.raises(NotFoundError, match="BLOB_NOT_FOUND"):
        hold(blobs, [blob.digest], blob.expires, blob.expires + HOUR)


def test_a_hold_that_fails_holds_nothing(blobs):
    blob = put(blobs, b"hello")
    with pytest.raises(NotFoundError):
        hold(blobs, [blob.digest, Digest.of(b"never made")], NOW, NOW + 72 * HOUR)
    assert blobs.find("anna", blob.digest, NOW).expires == blob.expires


def test_it_has_a_bound(blobs):
    put(blobs, b"x" * SETTINGS.blob_bytes)
    with pytest.raises(DecodeError, match="LIMIT_SIZE"):
        put(blobs, b"y" * (SETTINGS.blob_bytes + 1))
    assert len(files(blobs)) == 1


def test_those_of_one_owner_have_a_bound_and_small_ones_count_as_larger(blobs):
    for number in range(4):
        put(blobs, b"%d" % number)
    with pytest.raises(ConflictError, match="BLOB_ROOM"):
        put(blobs, b"one too many")
    assert len(files(blobs)) == 4  # nothing of it is left
    put(blobs, b"0")  # one that already exists is none more
    put(blobs, b"one of somebody else", "bert")
    put(blobs, b"one later", now=NOW + 48 * HOUR)  # the others have expired


def test_those_of_all_have_a_bound(opened):
    blobs = opened(in_all=130 * KIB)
    put(blobs, b"one")
    put(blobs, b"two", "bert")
    with pytest.raises(ConflictError, match="BLOB_ROOM"):
        put(blobs, b"three", "cleo")


def test_of_several_all_are_kept_or_none(blobs):
    contents = [b"small", *(b"%d" % number * 90 * KIB for number in range(4))]
    with pytest.raises(ConflictError):
        blobs.store("anna", [(whole(content), "text/plain") for content in contents], NOW)
    assert files(blobs) == []
    assert blobs.find("anna", Digest.of(b"small"), NOW) is None


def test_what_was_begun_and_not_kept_leaves_nothing(blobs):
    seen = []

    async def breaks_off():
        yield b"half of"
        seen.extend(await asyncio.to_thread(files, blobs))
        raise ConnectionError

    with pytest.raises(ConnectionError):
        blobs.store("anna", [(breaks_off(), "text/plain")], NOW)
    assert len(seen) == 1
    assert files(blobs) == []


def test_what_killed_processes_left_is_removed_when_it_is_old(blobs, opened):
    blob = put(blobs, b"hello")
    orphan = blobs._folder / "ab" / ("c" * 62)
    orphan.parent.mkdir()
    for path in (orphan, blobs._folder / ".new-123", blobs._folder / ".new-456"):
        path.write_bytes(b"left")
    old = time.time() - 2 * HOUR
    for path in (orphan, blobs._folder / ".new-123", blobs.file_of(blob.digest)):
        os.utime(path, (old, old))
    again = opened()
    assert again.expire(NOW) == 0
    assert files(blobs) == sorted([".new-456", blob.digest.hex[2:]])


def test_what_was_left_a_moment_before_a_start_is_removed_when_it_is_old(blobs, opened):
    put(blobs, b"hello")
    half = blobs._folder / ".new-123"
    half.write_bytes(b"left")
    again = opened()
    again.expire(NOW)
    assert half.exists()  # somebody may be writing it
    old = time.time() - 2 * HOUR
    os.utime(half, (old, old))
    again.expire(NOW + HOUR - 1)
    assert half.exists()  # nobody looks so often
    again.expire(NOW + HOUR)
    assert not half.exists()
    half.write_bytes(b"left")
    os.utime(half, (old, old))
    again.expire(NOW)  # by a clock that was set back
    assert not half.exists()


def test_a_full_disk_is_told_and_keeps_nothing(blobs, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StorageError, match="No space left"):
            put(blobs, b"hello")
    assert files(blobs) == []
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError):
            put(blobs, b"hello")
    assert files(blobs) == []
    assert blobs.find("anna", Digest.of(b"hello"), NOW) is None


def test_a_file_that_is_gone_is_fetched_where_machines_share_the_bytes(blobs):
    blob = put(blobs, b"hello")
    blobs.file_of(blob.digest).unlink()
    again = blobs.file_of(blob.digest)
    assert again is None or again.read_bytes() == b"hello"
    assert (again is None) == (blobs._pieces is None)


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1])
def test_another_machine_reads_what_was_stored_until_it_is_removed(opened, size):
    here, there = opened(), opened("elsewhere")
    if here._pieces is None:
        return
    for one in (here, there):
        one.wrapped._settings = RunSettings(blob_bytes=3 * PIECE_BYTES, blobs_per_owner=9 * PIECE_BYTES)
    content = os.urandom(size)
    digest = put(here, content).digest
    assert there.file_of(digest).read_bytes() == content
    assert here.remove("anna", digest)
    assert opened("third").file_of(digest) is None


@pytest.mark.parametrize(
    "kind", ["text/csv", "image/svg+xml", "application/vnd.ms-excel", 'text/plain; charset="utf-8"', "a/b;c=d"]
)
def test_kinds_are_media_types(kind):
    assert check_kind(kind) == kind


@pytest.mark.parametrize(
    "kind", ["", "csv", "text/", "text/csv\r\nX: y", "text/csv\n", "text/csv; a", "té/xt", "a/b c", "a/" + "b" * 254]
)
def test_whatever_else_is_no_kind(kind):
    with pytest.raises(Exception, match="BLOB_KIND"):
        check_kind(kind)


@pytest.mark.parametrize("blob_id", ["", "blob:", "blob:../../etc/passwd", "sha256:" + "0" * 64, "blob:" + "A" * 64])
def test_what_is_no_id_is_no_blob(blob_id):
    assert not is_blob_id(blob_id)
    with pytest.raises(NotFoundError, match="BLOB_NOT_FOUND"):
        digest_of(blob_id)
