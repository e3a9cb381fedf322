"""The state folder is its owner's alone, whoever makes it first."""

from __future__ import annotations

import os

import pytest

from skillwire.adapters.files.atomic import write_atomically
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.files.directories import make_folder, state_directory
from skillwire.adapters.files.folder_change import busy_path
from skillwire.adapters.files.locks import take_lock
from skillwire.adapters.files.row_file import RowFile
from skillwire.adapters.sqlite.search import SearchIndex


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
        lambda state: RowFile(state / "blobs").add(b"x"),
        lambda state: SearchIndex(state / "blobs"),
        lambda state: os.close(take_lock(busy_path(state.parent), wait=False)),
        make_folder,
    ],
    ids=["origins", "blob", "blobs", "rows", "search", "lock", "itself"],
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
