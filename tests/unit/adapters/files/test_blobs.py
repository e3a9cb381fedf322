import math
import os
import stat
import time
from pathlib import Path

import pytest

from skillwire import limits
from skillwire.adapters.files import blobs as module
from skillwire.adapters.files.blobs import FileBlobs, prune
from skillwire.errors import StorageError
from skillwire.model.digest import Digest

CONTENT = b"0123456789"
DIGEST = Digest.of(CONTENT)


@pytest.fixture
def blobs(tmp_path):
    return FileBlobs(tmp_path / "blobs")


def partial(blobs):
    return blobs.directory / "partial" / DIGEST.hex


def begun(blobs, content=CONTENT[:4]):
    download = blobs.download(DIGEST)
    assert download.begin(0)
    download.append(content)
    return download


def test_nothing_is_made_before_bytes_come(blobs):
    blobs.download(DIGEST).close()
    assert not blobs.directory.exists()


def test_a_download_becomes_a_file_of_its_owner_alone(blobs):
    begun(blobs, CONTENT).keep()
    assert not partial(blobs).exists()
    assert blobs.path(DIGEST).stat().st_mode & 0o777 == 0o600


def test_after_letting_go_no_byte_reaches_a_file_that_got_the_same_descriptor(blobs, tmp_path):
    download = begun(blobs)
    download.close()
    with (tmp_path / "other").open("wb"):
        with pytest.raises(StorageError):
            download.append(b"stray")
        assert not download.begin(0)
    assert (tmp_path / "other").read_bytes() == b""


def test_a_link_in_its_place_is_not_followed(blobs, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    partial(blobs).parent.mkdir(parents=True)
    partial(blobs).symlink_to(victim)
    download = blobs.download(DIGEST)
    assert not download.begin(0)
    download.close()
    assert victim.read_bytes() == b"mine"


def test_a_folder_that_cannot_be_made_costs_only_the_continuing(tmp_path):
    (tmp_path / "blobs").write_bytes(b"a file")
    download = FileBlobs(tmp_path / "blobs").download(DIGEST)
    assert not download.begin(0)
    download.close()


def fill(folder, number, size=1, age=0.0):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:064x}"
    path.touch()
    os.truncate(path, size)
    os.utime(path, (time.time() - age - number, time.time() - age - number))
    return path


