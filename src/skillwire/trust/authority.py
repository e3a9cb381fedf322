"""Issuing certificates (Root CA → SkillCenter CA → agents and skills), and the lists of revoked ones.

Every key is P-256 and every signature ECDSA with SHA-256. The root may have one level of authorities below it, which
have none, so the holder of a leaf can certify nothing. A leaf is valid for seven days, names its agents and skills by
URIs and the hosts that they may announce, and is small enough for the response to a challenge to fit into a datagram; a
larger one is refused here, where fewer names can still be chosen. Nothing here reads a file or a clock.
Spec: SDP §10.2; specs §3; docs/decisions/0013.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from skillwire import limits
from skillwire.trust.certificates import RequestedNames, alternatives_of, request_error, subject_of
from skillwire.trust.ecdsa import COMMON_NAME_LENGTH
from skillwire.trust.revocations import RevokedCertificate, encode_holder

#: Days that certificates and lists are good for.
ROOT_DAYS: Final = 3650
CENTER_DAYS: Final = 1825
LEAF_DAYS: Final = 7.0
LIST_DAYS: Final = 7.0
_CLOCK_SKEW: Final = timedelta(minutes=5)  # tolerated difference between clocks
#: Gives every serial number the maximum of 40 hexadecimal digits, so that tables align.
_LONG: Final = 1 << 158
#: Of the answer to a challenge, beside the certificate and the agent's identifier: nonce, timestamp, signature.
_PROOF_BYTES: Final = 192
_USAGES: Final = (
    "content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only",
)  # fmt: skip


class CertificateAuthority:
    """An issuer: its private P-256 key and its certificate, DER."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: bytes) -> None:
        self._key = key
        self.certificate = certificate
        self._own = x509.load_der_x509_certificate(certificate)

    def issue_authority(self, name: str, key: ec.EllipticCurvePublicKey, now: float) -> bytes:
        """Return the certificate of an authority below this one, DER, valid from ``now``, seconds since the epoch.

        Raises ValidationError (``CERTIFICATE_REQUEST``).
        """
        builder = self._begin_certificate(subject_of(name), key, now, CENTER_DAYS)
        return _sign(_as_authority(builder, key, 0), self._key)

    def issue(
        self, names: RequestedNames, key: ec.EllipticCurvePublicKey, now: float, *, days: float = LEAF_DAYS
    ) -> bytes:
        """Return the certificate of an agent or a skill, DER, valid for ``days`` but not longer than the issuer's own.

        Raises ValidationError (``CERTIFICATE_REQUEST``), also when it would not fit into a datagram.
        """
        if not isinstance(key.curve, ec.SECP256R1):
            raise request_error(f"its key is on {key.curve.name}, not on P-256")
        names = names.check()
        name = (names.agents or names.skills)[0][:COMMON_NAME_LENGTH]
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        leaf = _sign(
            self._begin_certificate(subject_of(name), key, now, days)
            .add_extension(alternatives_of(names), critical=False)
            .add_extension(_usage(is_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False),
            self._key,
        )
        # The response to a challenge has to fit into a datagram, in base64.
        longest = max(map(len, names.agents), default=limits.LAN_IDENTIFIER_LENGTH)
        most = min(limits.LAN_CERTIFICATE_BYTES, (limits.DATAGRAM_BYTES - _PROOF_BYTES - longest) // 4 * 3)
        if len(leaf) > most:
            raise request_error(f"with these names it has {len(leaf)} bytes, and a datagram has room for {most}")
        return leaf

    def revocations(
        self, revoked: Iterable[RevokedCertificate], now: float, *, number: int, days: float = LIST_DAYS
    ) -> bytes:
        """Return the signed list of this authority's revoked certificates, PEM.

        ``number`` is larger than the previous list's; ``days`` until the next one, within the authority's own validity.
        """
        at = datetime.fromtimestamp(now, UTC)
        ends = max(min(at + timedelta(days=days), self._own.not_valid_after_utc), at + timedelta(seconds=1))
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._own.subject)
            .last_update(at)
            .next_update(ends)
            .add_extension(x509.CRLNumber(number), critical=False)
            .add_extension(_issuer_of(self._key), critical=False)
        )
        for one in sorted(revoked, key=lambda one: one.serial_number):
            entry = (
                x509.RevokedCertificateBuilder()
                .serial_number(one.serial_number)
                .revocation_date(datetime.fromtimestamp(one.at, UTC))
            )
            if one.holder is not None:
                entry = entry.add_extension(encode_holder(one.holder), critical=False)
            builder = builder.add_revoked_certificate(entry.build())
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def _begin_certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, now: float, days: float
    ) -> x509.CertificateBuilder:
        ours = self._own
        at = datetime.fromtimestamp(now, UTC)
        if not ours.not_valid_before_utc <= at <= ours.not_valid_after_utc:
            raise request_error(f"the authority itself is good until {ours.not_valid_after_utc:%Y-%m-%d}")
        if subject == ours.subject:  # it would look as if its own key had signed it
            raise request_error("it has the name of the authority")
        ends = min(at + timedelta(days=days), ours.not_valid_after_utc)
        return _new_builder(subject, ours.subject, key, at, ends).add_extension(_issuer_of(self._key), critical=False)


def new_root(name: str, key: ec.EllipticCurvePrivateKey, now: float) -> CertificateAuthority:
    """Return a self-signed root, valid from ``now``, seconds since the epoch.

    Raises ValidationError (``CERTIFICATE_REQUEST``) for an invalid name.
    """
    subject, at = subject_of(name), datetime.fromtimestamp(now, UTC)
    builder = _new_builder(subject, subject, key.public_key(), at, at + timedelta(days=ROOT_DAYS))
    return CertificateAuthority(key, _sign(_as_authority(builder, key.public_key(), 1), key))


def _new_builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number() | _LONG)
        .not_valid_before(begins - _CLOCK_SKEW)
        .not_valid_after(ends)
    )


def _as_authority(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePublicKey, below: int
) -> x509.CertificateBuilder:
    """Add the extensions of an authority with at most ``below`` levels below it."""
    return (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=below), critical=True)
        .add_extension(_usage(is_authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    own = {"digital_signature": not is_authority, "key_cert_sign": is_authority, "crl_sign": is_authority}
    return x509.KeyUsage(**own, **dict.fromkeys(_USAGES, False))


def _issuer_of(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _sign(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
