"""Skills as bytes: what the ledger kept before a field was added is still read."""

from __future__ import annotations

import errno
import os
from threading import Thread

import msgspec
import pytest
from tests.support.publishing import write_skill

from skillwire.adapters.files.skill_store import RowFile, pack_skill, unpack_skill
from skillwire.errors import StorageError
from skillwire.folder.publish import PreparedSkill, prepare


def prepared(folder, **files):
    outcome = prepare(write_skill(folder, "leads-sync", files), "acme")
    assert isinstance(outcome, PreparedSkill)
    return outcome.skill


def test_what_skill_discovery_calls_it_is_kept(tmp_path):
    skill = prepared(tmp_path, **{"skill.toml": 'skill_type = "enterprise-skill"\n'})
    assert skill.skill_type == "enterprise-skill"
    assert unpack_skill(pack_skill(skill)) == skill


def test_a_row_from_before_there_was_a_type_is_read(tmp_path):
    skill = prepared(tmp_path, **{"skill.toml": 'skill_type = "enterprise-skill"\n'})
    *earlier, _ = msgspec.msgpack.decode(pack_skill(skill))
    assert unpack_skill(msgspec.msgpack.encode(earlier)) == skill._replace(skill_type=None)


def test_rows_are_read_as_they_were_added_and_leave_nothing_in_the_folder(tmp_path):
    rows = RowFile(tmp_path / "made" / "here")
    assert not (tmp_path / "made").exists()  # who makes an application has not started it
    kept = [b"one", b"", b"\0" * 70_000, b"four"]
    assert [rows.add(row) for row in kept] == [0, 1, 2, 3]
    assert [rows[number] for number in range(len(rows))] == kept
    assert list((tmp_path / "made" / "here").iterdir()) == []


def test_rows_are_read_while_others_are_added(tmp_path):
    rows = RowFile(tmp_path)
    rows.add(b"0" * 100)
    wrong: list[bytes] = []

    def read() -> None:
        for _ in range(3_000):
            number = len(rows) - 1
            row = rows[number]
            if row != str(number % 10).encode() * 100:
                wrong.append(row)

    readers = [Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(1, 3_000):
        rows.add(str(number % 10).encode() * 100)
    for reader in readers:
        reader.join()
    assert not wrong


def test_a_full_disk_is_told_and_the_rows_before_stay(tmp_path, monkeypatch):
    rows = RowFile(tmp_path)
    rows.add(b"one")
    write = os.pwrite

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(StorageError, match="No space left") as caught:
        rows.add(b"two")
    assert caught.value.code == "STORAGE"
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[:1], at))  # it takes one byte at a time
    assert rows[rows.add(b"three")] == b"three"
    assert rows[0] == b"one"


def test_a_file_that_was_cut_short_is_told(tmp_path):
    rows = RowFile(tmp_path)
    rows.add(b"one")
    os.ftruncate(rows._file, 1)
    with pytest.raises(StorageError, match="cut short"):
        rows[0]


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="rows cannot be kept"):
        RowFile(tmp_path / "file").add(b"one")
