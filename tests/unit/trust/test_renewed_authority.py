"""A SkillCenter CA that is renewed, or taken back by the root: who learns of it, and whose lists count then."""

from __future__ import annotations

import pytest
from cryptography import x509
from tests.support.authorities import World
from tests.support.certificates import serial

from skillwire import limits
from skillwire.adapters.files.trust_files import certificate_pem
from skillwire.errors import TrustError
from skillwire.testing.virtual_clock import EPOCH
from skillwire.trust.authority import CertificateAuthority
from skillwire.trust.ecdsa import new_key
from skillwire.trust.revocations import Revocations
from skillwire.trust.taken_back import TakenBack

DAY = 86_400.0


@pytest.fixture
def world():
    return World(EPOCH)


def good(world, identity):
    return world.chain().judge(identity.certificate, EPOCH) is not None


@pytest.mark.spec("SDP-authority-renewal")
def test_a_new_one_is_learned_with_the_list_and_the_old_one_stays_good(world):
    old = world.identity("agent-001")
    pem = world.renew()
    new = world.identity("agent-002")
    assert [good(world, one) for one in (old, new)] == [True, False]
    assert world.revocations.take(world.revoke() + pem, EPOCH)
    assert [good(world, one) for one in (old, new)] == [True, True]
    assert world.revocations.authorities[-1] == world.center.certificate
    assert not world.revocations.take(world.revoke() + pem, EPOCH)


@pytest.mark.spec("SDP-authority-renewal")
def test_the_new_one_takes_back_what_the_old_one_has_issued(world):
    old = world.identity("agent-001")
    pem = world.renew()
    world.revocations.take(world.revoke(serial(old)) + pem, EPOCH)
    assert not good(world, old)


@pytest.mark.spec("SDP-authority-revocation")
def test_what_a_revoked_one_has_issued_and_signed_counts_no_more(world):
    """Whoever has stolen its key has certified himself, and taken everybody else back, with the highest of numbers."""
    old, honest = world.identity("agent-001"), world.center
    world.renew()
    new_pem, new = certificate_pem(world.center.certificate), world.identity("agent-002")
    world.revocations.take(world.revoke() + new_pem, EPOCH)
    stolen = honest.revocations([TakenBack(serial(new), EPOCH)], EPOCH, number=10**9)
    assert world.revocations.take(stolen, EPOCH)
    assert not good(world, new)
    found = world.chain().judge(old.certificate, EPOCH)
    assert found is not None

    assert world.revocations.take(world.revoke_center(honest.certificate), EPOCH)

    assert found.is_revoked()
    assert [good(world, one) for one in (old, new)] == [False, True]
    assert not world.revocations.take(stolen, EPOCH)
    assert good(world, new)
    assert world.revocations.is_orphan(old.certificate)
    assert not world.revocations.is_orphan(new.certificate)


def test_a_bundle_in_any_order_comes_to_the_same(world):
    old = world.identity("agent-001")
    stolen = world.center.revocations([], EPOCH, number=10**9)
    revoked = world.revoke_center(world.center.certificate)
    pem = world.renew()
    world.revocations.take(pem + stolen + revoked + world.revoke(), EPOCH)
    assert good(world, world.identity("agent-002"))
    assert not good(world, old)


def test_an_older_list_of_the_root_brings_no_authority_back(world):
    old = world.identity("agent-001")
    older = world.root.revocations([], EPOCH, number=1)
    world.revocations.take(world.revoke_center(world.center.certificate, number=2), EPOCH)
    assert not world.revocations.take(older, EPOCH)
    assert not good(world, old)


@pytest.mark.spec("SDP-authority-renewal")
@pytest.mark.parametrize("flaw", ["other root", "by a center", "own", "leaf", "revoked"])
def test_nobody_is_learned_whom_no_root_of_ours_has_made_an_authority(world, flaw):
    key = new_key()
    stranger = World(EPOCH)
    below = world.center.issue_authority("Below CA", key.public_key(), EPOCH)
    named = world.root.issue_authority("Other CA", key.public_key(), EPOCH)
    data = {
        "other root": lambda: certificate_pem(stranger.center.certificate),
        "by a center": lambda: certificate_pem(below),
        "own": lambda: certificate_pem(stranger.root.certificate),
        "leaf": lambda: certificate_pem(world.identity("agent-001").certificate),
        "revoked": lambda: certificate_pem(named),
    }[flaw]()
    if flaw == "revoked":
        world.revocations.take(world.revoke_center(named), EPOCH)
    world.revocations.take(world.revoke() + data, EPOCH)
    assert not world.revocations.learned
    assert world.revocations.authorities == world.authorities


def test_what_is_learned_has_a_bound(world):
    pems = [world.renew() for _ in range(limits.LAN_LEARNED_AUTHORITIES + 2)]
    for pem in pems:
        world.revocations.take(world.root.revocations([], EPOCH, number=1) + pem, EPOCH)
    assert len(world.revocations.learned) == limits.LAN_LEARNED_AUTHORITIES


def test_a_certificate_that_is_none_refuses_the_bundle(world):
    noise = b"-----BEGIN CERTIFICATE-----\nnoise\n-----END CERTIFICATE-----\n"
    with pytest.raises(TrustError):
        world.revocations.take(world.revoke() + noise, EPOCH)
    assert len(world.revocations) == 0


def test_what_is_kept_is_enough_for_who_has_only_the_new_one_in_its_settings(world):
    """Its operator has replaced ``center.pem``; lists by the key of before, and the root's, are kept all the same."""
    old = world.identity("agent-001")
    world.revocations.take(world.revoke(77), EPOCH)
    revoked, first = world.revoke_center(world.center.certificate), world.center.certificate
    pem = world.renew()
    world.revocations.take(world.revoke() + pem + world.root.revocations([], EPOCH, number=0), EPOCH)
    again = Revocations([world.root.certificate, world.center.certificate])
    assert again.take(world.revocations.pem(), EPOCH)
    assert len(again) == 1
    assert first in again.authorities
    world.revocations.take(revoked, EPOCH)
    third = Revocations([world.root.certificate, world.center.certificate])
    assert third.take(world.revocations.pem(), EPOCH)
    assert third.is_orphan(old.certificate)


def test_a_list_by_the_key_of_before_ends_without_a_word(world):
    world.revocations.take(world.revoke(), EPOCH)
    pem = world.renew()
    world.revocations.take(world.center.revocations([], EPOCH + 6 * DAY, number=9) + pem, EPOCH + 6 * DAY)
    assert world.revocations.ends() == EPOCH + 13 * DAY


def test_the_list_of_an_authority_is_good_no_longer_than_it(world):
    pem = world.root.revocations([], EPOCH, number=1, days=99_999)
    end = x509.load_pem_x509_crl(pem).next_update_utc
    assert end == x509.load_der_x509_certificate(world.root.certificate).not_valid_after_utc


def test_an_orphan_is_known_by_who_never_knew_its_authority(world):
    """It started with the new one alone; the certificate that it kept names an authority of that name."""
    old = world.identity("agent-001")
    world.renew()
    known = Revocations([world.root.certificate, world.center.certificate])
    assert known.is_orphan(old.certificate)
    stranger = World(EPOCH).identity("agent-001")
    other = CertificateAuthority(key := new_key(), world.root.issue_authority("Other", key.public_key(), EPOCH))
    assert not Revocations([world.root.certificate, other.certificate]).is_orphan(stranger.certificate)
