"""How a certificate is renewed: what an agent asks, and what it is worth.

``POST /lan/certificates`` **[ours]** takes one JSON object: ``request``, a PKCS 10 request in PEM by the key of the new
certificate; ``certificate``, the one that is still good, DER in base64; ``timestamp``, milliseconds since the epoch;
and ``signature`` of :func:`renewal_text` by the key of the one that is still good. The answer is ``{"certificate"}``,
DER in base64. The new certificate names what the old one names, never more. Nothing of it is secret, and nothing is
gained by sending it again: whoever does lacks the key that it certifies. So it may go over plain HTTP.

``GET /lan/revocations`` **[ours]** answers with the signed list, PEM. Spec: SDP §10.2.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import TrustError
from skillwire.trust.certificates import RequestedNames, decode_request, encode_request, request_error
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

    from skillwire.protocols.skill_discovery.identity import Identity
    from skillwire.trust.certificates import VerifiedCertificate

#: Where a server takes what :func:`write_renewal` makes, and where it gives out the signed list.
CERTIFICATES_PATH: Final = "/lan/certificates"
REVOCATIONS_PATH: Final = "/lan/revocations"
_CLOCKS_MS: Final = 300_000  # that clocks may differ


class Renewal(NamedTuple):
    """A certificate to issue: for a key, for names, and in place of a certificate, DER."""

    key: EllipticCurvePublicKey
    names: RequestedNames
    certificate: bytes


def renewal_text(timestamp: int, request: bytes) -> bytes:
    """Return what the holder of a certificate signs to have it renewed."""
    return f"skill-discovery/0.7 certificate\n{timestamp}\n{hashlib.sha256(request).hexdigest()}".encode()


def write_renewal(identity: Identity, key: EllipticCurvePrivateKey, names: RequestedNames, now: float) -> bytes:
    """Return the request for a new certificate, signed by the current one; ``now`` in seconds since the epoch."""
    request, timestamp = encode_request(names, key), int(now * 1000)
    document = {
        "request": request.decode("ascii"),
        "certificate": base64.b64encode(identity.certificate).decode("ascii"),
        "timestamp": timestamp,
        "signature": identity.sign(renewal_text(timestamp, request)),
    }
    return json.dumps(document).encode()


def judge_renewal(body: bytes, judge: Callable[[bytes, float], VerifiedCertificate | None], now: float) -> Renewal:
    """Return what may be issued for a request at ``now``, seconds since the epoch.

    ``judge`` may read files: it is called only for a well-formed request. Trust: ``body`` is untrusted.
    Raises: DecodeError; ValidationError: ``CERTIFICATE_REQUEST``; TrustError: ``CERTIFICATE_REFUSED``.
    """
    document = _document(body)
    request, timestamp = _text(document, "request").encode("utf-8", "replace"), document.get("timestamp")
    if type(timestamp) is not int or abs(timestamp - now * 1000) > _CLOCKS_MS:
        raise TrustError("CERTIFICATE_REFUSED", "its timestamp is not of now; our clocks differ")
    asked = decode_request(request)
    certificate = _bytes(document, "certificate")
    found = judge(certificate, now)
    if found is None or not found.is_certified:
        raise TrustError("CERTIFICATE_REFUSED", "the certificate that it comes with is not good here, or not any more")
    if not found.key.verifies(renewal_text(timestamp, request), _text(document, "signature")):
        raise TrustError("CERTIFICATE_REFUSED", "it is not signed by the holder of the certificate")
    ours = RequestedNames(*(tuple(sorted(names)) for names in (found.agents, found.skills, found.hosts)))
    if not asked.names.are_within(ours):
        raise TrustError("CERTIFICATE_REFUSED", "it asks for names that the certificate does not have")
    return Renewal(asked.key, ours, certificate)


def write_issued(certificate: bytes) -> bytes:
    """Return the answer that hands a certificate over."""
    return json.dumps({"certificate": base64.b64encode(certificate).decode("ascii")}).encode()


def read_issued(body: bytes) -> bytes:
    """Return the unproven certificate in an answer, DER. Raises: DecodeError, or ValidationError."""
    return _bytes(_document(body), "certificate")


def _document(body: bytes) -> dict[str, Any]:
    document = load_json(body, max_bytes=limits.LAN_RENEWAL_BYTES, source=CERTIFICATES_PATH)
    if not isinstance(document, dict):
        raise request_error("it is no JSON object")
    return document


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise request_error(f"{name} is missing, or no text")
    return value


def _bytes(document: dict[str, Any], name: str) -> bytes:
    try:
        return binascii.a2b_base64(_text(document, name), strict_mode=True)
    except ValueError as error:
        raise request_error(f"{name} is not base64") from error
