"""Every datagram of the corpus comes out as its expectation says."""

import base64
import hashlib
import json
from pathlib import Path

import pytest
from tests.support.certificates import NOW, Issuer, TakenBackNumbers, center, root, serial
from tests.support.lan import REGISTRY, Lan

from skillwire.errors import DecodeError
from skillwire.protocols.skill_discovery.codec import decode, encode_signed
from skillwire.protocols.skill_discovery.identity import ChainAuthority
from skillwire.protocols.skill_discovery.ingress import challenge_text
from skillwire.protocols.skill_discovery.messages import Challenge, ChallengeResponse, Reason, Register, Unregister
from skillwire.testing.fake_network import EPOCH
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import new_key, self_signed
from skillwire.wire.node import Peer

CASES = {case["id"]: case for case in json.loads((Path(__file__).parent / "documents" / "datagram.json").read_text())}
#: What the first row of the corpus says: SIG stands for a signature. These are of its form, and refused for what the
#: receiver knows beyond the datagram.
SAME_FORM = {name for name, case in CASES.items() if case.get("data") == CASES["register"]["data"]}


def datagram(case):
    return base64.b64decode(case["b64"]) if "b64" in case else case["data"].encode()


@pytest.mark.parametrize("name", sorted(SAME_FORM))
def test_what_has_the_form_of_a_registration_is_read(name):
    assert isinstance(decode(datagram(CASES[name])), Register)


@pytest.mark.parametrize("name", sorted(CASES.keys() - SAME_FORM))
def test_what_has_another_form_is_refused(name):
    assert CASES[name]["expect"] == "reject"
    with pytest.raises(DecodeError):
        decode(datagram(CASES[name]))


AT = int(EPOCH * 1000)
HOST = Peer("192.168.1.100", 40_000)
SIGNED_PART = CASES["register"]["data"].encode().removesuffix(b";SIG")


class Registry:
    """An agent that keeps a registry, and somebody at the address of the corpus who registers there."""

    def __init__(self, identity, *, revoked=()):
        chain = Chain([root().certificate], [center().certificate], revocations=TakenBackNumbers(revoked))
        self.identity, self.lan = identity, Lan()
        authority = ChainAuthority(chain)
        self.node = self.lan.node("192.168.1.1", REGISTRY, agent_id="registry", identity=identity, authority=authority)

    def give(self, data, source=HOST):
        """Let a datagram arrive; return the answers that leave within a second."""
        self.node.receive(data, source, self.lan.moment("192.168.1.1"))
        self.lan.clock.move_to(self.lan.clock.steady + 1)
        sent = self.node.datagrams_to_send(self.lan.moment("192.168.1.1"))
        return [decode(datagram.data) for datagram in sent if datagram.to == source]

    def prove(self, data):
        """Register, and answer the challenge."""
        (challenge,) = self.give(data)
        assert isinstance(challenge, Challenge)
        text = challenge_text("registry", "agent-001", challenge.nonce, hashlib.sha256(data).digest())
        proof = ChallengeResponse("agent-001", challenge.nonce, self.identity.certificate, AT)
        return self.give(encode_signed(proof, lambda _: self.identity.sign(text)))

    def stopped(self, data):
        """Let a datagram arrive that is not answered; return why."""
        before = self.node.ingress.stopped.copy()
        assert self.give(data) == []
        return set(self.node.ingress.stopped - before)


def registered(identity=None, **options):
    """Return a registry where the registration of the corpus has been signed and taken, and the datagram."""
    identity = identity or center().issue(agents=["agent-001"])
    registry = Registry(identity, **options)
    data = SIGNED_PART + b";" + identity.sign(SIGNED_PART).encode()
    return registry, data, registry.prove(data)


def test_register():
    registry, _, (ack,) = registered()
    assert ack.status == "SUCCESS"
    assert len(registry.node.registry) == 1


def test_timestamp_stale():
    registry, data, _ = registered()
    registry.lan.clock.move_to(31)
    (ack,) = registry.give(data)
    assert ack.status == "INVALID"
    assert registry.node.ingress.stopped["outside the window"] == 1


def test_signature_wrong_key():
    registry, _, _ = registered()
    later = SIGNED_PART.replace(b"800000", b"800001")
    assert registry.stopped(later + b";" + self_signed("agent-001", new_key(), NOW).sign(later).encode()) == {"forged"}


def test_signature_of_other_message():
    registry, data, _ = registered()
    later = SIGNED_PART.replace(b"800000", b"800001")
    assert registry.stopped(later + b";" + data.rpartition(b";")[2]) == {"forged"}


def test_replayed():
    registry, data, _ = registered()
    goodbye = Unregister("agent-001", "skill-org-feishu", Reason.SHUTDOWN, AT + 1)
    registry.give(encode_signed(goodbye, registry.identity.sign))
    (ack,) = registry.give(data)
    assert ack.status == "INVALID"
    assert len(registry.node.registry) == 0


@pytest.mark.parametrize("name", ["certificate-expired", "certificate-other-root", "certificate-revoked"])
def test_certificate_that_is_refused(name):
    issuer = Issuer("Root CA") if name == "certificate-other-root" else center()
    identity = issuer.issue(agents=["agent-001"], start=-8 if name == "certificate-expired" else -1)
    revoked = [serial(identity)] if name == "certificate-revoked" else []
    registry, _, (ack,) = registered(identity, revoked=revoked)
    assert ack.status == "UNAUTHORIZED"
    assert registry.node.ingress.stopped == {"held": 1, "certificate": 1}
    assert len(registry.node.registry) == 0


def test_certificate_of_other_skill():
    registry, _, (ack,) = registered(center().issue(skills=["skill-org-dingding"]))
    assert ack.status == "UNAUTHORIZED"
    assert len(registry.node.registry) == 0


@pytest.mark.parametrize(
    ("source", "read"),
    [
        (Peer("192.168.1.77", HOST.port), 60),
        (
            HOST,
            60 + 400,
        ),  # whoever has shown a key may have a thousand skills, and owe two beats of each in five seconds
    ],
)
def test_unknown_agent_flood(source, read):
    registry, _, _ = registered()
    for number in range(5000):
        data = SIGNED_PART.replace(b"agent-001", b"agent-%d" % number)
        registry.node.receive(data + b";SIG", source, registry.lan.moment("192.168.1.1"))
    assert registry.node.ingress.stopped["rate"] >= 5000 - read
    assert len(registry.node.registry) == 1
    assert len(registry.node._challenges._pending) <= 1


def test_every_case_that_has_the_form_of_a_registration_has_a_test_of_its_own():
    tested = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    assert tested >= SAME_FORM - {"certificate-expired", "certificate-other-root", "certificate-revoked"}
