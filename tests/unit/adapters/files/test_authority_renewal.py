"""The SkillCenter CA of a folder is renewed and taken back, with the root's key put away before and after."""

from __future__ import annotations

import stat
import time

import pytest

from skillwire.adapters.files.agent_certificates import life_of, name_of, serial_of
from skillwire.adapters.files.authority_folder import AuthorityFolder
from skillwire.adapters.files.authority_writing import PASSPHRASE
from skillwire.errors import SkillwireError
from skillwire.trust.certificate_requests import Names
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import new_key
from skillwire.trust.revocations import Revocations

DAY = 86_400.0
NOW = time.time()


@pytest.fixture
def folder(tmp_path):
    return AuthorityFolder.create(tmp_path / "authority", "Test", NOW)


@pytest.fixture
def root_key(folder, tmp_path):
    """Give the root's key, put away."""
    return (folder.folder / "root.key").rename(tmp_path / "root.key")


@pytest.fixture
def agent(folder):
    """Give what an agent knows that trusts this authority since the beginning."""
    return Agent(folder)


class Agent:
    """What an agent of another machine knows; it is given the list."""

    def __init__(self, folder):
        self.folder = folder
        self.revocations = Revocations([folder.root, *folder.centers])
        self.chain = Chain([folder.root], list(folder.centers), revocations=self.revocations)

    def learn(self, now=NOW):
        return self.revocations.take(self.folder.revocations(now), now)

    def trusts(self, leaf, now=NOW):
        found = self.chain.judge(leaf, now)
        return found is not None and found.is_certified


def issue(folder, *agents, key=None, now=NOW, **options):
    return folder.issue(Names(agents), (key or new_key()).public_key(), now, **options)


def code_of(act):
    with pytest.raises(SkillwireError) as caught:
        act()
    return caught.value.code


def states(folder, now=NOW):
    book = folder.book()
    return [book.is_good(row, now) for row in book.rows]


@pytest.mark.spec("SDP-authority-renewal")
def test_a_new_one_issues_and_what_the_old_one_has_issued_stays_good(folder, root_key, agent):
    first, old = folder.centers[0], issue(folder, "agent-001")
    row = folder.renew(NOW, root_key=root_key)
    new = issue(folder, "agent-002")
    assert [serial_of(one) for one in folder.centers] == [row.serial, serial_of(first)]
    assert name_of(folder.centers[0]) == name_of(first) == row.authority == "Test SkillCenter CA"
    assert [one.issuer for one in folder.book().rows if one.agents] == [serial_of(first), row.serial]
    assert stat.S_IMODE((folder.folder / "center.key").stat().st_mode) == 0o600
    assert not agent.trusts(new)
    assert agent.learn()
    assert agent.trusts(new)
    assert agent.trusts(old)
    assert Agent(folder).trusts(old), "who begins with center.pem of now trusts both"
    assert life_of(folder.centers[0])[1] == pytest.approx(NOW + 1825 * DAY, abs=2)


@pytest.mark.spec("SDP-authority-revocation")
def test_the_old_one_is_taken_back_with_all_that_it_has_issued(folder, root_key, agent):
    first, old = folder.centers[0], issue(folder, "agent-001")
    folder.renew(NOW, root_key=root_key)
    new = issue(folder, "agent-002")
    agent.learn()
    rows = folder.revoke(serial_of(first), NOW, root_key=root_key)
    assert [(row.authority, row.agents) for row in rows] == [("Test SkillCenter CA", ()), ("", ("agent-001",))]
    assert states(folder) == [False, False, True, True]
    assert agent.learn()
    assert [agent.trusts(old), agent.trusts(new)] == [False, True]
    assert [serial_of(one) for one in folder.centers] == [serial_of(folder.centers[0])]
    assert b"BEGIN CERTIFICATE" in folder.revocations_file.read_bytes()
    again = Agent(folder)
    again.learn()
    assert [again.trusts(old), again.trusts(new)] == [False, True]


def test_the_one_that_issues_is_not_taken_back_before_there_is_another(folder, root_key):
    assert code_of(lambda: folder.revoke(serial_of(folder.centers[0]), NOW, root_key=root_key)) == "CA_IN_USE"
    assert states(folder) == [True]


def test_the_root_has_to_be_brought_back_for_both(folder, root_key, tmp_path):
    first = serial_of(folder.centers[0])
    assert code_of(lambda: folder.renew(NOW)) == "CA_FOLDER"
    other = AuthorityFolder.create(tmp_path / "other", "Test", NOW)
    assert code_of(lambda: folder.renew(NOW, root_key=other.folder / "root.key")) == "LAN_KEYS"
    folder.renew(NOW, root_key=root_key)
    assert code_of(lambda: folder.revoke(first, NOW)) == "CA_FOLDER"
    assert states(folder) == [True, True]


