"""The folder of an authority: made once, its keys for its owner alone, and whatever is out can be taken back."""

from __future__ import annotations

import stat
import time

import pytest

from skillwire.adapters.files.agent_certificates import serial_of
from skillwire.adapters.files.authority_folder import AuthorityFolder
from skillwire.adapters.files.authority_writing import PASSPHRASE
from skillwire.adapters.files.trust_files import read_private_key
from skillwire.errors import SkillwireError
from skillwire.trust.certificate_requests import Names
from skillwire.trust.ecdsa import new_key
from skillwire.trust.revocations import Revocations

DAY = 86_400.0
NOW = time.time()


@pytest.fixture
def folder(tmp_path):
    return AuthorityFolder.create(tmp_path / "authority", "Test", NOW)


def issue(folder, *agents, now=NOW, **options):
    return folder.issue(Names(agents), new_key().public_key(), now, **options)


def code_of(act):
    with pytest.raises(SkillwireError) as caught:
        act()
    return caught.value.code


def test_its_keys_are_for_its_owner_alone(folder):
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.folder.iterdir()}
    assert {name for name, mode in modes.items() if mode & 0o077} == {"root.pem", "center.pem", "revocations.pem"}
    assert modes["root.key"] == modes["center.key"] == 0o600
    assert stat.S_IMODE(folder.folder.stat().st_mode) == 0o700
    (folder.folder / "center.key").chmod(0o640)
    assert code_of(lambda: issue(folder, "agent-001")) == "LAN_KEYS"


def test_it_is_made_once(folder):
    before = (folder.folder / "root.pem").read_bytes()
    assert code_of(lambda: AuthorityFolder.create(folder.folder, "Test", NOW)) == "CA_EXISTS"
    assert (folder.folder / "root.pem").read_bytes() == before


def test_the_root_is_not_needed_to_issue_and_to_revoke(folder):
    (folder.folder / "root.key").unlink()
    leaf = issue(folder, "agent-001")
    assert folder.judge(leaf, NOW) is not None
    assert [row.serial for row in folder.revoke("agent-001", NOW)] == [serial_of(leaf)]
    assert folder.judge(leaf, NOW) is None


def test_what_is_issued_stands_in_the_book_and_what_is_revoked_in_the_list(folder):
    first, second = issue(folder, "agent-001"), issue(folder, "agent-001")
    other = issue(folder, "agent-002")
    assert [row.agents for row in folder.book().rows[1:]] == [("agent-001",), ("agent-001",), ("agent-002",)]
    assert code_of(lambda: folder.revoke("agent-003", NOW)) == "CERTIFICATE_NOT_FOUND"
    assert len(folder.revoke("agent-001", NOW)) == 2
    assert code_of(lambda: folder.revoke("agent-001", NOW)) == "CERTIFICATE_NOT_FOUND"
    known = Revocations([folder.root, *folder.centers])
    assert known.take(folder.revocations(NOW), NOW)
    assert len(known) == 2
    folder.revoke(serial_of(other), NOW)
    assert known.take(folder.revocations(NOW), NOW)
    assert len(known) == 3
    again = AuthorityFolder(folder.folder)
    assert [again.judge(leaf, NOW) for leaf in (first, second, other)] == [None, None, None]


def test_what_was_renewed_from_a_certificate_is_taken_back_with_it(folder):
    def renewed(leaf, now, *agents):
        return issue(folder, *(agents or ("agent-001",)), now=now, renews=serial_of(leaf))

    first = issue(folder, "agent-001")
    second = renewed(first, NOW + 5 * DAY)
    third, other = renewed(second, NOW + 10 * DAY), issue(folder, "agent-001", now=NOW + 10 * DAY)
    now = NOW + 10 * DAY
    assert folder.judge(third, now) is not None
    planned = folder.find(serial_of(first), now)
    assert [row.serial for row in planned] == [serial_of(first), serial_of(second), serial_of(third)]
    assert [row.serial for row in folder.revoke(serial_of(first), now)] == [row.serial for row in planned]
    assert folder.judge(third, now) is None
    assert folder.judge(other, now) is not None
    assert code_of(lambda: renewed(third, now)) == "CERTIFICATE_REFUSED"
    known = Revocations([folder.root, *folder.centers])
    assert known.take(folder.revocations(now), now)
    assert len(known) == 3


def test_what_was_renewed_while_it_is_taken_back_goes_too(folder, monkeypatch):
    first, late = issue(folder, "agent-001"), list[bytes]()
    sign = folder._signer

    def renew_meanwhile():
        if not late:
            late.append(b"")
            late[0] = issue(folder, "agent-001", renews=serial_of(first))
        return sign()

    monkeypatch.setattr(folder, "_signer", renew_meanwhile)
    folder.revoke(serial_of(first), NOW)
    assert folder.judge(late[0], NOW) is None


def test_the_list_is_signed_anew_each_day(folder):
    known = Revocations([folder.root, *folder.centers])
    assert known.take(folder.revocations(NOW), NOW)
    assert not known.take(folder.revocations(NOW + DAY / 2), NOW + DAY / 2)
    assert known.take(folder.revocations(NOW + 2 * DAY), NOW + 2 * DAY)
    assert known.ends() == pytest.approx(NOW + 9 * DAY, abs=2)


def test_what_has_ended_long_ago_leaves_the_book(folder):
    issue(folder, "agent-001")
    issue(folder, "agent-002", now=NOW + 40 * DAY)
    assert [row.agents for row in folder.book().rows[1:]] == [("agent-002",)]


def test_a_passphrase_encrypts_both_keys(tmp_path, monkeypatch):
    monkeypatch.setenv(PASSPHRASE, "correct horse")
    folder = AuthorityFolder.create(tmp_path / "authority", "Test", NOW)
    for name in ("root.key", "center.key"):
        assert b"ENCRYPTED" in (folder.folder / name).read_bytes()
    issue(folder, "agent-001")
    monkeypatch.setenv(PASSPHRASE, "wrong horse")
    assert code_of(lambda: issue(AuthorityFolder(folder.folder), "agent-002")) == "CA_PASSPHRASE"
    monkeypatch.delenv(PASSPHRASE)
    assert code_of(lambda: issue(AuthorityFolder(folder.folder), "agent-002")) == "CA_PASSPHRASE"
    assert code_of(lambda: read_private_key(folder.folder / "root.key")) == "CA_PASSPHRASE"
    monkeypatch.setenv(PASSPHRASE, "short")
    assert code_of(lambda: AuthorityFolder.create(tmp_path / "other", "Test", NOW)) == "USAGE"


def test_what_is_no_authority_is_said(tmp_path, folder):
    assert code_of(lambda: AuthorityFolder(tmp_path)) == "CA_FOLDER"
    (folder.folder / "issued.json").write_text("{}")
    assert code_of(folder.book) == "STORAGE"
    (folder.folder / "center.key").unlink()
    assert code_of(lambda: issue(AuthorityFolder(folder.folder), "agent-001")) == "CA_FOLDER"
