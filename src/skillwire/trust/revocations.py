"""What was taken back: signed lists of certificates, read and held against those that come.

A list is an X.509 CRL (RFC 5280) that an authority of ours has signed, by ECDSA P-256 with SHA-256; a bundle in PEM
holds one of each authority. An authority takes back what it has issued itself, and nothing of another's. Of two lists
the newer one counts, by its number, so that who replays an old one brings nothing back; a list that has ended still
counts, since most of what it says stays true, and :meth:`Revocations.ends` says that it has.
Spec: SDP §10.2; docs/decisions/0032.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import SignatureAlgorithmOID

from skillwire import limits
from skillwire.errors import TrustError
from skillwire.trust.ecdsa import key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.trust.certificates import Numbered

_SIGNED: Final = SignatureAlgorithmOID.ECDSA_WITH_SHA256
_BEGIN: Final = b"-----BEGIN X509 CRL-----"
_CLOCKS: Final = 300.0  # seconds that clocks may differ


class _Held(NamedTuple):
    """One list: what it says, and what tells it from an older one."""

    number: int
    ends: float
    serials: frozenset[int]
    pem: bytes


class Revocations:
    """The newest list of each authority.

    Args:
        authorities: certificates of those whose lists count, DER.
    """

    def __init__(self, authorities: Sequence[bytes] = ()) -> None:
        self._authorities = [x509.load_der_x509_certificate(one) for one in authorities]
        self._held: dict[bytes, _Held] = {}

    def take(self, data: bytes, now: float) -> bool:
        """Take lists, PEM or one in DER, at ``now``, seconds since the epoch; return whether one was new.

        Trust: they are a stranger's until their signatures are found good; when one of them is not, none is taken.

        Raises:
            TrustError: ``LAN_REVOCATIONS``.
        """
        if len(data) > limits.LAN_REVOCATIONS_BYTES:
            raise _refusal(f"{len(data):,} bytes are more than is read")
        try:
            found = [self._judge(one, now) for one in _split(data)]
        except (ValueError, TypeError, x509.ExtensionNotFound, x509.UnsupportedGeneralNameType) as error:
            raise _refusal("it cannot be read") from error
        newer = {issuer: held for issuer, held in found if not self._has(issuer, held)}
        self._held |= newer
        return bool(newer)

    def is_revoked(self, certificate: Numbered) -> bool:
        """Whether the issuer of a certificate has taken it back."""
        held = self._held.get(certificate.issuer)
        return held is not None and certificate.serial_number in held.serials

    def ends(self) -> float | None:
        """Return when the first of the lists ends, in seconds since the epoch; None when there is none."""
        return min((held.ends for held in self._held.values()), default=None)

    def pem(self) -> bytes:
        """Return the lists as they are held, to be kept over a restart."""
        return b"".join(held.pem for held in self._held.values())

    def __len__(self) -> int:
        return sum(len(held.serials) for held in self._held.values())

    def _has(self, issuer: bytes, held: _Held) -> bool:
        known = self._held.get(issuer)
        return known is not None and known.number >= held.number

    def _judge(self, revoked: x509.CertificateRevocationList, now: float) -> tuple[bytes, _Held]:
        names = [one for one in self._authorities if one.subject == revoked.issuer]
        if revoked.signature_algorithm_oid != _SIGNED or not any(_has_signed(one, revoked) for one in names):
            raise _refusal("none of the authorities that are trusted here has signed it")
        if revoked.last_update_utc.timestamp() > now + _CLOCKS:
            raise _refusal(f"it is of {revoked.last_update_utc:%Y-%m-%d %H:%M} UTC, which is yet to come")
        if revoked.next_update_utc is None:
            raise _refusal("it does not say when it ends")
        number = revoked.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
        serials = frozenset(one.serial_number for one in revoked)
        held = _Held(number, revoked.next_update_utc.timestamp(), serials, revoked.public_bytes(Encoding.PEM))
        return revoked.issuer.public_bytes(), held


def signed_at(data: bytes) -> float:
    """Return when the first of the lists was signed, in seconds since the epoch; 0 when it cannot be read."""
    try:
        return min(one.last_update_utc.timestamp() for one in _split(data))
    except ValueError:
        return 0.0


def _has_signed(authority: x509.Certificate, revoked: x509.CertificateRevocationList) -> bool:
    key = authority.public_key()
    return key_of(authority) is not None and revoked.is_signature_valid(key)  # type: ignore[arg-type]  # it is P-256


def _split(data: bytes) -> list[x509.CertificateRevocationList]:
    if _BEGIN not in data:
        return [x509.load_der_x509_crl(data)]
    return [x509.load_pem_x509_crl(_BEGIN + part) for part in data.split(_BEGIN)[1:]]


def _refusal(why: str) -> TrustError:
    return TrustError("LAN_REVOCATIONS", f"a list of revoked certificates is refused: {why}")
