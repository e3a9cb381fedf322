"""The state folder is its owner's alone, whoever makes it first."""

import os

import pytest

from skillwire.adapters.files.atomic import (
    locked,
    make_folder,
    release_lock,
    state_directory,
    take_lock,
    write_atomically,
)
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.install_folder import busy_path
from skillwire.adapters.sqlite.search import SearchIndex
from skillwire.errors import ConflictError


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    before = os.umask(0o022)
    yield state_directory()
    os.umask(before)


def mode(folder):
    return folder.stat().st_mode & 0o777


@pytest.mark.parametrize(
    "make",
    [
        lambda state: write_atomically(state / "origins.json", b"{}"),
        lambda state: FileBlobs(state / "blobs").put(b"x"),
        lambda state: FileBlobs(state / "blobs").lock(),
        lambda state: SearchIndex(state / "blobs"),
        lambda state: os.close(take_lock(busy_path(state.parent), wait=False)),
        make_folder,
    ],
    ids=["origins", "blob", "blobs", "search", "lock", "itself"],
)
def test_whoever_makes_it_makes_it_for_its_owner_alone(state, make):
    make(state)
    assert mode(state) == 0o700
    assert mode(state.parent) == 0o755


def test_other_folders_are_made_as_the_user_has_it(state, tmp_path):
    beside = state.with_name("state-of-mind")
    write_atomically(beside / "note", b"")
    make_folder(tmp_path / "a" / "b", mode=0o750)
    assert [mode(folder) for folder in (beside, tmp_path / "a" / "b")] == [0o755, 0o750]
    assert not state.exists()


def test_a_lock_is_held_meanwhile_and_its_file_is_gone_afterwards(tmp_path):
    lock = tmp_path / "folder" / "some.lock"
    with locked(lock), pytest.raises(ConflictError):
        take_lock(lock, wait=False)
    assert not lock.exists()


def test_what_fails_lets_go(tmp_path):
    lock = tmp_path / "some.lock"
    with pytest.raises(ValueError, match="no"), locked(lock):
        raise ValueError("no")
    with locked(lock):
        pass


def test_who_has_the_same_file_open_as_a_child_does_that_begins_does_not_hold_the_lock(tmp_path):
    lock, name = tmp_path / "some.lock", tmp_path / "another name"
    handle = take_lock(lock, wait=False)
    of_a_child = os.dup(handle)
    os.link(lock, name)
    release_lock(handle, lock)
    release_lock(take_lock(name, wait=False), name)
    os.close(of_a_child)
