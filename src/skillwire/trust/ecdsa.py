"""ECDSA over P-256 with SHA-256: the signatures of a local network, DER in base64.

Verification answers yes or no; unreadable input is a no. Only P-256 keys are accepted: a valid signature on another
curve proves nothing here. This module loads ``cryptography``, so import it only where signatures are made or verified.
Spec: SDP §10.1; specs §3.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

_ALGORITHM: Final = ec.ECDSA(hashes.SHA256())
#: How a certificate names whom it is for, as a URI among its alternative names. **[ours]**
AGENT: Final = "urn:skill-discovery:agent:"
SKILL: Final = "urn:skill-discovery:skill:"
COMMON_NAME_LENGTH: Final = 64


class EcdsaKey:
    """A public P-256 key; :func:`key_of` checks the curve."""

    def __init__(self, key: ec.EllipticCurvePublicKey) -> None:
        self._key = key
        #: SHA-256 of the key as ``SubjectPublicKeyInfo``.
        self.digest = digest_of(key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EcdsaKey) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def verifies(self, data: bytes, signature: str) -> bool:
        """Whether ``signature`` is valid for ``data``. Trust: both are hostile; this never raises."""
        try:
            self._key.verify(binascii.a2b_base64(signature, strict_mode=True), data, _ALGORITHM)
        except (binascii.Error, ValueError, InvalidSignature):
            return False
        return True


class EcdsaIdentity:
    """A private P-256 key and its certificate, DER, which is replaced on renewal."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: bytes) -> None:
        self.key = key
        self.certificate = certificate

    def sign(self, data: bytes) -> str:
        """Return the signature of ``data``."""
        return base64.b64encode(self.key.sign(data, _ALGORITHM)).decode("ascii")


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a new private key."""
    return ec.generate_private_key(ec.SECP256R1())


def digest_of(key: ec.EllipticCurvePublicKey) -> bytes:
    """Return the SHA-256 of a key's ``SubjectPublicKeyInfo``, which identifies it."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


def key_of(certificate: x509.Certificate) -> EcdsaKey | None:
    """Return the P-256 key of a certificate, else None.

    Trust: raises ``ValueError`` or ``UnsupportedAlgorithm`` for what the library cannot read.
    """
    key = certificate.public_key()
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return EcdsaKey(key)
    return None


def public_key_of(certificate: bytes) -> bytes:
    """Return the public key of one of our certificates, DER; empty for an empty one, as with a group key."""
    if not certificate:
        return b""
    key = x509.load_der_x509_certificate(certificate).public_key()
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def self_signed(agent_id: str, key: ec.EllipticCurvePrivateKey, now: datetime) -> EcdsaIdentity:
    """Return an identity with a self-signed certificate for seven days, which others list as unverified."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, agent_id[:COMMON_NAME_LENGTH])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - timedelta(minutes=5))  # clocks differ
        .not_valid_after(now.astimezone(UTC) + timedelta(days=7))
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"{AGENT}{agent_id}")]), False)
        .sign(key, hashes.SHA256())
    )
    return EcdsaIdentity(key, certificate.public_bytes(Encoding.DER))
