"""A key whose certificate was taken back, and the names in it: refused whatever certificate is around them."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st
from tests.support.authorities import World
from tests.support.certificates import serial

from skillwire import limits
from skillwire.errors import TrustError
from skillwire.protocols.skill_discovery.identity import ChainAuthority
from skillwire.testing.fake_network import EPOCH
from skillwire.trust.authority import CertificateAuthority
from skillwire.trust.certificates import Chain, RequestedNames
from skillwire.trust.ecdsa import EcdsaIdentity, digest_of, new_key, self_signed
from skillwire.trust.revocations import (
    HOLDER,
    CertificateHolder,
    Revocations,
    RevokedCertificate,
    decode_holder,
    encode_holder,
)

NOW = datetime.fromtimestamp(EPOCH, UTC)


@pytest.fixture
def world():
    return World(EPOCH)


def own(name, key=None):
    return self_signed(name, key or new_key(), NOW).certificate


def entry(extension):
    builder = x509.RevokedCertificateBuilder().serial_number(7).revocation_date(NOW)
    return (builder.add_extension(extension, False) if extension else builder).build()


NAMES = st.frozensets(st.from_regex(r"[A-Za-z0-9._-]{1,128}", fullmatch=True), max_size=6)


@given(st.binary(min_size=32, max_size=32), NAMES)
def test_whose_a_certificate_was_stands_in_an_entry_and_is_read_again(key, agents):
    holder = CertificateHolder(key, agents)
    assert decode_holder(entry(encode_holder(holder))) == holder
    assert decode_holder(entry(None)) is None


@pytest.mark.parametrize(("length", "head"), [(1, "3027"), (100, "30818a"), (250, "30820122")])
def test_lengths_take_as_few_bytes_as_der_wants(length, head):
    encoded = encode_holder(CertificateHolder(bytes(32), frozenset({"a" * length}))).value
    assert encoded.hex().startswith(head)


def test_a_length_with_more_bytes_than_it_needs_is_refused():
    content = encode_holder(CertificateHolder(bytes(32), frozenset({"a" * 100}))).value[3:]
    longer = b"\x30\x82" + len(content).to_bytes(2) + content
    with pytest.raises(ValueError, match="another form of length"):
        decode_holder(entry(x509.UnrecognizedExtension(HOLDER, longer)))


@given(st.binary(max_size=90), st.integers(0, 90), st.integers(0, 255))
def test_an_entry_in_another_form_is_refused(noise, place, byte):
    good = bytearray(encode_holder(CertificateHolder(bytes(32), frozenset({"agent-001"}))).value)
    good[min(place, len(good) - 1)] = byte
    for data in (noise, bytes(good)):
        try:
            found = decode_holder(entry(x509.UnrecognizedExtension(HOLDER, data)))
        except ValueError:
            continue
        assert found is not None
        assert len(found.key) == 32


def test_a_list_with_such_an_entry_is_none(world):
    center = x509.load_der_x509_certificate(world.center.certificate)
    made = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(center.subject).last_update(NOW).next_update(NOW + timedelta(days=1))
        .add_extension(x509.CRLNumber(9), False)
        .add_revoked_certificate(entry(x509.UnrecognizedExtension(HOLDER, b"noise")))
        .sign(world.center_key, hashes.SHA256()).public_bytes(Encoding.PEM)
    )  # fmt: skip
    with pytest.raises(TrustError, match="cannot be read"):
        world.revocations.take(made, EPOCH)


@pytest.mark.spec("SDP-revoked-key")
@pytest.mark.parametrize("is_told", [True, False], ids=["a list that says it", "a list of numbers alone"])
def test_a_revoked_key_is_refused_in_whatever_certificate_it_is(world, is_told):
    identity = world.identity("agent-001")
    before = world.chain().judge(identity.certificate, EPOCH)
    taken = identity if is_told else serial(identity)
    assert world.revocations.take(world.revoke(taken), EPOCH)
    if not is_told:
        assert before is not None
        assert before.is_revoked()  # whoever knows it is asked about it whenever the list is new
    again = world.center.issue(RequestedNames(("agent-009",)), identity.key.public_key(), EPOCH)
    for certificate in (identity.certificate, own("agent-001", identity.key), own("agent-009", identity.key), again):
        assert world.chain().judge(certificate, EPOCH) is None


@pytest.mark.spec("SDP-revoked-name")
def test_a_name_that_was_taken_back_is_nobodys_by_its_own_word_and_certified_anew(world):
    identity = world.identity("agent-001", "agent-002")
    authority = ChainAuthority(world.chain())
    known = authority.judge("agent-002", stranger := own("agent-002"), EPOCH)
    assert known is not None
    assert not known.is_revoked()
    world.revocations.take(world.revoke(identity), EPOCH)
    assert known.is_revoked()
    assert authority.judge("agent-001", own("agent-001"), EPOCH) is None
    assert authority.judge("agent-002", stranger, EPOCH) is None
    assert authority.judge("agent-003", own("agent-003"), EPOCH) is not None
    anew = authority.judge("agent-001", world.identity("agent-001").certificate, EPOCH)
    assert anew is not None
    assert not anew.is_revoked()


def test_what_an_older_list_says_counts_no_more_when_a_newer_one_does_not(world):
    identity = world.identity("agent-001")
    world.revocations.take(world.revoke(identity), EPOCH)
    world.revocations.take(world.center.revocations([], EPOCH, number=9), EPOCH)
    assert world.chain().judge(identity.certificate, EPOCH) is not None


def test_another_authority_denies_nobody_the_key_that_ours_has_certified(world):
    key = new_key()
    other = CertificateAuthority(key, world.root.issue_authority("Other CA", key.public_key(), EPOCH))
    known = Revocations([*world.authorities, other.certificate])
    chain = Chain([world.root.certificate], [world.center.certificate], revocations=known)
    identity = world.identity("agent-001")
    holder = CertificateHolder(digest_of(identity.key.public_key()), frozenset({"agent-001"}))
    assert known.take(other.revocations([RevokedCertificate(7, EPOCH, holder)], EPOCH, number=1), EPOCH)
    assert chain.judge(identity.certificate, EPOCH) is not None
    assert chain.judge(own("agent-001", identity.key), EPOCH) is None, "on its own word it is nobody's word"


def test_what_was_seen_has_a_bound(world, monkeypatch):
    monkeypatch.setattr(limits, "LAN_AGENTS", 2)
    identities = [world.identity(f"agent-{number}") for number in range(4)]
    world.revocations.take(world.revoke(*map(serial, identities)), EPOCH)
    for identity in identities:
        assert world.chain().judge(identity.certificate, EPOCH) is None
    left = [world.chain().judge(own("agent-009", one.key), EPOCH) is None for one in identities]
    assert left == [False, False, True, True]


def test_a_list_of_as_many_as_we_sign_is_one_that_is_read(world):
    """The longest names aside, which a datagram has room for only a few of."""
    holders = [
        CertificateHolder(number.to_bytes(32), frozenset({f"agent-{number}"})) for number in range(limits.LAN_REVOKED)
    ]
    taken = [RevokedCertificate((1 << 158) + number, EPOCH, one) for number, one in enumerate(holders)]
    pem = world.center.revocations(taken, EPOCH, number=2)
    assert len(pem) < 0.8 * limits.LAN_REVOCATIONS_BYTES
    assert world.revocations.take(pem, EPOCH)
    assert len(world.revocations) == limits.LAN_REVOKED


def test_who_trusts_no_root_takes_nothing_back():
    identity = EcdsaIdentity(key := new_key(), own("agent-001", key))
    assert Chain().judge(identity.certificate, EPOCH) is not None
