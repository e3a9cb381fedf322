"""What an entry of a list of revoked certificates says: which certificate, and whose key and names went with it.

RFC 5280 names a certificate by its number, and says nothing of its holder, who may come back with the same key in a
certificate of its own making. So an entry of ours carries an extension **[ours]**, not critical::

    RevokedHolder ::= SEQUENCE {
      key    OCTET STRING (SIZE (32)),    -- SHA-256 of the SubjectPublicKeyInfo
      agents SEQUENCE OF UTF8String }     -- identifiers that the certificate named

Its identifier is made of a UUID (ITU-T X.667), which nobody has to register. Entries without it count by their number.
Spec: SDP §10.2; docs/decisions/0036.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cryptography import x509

#: UUID 8e6a326c-2bb4-5e5b-8494-afc550cd3318.
HOLDER: Final = x509.ObjectIdentifier("2.25.189301781559110387465539518268407886616")
_SEQUENCE: Final = 0x30
_OCTETS: Final = 0x04
_UTF8: Final = 0x0C
_DIGEST_BYTES: Final = 32
_SHORT: Final = 0x80  # lengths below stand in one byte
_LONG: Final = 0x82  # those from it on in two more


class Numbered(NamedTuple):
    """What tells a certificate from all others: the name of its issuer, DER, and its number there."""

    issuer: bytes
    serial_number: int


class Holder(NamedTuple):
    """Whose a certificate is: SHA-256 of its key, as ``SubjectPublicKeyInfo``, and the agents that it names."""

    key: bytes
    agents: frozenset[str] = frozenset()


class TakenBack(NamedTuple):
    """One certificate that was taken back, the moment in seconds since the epoch, and whose it was, if that is told."""

    serial_number: int
    at: float
    holder: Holder | None = None


def numbered(certificate: x509.Certificate) -> Numbered:
    """Return what tells a certificate from all others."""
    return Numbered(certificate.issuer.public_bytes(), certificate.serial_number)


def write_holder(holder: Holder) -> x509.UnrecognizedExtension:
    """Return a holder as it stands in an entry."""
    agents = b"".join(_wrap(_UTF8, name.encode()) for name in sorted(holder.agents))
    return x509.UnrecognizedExtension(HOLDER, _wrap(_SEQUENCE, _wrap(_OCTETS, holder.key) + _wrap(_SEQUENCE, agents)))


def read_holder(entry: x509.RevokedCertificate) -> Holder | None:
    """Return whose the certificate of an entry was; None when it is not told.

    Raises:
        ValueError: it is told in another form.
    """
    for extension in entry.extensions:
        if extension.oid == HOLDER:
            assert isinstance(extension.value, x509.UnrecognizedExtension)  # noqa: S101 - for the type checker
            return _read(extension.value.value)
    return None


def _read(data: bytes) -> Holder:
    content, rest = _unwrap(_SEQUENCE, data)
    key, names = _unwrap(_OCTETS, content)
    listed, more = _unwrap(_SEQUENCE, names)
    if rest or more or len(key) != _DIGEST_BYTES:
        raise ValueError("no RevokedHolder")
    agents = set()
    while listed:
        name, listed = _unwrap(_UTF8, listed)
        agents.add(name.decode())
    return Holder(key, frozenset(agents))


def _wrap(tag: int, content: bytes) -> bytes:
    if len(content) < _SHORT:
        return bytes((tag, len(content))) + content
    return bytes((tag, _LONG)) + len(content).to_bytes(2) + content


def _unwrap(tag: int, data: bytes) -> tuple[bytes, bytes]:
    """Return what stands in the first element, which has this tag, and what comes after it."""
    if len(data) < 2 or data[0] != tag:  # noqa: PLR2004 - a tag and a length
        raise ValueError("another tag")
    begin, length = 2, data[1]
    if length == _LONG:
        begin, length = 4, int.from_bytes(data[2:4])
    elif length >= _SHORT:
        raise ValueError("another form of length")
    if len(data) < begin + length:
        raise ValueError("it ends too early")
    return data[begin : begin + length], data[begin + length :]
