"""Issuing certificates, and what those that were issued otherwise are worth."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from tests.support.authorities import World
from tests.support.certificates import serial

from skillwire import limits
from skillwire.errors import TrustError, ValidationError
from skillwire.protocols.skill_discovery.codec import encode
from skillwire.protocols.skill_discovery.messages import ChallengeResponse
from skillwire.testing.virtual_clock import EPOCH
from skillwire.trust.authority import CertificateAuthority
from skillwire.trust.certificate_requests import Names, make_request, read_request
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import AGENT, new_key, self_signed
from skillwire.trust.revocations import Revocations
from skillwire.trust.taken_back import TakenBack, numbered

DAY = 86_400.0


@pytest.fixture(scope="module")
def world():
    return World(EPOCH)


def refused(make):
    with pytest.raises(ValidationError) as caught:
        make()
    assert caught.value.code == "CERTIFICATE_REQUEST"
    return caught.value.message


@pytest.mark.spec("SDP-certificate-chain")
@pytest.mark.spec("SDP-certificate-name")
def test_a_leaf_names_whom_it_is_for_and_is_good_for_seven_days(world):
    leaf = world.identity("agent-001", skills=["skill-org-feishu"], hosts=["192.168.1.7", "Registry.example", "::1"])
    found = world.chain().judge(leaf.certificate, EPOCH)
    assert found is not None
    assert found.is_certified
    assert (found.agents, found.skills) == ({"agent-001"}, {"skill-org-feishu"})
    assert found.hosts == {"192.168.1.7", "registry.example", "::1"}
    assert found.until == EPOCH + 7 * DAY
    assert world.chain().judge(leaf.certificate, EPOCH + 7 * DAY + 1) is None
    assert found.key.verifies(b"said", leaf.sign(b"said"))


def test_all_serial_numbers_are_of_one_length(world, monkeypatch):
    monkeypatch.setattr(x509, "random_serial_number", lambda: 5)
    leaf = world.center.issue(Names(("agent-001",)), new_key().public_key(), EPOCH)
    assert len(f"{x509.load_der_x509_certificate(leaf).serial_number:x}") == 40


@pytest.mark.spec("SDP-certificate-size")
def test_a_leaf_fits_into_a_datagram_and_one_that_does_not_is_not_issued(world):
    assert len(world.identity("agent-001", skills=["skill-org-feishu"]).certificate) < 500
    names = Names(("agent-001",), tuple(f"skill-{number}" * 4 for number in range(9)))
    assert "a datagram has room for 700" in refused(lambda: world.center.issue(names, new_key().public_key(), EPOCH))


@pytest.mark.spec("SDP-certificate-size")
@pytest.mark.parametrize("length", [1, 64, 128])
def test_the_largest_leaf_that_is_issued_can_be_shown_in_a_datagram(world, length):
    """For an agent with an identifier of each length."""
    agent, issued = "a" * length, []
    for skills in range(12):
        names = Names((agent,), tuple(f"skill-{number}-{'x' * 20}" for number in range(skills)))
        with suppress(ValidationError):
            issued.append(world.center.issue(names, new_key().public_key(), EPOCH))
    assert 1 <= len(issued) < 12
    signature = world.identity(agent).sign(b"said")
    own = self_signed(agent, new_key(), datetime.fromtimestamp(EPOCH, UTC))
    for certificate in (max(issued, key=len), own.certificate):
        shown = ChallengeResponse(agent, bytes(32), certificate, int(EPOCH * 1000), signature)
        assert len(encode(shown)) <= limits.DATAGRAM_BYTES


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (Names(), "names no agent and no skill"),
        (Names(("agent 001",)), "no identifier"),
        (Names(("a" * 129,)), "no identifier"),
        (Names(("agent;001",)), "no identifier"),
        (Names(("agent-001",), hosts=("a_b",)), "neither an address nor a name"),
        (Names(("agent-001",), hosts=("example.com/x",)), "neither an address nor a name"),
    ],
)
def test_what_no_message_could_name_is_not_certified(world, names, said):
    assert said in refused(lambda: world.center.issue(names, new_key().public_key(), EPOCH))


def test_a_key_on_another_curve_is_not_certified(world):
    other = ec.generate_private_key(ec.SECP384R1())
    assert "secp384r1" in refused(lambda: world.center.issue(Names(("a",)), other.public_key(), EPOCH))


@pytest.mark.spec("SDP-certificate-chain")
def test_who_has_no_authority_cannot_make_one(world):
    """The path from the root has one authority, and a leaf is none."""
    below = CertificateAuthority(key := new_key(), world.center.issue_authority("Below CA", key.public_key(), EPOCH))
    leaf = below.issue(Names(("agent-001",)), new_key().public_key(), EPOCH)
    known = [world.center.certificate, below.certificate]
    assert Chain([world.root.certificate], known).judge(leaf, EPOCH) is None

    holder = world.identity("agent-001")
    forged = CertificateAuthority(holder.key, holder.certificate)
    leaf = forged.issue(Names(("agent-002",)), new_key().public_key(), EPOCH)
    known = [world.center.certificate, holder.certificate]
    assert Chain([world.root.certificate], known).judge(leaf, EPOCH) is None


def _leaf(world, *, key=None, signed_by=None, algorithm=None, names=("agent-001",), subject="agent-001"):
    """Return a leaf by hand, as somebody makes it who does not use our code."""
    at = datetime.fromtimestamp(EPOCH, UTC)
    center = x509.load_der_x509_certificate(world.center.certificate)
    signer = signed_by or world.center_key
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(center.subject)
        .public_key((key or new_key()).public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - timedelta(days=1))
        .not_valid_after(at + timedelta(days=7))
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(world.center_key.public_key()), False)
    )
    if names:
        links = [x509.UniformResourceIdentifier(f"{AGENT}{name}") for name in names]
        builder = builder.add_extension(x509.SubjectAlternativeName(links), False)
    return builder.sign(signer, algorithm or hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.spec("SDP-certificate-chain")
@pytest.mark.parametrize(
    "flaw", ["none", "other curve", "other kind", "other digest", "other signer", "no names", "name of the authority"]
)
def test_a_leaf_that_is_made_otherwise_is_refused_however_it_is_signed(world, flaw):
    leaf = {
        "none": lambda: _leaf(world),
        "other curve": lambda: _leaf(world, key=ec.generate_private_key(ec.SECP384R1())),
        "other kind": lambda: _leaf(world, key=rsa.generate_private_key(65_537, 2048)),
        "other digest": lambda: _leaf(world, algorithm=hashes.SHA384()),
        "other signer": lambda: _leaf(world, signed_by=new_key()),
        "no names": lambda: _leaf(world, names=()),
        "name of the authority": lambda: _leaf(world, subject="SkillCenter CA"),
    }[flaw]()
    found = world.chain().judge(leaf, EPOCH)
    assert (found is not None and found.is_certified) == (flaw == "none")


@pytest.mark.spec("SDP-certificate-chain")
def test_an_authority_with_another_curve_or_digest_certifies_nobody(world):
    key = ec.generate_private_key(ec.SECP384R1())
    center = CertificateAuthority(key, world.root.issue_authority("Other CA", key.public_key(), EPOCH))
    leaf = center.issue(Names(("agent-001",)), new_key().public_key(), EPOCH)
    assert Chain([world.root.certificate], [center.certificate]).judge(leaf, EPOCH) is None


def test_an_authority_that_has_ended_issues_nothing_and_none_outlives_it(world):
    leaf = world.identity("agent-001", days=9_999)
    found = world.chain().judge(leaf.certificate, EPOCH)
    assert found is not None
    assert found.until == pytest.approx(EPOCH + 1825 * DAY, abs=1)
    assert "good until" in refused(lambda: world.identity("agent-001", at=EPOCH + 1826 * DAY))


def test_a_request_proves_its_key_and_asks_for_names():
    key, names = new_key(), Names(("agent-001",), ("skill-org-feishu",), ("10.0.0.7", "host.example"))
    asked = read_request(make_request(names, key))
    assert asked.key == key.public_key()
    assert asked.names == names


@pytest.mark.parametrize("flaw", ["another key", "other curve", "other kind", "damaged", "too large", "empty"])
def test_a_request_that_proves_nothing_is_refused(flaw):
    mine, other = new_key(), new_key()
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "agent-001")])
    )
    good = x509.load_pem_x509_csr(make_request(Names(("agent-001",)), mine)).public_bytes(Encoding.DER)
    theirs = x509.load_pem_x509_csr(make_request(Names(("agent-001",)), other)).public_bytes(Encoding.DER)
    point, their_point = (request[request.index(b"\x03\x42\x00") :][:68] for request in (good, theirs))
    data = {
        "another key": lambda: good.replace(point, their_point),
        "other curve": lambda: builder.sign(ec.generate_private_key(ec.SECP384R1()), hashes.SHA256()).public_bytes(
            Encoding.PEM
        ),
        "other kind": lambda: builder.sign(ed25519.Ed25519PrivateKey.generate(), None).public_bytes(Encoding.PEM),
        "damaged": lambda: good[:-9],
        "too large": lambda: bytes(4097),
        "empty": lambda: b"",
    }[flaw]()
    refused(lambda: read_request(data))


@given(st.binary(max_size=300), st.integers(0, 350), st.integers(0, 255))
def test_whatever_is_asked_is_a_request_or_refused(noise, place, byte):
    good = bytearray(make_request(Names(("agent-001",)), new_key()))
    good[min(place, len(good) - 1)] = byte
    for data in (noise, bytes(good)):
        try:
            read_request(data)
        except ValidationError as error:
            assert error.code == "CERTIFICATE_REQUEST"  # noqa: PT017 - either is right


class TestRevocations:
    """Signed lists, and what was taken back by them."""

    def test_what_is_taken_back_is_refused_whenever_it_was_judged(self):
        world = World(EPOCH)
        leaf = world.identity("agent-001")
        found = world.chain().judge(leaf.certificate, EPOCH)
        assert found is not None
        assert not found.is_revoked()
        assert world.revocations.take(world.revoke(serial(leaf)), EPOCH)
        assert found.is_revoked()
        assert world.chain().judge(leaf.certificate, EPOCH) is None
        assert world.chain().judge(world.identity("agent-002").certificate, EPOCH) is not None

    def test_an_older_list_brings_nothing_back(self):
        world = World(EPOCH)
        leaf = world.identity("agent-001")
        older, newer = world.revoke(), world.revoke(serial(leaf))
        assert world.revocations.take(newer, EPOCH)
        assert not world.revocations.take(older, EPOCH)
        assert len(world.revocations) == 1
        kept = Revocations(world.authorities)
        assert kept.take(world.revocations.pem(), EPOCH)
        assert len(kept) == 1

    def test_a_list_that_has_ended_still_counts_and_says_when_it_did(self):
        world = World(EPOCH)
        leaf = world.identity("agent-001")
        assert world.revocations.take(world.revoke(serial(leaf)), EPOCH + 30 * DAY)
        assert world.revocations.ends() == EPOCH + 7 * DAY
        assert world.chain().judge(leaf.certificate, EPOCH) is None

    def test_an_authority_takes_back_what_it_has_issued_and_nothing_of_anothers(self):
        world, key = World(EPOCH), new_key()
        other = CertificateAuthority(key, world.root.issue_authority("Other CA", key.public_key(), EPOCH))
        known = Revocations([*world.authorities, other.certificate])
        leaf = world.identity("agent-001")
        assert known.take(other.revocations([TakenBack(serial(leaf), EPOCH)], EPOCH, number=9), EPOCH)
        assert not known.is_revoked(numbered(x509.load_der_x509_certificate(leaf.certificate)))

    def test_the_root_takes_an_authority_back(self):
        world = World(EPOCH)
        leaf = world.identity("agent-001")
        number = x509.load_der_x509_certificate(world.center.certificate).serial_number
        bundle = world.revoke() + world.root.revocations([TakenBack(number, EPOCH)], EPOCH, number=1)
        assert world.revocations.take(bundle, EPOCH)
        assert world.chain().judge(leaf.certificate, EPOCH) is None

    @pytest.mark.parametrize(
        "flaw", ["stranger", "same name", "leaf", "own key", "yet to come", "no number", "noise", "empty", "too large"]
    )
    def test_a_list_that_none_of_ours_has_signed_now_changes_nothing(self, flaw):
        world = World(EPOCH)
        leaf = world.identity("agent-001")
        stranger = World(EPOCH)
        holder = CertificateAuthority(leaf.key, leaf.certificate)
        own = self_signed("SkillCenter CA", new_key(), datetime.fromtimestamp(EPOCH, UTC))
        center = x509.load_der_x509_certificate(world.center.certificate)
        at = datetime.fromtimestamp(EPOCH, UTC)
        without = (
            x509.CertificateRevocationListBuilder().issuer_name(center.subject).last_update(at)
            .next_update(at + timedelta(days=1)).sign(world.center_key, hashes.SHA256()).public_bytes(Encoding.PEM)
        )  # fmt: skip
        made = [TakenBack(serial(leaf), EPOCH)]
        data = {
            "stranger": stranger.root.revocations(made, EPOCH, number=9),
            "same name": stranger.center.revocations(made, EPOCH, number=9),
            "leaf": holder.revocations(made, EPOCH, number=9),
            "own key": CertificateAuthority(own.key, own.certificate).revocations(made, EPOCH, number=9),
            "yet to come": world.center.revocations(made, EPOCH + DAY, number=9),
            "no number": without,
            "noise": b"-----BEGIN X509 CRL-----\nnoise\n-----END X509 CRL-----\n",
            "empty": b"",
            "too large": bytes(1024 * 1024 + 1),
        }[flaw]
        with pytest.raises(TrustError) as caught:
            world.revocations.take(world.revoke() + data if flaw not in {"empty", "too large"} else data, EPOCH)
        assert caught.value.code == "LAN_REVOCATIONS"
        assert world.revocations.ends() is None
        assert world.chain().judge(leaf.certificate, EPOCH) is not None

    @given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 255))
    def test_whatever_comes_is_taken_or_refused(self, noise, place, byte):
        world = World(EPOCH)
        good = bytearray(world.revoke(77))
        good[min(place, len(good) - 1)] = byte
        for data in (noise, bytes(good)):
            try:
                world.revocations.take(data, EPOCH)
            except TrustError as error:
                assert error.code == "LAN_REVOCATIONS"  # noqa: PT017 - either is right
