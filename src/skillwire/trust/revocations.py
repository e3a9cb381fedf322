"""Signed lists of revoked certificates: reading them, and checking certificates against them.

A list is an X.509 CRL (RFC 5280) signed by a trusted authority with ECDSA P-256 and SHA-256. An authority can revoke
only what it issued. Of two lists by one key the higher number counts, so replaying an old list has no effect; an
expired list still counts. A PEM bundle may include certificates of SkillCenter CAs: those signed by a trusted root are
learned. If the root revokes a CA, its lists no longer count and the certificates that it issued are refused.

With a certificate its key is revoked, and self-signed claims to its names are refused: its holder could return with
the same key in a self-signed one. RFC 5280 lists numbers only, so our entries have a non-critical extension **[ours]**:

::

    RevokedHolder ::= SEQUENCE {
      key    OCTET STRING (SIZE (32)),    -- SHA-256 of the SubjectPublicKeyInfo
      agents SEQUENCE OF UTF8String }     -- identifiers that the certificate named

Its identifier is derived from a UUID (ITU-T X.667), which needs no registration. For entries without it, key and names
are known only if the certificate was seen. Spec: SDP §10.2; docs/decisions/0013.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import SignatureAlgorithmOID

from skillwire import limits
from skillwire.errors import TrustError
from skillwire.trust.ecdsa import key_of

#: UUID 8e6a326c-2bb4-5e5b-8494-afc550cd3318.
HOLDER: Final = x509.ObjectIdentifier("2.25.189301781559110387465539518268407886616")
_SEQUENCE: Final = 0x30
_OCTETS: Final = 0x04
_UTF8: Final = 0x0C
_DIGEST_BYTES: Final = 32
_SHORT: Final = 0x80  # shorter lengths take one byte
_LENGTH_BYTES: Final = 2  # those from it on take one or two more, as few as will do


class CertificateId(NamedTuple):
    """Identifies a certificate: its issuer's name, DER, and its serial number."""

    issuer: bytes
    serial_number: int


class CertificateHolder(NamedTuple):
    """The holder of a certificate: SHA-256 of its key's ``SubjectPublicKeyInfo``, and the named agents."""

    key: bytes
    agents: frozenset[str] = frozenset()


class RevokedCertificate(NamedTuple):
    """A revoked certificate, the time in seconds since the epoch, and its holder if known."""

    serial_number: int
    at: float
    holder: CertificateHolder | None = None


def certificate_id(certificate: x509.Certificate) -> CertificateId:
    """Return the issuer's name and the serial number of a certificate."""
    return CertificateId(certificate.issuer.public_bytes(), certificate.serial_number)


def encode_holder(holder: CertificateHolder) -> x509.UnrecognizedExtension:
    """Return a holder as the extension of an entry."""
    agents = b"".join(_encode_element(_UTF8, name.encode()) for name in sorted(holder.agents))
    content = _encode_element(_OCTETS, holder.key) + _encode_element(_SEQUENCE, agents)
    return x509.UnrecognizedExtension(HOLDER, _encode_element(_SEQUENCE, content))


def decode_holder(entry: x509.RevokedCertificate) -> CertificateHolder | None:
    """Return the holder in an entry, or None. Raises ValueError for another form."""
    value = next((extension.value for extension in entry.extensions if extension.oid == HOLDER), None)
    if not isinstance(value, x509.UnrecognizedExtension):
        return None
    content, rest = _decode_element(_SEQUENCE, value.value)
    key, names = _decode_element(_OCTETS, content)
    listed, more = _decode_element(_SEQUENCE, names)
    if rest or more or len(key) != _DIGEST_BYTES:
        raise ValueError("no RevokedHolder")
    agents = set()
    while listed:
        name, listed = _decode_element(_UTF8, listed)
        agents.add(name.decode())
    return CertificateHolder(key, frozenset(agents))


