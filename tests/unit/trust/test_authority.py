"""Issuing certificates, and what those that were issued otherwise are worth."""

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
from skillwire.testing.fake_network import EPOCH
from skillwire.trust.authority import CertificateAuthority
from skillwire.trust.certificates import Chain, RequestedNames, certificate_pem, decode_request, encode_request
from skillwire.trust.ecdsa import AGENT, new_key, self_signed
from skillwire.trust.revocations import Revocations, RevokedCertificate, certificate_id

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
    leaf = world.center.issue(RequestedNames(("agent-001",)), new_key().public_key(), EPOCH)
    assert len(f"{x509.load_der_x509_certificate(leaf).serial_number:x}") == 40


@pytest.mark.spec("SDP-certificate-size")
def test_a_leaf_fits_into_a_datagram_and_one_that_does_not_is_not_issued(world):
    assert len(world.identity("agent-001", skills=["skill-org-feishu"]).certificate) < 500
    names = RequestedNames(("agent-001",), tuple(f"skill-{number}" * 4 for number in range(9)))
    assert "a datagram has room for 700" in refused(lambda: world.center.issue(names, new_key().public_key(), EPOCH))


@pytest.mark.spec("SDP-certificate-size")
@pytest.mark.parametrize("length", [1, 64, 128])
def test_the_largest_leaf_that_is_issued_can_be_shown_in_a_datagram(world, length):
    agent, issued = "a" * length, []
    for skills in range(12):
        names = RequestedNames((agent,), tuple(f"skill-{number}-{'x' * 20}" for number in range(skills)))
        with suppress(ValidationError):
            issued.append(world.center.issue(names, new_key().public_key(), EPOCH))
    assert 1 <= len(issued) < 12
    signature = world.identity(agent).sign(b"said")
    own = self_signed(agent, new_key(), datetime.fromtimestamp(EPOCH, UTC))
    for certificate in (max(issued, key=len), own.certificate):
        shown = ChallengeResponse(agent, bytes(32), certificate, int(EPOCH * 1000), signature=signature)
        assert len(encode(shown)) <= limits.DATAGRAM_BYTES


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (RequestedNames(), "names no agent and no skill"),
        (RequestedNames(("agent 001",)), "no identifier"),
        (RequestedNames(("a" * 129,)), "no identifier"),
        (RequestedNames(("agent;001",)), "no identifier"),
        (RequestedNames(("agent-001",), hosts=("a_b",)), "neither an address nor a name"),
        (RequestedNames(("agent-001",), hosts=("example.com/x",)), "neither an address nor a name"),
    ],
)
def test_what_no_message_could_name_is_not_certified(world, names, said):
    assert said in refused(lambda: world.center.issue(names, new_key().public_key(), EPOCH))


def test_a_key_on_another_curve_is_not_certified(world):
    other = ec.generate_private_key(ec.SECP384R1())
    assert "secp384r1" in refused(lambda: world.center.issue(RequestedNames(("a",)), other.public_key(), EPOCH))


@pytest.mark.spec("SDP-certificate-chain")
def test_who_has_no_authority_cannot_make_one(world):
    below = CertificateAuthority(key := new_key(), world.center.issue_authority("Below CA", key.public_key(), EPOCH))
    leaf = below.issue(RequestedNames(("agent-001",)), new_key().public_key(), EPOCH)
    known = [world.center.certificate, below.certificate]
    assert Chain([world.root.certificate], known).judge(leaf, EPOCH) is None

    holder = world.identity("agent-001")
    forged = CertificateAuthority(holder.key, holder.certificate)
    leaf = forged.issue(RequestedNames(("agent-002",)), new_key().public_key(), EPOCH)
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
    leaf = center.issue(RequestedNames(("agent-001",)), new_key().public_key(), EPOCH)
    assert Chain([world.root.certificate], [center.certificate]).judge(leaf, EPOCH) is None


def test_an_authority_that_has_ended_issues_nothing_and_none_outlives_it(world):
    leaf = world.identity("agent-001", days=9_999)
    found = world.chain().judge(leaf.certificate, EPOCH)
    assert found is not None
    assert found.until == pytest.approx(EPOCH + 1825 * DAY, abs=1)
    assert "good until" in refused(lambda: world.identity("agent-001", at=EPOCH + 1826 * DAY))


def test_a_request_proves_its_key_and_asks_for_names():
    key, names = new_key(), RequestedNames(("agent-001",), ("skill-org-feishu",), ("10.0.0.7", "host.example"))
    asked = decode_request(encode_request(names, key))
    assert asked.key == key.public_key()
    assert asked.names == names


