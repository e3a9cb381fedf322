"""Locks between processes: who holds one keeps others out, until it lets go, whatever else has the file open."""

from __future__ import annotations

import os

import pytest

from skillwire.adapters.files.locks import locked, release_lock, take_lock
from skillwire.errors import ConflictError


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
