"""How a member of a scene asks its provider for a key: one line of JSON over TLS, and one line back.

**[ours]**: asked is ``{"scene", "skillId", "agentId"}``, answered ``{"apiKey", "expiresAt", "basePath", "authType",
"authHeader"}``, or ``{"error": {"code", "message"}}``. Anybody may answer a datagram about a scene, and most who do are
not the provider; so how a key is used is said here, where the certificate tells who speaks. Who has a certificate of an
authority shows it to TLS. An agent that nobody certified cannot, since TLS libraries take no such certificate; it adds
``certificate``, DER in base64, ``timestamp``, milliseconds, and ``signature`` of what holds the certificate that the
provider has shown, so that it is worth nothing elsewhere.
Spec: SDP §4.3; specs §3 "connection secrets travel over TLS unicast only".
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire import limits
from skillwire.errors import TrustError, ValidationError
from skillwire.protocols.skill_discovery.codec import read_identifier
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from skillwire.protocols.skill_discovery.identity import Identity

_CLOCKS_MS: Final = 60_000
_SOURCE: Final = "connection secret"
_KEY_LENGTH: Final = 1024
_TYPE: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
#: A field of a request that says who asks; none that says where it ends, or to whom it goes.
_HEADER: Final = re.compile(
    r"(?!(?:host|connection|content-length|expect|keep-alive|te|trailer|transfer-encoding|upgrade)\Z)[a-z0-9-]{1,64}",
    re.ASCII | re.IGNORECASE,
)
_BASE_PATH: Final = re.compile(
    r"(?=.{0,200}\Z)(?:/(?!\.\.?(?:/|\Z))(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%(?!7F|2E|2F|5C)[2-9A-F][0-9A-F])+)*", re.ASCII
)
#: What to do about a provider that refuses us.
_REFUSED_FIX: Final = (
    "Have the provider name the authority that has certified this agent in its [discovery.trust] roots and "
    "intermediates; or have it set useUnverified, which gives keys to uncertified agents."
)


class SecretRequest(NamedTuple):
    """A request for the key of a skill in a scene.

    Args:
        scene: that was joined.
        skill_id: of the provider.
        agent_id: that asks.
        certificate: DER, of who shows none to TLS.
        timestamp: milliseconds since the epoch, with ``certificate``.
        signature: with ``certificate``.
    """

    scene: str
    skill_id: str
    agent_id: str
    certificate: bytes = b""
    timestamp: int = 0
    signature: str = ""

    def proof_text(self, provider_certificate: bytes) -> bytes:
        """Return what an agent without an authority signs, to the provider that has shown a certificate, DER."""
        shown = hashlib.sha256(provider_certificate).hexdigest()
        parts = ("skill-discovery/0.7 connection", shown, self.agent_id, self.scene, self.skill_id, str(self.timestamp))
        return "\n".join(parts).encode()

    def signed(self, identity: Identity, provider_certificate: bytes, now: float) -> SecretRequest:
        """Return the request with the proof of an uncertified agent; ``now`` in seconds since the epoch."""
        asked = self._replace(certificate=identity.certificate, timestamp=int(now * 1000))
        return asked._replace(signature=identity.sign(asked.proof_text(provider_certificate)))

    def is_of_now(self, now: float) -> bool:
        """Whether the proof was made lately."""
        return abs(self.timestamp - now * 1000) <= _CLOCKS_MS


class ConnectionSecret(NamedTuple):
    """A key that is good for one skill, and how it is used. Never to be logged. Spec: SDP §4.3.

    Unless said otherwise it is used as a server of ours takes it, and as one of before, which did not say: in the field
    of HTTP that the text's example names, with paths from the root on.

    Args:
        api_key: the value of that field.
        expires: seconds since the epoch.
        auth_type: such as ``api-key``.
        auth_header: name of the field of HTTP.
        base_path: what stands between ``host:port`` and every path of the provider; empty, or ``/`` and a name.
    """

    api_key: str
    expires: float
    auth_type: str = "api-key"
    auth_header: str = "X-API-Key"
    base_path: str = ""

    def __repr__(self) -> str:
        """Return nothing of the key."""
        return f"ConnectionSecret(expires={self.expires})"

    @property
    def expires_at(self) -> str:
        """When it ends, RFC 3339 in UTC."""
        return datetime.fromtimestamp(self.expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_request(asked: SecretRequest) -> bytes:
    """Return a question, one line."""
    document: dict[str, str | int] = {"scene": asked.scene, "skillId": asked.skill_id, "agentId": asked.agent_id}
    if asked.certificate:
        document["certificate"] = base64.b64encode(asked.certificate).decode("ascii")
        document |= {"timestamp": asked.timestamp, "signature": asked.signature}
    return json.dumps(document).encode() + b"\n"


def read_request(line: bytes) -> SecretRequest:
    """Return a request. Raises: DecodeError; ValidationError: ``DATAGRAM_FIELD``. Trust: it is untrusted."""
    document = _document(line)
    scene, skill_id, agent_id = (read_identifier(_text(document, name)) for name in ("scene", "skillId", "agentId"))
    timestamp = document.get("timestamp", 0)
    try:
        certificate = binascii.a2b_base64(_text(document, "certificate"), strict_mode=True)
    except ValueError as error:
        raise _malformed("certificate") from error
    if type(timestamp) is not int:
        raise _malformed("timestamp")
    return SecretRequest(scene, skill_id, agent_id, certificate, timestamp, _text(document, "signature"))


def write_answer(secret: ConnectionSecret) -> bytes:
    """Return an answer, one line."""
    document = {"apiKey": secret.api_key, "expiresAt": secret.expires_at, "basePath": secret.base_path}
    return json.dumps(document | {"authType": secret.auth_type, "authHeader": secret.auth_header}).encode() + b"\n"


def write_refusal(code: str, message: str) -> bytes:
    """Return why there is no key, one line."""
    return json.dumps({"error": {"code": code, "message": message}}).encode() + b"\n"


def read_answer(line: bytes) -> ConnectionSecret:
    """Return the key in an answer. Raises: DecodeError, ValidationError; TrustError: ``DISC_004``, refused."""
    document = _document(line)
    error = document.get("error")
    if isinstance(error, dict):
        message = f"the provider refuses: {ascii(error.get('message', ''))[1:-1][:200]}"
        raise TrustError("DISC_004", message, fix=_REFUSED_FIX)
    key, expires = _text(document, "apiKey"), _text(document, "expiresAt")
    if not (key.isascii() and key.isprintable() and 0 < len(key) <= _KEY_LENGTH and " " not in key):
        raise _malformed("apiKey")
    try:
        ends = datetime.strptime(expires, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError as error_:
        raise _malformed("expiresAt") from error_
    secret = ConnectionSecret(key, ends.timestamp())
    return secret._replace(
        auth_type=_matching(document, "authType", _TYPE, secret.auth_type),
        auth_header=_matching(document, "authHeader", _HEADER, secret.auth_header),
        base_path=_matching(document, "basePath", _BASE_PATH, secret.base_path),
    )


def _document(line: bytes) -> dict[str, Any]:
    document = load_json(line, max_bytes=limits.LAN_SECRET_BYTES, source=_SOURCE)
    if not isinstance(document, dict):
        raise _malformed("the whole")
    return document


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name, "")
    if not isinstance(value, str):
        raise _malformed(name)
    return value


def _matching(document: dict[str, Any], name: str, form: re.Pattern[str], otherwise: str) -> str:
    value = _text(document, name) if name in document else otherwise
    if not form.fullmatch(value):
        raise _malformed(name)
    return value


def _malformed(name: str) -> ValidationError:
    return ValidationError("DATAGRAM_FIELD", f"{name} of a {_SOURCE} is not as it should be")
