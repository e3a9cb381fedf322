"""Blobs in a folder: whole or absent, shared by servers, and cleared by one that is alone."""

from __future__ import annotations

import os
import stat

import pytest

from skillwire.adapters.files.blobs import FileBlobs
from skillwire.errors import StorageError
from skillwire.model.digest import Digest


@pytest.fixture
def blobs(tmp_path):
    return FileBlobs(tmp_path / "deep" / "blobs")


def test_what_was_put_can_be_read_under_its_digest(blobs):
    digest = blobs.put(b"content")
    assert digest == Digest.of(b"content")
    assert blobs.read(digest) == b"content"
    assert blobs.path(digest).read_bytes() == b"content"
    assert blobs.has(digest, 7)
    assert blobs.put(b"content") == digest


def test_what_was_never_put_is_absent(blobs):
    digest = Digest.of(b"other")
    assert blobs.read(digest) is None
    assert blobs.path(digest) is None
    assert not blobs.has(digest, 5)


def test_nobody_else_may_read_them(blobs):
    path = blobs.path(blobs.put(b"content"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("garbled", [b"", b"short", b"CONTENT"])
def test_what_a_power_cut_garbled_is_as_good_as_absent_and_can_be_put_again(blobs, garbled):
    digest = blobs.put(b"content")
    blobs.path(digest).write_bytes(garbled)
    assert blobs.has(digest, 7) is (len(garbled) == 7)
    assert blobs.read(digest) is None
    blobs.put(b"content")
    assert blobs.read(digest) == b"content"


def test_a_disk_that_refuses_is_an_error_with_the_place(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError) as raised:
        FileBlobs(tmp_path / "file" / "blobs").put(b"content")
    assert raised.value.code == "STORAGE"
    assert str(tmp_path) in str(raised.value.place)


def test_unused_blobs_and_left_over_files_are_removed(blobs):
    kept, removed = blobs.put(b"kept"), blobs.put(b"removed")
    (blobs.path(removed).parent / ".half-written.tmp").write_bytes(b"half")
    blobs.lock()
    assert blobs.remove_unused({kept}) == 2
    assert blobs.read(kept) == b"kept"
    assert blobs.path(removed) is None
    assert [name for _, _, names in os.walk(blobs.directory) for name in names] == [".lock", kept.hex[2:]]
    blobs.unlock()


def test_nothing_is_removed_while_another_server_holds_the_folder(blobs):
    digest = blobs.put(b"of the other")
    other = FileBlobs(blobs.directory)
    other.lock()
    blobs.lock()
    blobs.lock()
    assert blobs.remove_unused(set()) == 0
    other.unlock()
    assert blobs.read(digest) == b"of the other"
    assert blobs.remove_unused(set()) == 1
    blobs.unlock()
    blobs.unlock()


def test_nothing_is_removed_without_holding_the_folder(blobs):
    blobs.put(b"content")
    assert blobs.remove_unused(set()) == 0


def test_the_folder_is_held_again_after_a_removal(blobs):
    blobs.lock()
    blobs.remove_unused(set())
    other = FileBlobs(blobs.directory)
    other.lock()
    assert other.remove_unused(set()) == 0
    other.unlock()
    blobs.unlock()
