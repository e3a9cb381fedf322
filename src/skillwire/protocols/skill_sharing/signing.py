r"""Signed requests: what we offer as the ``custom`` way to authenticate. Both sides use this module.

The text leaves open what is signed and how a request is kept from being sent twice. **[ours]**: the header field
``X-Signature`` holds ``KEYID:TIMESTAMP:HEX``, and ``HEX`` is the HMAC-SHA256, keyed with the secret as it was shown,
over::

    TIMESTAMP "\n" METHOD "\n" TARGET "\n" BODY

``TIMESTAMP`` is in seconds since the epoch, ``METHOD`` in capitals, ``TARGET`` the request target as it was sent, with
its query, and ``BODY`` the bytes that are sent, none for a request without. So a signature is good for one request at
one time and for nothing else. Spec: SSP §7.2.3.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits

if TYPE_CHECKING:
    from skillwire.protocols.skill_sharing.messages import CustomAuth

HEADER: Final = "X-Signature"
_FORM: Final = re.compile(r"([a-z2-7]{16}):(0|[1-9][0-9]{0,11}):([0-9a-f]{64})", re.ASCII)


class Signature(NamedTuple):
    """What the header field says: which key, when in seconds since the epoch, and 64 hexadecimal characters."""

    key_id: str
    timestamp: int
    digest: str

    def __str__(self) -> str:
        return f"{self.key_id}:{self.timestamp}:{self.digest}"


def sign(key_id: str, secret: bytes, method: str, target: str, body: bytes, *, timestamp: int) -> Signature:
    """Return the signature of a request; its text is the value of :data:`HEADER`.

    Args:
        key_id: of the signing key.
        secret: of the signing key, as it was shown, in ASCII.
        method: in capitals.
        target: as it is sent: path and query of the URL.
        body: as it is sent, content coding included; empty for none.
        timestamp: now, in whole seconds since the epoch.
    """
    signed = f"{timestamp}\n{method}\n{target}\n".encode("utf-8", "surrogateescape") + body
    return Signature(key_id, timestamp, hmac.digest(secret, signed, hashlib.sha256).hex())


def read_signature(value: str) -> Signature | None:
    """Return what a header field says, None when it is no signature. Trust: ``value`` is a stranger's."""
    form = _FORM.fullmatch(value)
    return Signature(form[1], int(form[2]), form[3]) if form else None


def is_signed_by(signature: Signature, secret: bytes, method: str, target: str, body: bytes) -> bool:
    """Whether the signature is that of this request, compared in constant time. Trust: all but ``secret`` may lie."""
    expected = sign(signature.key_id, secret, method, target, body, timestamp=signature.timestamp)
    is_one_line = "\n" not in method + target  # no HTTP message has one there; it would shift the parts
    return hmac.compare_digest(signature.digest, expected.digest) and is_one_line


def custom_auth() -> CustomAuth:
    """Return how a descriptor tells callers to sign. Spec: SSP §3.5.5, §7.2.3."""
    from skillwire.protocols.skill_sharing.messages import (  # noqa: PLC0415  # whoever signs does without msgspec
        CustomAuth,
        ParameterDefinition,
    )

    instructions = (
        f"Send the header {HEADER}: KEYID:TIMESTAMP:HEX with each request. TIMESTAMP is now in whole seconds since the "
        "epoch. HEX is the lower-case hexadecimal HMAC-SHA256, keyed with your secret key as it was given to you, of "
        "TIMESTAMP, a line feed, the method in capitals, a line feed, the request target (path and query as sent), a "
        "line feed, and the bytes of the body. A signature counts once, and "
        f"for {int(limits.SIGNATURE_WINDOW_SECONDS)} seconds."
    )
    return CustomAuth(
        instructions=instructions,
        parameters=[
            ParameterDefinition(name="key_id", type="string", description="ID of your signing key.", required=True),
            ParameterDefinition(name="secret_key", type="string", description="Your HMAC secret key.", required=True),
        ],
    )
