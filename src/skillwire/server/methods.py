"""What may be done with what is published: read it, from any page; and call it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.protocols.agent_skills.fields import IDENTITY_FIELDS, OPEN_FIELDS
from skillwire.server.headers import encode_fields
from skillwire.server.problems import method_not_allowed

if TYPE_CHECKING:
    from starlette.types import Send

READ: Final = ("GET", "HEAD")
_ALLOWED: Final = "GET, HEAD, OPTIONS"
#: What a page of another site may send. The star stands for everything but Authorization (Fetch standard), and for
#: nothing in browsers that do not know it.
_FIELDS: Final = f"*, {IDENTITY_FIELDS}, Content-Type, Range, If-Range, If-None-Match"


async def answer_other_method(method: str, send: Send) -> None:
    """Answer a request that does not read: what may be done, or that this may not."""
    if method == "OPTIONS":
        await answer_preflight(_ALLOWED, send)
    else:
        await method_not_allowed(method, _ALLOWED).send(send)


async def answer_preflight(allowed: str, send: Send, *fields: str) -> None:
    """Answer a preflight, and whoever else asks what may be done: the methods ``allowed``.

    ``fields`` are named in the answer beside those that may be sent anywhere.
    """
    own = {
        "Allow": allowed,
        "Access-Control-Allow-Methods": allowed,
        "Access-Control-Allow-Headers": ", ".join((_FIELDS, *fields)),
        "Access-Control-Max-Age": "86400",
    }
    await send({"type": "http.response.start", "status": 204, "headers": encode_fields(own, OPEN_FIELDS)})
    await send({"type": "http.response.body", "body": b""})
