"""What may be done with what is published: read it, from any page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.protocols.agent_skills.fields import IDENTITY_FIELDS, OPEN_FIELDS
from skillwire.server.headers import encode_fields
from skillwire.server.problems import method_not_allowed

if TYPE_CHECKING:
    from starlette.types import Send

READ: Final = ("GET", "HEAD")
_ALLOWED: Final = "GET, HEAD, OPTIONS"
#: The answer to a preflight, and to whoever else asks what may be done.
_OPTIONS: Final = encode_fields(
    {
        "Allow": _ALLOWED,
        "Access-Control-Allow-Methods": _ALLOWED,
        # The star stands for everything but Authorization (Fetch standard), and for nothing in browsers that do not
        # know it.
        "Access-Control-Allow-Headers": f"*, {IDENTITY_FIELDS}, Content-Type, Range, If-Range, If-None-Match",
        "Access-Control-Max-Age": "86400",
    },
    OPEN_FIELDS,
)


async def answer_other_method(method: str, send: Send) -> None:
    """Answer a request that does not read: what may be done, or that this may not."""
    if method != "OPTIONS":
        await method_not_allowed(method, _ALLOWED).send(send)
        return
    await send({"type": "http.response.start", "status": 204, "headers": _OPTIONS.copy()})
    await send({"type": "http.response.body", "body": b""})
