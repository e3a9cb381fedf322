"""The folder of an authority: made once, its keys for its owner alone, and whatever is out can be taken back."""

import stat
import time

import pytest

from skillwire.adapters.files.authority import PASSPHRASE, AuthorityFolder
from skillwire.adapters.files.keys import read_private_key
from skillwire.errors import SkillwireError
from skillwire.trust.certificates import Chain, RequestedNames, life_of, name_of, serial_of
from skillwire.trust.ecdsa import new_key
from skillwire.trust.revocations import Revocations

DAY = 86_400.0
NOW = time.time()


@pytest.fixture
def folder(tmp_path):
    return AuthorityFolder.create(tmp_path / "authority", "Test", NOW)


def issue(folder, *agents, now=NOW, **options):
    return folder.issue(RequestedNames(agents), new_key().public_key(), now, **options)


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


def issue_authority_renewal(folder, *agents, key=None, now=NOW, **options):
    return folder.issue(RequestedNames(agents), (key or new_key()).public_key(), now, **options)


def states(folder, now=NOW):
    book = folder.book()
    return [book.is_valid(row, now) for row in book.rows]


@pytest.mark.spec("SDP-authority-renewal")
def test_a_new_one_issues_and_what_the_old_one_has_issued_stays_good(folder, root_key, agent):
    first, old = folder.centers[0], issue_authority_renewal(folder, "agent-001")
    row = folder.renew(NOW, root_key=root_key)
    new = issue_authority_renewal(folder, "agent-002")
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
    first, old = folder.centers[0], issue_authority_renewal(folder, "agent-001")
    folder.renew(NOW, root_key=root_key)
    new = issue_authority_renewal(folder, "agent-002")
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
    old = issue_authority_renewal(folder, "agent-001")
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
    leaf = issue_authority_renewal(folder, "agent-001", key=key)
    folder.revoke("agent-001", NOW)
    folder.renew(NOW, root_key=root_key)
    agent.learn()
    assert not agent.trusts(leaf)
    assert code_of(lambda: issue_authority_renewal(folder, "agent-002", key=key)) == "CERTIFICATE_REFUSED"


def test_all_certificates_of_a_key_are_taken_back_with_one(folder):
    key = new_key()
    first, second = (
        issue_authority_renewal(folder, "agent-001", key=key),
        issue_authority_renewal(folder, "agent-002", key=key),
    )
    other = issue_authority_renewal(folder, "agent-001")
    rows = folder.revoke(serial_of(first), NOW)
    assert [row.serial for row in rows] == [serial_of(first), serial_of(second)]
    assert [folder.judge(leaf, NOW) is not None for leaf in (first, second, other)] == [False, False, True]


def test_what_a_revoked_one_has_issued_is_in_the_book_and_what_a_thief_has_issued_is_not(folder, root_key):
    """The book says whom a new certificate is for, so the thief's of the same number has no worth either."""
    from skillwire.trust.authority import CertificateAuthority  # noqa: PLC0415 - for this one

    stolen = CertificateAuthority(folder._signer()._key, folder.centers[0])
    leaf = issue_authority_renewal(folder, "agent-001")
    first = serial_of(folder.centers[0])
    folder.renew(NOW, root_key=root_key)
    folder.revoke(first, NOW, root_key=root_key)
    found = folder.judge(leaf, NOW)
    assert found is not None
    assert found.agents == {"agent-001"}
    assert folder.is_orphan(leaf)
    forged = stolen.issue(RequestedNames(("agent-001",)), new_key().public_key(), NOW)
    assert folder.judge(forged, NOW) is None
    assert not folder.is_orphan(forged)


def test_a_server_that_runs_issues_under_the_new_one_from_then_on(folder, root_key):
    issue_authority_renewal(folder, "agent-001")
    AuthorityFolder(folder.folder).renew(NOW, root_key=root_key)
    leaf = issue_authority_renewal(folder, "agent-002")
    assert Agent(folder).trusts(leaf)
    assert folder.book().rows[-1].issuer == serial_of(folder.centers[0])


def test_a_renewal_that_was_broken_off_is_said_and_mended_by_another(folder, root_key, agent):
    center = folder.center_file.read_bytes()
    folder.renew(NOW, root_key=root_key)
    folder.center_file.write_bytes(center)  # the key is written before it
    assert code_of(lambda: issue_authority_renewal(folder, "agent-001")) == "LAN_KEYS"
    folder.renew(NOW, root_key=root_key)
    leaf = issue_authority_renewal(folder, "agent-001")
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
    issue_authority_renewal(folder, "agent-001", key=key)
    issue_authority_renewal(folder, "agent-002")
    folder.revoke("agent-001", NOW)
    issue_authority_renewal(folder, "agent-003", now=NOW + 300 * DAY)
    assert [row.agents for row in folder.book().rows if not row.authority] == [("agent-001",), ("agent-003",)]
    assert (
        code_of(lambda: issue_authority_renewal(folder, "agent-001", key=key, now=NOW + 300 * DAY))
        == "CERTIFICATE_REFUSED"
    )
    issue_authority_renewal(folder, "agent-004", now=NOW + 370 * DAY)
    assert [row.agents for row in folder.book().rows if not row.authority][-1] == ("agent-004",)
    assert len(folder.book().revoked_certificates(NOW + 370 * DAY, authorities=False)) == 0