def _encode_element(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < _SHORT:
        return bytes((tag, size)) + content
    width = (size.bit_length() + 7) // 8
    return bytes((tag, _SHORT + width)) + size.to_bytes(width) + content


def _decode_element(tag: int, data: bytes) -> tuple[bytes, bytes]:
    """Return the content of the first element, which must have this tag, and the rest."""
    if len(data) < 2 or data[0] != tag:  # noqa: PLR2004 - a tag and a length
        raise ValueError("another tag")
    begin, length = 2, data[1]
    if length >= _SHORT:
        width = length - _SHORT
        begin, length = 2 + width, int.from_bytes(data[2 : 2 + width])
        if not 1 <= width <= _LENGTH_BYTES or length < max(_SHORT, 1 << 8 * (width - 1)):
            raise ValueError("another form of length")
    if len(data) < begin + length:
        raise ValueError("it ends too early")
    return data[begin : begin + length], data[begin + length :]


SIGNED: Final = SignatureAlgorithmOID.ECDSA_WITH_SHA256
#: What the library raises for certificates, requests and lists that it cannot read.
UNREADABLE: Final = (
    ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension, x509.ExtensionNotFound, x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)  # fmt: skip
_BEGIN: Final = b"-----BEGIN X509 CRL-----"
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_CLOCK_SKEW: Final = 300.0  # seconds, tolerated difference between clocks


class _RevocationList(NamedTuple):
    issuer: bytes
    signer: x509.Certificate
    number: int
    ends: float
    serials: frozenset[int]
    holders: tuple[CertificateHolder, ...]
    pem: bytes


class Revocations:
    """The newest list of each trusted authority; learned authorities, DER, are added to ``authorities``."""

    def __init__(self, authorities: Sequence[bytes] = ()) -> None:
        self.authorities = list(dict.fromkeys(authorities))
        self._known = [x509.load_der_x509_certificate(one) for one in self.authorities]
        self._configured = len(self._known)
        self._held: list[_RevocationList] = []
        self._seen: dict[CertificateId, CertificateHolder] = {}
        self._index()

    @property
    def learned(self) -> Sequence[x509.Certificate]:
        """SkillCenter CAs that came with lists, each signed by a trusted root."""
        return self._known[self._configured :]

    def take(self, data: bytes, now: float) -> bool:
        """Add lists, PEM or one in DER, at ``now``, seconds since the epoch; return whether something was new.

        Trust: hostile until the signatures are verified; one invalid list rejects all. Raises TrustError
        (``LAN_REVOCATIONS``).
        """
        if len(data) > limits.LAN_REVOCATIONS_BYTES:
            raise _refusal(f"{len(data):,} bytes are more than is read")
        try:
            certificates = map(x509.load_pem_x509_certificate, _parts(data, _CERTIFICATE))
            fresh = [one for one in certificates if self._may_learn(one)]
            found = [self._judge(one, now, [*self._known, *fresh]) for one in _split(data)]
        except UNREADABLE as error:
            raise _refusal("it cannot be read") from error
        newer = [
            one
            for one in found
            if not self._is_out(one.signer)
            and not any(_same_signer(held, one) and held.number >= one.number for held in self._held)
        ]
        self._known += fresh
        self.authorities += [one.public_bytes(Encoding.DER) for one in fresh]
        for one in newer:
            self._held = [*(held for held in self._held if not _same_signer(held, one)), one]
        self._index()
        return bool(newer or fresh)

    def is_revoked(self, certificate: CertificateId) -> bool:
        """Whether the issuer of a certificate has revoked it."""
        return certificate.serial_number in self._serials.get(certificate.issuer, ())

    def is_key_revoked(self, key: bytes, issuer: bytes | None = None) -> bool:
        """Whether a certificate of a key (by SHA-256 of its info) was revoked, by ``issuer`` or by any."""
        issuers = self._keys.get(key, ())
        return bool(issuers) if issuer is None else issuer in issuers

    def denies(self, holder: CertificateHolder) -> bool:
        """Whether a self-signed certificate is refused because of its key or a name."""
        return bool(self._keys) and (holder.key in self._keys or not holder.agents.isdisjoint(self._agents))

    def is_withheld(self, agent_id: str) -> bool:
        """Whether a revoked certificate has this name, so self-signed claims to it are refused."""
        return agent_id in self._agents

    def saw(self, certificate: CertificateId, holder: CertificateHolder) -> None:
        """Record the holder of a revoked certificate, which its list may not contain."""
        if certificate.issuer in self._keys.get(holder.key, ()) and holder.agents <= self._agents:
            return
        self._seen[certificate] = holder
        if len(self._seen) > limits.LAN_AGENTS:
            del self._seen[next(iter(self._seen))]
        self._index()

    def is_orphan(self, certificate: bytes) -> bool:
        """Whether the authority named as a certificate's issuer, DER, did not sign it, or was revoked."""
        leaf = x509.load_der_x509_certificate(certificate)
        named = [one for one in self._known if one.subject == leaf.issuer]
        return bool(named) and not any(_has_issued(one, leaf) and not self._is_out(one) for one in named)

    def ends(self) -> float | None:
        """Return when the first list expires, in seconds since the epoch, or None."""
        last: dict[bytes, float] = {}
        for held in self._held:  # a list signed with the authority's newer key replaces it
            last[held.issuer] = max(held.ends, last.get(held.issuer, held.ends))
        return min(last.values(), default=None)

    def pem(self) -> bytes:
        """Return the current lists and the authorities below roots, for storing them."""
        below = (one.public_bytes(Encoding.PEM) for one in self._known if one.issuer != one.subject)
        return b"".join([*(held.pem for held in self._held), *below])

    def __len__(self) -> int:
        return sum(map(len, self._serials.values()))

    def _index(self) -> None:
        """Rebuild the lookup tables; lists of revoked authorities are dropped."""
        self._serials: dict[bytes, frozenset[int]] = {}
        for held in self._held:
            self._serials[held.issuer] = held.serials | self._serials.get(held.issuer, frozenset())
        if lost := [held for held in self._held if self._is_out(held.signer)]:
            self._held = [held for held in self._held if held not in lost]
            self._index()
            return
        known = [(held.issuer, holder) for held in self._held for holder in held.holders]
        known += [(one.issuer, holder) for one, holder in self._seen.items() if self.is_revoked(one)]
        self._keys: dict[bytes, frozenset[bytes]] = {}
        for issuer, holder in known:
            self._keys[holder.key] = self._keys.get(holder.key, frozenset()) | {issuer}
        self._agents = frozenset(name for _, holder in known for name in holder.agents)

    def _is_out(self, authority: x509.Certificate) -> bool:
        return self.is_revoked(certificate_id(authority))

    def _may_learn(self, one: x509.Certificate) -> bool:
        """Whether a trusted root certified this as an authority. Trust: hostile."""
        if one in self._known or len(self.learned) >= limits.LAN_LEARNED_AUTHORITIES or self._is_out(one):
            return False
        if key_of(one) is None or one.signature_algorithm_oid != SIGNED:
            return False
        constraints = [each.value for each in one.extensions if isinstance(each.value, x509.BasicConstraints)]
        roots = [root for root in self._known[: self._configured] if root.subject == root.issuer]
        return any(each.ca for each in constraints) and any(_has_issued(root, one) for root in roots)

    def _judge(
        self, revoked: x509.CertificateRevocationList, now: float, authorities: Sequence[x509.Certificate]
    ) -> _RevocationList:
        named = [one for one in authorities if one.subject == revoked.issuer]
        signer = next((one for one in named if _has_signed(one, revoked)), None)
        if signer is None:
            raise _refusal("none of the authorities that are trusted here has signed it")
        if revoked.last_update_utc.timestamp() > now + _CLOCK_SKEW:
            raise _refusal(f"it is of {revoked.last_update_utc:%Y-%m-%d %H:%M} UTC, which is yet to come")
        if revoked.next_update_utc is None:
            raise _refusal("it does not say when it ends")
        return _RevocationList(
            revoked.issuer.public_bytes(),
            signer,
            revoked.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number,
            revoked.next_update_utc.timestamp(),
            frozenset(one.serial_number for one in revoked),
            tuple(holder for one in revoked if (holder := decode_holder(one)) is not None),
            revoked.public_bytes(Encoding.PEM),
        )


def signed_at(data: bytes) -> float:
    """Return when the last list was signed, in seconds since the epoch; 0 if unreadable."""
    try:
        return max((one.last_update_utc.timestamp() for one in _split(data)), default=0.0)
    except ValueError:
        return 0.0


def _same_signer(held: _RevocationList, other: _RevocationList) -> bool:
    return held.issuer == other.issuer and held.signer.public_key() == other.signer.public_key()


def _has_signed(authority: x509.Certificate, revoked: x509.CertificateRevocationList) -> bool:
    if revoked.signature_algorithm_oid != SIGNED or key_of(authority) is None:
        return False
    return revoked.is_signature_valid(authority.public_key())  # type: ignore[arg-type]  # it is P-256


def _has_issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _split(data: bytes) -> list[x509.CertificateRevocationList]:
    if _BEGIN not in data:
        return [x509.load_der_x509_crl(data)]
    return [x509.load_pem_x509_crl(part) for part in _parts(data, _BEGIN)]


def _parts(data: bytes, begin: bytes) -> list[bytes]:
    return [begin + part for part in data.split(begin)[1:]]


def _refusal(why: str) -> TrustError:
    return TrustError("LAN_REVOCATIONS", f"a list of revoked certificates is refused: {why}")
