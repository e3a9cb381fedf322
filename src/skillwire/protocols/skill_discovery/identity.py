"""Identity: the ports through which the core signs, verifies and judges, and the keys that it has learned.

The core knows no cryptography beyond HMAC. :mod:`skillwire.trust.ecdsa` fills the ports with ECDSA P-256, and
:class:`GroupKey` for peers that share a secret; local policy decides between them, never a message. An agent's key is
learned from its certificate, by a challenge, and stays (:class:`KeyRing`). Another key replaces it when it is better
certified, or when the agent has no registration left. The tables are bounded: an agent without registrations gives way
to any other, and the host with the most uncertified agents to certified agents and to hosts with fewer. An uncertified
agent is UNVERIFIED, under the name in its certificate only. Its certificate is requested again now and then, because an
authority may have certified the same key. Spec: SDP §10; specs §3.
"""

from __future__ import annotations

import hashlib
import hmac
from abc import ABC, abstractmethod
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from skillwire import limits
from skillwire.protocols.skill_discovery.limits import BoundedDict, KeysByHost

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.trust.certificates import Chain
    from skillwire.wire.node import Peer


class Standing(StrEnum):
    """What is known of a signer."""

    NONE = "none"  # the message is not signed
    UNKNOWN_KEY = "unknown"  # signed by a key that this agent does not have
    UNVERIFIED = "unverified"  # a key that no authority certified
    CERTIFIED = "certified"


class Key(Protocol):
    """What verifies the signatures of one signer."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of the key; empty for a shared one."""

    def verifies(self, data: bytes, signature: str) -> bool:
        """Return whether ``signature`` is one of ``data`` by this key. Trust: both are untrusted; it never raises."""


class RememberedKey(NamedTuple):
    """The stored digest of a key: it verifies nothing."""

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
        """Return the signature of ``data`` for a message."""


class Judgement(NamedTuple):
    """What a certificate is worth."""

    key: Key
    standing: Standing  # CERTIFIED or UNVERIFIED
    agents: frozenset[str] = frozenset()  # that it certifies
    skills: frozenset[str] = frozenset()  # that it certifies, whichever agent has them
    hosts: frozenset[str] = frozenset()  # that its holder may announce endpoints on, beside its own address
    until: float = float("inf")  # s since the epoch, after which it has to be judged again
    is_revoked: Callable[[], bool] = lambda: False  # since it was judged
    issuer: bytes = b""  # name, DER, of the authority that may revoke it

    def standing_of(self, agent_id: str, skill_id: str | None = None) -> Standing | None:
        """Return how its holder stands as this agent with this skill; None when it is certified for others only."""
        if self.standing is not Standing.CERTIFIED:
            return self.standing
        is_certified = agent_id in self.agents or (skill_id is None and bool(self.skills)) or skill_id in self.skills
        return Standing.CERTIFIED if is_certified else None


class CertificateJudge(Protocol):
    """Judges certificates: an :class:`Authority`, or a cache of its judgements."""

    def judge(self, agent_id: str, certificate: bytes, now: float) -> Judgement | None:
        """Return what a certificate is worth at ``now``, s since the epoch; None if refused. Trust: it never raises."""


class Authority(ABC):
    """Judges certificates."""

    def shared_key(self) -> Key | None:
        """Return the key that all peers share by policy; None when each has its own."""
        return None

    @abstractmethod
    def is_key_revoked(self, digest: bytes, issuer: bytes) -> bool:
        """Return whether a certificate of this key was revoked by its issuer (DER); any authority without one."""

    @abstractmethod
    def is_withheld(self, agent_id: str) -> bool:
        """Return whether only a certificate proves an agent's name, because one with that name was revoked."""

    @abstractmethod
    def judge(self, agent_id: str, certificate: bytes, now: float) -> Judgement | None:
        """Return what a certificate is worth at ``now``, s since the epoch; None if refused. Trust: it never raises."""

    @abstractmethod
    def why_refused(self, agent_id: str, certificate: bytes, now: float) -> str:
        """Return why :meth:`judge` refuses a certificate: ``REVOKED`` or another reason. Trust: it never raises."""


