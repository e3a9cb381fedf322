"""Who somebody is on a local network: the ports through which the core signs, verifies and judges certificates.

The core knows no cryptography beyond HMAC. :mod:`skillwire.trust.ecdsa` fills the ports with ECDSA P-256;
:class:`GroupKey` fills them for peers that share a secret. Which of the two is used is local policy, never told by a
message. Spec: SDP §10; specs §3.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Standing(StrEnum):
    """What is known of a signer."""

    NONE = "none"  # the message is not signed
    STRANGER = "stranger"  # it is, by a key that we do not have; nothing in it is proven
    UNVERIFIED = "unverified"  # the key is the signer's own, and nobody certified it
    CERTIFIED = "certified"


class Key(Protocol):
    """What verifies the signatures of one signer."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of it, by which it is told from others; empty for one that is shared."""

    def verifies(self, data: bytes, signature: str) -> bool:
        """Whether ``signature`` is one of ``data`` by this key. Trust: both are a stranger's; it never raises."""


class RememberedKey(NamedTuple):
    """A key of which only the digest was kept: it is told from others, and verifies nothing."""

    digest: bytes

    def verifies(self, data: bytes, signature: str) -> bool:  # noqa: ARG002 - a port's form
        """Return False: its holder has to prove itself anew."""
        return False


class Identity(Protocol):
    """What we sign with."""

    @property
    def certificate(self) -> bytes:
        """The leaf certificate, DER; empty with a group key."""

    def sign(self, data: bytes) -> str:
        """Return the signature of ``data``, as it stands in a message."""


class Judgement(NamedTuple):
    """What a certificate is worth.

    Args:
        key: that it is for.
        standing: ``CERTIFIED`` or ``UNVERIFIED``.
        agents: that it certifies.
        skills: that it certifies, whichever agent has them.
        hosts: that its holder may announce endpoints on, beside the one that it sends from.
        until: seconds since the epoch, after which it has to be judged again.
        is_revoked: whether it was taken back since it was judged.
        issuer: its name, DER: who may take it back; empty where nobody certified the key, and where all share one.
    """

    key: Key
    standing: Standing
    agents: frozenset[str] = frozenset()
    skills: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    until: float = float("inf")
    is_revoked: Callable[[], bool] = lambda: False
    issuer: bytes = b""

    def standing_of(self, agent_id: str, skill_id: str | None = None) -> Standing | None:
        """Return how its holder stands as this agent with this skill; None when it is certified for others only."""
        if self.standing is not Standing.CERTIFIED:
            return self.standing
        is_certified = agent_id in self.agents or (skill_id is None and bool(self.skills)) or skill_id in self.skills
        return Standing.CERTIFIED if is_certified else None


class Authority(Protocol):
    """What judges certificates."""

    def shared_key(self) -> Key | None:
        """Return the key that all peers share by policy; None when each has its own."""

    def is_key_revoked(self, digest: bytes, issuer: bytes) -> bool:
        """Whether a certificate of a key, by its digest, was taken back by its issuer, a name in DER.

        Nobody takes back what another has issued. With no issuer, of a key that nobody vouches for, anybody does.
        """

    def is_withheld(self, agent_id: str) -> bool:
        """Whether nobody has an agent's name by his own word, since a certificate with it was taken back."""

    def judge(self, agent_id: str, certificate: bytes, now: float) -> Judgement | None:
        """Return what a certificate is worth at ``now``, seconds since the epoch; None when it is refused.

        Trust: both are a stranger's; it never raises.
        """


class GroupKey:
    """A secret that all peers share: HMAC-SHA256, in hexadecimal. Whoever has it is certified as anyone.

    Args:
        secret: at least 16 bytes.
    """

    certificate = b""
    digest = b""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, data: bytes) -> str:
        """Return the signature of ``data``."""
        return hmac.digest(self._secret, data, hashlib.sha256).hex()

    def verifies(self, data: bytes, signature: str) -> bool:
        """Whether ``signature`` is one of ``data``, compared in constant time."""
        return hmac.compare_digest(self.sign(data).encode(), signature.encode("utf-8", "surrogatepass"))

    def shared_key(self) -> GroupKey:
        """Return this key."""
        return self

    def is_key_revoked(self, digest: bytes, issuer: bytes) -> bool:  # noqa: ARG002 - a port's form
        """Return False: there are no certificates."""
        return False

    def is_withheld(self, agent_id: str) -> bool:  # noqa: ARG002 - same
        """Return False: there are no certificates."""
        return False

    def judge(self, agent_id: str, certificate: bytes, now: float) -> Judgement:  # noqa: ARG002 - a port's form
        """Return what everybody with the secret is worth."""
        return Judgement(self, Standing.CERTIFIED, agents=frozenset({agent_id}))
