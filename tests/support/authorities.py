"""An authority in memory, as ``skillwire ca init`` makes one on disk, and identities that it issues."""

import time

from cryptography import x509

from skillwire.protocols.skill_discovery.identity import ChainAuthority
from skillwire.trust.authority import CertificateAuthority, new_root
from skillwire.trust.certificates import Chain, RequestedNames, certificate_pem, names_of
from skillwire.trust.ecdsa import EcdsaIdentity, key_of, new_key
from skillwire.trust.revocations import CertificateHolder, Revocations, RevokedCertificate


class World:
    """A root and a SkillCenter CA, at a moment; ``revocations`` are what agents of it know."""

    def __init__(self, now=None):
        self.now = time.time() if now is None else now
        self.root_key, self.center_key = new_key(), new_key()
        self.root = new_root("Root CA", self.root_key, self.now)
        certificate = self.root.issue_authority("SkillCenter CA", self.center_key.public_key(), self.now)
        self.center = CertificateAuthority(self.center_key, certificate)
        self._first = certificate
        self.revocations = Revocations(self.authorities)
        self._revoked = []

    @property
    def authorities(self):
        """The certificates that are trusted: the root, and the SkillCenter CA that was the first."""
        return [self.root.certificate, self._first]

    def chain(self, **options):
        return Chain([self.root.certificate], [self._first], revocations=self.revocations, **options)

    def authority(self):
        """Return what an agent of this world judges others by."""
        return ChainAuthority(self.chain())

    def identity(self, *agents, skills=(), hosts=(), days=7.0, at=None):
        key = new_key()
        names = RequestedNames(agents, tuple(skills), tuple(hosts))
        return EcdsaIdentity(key, self.center.issue(names, key.public_key(), at or self.now, days=days))

    def revoke(self, *taken, now=None):
        """Take certificates back, by their numbers, or as identities whose holders are told; return the list, PEM."""
        now = self.now if now is None else now
        self._revoked += [_entry(one, now) for one in taken]
        return self.center.revocations(self._revoked, now, number=len(self._revoked) + 1)

    def renew(self):
        """Let the root make another SkillCenter CA of the same name, which issues from now on; return it, PEM."""
        key = new_key()
        certificate = self.root.issue_authority("SkillCenter CA", key.public_key(), self.now)
        self.center = CertificateAuthority(key, certificate)
        return certificate_pem(certificate)

    def revoke_center(self, certificate, number=1):
        """Let the root take a SkillCenter CA back; return its list, PEM."""
        known = x509.load_der_x509_certificate(certificate)
        return self.root.revocations([RevokedCertificate(known.serial_number, self.now)], self.now, number=number)


def _entry(one, now):
    if isinstance(one, int):
        return RevokedCertificate(one, now)
    leaf = x509.load_der_x509_certificate(one.certificate)
    key = key_of(leaf)
    assert key is not None
    return RevokedCertificate(leaf.serial_number, now, CertificateHolder(key.digest, names_of(one.certificate)[0]))
