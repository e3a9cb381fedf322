"""Credentials that an agent asks for beside the datagrams: the API key of a provider, and its next certificate.

**API keys.** A member of a scene asks its provider by one line of JSON over TLS and gets one line back. **[ours]**: the
request is ``{"scene", "skillId", "agentId"}``, the answer ``{"apiKey", "expiresAt", "basePath",
"authType", "authHeader"}``, or ``{"error": {"code", "message"}}``. Any peer may answer a datagram about a scene, so the
answer over TLS, where the certificate names the provider, explains how the key is used. A request also has the agent's
``certificate``, DER in base64, ``timestamp``, milliseconds, and a ``signature`` that covers the provider's certificate:
it is worth nothing elsewhere.

**Certificates.** ``POST /lan/certificates`` **[ours]** takes one JSON object: ``request``, a PKCS 10 request in PEM by
the key of the new certificate; ``certificate``, the current one, DER in base64; ``timestamp``, milliseconds since the
epoch; and a ``signature`` of :func:`renewal_text` by the key of the current one. The answer is ``{"certificate"}``, DER
in base64. The new certificate names what the old one names, never more. Nothing in it is secret, and a replay gains
nothing without the certified key, so it may go over plain HTTP. ``GET /lan/revocations`` **[ours]** answers with the
signed list, PEM. Spec: SDP §4.3, §10.2; specs §3 "connection secrets travel over TLS unicast only".
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

from skillwire import limits
from skillwire.errors import TrustError, ValidationError
from skillwire.protocols.skill_discovery.codec import read_identifier
from skillwire.protocols.skill_discovery.identity import Identity
from skillwire.trust.certificates import (
    RequestedNames,
    VerifiedCertificate,
    decode_request,
    encode_request,
    request_error,
)
from skillwire.trust.guarded_json import load_json

_SECRET_CLOCKS_MS: Final = 60_000
_CONNECTION_SOURCE: Final = "connection secret"
_API_KEY: Final = re.compile(r"[!-~]{1,1024}")
_AUTH_TYPE: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
#: A field of a request that authenticates; none that frames or routes it.
_AUTH_HEADER: Final = re.compile(
    r"(?!(?:host|connection|content-length|expect|keep-alive|te|trailer|transfer-encoding|upgrade)\Z)[a-z0-9-]{1,64}",
    re.ASCII | re.IGNORECASE,
)
_BASE_PATH: Final = re.compile(
    r"(?=.{0,200}\Z)(?:/(?!\.\.?(?:/|\Z))(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%(?!7F|2E|2F|5C)[2-9A-F][0-9A-F])+)*", re.ASCII
)
_REFUSED_FIX: Final = (
    "Have the provider name the authority that has certified this agent in its [discovery.trust] roots and "
    "intermediates, or set useUnverified, which gives keys to uncertified agents; then restart its server."
)


class SecretRequest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A request for the key of a provider's skill in a joined scene."""

    scene: str
    skill_id: str
    agent_id: str
    certificate: bytes = b""
    timestamp: int = 0  # ms since the epoch
    signature: str = ""

    def proof_text(self, provider_certificate: bytes) -> bytes:
        """Return the text that an agent signs for the provider with this certificate, DER."""
        shown = hashlib.sha256(provider_certificate).hexdigest()
        parts = ("skill-discovery/0.7 connection", shown, self.agent_id, self.scene, self.skill_id, str(self.timestamp))
        return "\n".join(parts).encode()

    def signed(self, identity: Identity, provider_certificate: bytes, now: float) -> SecretRequest:
        """Return the request with the agent's proof; ``now`` in seconds since the epoch."""
        request = msgspec.structs.replace(self, certificate=identity.certificate, timestamp=int(now * 1000))
        return msgspec.structs.replace(request, signature=identity.sign(request.proof_text(provider_certificate)))

    def is_of_now(self, now: float) -> bool:
        """Return whether the proof is recent; ``now`` in seconds since the epoch."""
        return abs(self.timestamp - now * 1000) <= _SECRET_CLOCKS_MS


