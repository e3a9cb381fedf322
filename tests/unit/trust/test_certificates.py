"""Certificates of agents and skills: who certified whom, and what none of them may be."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.certificates import NOW, Issuer, TakenBackNumbers, center, other_curve, root, serial

from skillwire.testing.fake_network import EPOCH
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import new_key, self_signed


def chain(**options):
    return Chain([root().certificate], [center().certificate], **options)


@pytest.mark.spec("SDP-certificate-chain")
def test_a_leaf_that_leads_to_the_root_certifies_whom_it_names():
    leaf = center().issue(agents=["agent-001"], skills=["skill-org-feishu"], hosts=["192.168.1.7", "::1"])
    found = chain().judge(leaf.certificate, EPOCH)
    assert found is not None
    assert found.is_certified
    assert (found.agents, found.skills) == ({"agent-001"}, {"skill-org-feishu"})
    assert found.hosts == {"192.168.1.7", "::1"}
    assert found.until == (NOW + timedelta(days=6)).timestamp()
    assert found.key.verifies(b"said", leaf.sign(b"said"))


@pytest.mark.spec("SDP-certificate-size")
def test_a_leaf_fits_into_a_datagram():
    assert len(center().issue(agents=["agent-001"]).certificate) < 480


@pytest.mark.spec("SDP-certificate-chain")
@pytest.mark.parametrize(
    "flaw", ["expired", "not yet", "other root", "other curve", "revoked", "authority revoked", "intermediate missing"]
)
def test_what_does_not_lead_to_the_root_now_is_refused(flaw):
    key = other_curve() if flaw == "other curve" else new_key()
    issuer = Issuer("Root CA") if flaw == "other root" else center()
    start, days = {"expired": (-9, 7), "not yet": (1, 7)}.get(flaw, (-1, 7))
    leaf = issuer.issue(agents=["agent-001"], key=key, start=start, days=days)
    revoked = {"revoked": {serial(leaf)}, "authority revoked": {serial(center())}}.get(flaw, set())
    known = [] if flaw == "intermediate missing" else [center().certificate]
    against = Chain([root().certificate], known, revocations=TakenBackNumbers(revoked))
    assert against.judge(leaf.certificate, EPOCH) is None


@pytest.mark.spec("SDP-certificate-own")
def test_a_certificate_by_its_own_key_is_worth_a_name_where_strangers_are_taken():
    identity = self_signed("agent-001", new_key(), NOW)
    found = chain().judge(identity.certificate, EPOCH)
    assert found is not None
    assert not found.is_certified
    assert found.agents == {"agent-001"}
    assert chain(accepts_self_signed=False).judge(identity.certificate, EPOCH) is None
    assert chain().judge(identity.certificate, EPOCH + 8 * 86_400) is None


@pytest.mark.spec("SDP-unverified")
def test_who_trusts_no_authority_takes_everybody_for_a_stranger():
    leaf = center().issue(agents=["agent-001"])
    found = Chain().judge(leaf.certificate, EPOCH)
    assert found is not None
    assert not found.is_certified
    assert found.agents == {"agent-001"}
    assert Chain(accepts_self_signed=False).judge(leaf.certificate, EPOCH) is None
    assert Chain().judge(leaf.certificate, EPOCH + 8 * 86_400) is None


@given(st.binary(max_size=100), st.integers(0, 400), st.integers(0, 255))
def test_whatever_comes_is_no_or_a_certificate(noise, place, byte):
    good = bytearray(center().issue(agents=["agent-001"]).certificate)
    good[place] = byte
    for data in (noise, bytes(good), bytes(good[:place])):
        chain().judge(data, EPOCH)
    assert chain().judge(bytes(701), EPOCH) is None


@pytest.mark.parametrize("signature", ["", "!", "AAAA", "MEUCIQDxxx...", "é"])
def test_what_is_no_signature_verifies_nothing(signature):
    found = chain().judge(center().issue(agents=["a"]).certificate, EPOCH)
    assert found is not None
    assert not found.key.verifies(b"said", signature)
