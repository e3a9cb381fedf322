"""The bytes of skills from the blob store, and documents that carry the address of the site.

Small blobs are read whole, off the event loop, and kept for a while; large ones are sent in pieces, so that a slow
client costs the memory of a piece and not of the file. A part may be asked for, so that a download can go on where it
broke off; ``If-Range`` makes sure that it goes on in the same bytes.

A document with full URLs depends on the address under which the client reached us. Its first request makes it, and it
is kept with the view's other lists. Trust: without a base URL the address is what the client writes into ``Host``, and
a list of 10,000 skills takes half a second to make, so lists for new addresses are made only so often.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import StorageError
from skillwire.protocols.agent_skills.messages import CONTENT_FIELDS, IDENTITY_FIELDS, OPEN_FIELDS
from skillwire.protocols.agent_skills.server import CachePolicy
from skillwire.server.auth.rate_limit import RateLimit, RateLimiter
from skillwire.server.http import Part, encode_fields, matching_tag, read_fields, requested_part
from skillwire.server.problems import ProblemError, too_many, unsatisfiable
from skillwire.server.responses import ByteCache

if TYPE_CHECKING:
    from io import FileIO

    from starlette.types import Message, Scope, Send

    from skillwire.model.digest import Digest
    from skillwire.ports import BlobStore
    from skillwire.protocols.agent_skills.server import BlobResponse
    from skillwire.server.context import RequestContext
    from skillwire.server.responses import CachedResponse
    from skillwire.server.revision import SiteUrlBody

_FIELDS: Final = encode_fields({"Accept-Ranges": "bytes"}, OPEN_FIELDS, CONTENT_FIELDS)


class BlobSender:
    """Sends blobs."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._kept: ByteCache[Digest, bytes] = ByteCache(limits.SERVER_BLOB_CACHE_BYTES)

    async def send(self, stored: BlobResponse, scope: Scope, send: Send) -> None:
        """Answer a GET or HEAD: the whole, a part, or that the client has it already."""
        asked = read_fields(scope["headers"], b"if-none-match", b"range", b"if-range")
        tag = f'"{stored.digest.hex}"'
        depends = {"Vary": IDENTITY_FIELDS} if stored.cache is CachePolicy.PRIVATE else {}
        kept = encode_fields({"ETag": tag, "Cache-Control": stored.cache.value}, depends) + _FIELDS
        if matching_tag(asked.get(b"if-none-match", ""), (tag,)):
            await send({"type": "http.response.start", "status": 304, "headers": kept})
            await send({"type": "http.response.body", "body": b""})
            return
        part = None
        if scope["method"] == "GET" and asked.get(b"if-range", tag) == tag:
            part = requested_part(asked.get(b"range", ""), stored.size)
        if part is not None and part.start == part.stop:
            await unsatisfiable(stored.size).send(send)
            return
        length = stored.size if part is None else part.stop - part.start
        fields = {"Content-Type": stored.media_type, "Content-Length": str(length)}
        if part is not None:
            fields["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{stored.size}"
        status = 200 if part is None else 206
        start = {"type": "http.response.start", "status": status, "headers": encode_fields(fields) + kept}
        if scope["method"] == "HEAD":
            await send(start)
            await send({"type": "http.response.body", "body": b""})
        else:
            await self._send_bytes(stored, part or Part(0, stored.size), start, send)

    async def _send_bytes(self, stored: BlobResponse, part: Part, start: Message, send: Send) -> None:
        if stored.size > limits.SERVER_PIECE_BYTES:
            file = await asyncio.to_thread(self._open, stored, part.start)
            if file is not None:
                left = part.stop - part.start
                with file:
                    await send(start)
                    while left:
                        piece = await asyncio.to_thread(file.read, min(left, limits.SERVER_PIECE_BYTES))
                        if not piece:
                            raise StorageError("STORAGE", "a blob ended early")  # the server cuts the connection
                        left -= len(piece)
                        await send({"type": "http.response.body", "body": piece, "more_body": left > 0})
                return
        content = self._kept.get(stored.digest)
        if content is None:
            content = await asyncio.to_thread(self._blobs.read, stored.digest)
            if content is not None:
                self._kept.put(stored.digest, content, len(content))
        if content is None:
            raise StorageError("STORAGE", "a blob was damaged or missing")
        await send(start)
        await send({"type": "http.response.body", "body": content[part.start : part.stop]})

    def _open(self, stored: BlobResponse, position: int) -> FileIO | None:
        """Open a blob at ``position``; None when it is not in a file, or not of its size."""
        path = self._blobs.path(stored.digest)
        if path is None or path.stat().st_size != stored.size:
            return None
        file = path.open("rb", buffering=0)
        file.seek(position)
        return file


#: So many skills make a list that takes a while.
_MANY_SKILLS: Final = 200
_NEW_ADDRESSES: Final = RateLimit(30, 30)


class SiteUrlCache:
    """Makes documents that carry the address of the site; ``base_url`` is empty when each request says the address."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._new_addresses = RateLimiter(_NEW_ADDRESSES)

    async def respond(self, context: RequestContext, path: str, made: SiteUrlBody) -> CachedResponse:
        """Return the document at ``path`` for the site's address. Raises ProblemError (429) for too many addresses."""
        key, view = f"{path} {context.site}", context.view
        if not self._base_url and len(made.skills) >= _MANY_SKILLS and not view.indexes.has(key):
            allowance = self._new_addresses.take("", context.clock())
            if not allowance.allowed:
                message = "too many addresses are asked for; --base-url names the right one"
                raise ProblemError(too_many(message, allowance))
        return await view.indexes.prepare(key, made)