@pytest.mark.parametrize("flaw", ["another key", "other curve", "other kind", "damaged", "too large", "empty"])
def test_a_request_that_proves_nothing_is_refused(flaw):
    mine, other = new_key(), new_key()
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "agent-001")])
    )
    good = x509.load_pem_x509_csr(encode_request(RequestedNames(("agent-001",)), mine)).public_bytes(Encoding.DER)
    theirs = x509.load_pem_x509_csr(encode_request(RequestedNames(("agent-001",)), other)).public_bytes(Encoding.DER)
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
    refused(lambda: decode_request(data))


@given(st.binary(max_size=300), st.integers(0, 350), st.integers(0, 255))
def test_whatever_is_asked_is_a_request_or_refused(noise, place, byte):
    good = bytearray(encode_request(RequestedNames(("agent-001",)), new_key()))
    good[min(place, len(good) - 1)] = byte
    for data in (noise, bytes(good)):
        try:
            decode_request(data)
        except ValidationError as error:
            assert error.code == "CERTIFICATE_REQUEST"  # noqa: PT017 - either is right


@pytest.fixture
def fresh():
    return World(EPOCH)


def good(world, identity):
    return world.chain().judge(identity.certificate, EPOCH) is not None


def test_what_is_taken_back_is_refused_whenever_it_was_judged(fresh):
    leaf = fresh.identity("agent-001")
    found = fresh.chain().judge(leaf.certificate, EPOCH)
    assert found is not None
    assert not found.is_revoked()
    assert fresh.revocations.take(fresh.revoke(serial(leaf)), EPOCH)
    assert found.is_revoked()
    assert fresh.chain().judge(leaf.certificate, EPOCH) is None
    assert fresh.chain().judge(fresh.identity("agent-002").certificate, EPOCH) is not None


def test_an_older_list_brings_nothing_back(fresh):
    leaf = fresh.identity("agent-001")
    older, newer = fresh.revoke(), fresh.revoke(serial(leaf))
    assert fresh.revocations.take(newer, EPOCH)
    assert not fresh.revocations.take(older, EPOCH)
    assert len(fresh.revocations) == 1
    kept = Revocations(fresh.authorities)
    assert kept.take(fresh.revocations.pem(), EPOCH)
    assert len(kept) == 1


def test_a_list_that_has_ended_still_counts_and_says_when_it_did(fresh):
    leaf = fresh.identity("agent-001")
    assert fresh.revocations.take(fresh.revoke(serial(leaf)), EPOCH + 30 * DAY)
    assert fresh.revocations.ends() == EPOCH + 7 * DAY
    assert fresh.chain().judge(leaf.certificate, EPOCH) is None


def test_an_authority_takes_back_what_it_has_issued_and_nothing_of_anothers(fresh):
    key = new_key()
    other = CertificateAuthority(key, fresh.root.issue_authority("Other CA", key.public_key(), EPOCH))
    known = Revocations([*fresh.authorities, other.certificate])
    leaf = fresh.identity("agent-001")
    assert known.take(other.revocations([RevokedCertificate(serial(leaf), EPOCH)], EPOCH, number=9), EPOCH)
    assert not known.is_revoked(certificate_id(x509.load_der_x509_certificate(leaf.certificate)))


def test_the_root_takes_an_authority_back(fresh):
    leaf = fresh.identity("agent-001")
    number = x509.load_der_x509_certificate(fresh.center.certificate).serial_number
    bundle = fresh.revoke() + fresh.root.revocations([RevokedCertificate(number, EPOCH)], EPOCH, number=1)
    assert fresh.revocations.take(bundle, EPOCH)
    assert fresh.chain().judge(leaf.certificate, EPOCH) is None