def test_old_and_surplus_downloads_go_the_oldest_first(tmp_path):
    kept = [fill(tmp_path, number) for number in range(limits.DOWNLOADS_KEPT + 3)]
    prune(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(kept[: limits.DOWNLOADS_KEPT - 1])
    for path in tmp_path.iterdir():
        path.unlink()
    old = fill(tmp_path, 1, age=limits.DOWNLOADS_KEPT_SECONDS)
    large = [fill(tmp_path, number, limits.DOWNLOADS_KEPT_BYTES // 2) for number in (2, 3, 4)]
    prune(tmp_path)
    assert not old.exists()
    assert [path.exists() for path in large] == [True, True, False]


def test_what_is_no_download_stops_no_pruning(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(fill(tmp_path / "elsewhere", 1, age=2 * limits.DOWNLOADS_KEPT_SECONDS))
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    old = [fill(tmp_path, number, age=limits.DOWNLOADS_KEPT_SECONDS) for number in range(4)]
    vanishing, stubborn = old[1], old[2]
    unlink, lstat = Path.unlink, Path.lstat

    def unlinking(path, **options):
        if path == stubborn:
            raise PermissionError(1, "not permitted")
        unlink(path, **options)

    def looking(path):
        if path == vanishing:
            path.unlink(missing_ok=True)
        return lstat(path)

    monkeypatch.setattr(Path, "unlink", unlinking)
    monkeypatch.setattr(Path, "lstat", looking)
    prune(tmp_path)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [stubborn.name, "broken", "elsewhere", "folder", "link", "pipe"]
    assert len(list((tmp_path / "elsewhere").iterdir())) == 1


def test_one_that_is_being_written_is_not_removed(blobs):
    download = begun(blobs)
    os.utime(partial(blobs), (0, 0))
    prune(partial(blobs).parent)
    assert partial(blobs).exists()
    download.close()


@pytest.fixture
def store(tmp_path):
    return FileBlobs(tmp_path / "deep" / "store")


def test_nobody_else_may_read_them(store):
    path = store.path(store.put(b"content"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("garbled", [b"", b"short", b"CONTENT"])
def test_what_a_power_cut_garbled_is_as_good_as_absent_and_can_be_put_again(store, garbled):
    digest = store.put(b"content")
    store.path(digest).write_bytes(garbled)
    assert store.has(digest, 7) is (len(garbled) == 7)
    assert store.read(digest) is None
    store.put(b"content")
    assert store.read(digest) == b"content"


def flip(path, mtime):
    """Damage a file without a change of its inode and size."""
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    os.utime(path, (mtime, mtime))


def test_one_that_is_removed_while_it_is_put_again_is_written(tmp_path, monkeypatch):
    store = FileBlobs(tmp_path / "blobs", durable=True)
    monkeypatch.setattr(store, "has", lambda *_: True)  # it was there a moment ago
    assert (store.put(CONTENT), store.read(DIGEST)) == (DIGEST, CONTENT)


def test_a_file_with_wrong_bytes_is_not_handed_out_and_can_be_put_again(store):
    lost: list[object] = []
    store.on_lost = lost.append
    digest = store.put(b"content")
    flip(store.directory / digest.hex[:2] / digest.hex[2:], 1)
    assert store.path(digest) is None
    assert lost == [digest]
    assert not store.has(digest, 7)
    store.put(b"content")
    assert store.path(digest).read_bytes() == b"content"
    assert lost == [digest]
    store.on_lost = lambda _: b"content"
    store.remove(digest)
    assert store.read(digest) == b"content"


def test_a_file_is_hashed_once_and_again_when_it_changed_or_was_forgotten(store, monkeypatch):
    monkeypatch.setattr(module, "_VERIFIED_FILES", 1)
    first, other = store.put(b"content"), store.put(b"other")
    path = store.directory / first.hex[:2] / first.hex[2:]
    os.utime(path, (1, 1))
    assert store.path(first) == path
    flip(path, 1)
    assert store.path(first) == path  # nothing shows that it is to be read again
    assert store.path(other) is not None
    assert store.path(first) is None
    store.put(b"content")
    os.utime(path, (1, 1))
    assert store.path(first) == path
    flip(path, 2)
    assert store.path(first) is None


def test_a_disk_that_refuses_is_an_error_with_the_place(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError) as raised:
        FileBlobs(tmp_path / "file" / "store").put(b"content")
    assert raised.value.code == "STORAGE"
    assert str(tmp_path) in str(raised.value.place)


def test_unused_blobs_and_left_over_files_are_removed(store):
    kept, removed = store.put(b"kept"), store.put(b"removed")
    (store.path(removed).parent / ".half-written.tmp").write_bytes(b"half")
    store.lock()
    assert store.remove_unused({kept}) == 2
    assert store.read(kept) == b"kept"
    assert store.path(removed) is None
    assert [name for _, _, names in os.walk(store.directory) for name in names] == [".lock", kept.hex[2:]]
    store.unlock()


def test_a_write_that_ends_while_old_files_are_listed_is_passed_over(store, monkeypatch):
    written = store.put(b"written")
    moved = (store.directory / "ab" / ".half-written.tmp", Digest("sha256:ab.half-written.tmp"))
    found = [moved, *store.files()]
    monkeypatch.setattr(store, "files", lambda: iter(found))
    assert [digest for digest, _ in store.aged(math.inf)] == [written]


def test_nothing_is_removed_while_another_server_holds_the_folder(store):
    digest = store.put(b"of the other")
    other = FileBlobs(store.directory)
    other.lock()
    store.lock()
    store.lock()
    assert store.remove_unused(set()) == 0
    other.unlock()
    assert store.read(digest) == b"of the other"
    assert store.remove_unused(set()) == 1
    store.unlock()
    store.unlock()


def test_nothing_is_removed_without_holding_the_folder(store):
    store.put(b"content")
    assert store.remove_unused(set()) == 0


def test_the_folder_is_held_again_after_a_removal(store):
    store.lock()
    store.remove_unused(set())
    other = FileBlobs(store.directory)
    other.lock()
    assert other.remove_unused(set()) == 0
    other.unlock()
    store.unlock()