class GroupKey(Authority):
    """A secret of at least 16 bytes that all peers share: HMAC-SHA256 in hexadecimal. It certifies any agent."""

    certificate = b""
    digest = b""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, data: bytes) -> str:
        """Return the signature of ``data``."""
        return hmac.digest(self._secret, data, hashlib.sha256).hex()

    def verifies(self, data: bytes, signature: str) -> bool:
        """Return whether ``signature`` is one of ``data``, compared in constant time."""
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

    def judge(self, agent_id: str, certificate: bytes, now: float) -> Judgement:  # noqa: ARG002 - same
        """Return the judgement of every peer with the secret."""
        return Judgement(self, Standing.CERTIFIED, agents=frozenset({agent_id}))

    def why_refused(self, agent_id: str, certificate: bytes, now: float) -> str:  # noqa: ARG002 - same
        """Return no reason: no peer with the secret is refused."""
        return ""


#: Agents that are looked at for one that makes room.
_LOOKED_AT: Final = 32


class KeyRing:
    """The keys of agents, and the addresses that are proven, each for ``proof`` seconds."""

    def __init__(self, authority: Authority, proof: float, is_listed: Callable[[str], bool]) -> None:
        self.authority = authority
        self._proof = proof
        self._is_listed = is_listed
        self._agents: dict[str, Judgement] = {}
        self._uncertified: KeysByHost[str] = KeysByHost()  # uncertified agents
        self._hosts: dict[str, str] = {}  # of these agents
        self._proven: BoundedDict[Peer, tuple[float, str]] = BoundedDict(limits.LAN_AGENTS)
        #: Whether all agents share one key.
        self.is_shared: Final = authority.shared_key() is not None

    def judgement_of(self, agent_id: str, now: float) -> Judgement | None:
        """Return what is known of an agent's key at ``now``, seconds since the epoch."""
        if self.is_shared:
            return self.authority.judge(agent_id, b"", now)
        found = self._agents.get(agent_id)
        return found if found is not None and found.until > now and not found.is_revoked() else None

    def revoked(self) -> set[str]:
        """Return the agents whose certificates were revoked, and forget their keys."""
        agents = {agent_id for agent_id, judgement in self._agents.items() if judgement.is_revoked()}
        for agent_id in agents:
            self._forget(agent_id)
        for peer in [peer for peer, (_, agent_id) in self._proven.items() if agent_id in agents]:
            del self._proven[peer]
        return agents

    def may_change(self, agent_id: str) -> bool:
        """Return whether an agent may have another key than the one that we know; see :meth:`learn`."""
        known = self._agents.get(agent_id)
        return known is not None and not (known.standing is Standing.CERTIFIED and self._is_listed(agent_id))

    def digest_of(self, agent_id: str) -> tuple[bytes, bytes]:
        """Return the digest of an agent's key, and its issuer, to be stored; both empty for none."""
        known = self._agents.get(agent_id)
        return (b"", b"") if known is None else (known.key.digest, known.issuer)

    def remember(self, agent_id: str, digest: bytes, issuer: bytes) -> bool:
        """Hold an agent's key from before a restart, until it proves itself anew; False when it was revoked since."""
        is_lost, is_certified = partial(self._is_lost, agent_id, digest, issuer), bool(issuer)
        if is_lost():
            return False
        known = self._agents.get(agent_id)
        is_better = known is None or (is_certified and known.standing is not Standing.CERTIFIED)
        if digest and is_better and len(self._agents) < limits.LAN_AGENTS:
            standing = Standing.CERTIFIED if is_certified else Standing.UNVERIFIED
            past = float("-inf")
            known = Judgement(RememberedKey(digest), standing, until=past, is_revoked=is_lost, issuer=issuer)
            self._agents[agent_id] = known
        return True

    def _is_lost(self, agent_id: str, digest: bytes, issuer: bytes) -> bool:
        is_key_revoked = self.authority.is_key_revoked(digest, issuer)
        return is_key_revoked or (not issuer and self.authority.is_withheld(agent_id))

    def agent_at(self, peer: Peer, now: float) -> str | None:
        """Return the agent that has proven to be at an address; ``now`` is of the steady clock."""
        until, agent_id = self._proven.get(peer, (now, ""))
        return agent_id if until > now else None

    def is_there_again(self, agent_id: str, peer: Peer, now: float) -> bool:
        """Prolong the proof of an agent that signed something new at its address; False at another one."""
        if self.agent_at(peer, now) != agent_id:
            return False
        self._proven[peer] = now + self._proof, agent_id
        return True

    def learn(self, agent_id: str, judgement: Judgement, peer: Peer, now: float) -> str:
        """Take the key with which an agent has proven itself; return why not, empty when it is taken."""
        known = self._agents.get(agent_id)
        is_certified = judgement.standing is Standing.CERTIFIED
        if known is not None and known.key.digest != judgement.key.digest and self._is_listed(agent_id):
            is_better = is_certified and known.standing is not Standing.CERTIFIED
            if not is_better:
                return "another key"
        if not self._displaces(agent_id, peer.host, is_certified=is_certified):
            return "no room"
        self._forget(agent_id)
        self._agents[agent_id] = judgement
        if not is_certified:
            self._uncertified.add(peer.host, agent_id)
            self._hosts[agent_id] = peer.host
        self._proven.put(peer, (now + self._proof, agent_id))
        return ""

    def _displaces(self, agent_id: str, host: str, *, is_certified: bool) -> bool:
        """Return whether there is room for an agent's key, once another's is forgotten that matters less."""
        if not is_certified and self._hosts.get(agent_id) != host:
            of_host = self._uncertified.get(host, {})
            if len(of_host) >= limits.LAN_STRANGERS_PER_HOST and not self._forget_first(of_host, self._is_idle):
                return False
        if agent_id in self._agents or len(self._agents) < limits.LAN_AGENTS:
            return True
        if self._forget_first(self._agents, self._is_idle):
            return True
        most = self._uncertified.of_largest()
        has_less = len(self._uncertified.get(host, ())) + 1 < len(most)
        return bool(most) and (is_certified or has_less) and self._forget_first(most, lambda _: True)

    def _is_idle(self, agent_id: str) -> bool:
        return not self._is_listed(agent_id)

    def _forget_first(self, agents: dict[str, Any], may_go: Callable[[str], bool]) -> bool:
        """Forget the first of ``agents`` that may go; those before it move to the end, so few are looked at."""
        for agent_id in list(islice(agents, _LOOKED_AT)):
            if may_go(agent_id):
                self._forget(agent_id)
                return True
            agents[agent_id] = agents.pop(agent_id)
        return False

    def _forget(self, agent_id: str) -> None:
        self._agents.pop(agent_id, None)
        host = self._hosts.pop(agent_id, None)
        if host is not None:
            self._uncertified.discard(host, agent_id)