@pytest.mark.parametrize(
    "flaw", ["stranger", "same name", "leaf", "own key", "yet to come", "no number", "noise", "empty", "too large"]
)
def test_a_list_that_none_of_ours_has_signed_now_changes_nothing(fresh, flaw):
    leaf = fresh.identity("agent-001")
    stranger = World(EPOCH)
    holder = CertificateAuthority(leaf.key, leaf.certificate)
    own = self_signed("SkillCenter CA", new_key(), datetime.fromtimestamp(EPOCH, UTC))
    center = x509.load_der_x509_certificate(fresh.center.certificate)
    at = datetime.fromtimestamp(EPOCH, UTC)
    without = (
        x509.CertificateRevocationListBuilder().issuer_name(center.subject).last_update(at)
        .next_update(at + timedelta(days=1)).sign(fresh.center_key, hashes.SHA256()).public_bytes(Encoding.PEM)
    )  # fmt: skip
    made = [RevokedCertificate(serial(leaf), EPOCH)]
    data = {
        "stranger": stranger.root.revocations(made, EPOCH, number=9),
        "same name": stranger.center.revocations(made, EPOCH, number=9),
        "leaf": holder.revocations(made, EPOCH, number=9),
        "own key": CertificateAuthority(own.key, own.certificate).revocations(made, EPOCH, number=9),
        "yet to come": fresh.center.revocations(made, EPOCH + DAY, number=9),
        "no number": without,
        "noise": b"-----BEGIN X509 CRL-----\nnoise\n-----END X509 CRL-----\n",
        "empty": b"",
        "too large": bytes(1024 * 1024 + 1),
    }[flaw]
    with pytest.raises(TrustError) as caught:
        fresh.revocations.take(fresh.revoke() + data if flaw not in {"empty", "too large"} else data, EPOCH)
    assert caught.value.code == "LAN_REVOCATIONS"
    assert fresh.revocations.ends() is None
    assert fresh.chain().judge(leaf.certificate, EPOCH) is not None


@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 255))
def test_whatever_comes_is_taken_or_refused(noise, place, byte):
    world = World(EPOCH)
    good = bytearray(world.revoke(77))
    good[min(place, len(good) - 1)] = byte
    for data in (noise, bytes(good)):
        try:
            world.revocations.take(data, EPOCH)
        except TrustError as error:
            assert error.code == "LAN_REVOCATIONS"  # noqa: PT017 - either is right


@pytest.mark.spec("SDP-authority-renewal")
def test_a_new_one_is_learned_with_the_list_and_the_old_one_stays_good(fresh):
    old = fresh.identity("agent-001")
    pem = fresh.renew()
    new = fresh.identity("agent-002")
    assert [good(fresh, one) for one in (old, new)] == [True, False]
    assert fresh.revocations.take(fresh.revoke() + pem, EPOCH)
    assert [good(fresh, one) for one in (old, new)] == [True, True]
    assert fresh.revocations.authorities[-1] == fresh.center.certificate
    assert not fresh.revocations.take(fresh.revoke() + pem, EPOCH)


@pytest.mark.spec("SDP-authority-renewal")
def test_the_new_one_takes_back_what_the_old_one_has_issued(fresh):
    old = fresh.identity("agent-001")
    pem = fresh.renew()
    fresh.revocations.take(fresh.revoke(serial(old)) + pem, EPOCH)
    assert not good(fresh, old)


@pytest.mark.spec("SDP-authority-revocation")
def test_what_a_revoked_one_has_issued_and_signed_counts_no_more(fresh):
    """Whoever has stolen its key has certified himself, and taken everybody else back, with the highest of numbers."""
    old, honest = fresh.identity("agent-001"), fresh.center
    fresh.renew()
    new_pem, new = (certificate_pem(fresh.center.certificate), fresh.identity("agent-002"))
    fresh.revocations.take(fresh.revoke() + new_pem, EPOCH)
    stolen = honest.revocations([RevokedCertificate(serial(new), EPOCH)], EPOCH, number=10**9)
    assert fresh.revocations.take(stolen, EPOCH)
    assert not good(fresh, new)
    found = fresh.chain().judge(old.certificate, EPOCH)
    assert found is not None

    assert fresh.revocations.take(fresh.revoke_center(honest.certificate), EPOCH)

    assert found.is_revoked()
    assert [good(fresh, one) for one in (old, new)] == [False, True]
    assert not fresh.revocations.take(stolen, EPOCH)
    assert good(fresh, new)
    assert fresh.revocations.is_orphan(old.certificate)
    assert not fresh.revocations.is_orphan(new.certificate)


def test_a_bundle_in_any_order_comes_to_the_same(fresh):
    old = fresh.identity("agent-001")
    stolen = fresh.center.revocations([], EPOCH, number=10**9)
    revoked = fresh.revoke_center(fresh.center.certificate)
    pem = fresh.renew()
    fresh.revocations.take(pem + stolen + revoked + fresh.revoke(), EPOCH)
    assert good(fresh, fresh.identity("agent-002"))
    assert not good(fresh, old)


