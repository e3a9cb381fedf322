"""The authority of a network where each agent has a key of its own: certificates, judged by a chain.

An agent that nobody certified is UNVERIFIED under the name that its certificate has, and under no other. It is asked
for its certificate again now and then: somebody may have certified it since, without its key being another one.
Spec: SDP §10.2; specs §3 "profile".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.protocols.skill_discovery.identity import Judgement, Standing

if TYPE_CHECKING:
    from skillwire.trust.certificates import Chain

#: Seconds that an agent stays unverified without being asked for its certificate again.
UNVERIFIED_SECONDS: Final = 600.0


class ChainAuthority:
    """Judges agents by their certificates.

    Args:
        chain: what certificates are held against.
    """

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    def shared_key(self) -> None:
        """Return None: each has its own."""
        return

    def is_key_revoked(self, digest: bytes, issuer: bytes) -> bool:
        """Whether a certificate of this key was taken back by its issuer; by anybody, where none has certified it."""
        return self._chain.revocations.is_key_revoked(digest, issuer or None)

    def is_withheld(self, agent_id: str) -> bool:
        """Whether a certificate with this name was taken back."""
        return self._chain.revocations.is_withheld(agent_id)

    def judge(self, agent_id: str, certificate: bytes, now: float) -> Judgement | None:
        """Return what a certificate is worth at ``now``. Trust: both are a stranger's; it never raises."""
        found = self._chain.judge(certificate, now)
        if found is None or not (found.is_certified or agent_id in found.agents):
            return None
        if not found.is_certified:
            until = min(found.until, now + UNVERIFIED_SECONDS)
            return Judgement(found.key, Standing.UNVERIFIED, until=until, is_revoked=found.is_revoked)
        names = found.agents, found.skills, found.hosts
        return Judgement(found.key, Standing.CERTIFIED, *names, found.until, found.is_revoked, found.issuer)