def test_a_list_of_the_root_outlives_its_key_and_is_told_with_each_one_that_comes(folder, root_key, agent):
    first = serial_of(folder.centers[0])
    folder.renew(NOW, root_key=root_key)
    folder.revoke(first, NOW, root_key=root_key)
    old = issue(folder, "agent-001")
    root_key.unlink()
    folder.revoke("agent-001", NOW + DAY)
    late = Agent(folder)
    late.learn(NOW + 3 * DAY)
    assert len(late.revocations) == 2
    assert not late.trusts(old)
    assert late.revocations.ends() == pytest.approx(NOW + 10 * DAY, abs=2)
    agent.learn(NOW + 3 * DAY)
    assert len(agent.revocations) == 2


def test_what_was_taken_back_before_stays_so_under_the_new_one(folder, root_key, agent):
    key = new_key()
    leaf = issue(folder, "agent-001", key=key)
    folder.revoke("agent-001", NOW)
    folder.renew(NOW, root_key=root_key)
    agent.learn()
    assert not agent.trusts(leaf)
    assert code_of(lambda: issue(folder, "agent-002", key=key)) == "CERTIFICATE_REFUSED"


def test_all_certificates_of_a_key_are_taken_back_with_one(folder):
    key = new_key()
    first, second = issue(folder, "agent-001", key=key), issue(folder, "agent-002", key=key)
    other = issue(folder, "agent-001")
    rows = folder.revoke(serial_of(first), NOW)
    assert [row.serial for row in rows] == [serial_of(first), serial_of(second)]
    assert [folder.judge(leaf, NOW) is not None for leaf in (first, second, other)] == [False, False, True]


def test_what_a_revoked_one_has_issued_is_in_the_book_and_what_a_thief_has_issued_is_not(folder, root_key):
    """The book says whom a new certificate is for, so the thief's of the same number has no worth either."""
    from skillwire.trust.authority import CertificateAuthority  # noqa: PLC0415 - for this one

    stolen = CertificateAuthority(folder._signer()._key, folder.centers[0])
    leaf = issue(folder, "agent-001")
    first = serial_of(folder.centers[0])
    folder.renew(NOW, root_key=root_key)
    folder.revoke(first, NOW, root_key=root_key)
    found = folder.judge(leaf, NOW)
    assert found is not None
    assert found.agents == {"agent-001"}
    assert folder.is_orphan(leaf)
    forged = stolen.issue(Names(("agent-001",)), new_key().public_key(), NOW)
    assert folder.judge(forged, NOW) is None
    assert not folder.is_orphan(forged)


def test_a_server_that_runs_issues_under_the_new_one_from_then_on(folder, root_key):
    issue(folder, "agent-001")
    AuthorityFolder(folder.folder).renew(NOW, root_key=root_key)
    leaf = issue(folder, "agent-002")
    assert Agent(folder).trusts(leaf)
    assert folder.book().rows[-1].issuer == serial_of(folder.centers[0])


def test_a_renewal_that_was_broken_off_is_said_and_mended_by_another(folder, root_key, agent):
    center = folder.center_file.read_bytes()
    folder.renew(NOW, root_key=root_key)
    folder.center_file.write_bytes(center)  # the key is written before it
    assert code_of(lambda: issue(folder, "agent-001")) == "LAN_KEYS"
    folder.renew(NOW, root_key=root_key)
    leaf = issue(folder, "agent-001")
    agent.learn()
    assert agent.trusts(leaf)


def test_a_passphrase_encrypts_the_new_key_and_opens_the_roots(tmp_path, monkeypatch):
    monkeypatch.setenv(PASSPHRASE, "correct horse")
    folder = AuthorityFolder.create(tmp_path / "authority", "Test", NOW)
    folder.renew(NOW)
    assert b"ENCRYPTED" in (folder.folder / "center.key").read_bytes()
    monkeypatch.setenv(PASSPHRASE, "wrong horse")
    assert code_of(lambda: folder.renew(NOW)) == "CA_PASSPHRASE"


def test_what_was_taken_back_stays_in_the_book_for_a_year(folder):
    key = new_key()
    issue(folder, "agent-001", key=key)
    issue(folder, "agent-002")
    folder.revoke("agent-001", NOW)
    issue(folder, "agent-003", now=NOW + 300 * DAY)
    assert [row.agents for row in folder.book().rows if not row.authority] == [("agent-001",), ("agent-003",)]
    assert code_of(lambda: issue(folder, "agent-001", key=key, now=NOW + 300 * DAY)) == "CERTIFICATE_REFUSED"
    issue(folder, "agent-004", now=NOW + 370 * DAY)
    assert [row.agents for row in folder.book().rows if not row.authority][-1] == ("agent-004",)
    assert len(folder.book().taken_back(NOW + 370 * DAY, authorities=False)) == 0