def test_an_older_list_of_the_root_brings_no_authority_back(fresh):
    old = fresh.identity("agent-001")
    older = fresh.root.revocations([], EPOCH, number=1)
    fresh.revocations.take(fresh.revoke_center(fresh.center.certificate, number=2), EPOCH)
    assert not fresh.revocations.take(older, EPOCH)
    assert not good(fresh, old)


@pytest.mark.spec("SDP-authority-renewal")
@pytest.mark.parametrize("flaw", ["other root", "by a center", "own", "leaf", "revoked"])
def test_nobody_is_learned_whom_no_root_of_ours_has_made_an_authority(fresh, flaw):
    key = new_key()
    stranger = World(EPOCH)
    below = fresh.center.issue_authority("Below CA", key.public_key(), EPOCH)
    named = fresh.root.issue_authority("Other CA", key.public_key(), EPOCH)
    data = {
        "other root": lambda: certificate_pem(stranger.center.certificate),
        "by a center": lambda: certificate_pem(below),
        "own": lambda: certificate_pem(stranger.root.certificate),
        "leaf": lambda: certificate_pem(fresh.identity("agent-001").certificate),
        "revoked": lambda: certificate_pem(named),
    }[flaw]()
    if flaw == "revoked":
        fresh.revocations.take(fresh.revoke_center(named), EPOCH)
    fresh.revocations.take(fresh.revoke() + data, EPOCH)
    assert not fresh.revocations.learned
    assert fresh.revocations.authorities == fresh.authorities


def test_what_is_learned_has_a_bound(fresh):
    pems = [fresh.renew() for _ in range(limits.LAN_LEARNED_AUTHORITIES + 2)]
    for pem in pems:
        fresh.revocations.take(fresh.root.revocations([], EPOCH, number=1) + pem, EPOCH)
    assert len(fresh.revocations.learned) == limits.LAN_LEARNED_AUTHORITIES


def test_a_certificate_that_is_none_refuses_the_bundle(fresh):
    noise = b"-----BEGIN CERTIFICATE-----\nnoise\n-----END CERTIFICATE-----\n"
    with pytest.raises(TrustError):
        fresh.revocations.take(fresh.revoke() + noise, EPOCH)
    assert len(fresh.revocations) == 0


def test_what_is_kept_is_enough_for_who_has_only_the_new_one_in_its_settings(fresh):
    """Its operator has replaced ``center.pem``; lists by the key of before, and the root's, are kept all the same."""
    old = fresh.identity("agent-001")
    fresh.revocations.take(fresh.revoke(77), EPOCH)
    revoked, first = (fresh.revoke_center(fresh.center.certificate), fresh.center.certificate)
    pem = fresh.renew()
    fresh.revocations.take(fresh.revoke() + pem + fresh.root.revocations([], EPOCH, number=0), EPOCH)
    again = Revocations([fresh.root.certificate, fresh.center.certificate])
    assert again.take(fresh.revocations.pem(), EPOCH)
    assert len(again) == 1
    assert first in again.authorities
    fresh.revocations.take(revoked, EPOCH)
    third = Revocations([fresh.root.certificate, fresh.center.certificate])
    assert third.take(fresh.revocations.pem(), EPOCH)
    assert third.is_orphan(old.certificate)


def test_a_list_by_the_key_of_before_ends_without_a_word(fresh):
    fresh.revocations.take(fresh.revoke(), EPOCH)
    pem = fresh.renew()
    fresh.revocations.take(fresh.center.revocations([], EPOCH + 6 * DAY, number=9) + pem, EPOCH + 6 * DAY)
    assert fresh.revocations.ends() == EPOCH + 13 * DAY


def test_the_list_of_an_authority_is_good_no_longer_than_it(fresh):
    pem = fresh.root.revocations([], EPOCH, number=1, days=99_999)
    end = x509.load_pem_x509_crl(pem).next_update_utc
    assert end == x509.load_der_x509_certificate(fresh.root.certificate).not_valid_after_utc


def test_an_orphan_is_known_by_who_never_knew_its_authority(fresh):
    """It started with the new one alone; the certificate that it kept names an authority of that name."""
    old = fresh.identity("agent-001")
    fresh.renew()
    known = Revocations([fresh.root.certificate, fresh.center.certificate])
    assert known.is_orphan(old.certificate)
    stranger = World(EPOCH).identity("agent-001")
    other = CertificateAuthority(key := new_key(), fresh.root.issue_authority("Other", key.public_key(), EPOCH))
    assert not Revocations([fresh.root.certificate, other.certificate]).is_orphan(stranger.certificate)