#: Seconds that an agent stays unverified without being asked for its certificate again.
UNVERIFIED_SECONDS: Final = 600.0


class ChainAuthority(Authority):
    """Judges agents by their certificates; ``trusted`` returns the digest of an agent's key that the user trusts."""

    def __init__(self, chain: Chain, trusted: Callable[[str], bytes | None] = lambda _: None) -> None:
        self._chain = chain
        self._trusted = trusted

    def is_key_revoked(self, digest: bytes, issuer: bytes) -> bool:
        """Return whether a certificate of this key was revoked by its issuer; without an issuer, by any authority."""
        return self._chain.revocations.is_key_revoked(digest, issuer or None)

    def is_withheld(self, agent_id: str) -> bool:
        """Return whether a certificate with this name was revoked."""
        return self._chain.revocations.is_withheld(agent_id)

    def judge(self, agent_id: str, certificate: bytes, now: float) -> Judgement | None:
        """Return the judgement of a certificate at ``now``. Trust: both are untrusted; it never raises."""
        found = self._chain.judge(certificate, now)
        if found is None or not (found.is_certified or agent_id in found.agents):
            return None
        if not found.is_certified:
            is_revoked, digest = found.is_revoked, found.key.digest
            is_trusted = self._trusted(agent_id) == digest

            def has_ended() -> bool:
                return is_revoked() or (self._trusted(agent_id) == digest) is not is_trusted

            if is_trusted:
                agents = frozenset({agent_id})
                return Judgement(found.key, Standing.CERTIFIED, agents, until=found.until, is_revoked=has_ended)
            until = min(found.until, now + UNVERIFIED_SECONDS)
            return Judgement(found.key, Standing.UNVERIFIED, until=until, is_revoked=has_ended)
        names = found.agents, found.skills, found.hosts
        return Judgement(found.key, Standing.CERTIFIED, *names, found.until, found.is_revoked, found.issuer)

    def why_refused(self, agent_id: str, certificate: bytes, now: float) -> str:
        """Return why a certificate is refused. Trust: both are untrusted; it never raises."""
        return self._chain.why_refused(agent_id, certificate, now)
