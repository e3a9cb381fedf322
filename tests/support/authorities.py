"""An authority in memory, as ``skillwire ca init`` makes one on disk, and identities that it issues."""

from __future__ import annotations

import time

from skillwire.protocols.skill_discovery.certified import ChainAuthority
from skillwire.trust.authority import CertificateAuthority, new_root
from skillwire.trust.certificate_requests import Names
from skillwire.trust.certificates import Chain
from skillwire.trust.ecdsa import EcdsaIdentity, new_key
from skillwire.trust.revocations import Revocations


class World:
    """A root and a SkillCenter CA, at a moment; ``revocations`` are what agents of it know."""

    def __init__(self, now=None):
        self.now = time.time() if now is None else now
        self.root_key, self.center_key = new_key(), new_key()
        self.root = new_root("Root CA", self.root_key, self.now)
        certificate = self.root.issue_authority("SkillCenter CA", self.center_key.public_key(), self.now)
        self.center = CertificateAuthority(self.center_key, certificate)
        self.revocations = Revocations(self.authorities)
        self._revoked = {}

    @property
    def authorities(self):
        """The certificates that are trusted."""
        return [self.root.certificate, self.center.certificate]

    def chain(self, **options):
        """Return what certificates are held against."""
        return Chain(
            [self.root.certificate],
            [self.center.certificate],
            is_revoked=self.revocations.is_revoked,
            **options,
        )

    def authority(self):
        """Return what an agent of this world judges others by."""
        return ChainAuthority(self.chain())

    def identity(self, *agents, skills=(), hosts=(), days=7.0, at=None):
        """Return an agent that is certified."""
        key = new_key()
        names = Names(agents, tuple(skills), tuple(hosts))
        return EcdsaIdentity(key, self.center.issue(names, key.public_key(), at or self.now, days=days))

    def revoke(self, *serials, now=None):
        """Take certificates back; return the list that says so, PEM."""
        now = self.now if now is None else now
        self._revoked |= dict.fromkeys(serials, now)
        return self.center.revocations(self._revoked, now, number=len(self._revoked) + 1)
