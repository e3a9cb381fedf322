"""The messages with which an agent renews its certificate.

``POST /lan/certificates`` **[ours]** takes one JSON object: ``request``, a PKCS 10 request in PEM by the key of the new
certificate; ``certificate``, the current one, DER in base64; ``timestamp``, milliseconds since the epoch; and a
``signature`` of :func:`renewal_text` by the key of the current one. The answer is ``{"certificate"}``, DER in base64.
The new certificate names what the old one names, never more. Nothing in it is secret, and a replay gains nothing
without the certified key, so it may go over plain HTTP.

``GET /lan/revocations`` **[ours]** answers with the signed list, PEM. Spec: SDP §10.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

from skillwire import limits
from skillwire.errors import TrustError
from skillwire.protocols.skill_discovery.identity import Identity
from skillwire.trust.certificates import (
    RequestedNames,
    VerifiedCertificate,
    decode_request,
    encode_request,
    request_error,
)
from skillwire.trust.guarded_json import load_json

T = TypeVar("T")

#: Where a server takes what :func:`write_renewal` makes, and where it gives out the signed list.
CERTIFICATES_PATH: Final = "/lan/certificates"
REVOCATIONS_PATH: Final = "/lan/revocations"
_CLOCKS_MS: Final = 300_000  # that clocks may differ


class _Request(msgspec.Struct):
    request: str
    certificate: bytes
    timestamp: int
    signature: str


class _Issued(msgspec.Struct):
    certificate: bytes


class Renewal(NamedTuple):
    """A certificate to issue: for a key, for names, and in place of a certificate, DER."""

    key: EllipticCurvePublicKey
    names: RequestedNames
    certificate: bytes


def renewal_text(timestamp: int, request: bytes) -> bytes:
    """Return the text that the holder of a certificate signs to have it renewed."""
    return f"skill-discovery/0.7 certificate\n{timestamp}\n{hashlib.sha256(request).hexdigest()}".encode()


def write_renewal(identity: Identity, key: EllipticCurvePrivateKey, names: RequestedNames, now: float) -> bytes:
    """Return the request for a new certificate, signed by the current one; ``now`` in seconds since the epoch."""
    request, timestamp = encode_request(names, key), int(now * 1000)
    signature = identity.sign(renewal_text(timestamp, request))
    return msgspec.json.encode(_Request(request.decode("ascii"), identity.certificate, timestamp, signature))


def judge_renewal(body: bytes, judge: Callable[[bytes, float], VerifiedCertificate | None], now: float) -> Renewal:
    """Return what may be issued for a request at ``now``, seconds since the epoch.

    ``judge`` may read files: it is called only for a well-formed request. Trust: ``body`` is untrusted. Raises:
    DecodeError; ValidationError: ``CERTIFICATE_REQUEST``; TrustError: ``CERTIFICATE_REFUSED``.
    """
    renewal = _read(body, _Request, "request")
    request = renewal.request.encode("utf-8", "replace")
    if abs(renewal.timestamp - now * 1000) > _CLOCKS_MS:
        raise TrustError("CERTIFICATE_REFUSED", "its timestamp is not of now; our clocks differ")
    asked = decode_request(request)
    found = judge(renewal.certificate, now)
    if found is None or not found.is_certified:
        raise TrustError("CERTIFICATE_REFUSED", "the certificate that it comes with is not good here, or not any more")
    if not found.key.verifies(renewal_text(renewal.timestamp, request), renewal.signature):
        raise TrustError("CERTIFICATE_REFUSED", "it is not signed by the holder of the certificate")
    ours = RequestedNames(*(tuple(sorted(names)) for names in (found.agents, found.skills, found.hosts)))
    if not asked.names.are_within(ours):
        raise TrustError("CERTIFICATE_REFUSED", "it asks for names that the certificate does not have")
    return Renewal(asked.key, ours, renewal.certificate)


def write_issued(certificate: bytes) -> bytes:
    """Return the answer that hands a certificate over."""
    return msgspec.json.encode(_Issued(certificate))


def read_issued(body: bytes) -> bytes:
    """Return the unproven certificate in an answer, DER. Raises: DecodeError, or ValidationError."""
    return _read(body, _Issued, "answer").certificate


def _read(body: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.convert(load_json(body, max_bytes=limits.LAN_RENEWAL_BYTES, source=CERTIFICATES_PATH), kind)
    except msgspec.ValidationError as error:
        raise request_error(f"the {what} is malformed: {error}") from error
