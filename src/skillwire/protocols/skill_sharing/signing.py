r"""Signed requests: our ``custom`` authentication, for both sides.

The protocol does not define what is signed or how replay is prevented. **[ours]**: the header field ``X-Signature``
holds ``KEYID:TIMESTAMP:HEX``; ``HEX`` is the HMAC-SHA256, keyed with the secret, over::

    TIMESTAMP "\n" METHOD "\n" TARGET "\n" BODY

``TIMESTAMP`` is in seconds since the epoch, ``METHOD`` in capitals, ``TARGET`` the request target as sent with its
query, and ``BODY`` the bytes sent, possibly none. So a signature is valid for one request at one time.
Spec: SSP §7.2.3.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.errors import in_seconds

if TYPE_CHECKING:
    from skillwire.protocols.skill_sharing.messages import CustomAuth

HEADER: Final = "X-Signature"
_FORM: Final = re.compile(r"([a-z2-7]{16}):(0|[1-9][0-9]{0,11}):([0-9a-f]{64})", re.ASCII)


class Signature(NamedTuple):
    """The parts of the header field: key id, time in seconds since the epoch, 64 hexadecimal characters."""

    key_id: str
    timestamp: int
    digest: str

    def __str__(self) -> str:
        return f"{self.key_id}:{self.timestamp}:{self.digest}"


def sign(key_id: str, secret: bytes, method: str, target: str, body: bytes, *, timestamp: int) -> Signature:
    """Return the signature of a request; its text is the value of :data:`HEADER`.

    ``secret`` is in ASCII as shown to the user, ``method`` in capitals, ``target`` path and query as sent, ``body`` as
    sent with its content coding.
    """
    signed = f"{timestamp}\n{method}\n{target}\n".encode("utf-8", "surrogateescape") + body
    return Signature(key_id, timestamp, hmac.digest(secret, signed, hashlib.sha256).hex())


def read_signature(value: str) -> Signature | None:
    """Return the signature in a header field, or None. Trust: ``value`` is hostile."""
    form = _FORM.fullmatch(value)
    return Signature(form[1], int(form[2]), form[3]) if form else None


def is_signed_by(signature: Signature, secret: bytes, method: str, target: str, body: bytes) -> bool:
    """Whether the signature is that of this request, compared in constant time. Trust: all but ``secret`` may lie."""
    expected = sign(signature.key_id, secret, method, target, body, timestamp=signature.timestamp)
    is_one_line = "\n" not in method + target  # no HTTP message has a line feed there; it would shift the parts
    return hmac.compare_digest(signature.digest, expected.digest) and is_one_line


def custom_auth() -> CustomAuth:
    """Return the descriptor's instructions for signing. Spec: SSP §3.5.5, §7.2.3."""
    from skillwire.protocols.skill_sharing.messages import (  # noqa: PLC0415  # clients sign without msgspec
        CustomAuth,
        ParameterDefinition,
    )

    instructions = (
        f"Send the header {HEADER}: KEYID:TIMESTAMP:HEX with each request. TIMESTAMP is now in whole seconds since the "
        "epoch. HEX is the lower-case hexadecimal HMAC-SHA256, keyed with your secret key as it was given to you, of "
        "TIMESTAMP, a line feed, the method in capitals, a line feed, the request target (path and query as sent), a "
        "line feed, and the bytes of the body. A signature counts once, and "
        f"for {in_seconds(limits.SIGNATURE_WINDOW_SECONDS)}."
    )
    return CustomAuth(
        instructions=instructions,
        parameters=[
            ParameterDefinition(name="key_id", type="string", description="ID of your signing key.", required=True),
            ParameterDefinition(name="secret_key", type="string", description="Your HMAC secret key.", required=True),
        ],
    )
