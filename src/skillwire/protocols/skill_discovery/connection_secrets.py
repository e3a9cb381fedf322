"""How a member of a scene asks its provider for a key: one line of JSON over TLS, and one line back.

**[ours]**: the request is ``{"scene", "skillId", "agentId"}``, the answer ``{"apiKey", "expiresAt", "basePath",
"authType", "authHeader"}``, or ``{"error": {"code", "message"}}``. Any peer may answer a datagram about a scene, so the
answer over TLS, where the certificate names the provider, explains how the key is used. A request also has the agent's
``certificate``, DER in base64, ``timestamp``, milliseconds, and a ``signature`` that covers the provider's certificate:
it is worth nothing elsewhere. Spec: SDP §4.3; specs §3 "connection secrets travel over TLS unicast only".
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from skillwire import limits
from skillwire.errors import TrustError, ValidationError
from skillwire.protocols.skill_discovery.codec import read_identifier
from skillwire.protocols.skill_discovery.identity import Identity
from skillwire.trust.guarded_json import load_json

_CLOCKS_MS: Final = 60_000
_SOURCE: Final = "connection secret"
_KEY: Final = re.compile(r"[!-~]{1,1024}")
_TYPE: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
#: A field of a request that authenticates; none that frames or routes it.
_HEADER: Final = re.compile(
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
        return abs(self.timestamp - now * 1000) <= _CLOCKS_MS


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
        request = msgspec.convert(_document(line), SecretRequest)
    except msgspec.ValidationError as error:
        raise ValidationError("DATAGRAM_FIELD", f"not a request for a {_SOURCE}: {error}") from error
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
    document = _document(line)
    error = document.get("error")
    if isinstance(error, dict):
        message = f"the provider refuses: {ascii(error.get('message', ''))[1:-1][:200]}"
        raise TrustError("DISC_004", message, fix=_REFUSED_FIX)
    default = ConnectionSecret("", 0.0)

    def matching(name: str, form: re.Pattern[str], otherwise: str) -> str:
        value = document.get(name, otherwise)
        if not isinstance(value, str) or not form.fullmatch(value):
            raise _malformed(name)
        return value

    try:
        ends = datetime.strptime(str(document.get("expiresAt")), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError as error_:
        raise _malformed("expiresAt") from error_
    return ConnectionSecret(
        matching("apiKey", _KEY, ""),
        ends.timestamp(),
        matching("authType", _TYPE, default.auth_type),
        matching("authHeader", _HEADER, default.auth_header),
        matching("basePath", _BASE_PATH, default.base_path),
    )


def _document(line: bytes) -> dict[str, Any]:
    document = load_json(line, max_bytes=limits.LAN_SECRET_BYTES, source=_SOURCE)
    if not isinstance(document, dict):
        raise ValidationError("DATAGRAM_FIELD", f"a {_SOURCE} is not a JSON object")
    return document


def _malformed(name: str) -> ValidationError:
    return ValidationError("DATAGRAM_FIELD", f"{name} of a {_SOURCE} is malformed")
