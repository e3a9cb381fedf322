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


def test_what_broke_off_is_taken_up_and_becomes_a_blob_when_it_is_whole(blobs):
    begun(blobs).close()
    download = blobs.download(DIGEST)
    assert download.size == 4
    assert download.begin(4)
    download.append(CONTENT[4:])
    assert download.digest() == DIGEST
    download.keep()
    assert blobs.read(DIGEST) == CONTENT
    assert not partial(blobs).exists()
    assert blobs.path(DIGEST).stat().st_mode & 0o777 == 0o600


def test_beginning_anew_forgets_what_came(blobs):
    begun(blobs, b"garbage").close()
    download = blobs.download(DIGEST)
    assert download.begin(0)
    download.append(CONTENT)
    assert download.digest() == DIGEST
    download.keep()
    assert blobs.read(DIGEST) == CONTENT


def test_one_writes_at_a_time(blobs):
    first = begun(blobs)
    second = blobs.download(DIGEST)
    assert second.size == 0
    assert not second.begin(0)
    second.discard()
    assert partial(blobs).exists()
    first.close()
    second.close()


def test_what_is_discarded_is_gone_and_may_begin_again(blobs):
    download = begun(blobs)
    download.discard()
    assert not partial(blobs).exists()
    assert download.size == 0
    assert download.begin(0)
    download.append(CONTENT)
    assert download.digest() == DIGEST
    download.close()


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
def blobs_file_blobs(tmp_path):
    return FileBlobs(tmp_path / "deep" / "blobs_file_blobs")


def test_what_was_put_can_be_read_under_its_digest(blobs_file_blobs):
    digest = blobs_file_blobs.put(b"content")
    assert digest == Digest.of(b"content")
    assert blobs_file_blobs.read(digest) == b"content"
    assert blobs_file_blobs.path(digest).read_bytes() == b"content"
    assert blobs_file_blobs.has(digest, 7)
    assert blobs_file_blobs.put(b"content") == digest


def test_what_was_never_put_is_absent(blobs_file_blobs):
    digest = Digest.of(b"other")
    assert blobs_file_blobs.read(digest) is None
    assert blobs_file_blobs.path(digest) is None
    assert not blobs_file_blobs.has(digest, 5)


def test_nobody_else_may_read_them(blobs_file_blobs):
    path = blobs_file_blobs.path(blobs_file_blobs.put(b"content"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("garbled", [b"", b"short", b"CONTENT"])
def test_what_a_power_cut_garbled_is_as_good_as_absent_and_can_be_put_again(blobs_file_blobs, garbled):
    digest = blobs_file_blobs.put(b"content")
    blobs_file_blobs.path(digest).write_bytes(garbled)
    assert blobs_file_blobs.has(digest, 7) is (len(garbled) == 7)
    assert blobs_file_blobs.read(digest) is None
    blobs_file_blobs.put(b"content")
    assert blobs_file_blobs.read(digest) == b"content"


def flip(path, mtime):
    """Damage a file without a change of its inode and size."""
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    os.utime(path, (mtime, mtime))


def test_a_file_with_wrong_bytes_is_not_handed_out_and_can_be_put_again(blobs_file_blobs):
    lost: list[object] = []
    blobs_file_blobs.on_lost = lost.append
    digest = blobs_file_blobs.put(b"content")
    flip(blobs_file_blobs.directory / digest.hex[:2] / digest.hex[2:], 1)
    assert blobs_file_blobs.path(digest) is None
    assert lost == [digest]
    assert not blobs_file_blobs.has(digest, 7)
    blobs_file_blobs.put(b"content")
    assert blobs_file_blobs.path(digest).read_bytes() == b"content"
    assert lost == [digest]
    blobs_file_blobs.on_lost = lambda _: b"content"
    blobs_file_blobs.remove(digest)
    assert blobs_file_blobs.read(digest) == b"content"


def test_a_file_is_hashed_once_and_again_when_it_changed_or_was_forgotten(blobs_file_blobs, monkeypatch):
    monkeypatch.setattr(module, "_VERIFIED_FILES", 1)
    first, other = blobs_file_blobs.put(b"content"), blobs_file_blobs.put(b"other")
    path = blobs_file_blobs.directory / first.hex[:2] / first.hex[2:]
    os.utime(path, (1, 1))
    assert blobs_file_blobs.path(first) == path
    flip(path, 1)
    assert blobs_file_blobs.path(first) == path  # nothing shows that it is to be read again
    assert blobs_file_blobs.path(other) is not None
    assert blobs_file_blobs.path(first) is None
    blobs_file_blobs.put(b"content")
    os.utime(path, (1, 1))
    assert blobs_file_blobs.path(first) == path
    flip(path, 2)
    assert blobs_file_blobs.path(first) is None


def test_a_disk_that_refuses_is_an_error_with_the_place(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError) as raised:
        FileBlobs(tmp_path / "file" / "blobs_file_blobs").put(b"content")
    assert raised.value.code == "STORAGE"
    assert str(tmp_path) in str(raised.value.place)


def test_unused_blobs_and_left_over_files_are_removed(blobs_file_blobs):
    kept, removed = blobs_file_blobs.put(b"kept"), blobs_file_blobs.put(b"removed")
    (blobs_file_blobs.path(removed).parent / ".half-written.tmp").write_bytes(b"half")
    blobs_file_blobs.lock()
    assert blobs_file_blobs.remove_unused({kept}) == 2
    assert blobs_file_blobs.read(kept) == b"kept"
    assert blobs_file_blobs.path(removed) is None
    assert [name for _, _, names in os.walk(blobs_file_blobs.directory) for name in names] == [".lock", kept.hex[2:]]
    blobs_file_blobs.unlock()


def test_nothing_is_removed_while_another_server_holds_the_folder(blobs_file_blobs):
    digest = blobs_file_blobs.put(b"of the other")
    other = FileBlobs(blobs_file_blobs.directory)
    other.lock()
    blobs_file_blobs.lock()
    blobs_file_blobs.lock()
    assert blobs_file_blobs.remove_unused(set()) == 0
    other.unlock()
    assert blobs_file_blobs.read(digest) == b"of the other"
    assert blobs_file_blobs.remove_unused(set()) == 1
    blobs_file_blobs.unlock()
    blobs_file_blobs.unlock()


def test_nothing_is_removed_without_holding_the_folder(blobs_file_blobs):
    blobs_file_blobs.put(b"content")
    assert blobs_file_blobs.remove_unused(set()) == 0


def test_the_folder_is_held_again_after_a_removal(blobs_file_blobs):
    blobs_file_blobs.lock()
    blobs_file_blobs.remove_unused(set())
    other = FileBlobs(blobs_file_blobs.directory)
    other.lock()
    assert other.remove_unused(set()) == 0
    other.unlock()
    blobs_file_blobs.unlock()
