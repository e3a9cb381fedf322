"""The header fields that answers of a kind carry, on the live server and on static hosts alike.

A skill's files come from whoever wrote the skill and are read under our origin: ``nosniff`` and a sandbox
without permissions keep a browser from running what is in them. Everything that anyone may read is open to
scripts of other origins, without credentials. Spec: ASD HTTP Considerations (CORS).
"""

from __future__ import annotations

from typing import Final

#: On every answer.
OPEN_FIELDS: Final[dict[str, str]] = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "ETag, Accept-Ranges, Content-Range, RateLimit-Limit, RateLimit-Remaining, "
    "RateLimit-Reset, Retry-After, WWW-Authenticate, Location, Preference-Applied, Webhook-Secret",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "X-Content-Type-Options": "nosniff",
}
#: What an answer depends on that is not the same for everybody: who asks, and how that is shown.
IDENTITY_FIELDS: Final = "Authorization, X-API-Key, X-Signature"
#: On what comes out of a skill.
CONTENT_FIELDS: Final[dict[str, str]] = {"Content-Security-Policy": "default-src 'none'; sandbox"}
