"""What is asked of an agent's certificate, DER: whose it is, by whom, and how long it is good.

Spec: SDP §10.2.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from skillwire.trust.revocations import Revocations

#: Of the life of a certificate, after which a new one is asked for. Spec: SPEC.md SDP-renewal.
RENEWED_AFTER: Final = 2 / 3


def is_own(certificate: bytes) -> bool:
    """Whether a certificate is by its own key."""
    from cryptography import x509  # noqa: PLC0415 - loaded when there is a certificate

    leaf = x509.load_der_x509_certificate(certificate)
    return leaf.issuer == leaf.subject


def is_due(certificate: bytes, now: float, revocations: Revocations | None = None) -> bool:
    """Whether it is time for a new certificate, at seconds since the epoch.

    So it is when much of its life is over, and at once when the SkillCenter CA that has issued it was taken back.
    """
    begins, ends = life_of(certificate)
    is_old = now >= begins + (ends - begins) * RENEWED_AFTER
    return is_old or (revocations is not None and revocations.is_orphan(certificate))


def life_of(certificate: bytes) -> tuple[float, float]:
    """Return when a certificate begins and ends, in seconds since the epoch."""
    from cryptography import x509  # noqa: PLC0415 - same

    leaf = x509.load_der_x509_certificate(certificate)
    return leaf.not_valid_before_utc.timestamp(), leaf.not_valid_after_utc.timestamp()


def own_certificate(agent_id: str, key: EllipticCurvePrivateKey, now: float) -> bytes:
    """Return a certificate of an agent by its own key, DER, for seven days from ``now`` on."""
    from skillwire.trust.ecdsa import self_signed  # noqa: PLC0415 - same

    return self_signed(agent_id, key, datetime.fromtimestamp(now, UTC)).certificate


def agents_of(certificate: bytes) -> list[str]:
    """Return the agents that a certificate is for, by name."""
    from skillwire.trust.certificates import names_of  # noqa: PLC0415 - same

    return sorted(names_of(certificate)[0])


def belongs(certificate: bytes, key: EllipticCurvePrivateKey) -> bool:
    """Whether a certificate is for a key."""
    from cryptography import x509  # noqa: PLC0415 - same

    return x509.load_der_x509_certificate(certificate).public_key() == key.public_key()


def serial_of(certificate: bytes) -> str:
    """Return the serial number of a certificate, DER, in hexadecimal."""
    from cryptography import x509  # noqa: PLC0415 - same

    return f"{x509.load_der_x509_certificate(certificate).serial_number:x}"


def name_of(certificate: bytes) -> str:
    """Return the common name in a certificate, DER; empty when it has none."""
    from cryptography import x509  # noqa: PLC0415 - same

    names = x509.load_der_x509_certificate(certificate).subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""