class ConnectionSecret(NamedTuple):
    """A key that is good for one skill, and how it is used. Never to be logged. Spec: SDP §4.3.

    By default it is used as our servers take it: in the header of the text's example, with paths from the root on.
    """

    api_key: str  # the value of the header
    expires: float  # s since the epoch
    auth_type: str = "api-key"
    auth_header: str = "X-API-Key"
    base_path: str = ""  # before every path of the provider; empty, or `/` and a name

    def __repr__(self) -> str:
        return f"ConnectionSecret(expires={self.expires})"

    @property
    def expires_at(self) -> str:
        """When it ends, RFC 3339 in UTC."""
        return datetime.fromtimestamp(self.expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_request(request: SecretRequest) -> bytes:
    """Return a request, one line."""
    return msgspec.json.encode(request) + b"\n"


def read_request(line: bytes) -> SecretRequest:
    """Return a request. Raises: DecodeError; ValidationError: ``DATAGRAM_FIELD``. Trust: it is untrusted."""
    try:
        request = msgspec.convert(_secret_document(line), SecretRequest)
    except msgspec.ValidationError as error:
        raise ValidationError("DATAGRAM_FIELD", f"not a request for a {_CONNECTION_SOURCE}: {error}") from error
    for name in (request.scene, request.skill_id, request.agent_id):
        read_identifier(name)
    return request


def write_answer(secret: ConnectionSecret) -> bytes:
    """Return an answer, one line."""
    document = {"apiKey": secret.api_key, "expiresAt": secret.expires_at, "basePath": secret.base_path}
    return json.dumps(document | {"authType": secret.auth_type, "authHeader": secret.auth_header}).encode() + b"\n"


def write_refusal(code: str, message: str) -> bytes:
    """Return the reason of a refusal, one line."""
    return json.dumps({"error": {"code": code, "message": message}}).encode() + b"\n"


def read_answer(line: bytes) -> ConnectionSecret:
    """Return the key in an answer. Raises: DecodeError, ValidationError; TrustError: ``DISC_004``, refused."""
    document = _secret_document(line)
    error = document.get("error")
    if isinstance(error, dict):
        message = f"the provider refuses: {ascii(error.get('message', ''))[1:-1][:200]}"
        raise TrustError("DISC_004", message, fix=_REFUSED_FIX)
    default = ConnectionSecret("", 0.0)

    def matching(name: str, form: re.Pattern[str], otherwise: str) -> str:
        value = document.get(name, otherwise)
        if not isinstance(value, str) or not form.fullmatch(value):
            raise _malformed_secret(name)
        return value

    try:
        ends = datetime.strptime(str(document.get("expiresAt")), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError as error_:
        raise _malformed_secret("expiresAt") from error_
    return ConnectionSecret(
        matching("apiKey", _API_KEY, ""),
        ends.timestamp(),
        matching("authType", _AUTH_TYPE, default.auth_type),
        matching("authHeader", _AUTH_HEADER, default.auth_header),
        matching("basePath", _BASE_PATH, default.base_path),
    )


def _secret_document(line: bytes) -> dict[str, Any]:
    document = load_json(line, max_bytes=limits.LAN_SECRET_BYTES, source=_CONNECTION_SOURCE)
    if not isinstance(document, dict):
        raise ValidationError("DATAGRAM_FIELD", f"a {_CONNECTION_SOURCE} is not a JSON object")
    return document


def _malformed_secret(name: str) -> ValidationError:
    return ValidationError("DATAGRAM_FIELD", f"{name} of a {_CONNECTION_SOURCE} is malformed")


T = TypeVar("T")

#: Where a server takes what :func:`write_renewal` makes, and where it gives out the signed list.
CERTIFICATES_PATH: Final = "/lan/certificates"
REVOCATIONS_PATH: Final = "/lan/revocations"
_RENEWAL_CLOCKS_MS: Final = 300_000  # that clocks may differ


class _RenewalRequest(msgspec.Struct):
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
    return msgspec.json.encode(_RenewalRequest(request.decode("ascii"), identity.certificate, timestamp, signature))


def judge_renewal(body: bytes, judge: Callable[[bytes, float], VerifiedCertificate | None], now: float) -> Renewal:
    """Return what may be issued for a request at ``now``, seconds since the epoch.

    ``judge`` may read files: it is called only for a well-formed request. Trust: ``body`` is untrusted. Raises:
    DecodeError; ValidationError: ``CERTIFICATE_REQUEST``; TrustError: ``CERTIFICATE_REFUSED``.
    """
    renewal = _read(body, _RenewalRequest, "request")
    request = renewal.request.encode("utf-8", "replace")
    if abs(renewal.timestamp - now * 1000) > _RENEWAL_CLOCKS_MS:
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
