"""Responses as ASGI applications: prepared ones, bytes, pages, redirects, and large bodies in pieces.

Every client of every skill requests an index, so an index is encoded, compressed and hashed once a revision, and then
costs a lookup and one or two comparisons. Each coding has a strong tag of its own; a client that holds any of them gets
a 304 with the tag that it sent. Of a large index only the codings are kept, a quarter of its size, until a client that
accepts none asks; then the index is inflated, which takes 20 ms for 10,000 skills, and kept too.

Large bodies are sent in pieces and at a minimum rate, so a slow client costs the memory of a piece; a client that does
not read loses its connection. Pages are compressed for each response, with the header fields that bound what a browser
may do with them.
"""

from __future__ import annotations

import asyncio
import gzip
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import brotli

from skillwire import limits
from skillwire.errors import StorageError
from skillwire.model.digest import Digest
from skillwire.protocols.agent_skills.messages import CONTENT_FIELDS, IDENTITY_FIELDS, OPEN_FIELDS
from skillwire.protocols.agent_skills.server import CachePolicy
from skillwire.server.http import (
    CONTEXT,
    VARY,
    Coding,
    Fields,
    Part,
    choose_coding,
    encode_fields,
    join_fields,
    liked_codings,
    matching_tag,
    read_fields,
    requested_part,
    send_response,
)
from skillwire.server.problems import unsatisfiable
from skillwire.web.assets import CONSOLE_FIELDS, PAGE_FIELDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from io import FileIO

    from starlette.types import Message, Receive, Scope, Send

    from skillwire.ports import BlobStore
    from skillwire.protocols.agent_skills.server import BlobResponse

K = TypeVar("K")
V = TypeVar("V")


class ByteCache(Generic[K, V]):
    """Keeps values by key, at most ``bound`` bytes of them, and none of more than a quarter; used by one thread."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.size = 0

    def get(self, key: K) -> V | None:
        """Return the value, or None."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep ``value``, which takes ``size`` bytes."""
        if key in self._kept or size > self._bound // 4:
            return
        self._kept[key] = (value, size)
        self.size += size
        while self.size > self._bound:
            self.size -= self._kept.popitem(last=False)[1][1]


#: The methods that read, as a request line says them.
WIRE_READ: Final = (b"GET", b"HEAD")

#: Below it a packet carries the answer either way.
_WORTH_CODING: Final = 1024
#: Above each, better compression takes longer than it can save: 5 MiB cost brotli 0.2 s at 5, and 9 s at 11; 24 MiB
#: cost gzip 0.9 s at 6, and 0.3 s at 3 for a tenth more bytes.
_LARGE: Final = 512 * 1024
_HUGE: Final = 8 * 1024 * 1024
_BROTLI_QUALITY: Final = (9, 5, 3)
_GZIP_LEVEL: Final = (9, 6, 3)
_OPEN: Final = encode_fields(OPEN_FIELDS)  # once: indexes of scopes are many
_BLOB_FIELDS: Final = encode_fields({"Accept-Ranges": "bytes"}, OPEN_FIELDS, CONTENT_FIELDS)
_STATUS_LINES: Final = {200: b"HTTP/1.1 200 OK\r\n", 304: b"HTTP/1.1 304 Not Modified\r\n"}


class EncodedBody(NamedTuple):
    """One coding of a response: fields and wire heads by status (200, 304), and the body, None until it is inflated."""

    fields: dict[int, Fields]
    heads: dict[int, bytes]
    body: bytes | None


class WireResponse(NamedTuple):
    """A response as it is sent; its writer ends the head, with the ``Date`` and an empty line."""

    status: int
    head: bytes
    body: bytes


class GzipBody(NamedTuple):
    """Content that is compressed with gzip already: its bytes, the size of the content, and a digest of it."""

    body: bytes
    size: int
    digest: str


class CachedResponse:
    """A response with all codings of ``content`` if it varies by them; ``size`` counts the bytes of all of them."""

    __slots__ = ("_by_coding", "_by_tag", "_tags", "size")

    def __init__(self, content: bytes | GzipBody, media_type: str, cache: CachePolicy, *, vary: str = VARY) -> None:
        self._by_coding: dict[Coding, EncodedBody] = {}
        self._by_tag: dict[bytes, EncodedBody] = {}
        tags = []
        self.size = 0
        bodies: dict[Coding, bytes | None]
        if isinstance(content, GzipBody):
            size, digest = content.size, content.digest
            bodies = {"identity": None, "gzip": content.body}
        else:
            size, digest = len(content), Digest.of(content).hex
            bodies = _compress(content) if vary == VARY and size >= _WORTH_CODING else {"identity": content}
        for coding, body in bodies.items():
            length = size if body is None else len(body)
            tag = f'"{digest}"' if coding == "identity" else f'"{digest}-{coding}"'
            kept = {"ETag": tag, "Cache-Control": cache.value, "Vary": vary}
            sent = {"Content-Type": media_type, "Content-Length": str(length)}
            if coding != "identity":
                sent["Content-Encoding"] = coding
            fields = {200: [*encode_fields(sent, kept), *_OPEN], 304: [*encode_fields(kept), *_OPEN]}
            heads = {status: _STATUS_LINES[status] + join_fields(group) for status, group in fields.items()}
            variant = EncodedBody(fields, heads, body)
            self._by_coding[coding] = self._by_tag[tag.encode()] = variant
            tags.append(tag)
            self.size += length
        self._tags = tuple(tags)

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer a GET or HEAD, as an ASGI application."""
        status, variant = self.choose(scope["headers"])
        is_head_only = status == HTTPStatus.NOT_MODIFIED or scope["method"] == "HEAD"
        body = b"" if is_head_only else self._body(variant)
        await send_response(send, status, variant.fields[status].copy(), body)

    def ready(self, method: bytes, fields: Fields) -> WireResponse | None:
        """Return the response to a request with this method and these header fields, if the method reads."""
        if method not in WIRE_READ:
            return None
        status, variant = self.choose(fields)
        body = b"" if status == HTTPStatus.NOT_MODIFIED or method == b"HEAD" else self._body(variant)
        return WireResponse(status, variant.heads[status], body)

    def _body(self, variant: EncodedBody) -> bytes:
        if variant.body is not None:
            return variant.body
        body = gzip.decompress(self._body(self._by_coding["gzip"]))
        self._by_coding["identity"] = variant._replace(body=body)
        return body

    def choose(self, fields: Fields) -> tuple[int, EncodedBody]:
        """Return the status and the coding for a request with these header fields."""
        accepted = condition = None
        for name, value in fields:
            if name == b"accept-encoding":
                accepted = value if accepted is None else accepted + b"," + value
            elif name == b"if-none-match":
                condition = value if condition is None else condition + b"," + value
        if condition is not None:
            if (held := self._by_tag.get(condition)) is not None:
                return 304, held
            if (tag := matching_tag(condition.decode("latin-1"), self._tags)) is not None:
                return 304, self._by_tag[tag.encode()]
        return 200, next(self._by_coding[coding] for coding in _liked(accepted) if coding in self._by_coding)


def _compress(content: bytes) -> dict[Coding, bytes | None]:
    """Return the codings that are smaller than ``content``, and itself; None where it can be inflated from gzip."""
    tier = (len(content) >= _LARGE) + (len(content) >= _HUGE)
    bodies: dict[Coding, bytes | None] = {"identity": content}
    smaller: dict[Coding, bytes] = {
        "br": brotli.compress(content, mode=brotli.MODE_TEXT, quality=_BROTLI_QUALITY[tier]),
        "gzip": gzip.compress(content, _GZIP_LEVEL[tier], mtime=0),
    }
    bodies |= {coding: body for coding, body in smaller.items() if len(body) < len(content)}
    if tier and "gzip" in bodies:
        bodies["identity"] = None
    return bodies


@lru_cache(maxsize=256)  # clients send few different values; bounded, because the values are theirs
def _liked(accepted: bytes | None) -> tuple[Coding, ...]:
    return ("identity",) if accepted is None else liked_codings(accepted.decode("latin-1"))


@dataclass(frozen=True, slots=True)
class BytesResponse:
    """A response whose body is in memory, as an ASGI application; HEAD gets its header fields alone."""

    status: int
    body: bytes
    fields: Fields

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer a request."""
        headers = [*self.fields, (b"content-length", b"%d" % len(self.body))]
        await send_response(send, self.status, headers, b"" if scope["method"] == "HEAD" else self.body)


def json_response(body: bytes, status: int = 200, media_type: str = "application/json", **fields: str) -> BytesResponse:
    """Return a response that every page may read and no cache may keep."""
    own = {"Content-Type": media_type, "Cache-Control": "no-store", **fields}
    return BytesResponse(status, body, encode_fields(own, OPEN_FIELDS))


def private_json(body: bytes) -> BytesResponse:
    """Return a response that depends on the caller's credentials, and that no cache may keep."""
    fields = {"Content-Type": "application/json", "Cache-Control": "no-store", "Vary": "Cookie"}
    return BytesResponse(200, body, encode_fields(fields))


async def no_content(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Send an empty response (204)."""
    await send_response(send, 204, encode_fields({"Cache-Control": "no-store"}, OPEN_FIELDS))


async def run_while_connected(task: asyncio.Task[V], receive: Receive) -> asyncio.Task[V]:
    """Wait until ``task`` ends, or the client disconnects, which cancels it; return the task."""

    async def disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    gone = asyncio.create_task(disconnect())
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in (task, gone):
            one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)
    return task


async def in_pieces(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield bytes in small pieces."""
    for part in parts:
        for start in range(0, len(part), limits.SERVER_PIECE_BYTES):
            yield part[start : start + limits.SERVER_PIECE_BYTES]


async def send_pieces(pieces: AsyncIterator[bytes], size: int, send: Send, *, is_last: bool = True) -> bool:
    """Send a body, or a part of one, of ``size`` bytes, whose head was sent; return whether the client read it.

    When it did not, send nothing more: the server cuts a connection whose response is not whole.
    """
    clock, seconds = asyncio.get_running_loop().time, limits.SERVER_REQUEST_SECONDS
    end = clock() + seconds + size / limits.SERVER_REQUEST_RATE
    try:
        async with asyncio.timeout_at(end) as timeout:
            async for piece in pieces:
                timeout.reschedule(min(end, clock() + seconds))
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                # Writes are joined to the end of a turn, and only then is it seen that the client does not read.
                await asyncio.sleep(0)
            if is_last:
                await send({"type": "http.response.body", "body": b""})
    except TimeoutError:
        return False
    return True


async def find_part(
    scope: Scope, send: Send, tag: str, size: int, *, media_type: str, kept: Fields
) -> tuple[Part, Message] | None:
    """Return the part of a stored body that a GET asks for, the whole by default, and the message of its head.

    None when the request is answered: the client has the body, the part is behind its end, or the method is HEAD.
    """
    asked = read_fields(scope["headers"], b"if-none-match", b"range", b"if-range")
    status, part, fields = 200, Part(0, size), {"ETag": tag}
    if matching_tag(asked.get(b"if-none-match", ""), (tag,)):
        status = 304
    else:
        wanted = None
        if scope["method"] == "GET" and asked.get(b"if-range", tag) == tag:
            wanted = requested_part(asked.get(b"range", ""), size)
        if wanted is not None:
            if wanted.start == wanted.stop:
                await unsatisfiable(size).send(send)
                return None
            status, part = 206, wanted
            fields["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
        fields |= {"Content-Type": media_type, "Content-Length": str(part.stop - part.start)}
    start: Message = {"type": "http.response.start", "status": status, "headers": [*encode_fields(fields), *kept]}
    if status != HTTPStatus.NOT_MODIFIED and scope["method"] == "GET":
        return part, start
    await send(start)
    await send({"type": "http.response.body", "body": b""})
    return None


class BlobSender:
    """Sends blobs: small ones whole, large ones in pieces. ``If-Range`` continues a download in the same bytes."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    async def send(self, stored: BlobResponse, scope: Scope, send: Send, content: bytes | None = None) -> None:
        """Answer a GET or HEAD: the whole, a part, or that the client has it already.

        ``content`` is sent where the blob store cannot hold it. Raises StorageError.
        """
        depends = {"Vary": IDENTITY_FIELDS} if stored.cache is CachePolicy.PRIVATE else {}
        kept = [*encode_fields({"Cache-Control": stored.cache.value}, depends), *_BLOB_FIELDS]
        tag = f'"{stored.digest.hex}"'
        found = await find_part(scope, send, tag, stored.size, media_type=stored.media_type, kept=kept)
        if found is None:
            return
        part, start = found
        file = None
        if content is None and stored.size > limits.SERVER_PIECE_BYTES:
            file = await asyncio.to_thread(self._open, stored, part.start)
        if file is None:
            if content is None:
                content = await asyncio.to_thread(self._blobs.read, stored.digest)
            if content is None:
                raise StorageError("STORAGE", "a blob was damaged or missing")
            await send(start)
            await send({"type": "http.response.body", "body": content[part.start : part.stop]})
            return
        left = part.stop - part.start
        with file:
            await send(start)
            while left:
                piece = await asyncio.to_thread(file.read, min(left, limits.SERVER_PIECE_BYTES))
                if not piece:
                    raise StorageError("STORAGE", "a blob ended early")  # the server cuts the connection
                left -= len(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": left > 0})

    def _open(self, stored: BlobResponse, position: int) -> FileIO | None:
        """Open a blob at ``position``; None when it is not in a file, or not of its size."""
        path = self._blobs.path(stored.digest)
        if path is None or path.stat().st_size != stored.size:
            return None
        file = path.open("rb", buffering=0)
        file.seek(position)
        return file


#: Dynamic text is sent once, so it is compressed quickly: 0.4 ms for a list.
_PAGE_BROTLI_QUALITY: Final = 4
_PAGE_GZIP_LEVEL: Final = 4
_FIELDS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-cache",
    "Vary": "Accept, Accept-Encoding",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A page as an ASGI application. Caches may keep it unless it ``is_private``, and get a 304 for its tag."""

    status: int
    html: str
    fields: Mapping[str, str] = field(default_factory=dict)
    is_private: bool = False

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer a request."""
        asked = read_fields(scope["headers"], b"accept-encoding", b"if-none-match")
        body = self.html.encode("utf-8", "replace")
        coding = choose_coding(asked.get(b"accept-encoding", "")) if len(body) >= _WORTH_CODING else "identity"
        if self.is_private:
            vary = {"Content-Type": _FIELDS["Content-Type"], "Vary": "Accept, Accept-Encoding, Cookie"}
            fields = {**CONSOLE_FIELDS, **vary, **self.fields}
        else:
            tag = f'"{Digest.of(body).hex[:32]}-{coding}"'
            own = {**_FIELDS, **self.fields, "ETag": tag}
            if self.status == HTTPStatus.OK and matching_tag(asked.get(b"if-none-match", ""), (tag,)):
                del own["Content-Type"]
                await send_response(send, 304, encode_fields(own, PAGE_FIELDS))
                return
            fields = {**PAGE_FIELDS, **own}
        if coding == "br":
            quality = _PAGE_BROTLI_QUALITY
            body = await asyncio.to_thread(brotli.compress, body, mode=brotli.MODE_TEXT, quality=quality)
        elif coding == "gzip":
            body = await asyncio.to_thread(gzip.compress, body, _PAGE_GZIP_LEVEL, mtime=0)
        if coding != "identity":
            fields["Content-Encoding"] = coding
        await BytesResponse(self.status, body, encode_fields(fields))(scope, _, send)


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirect to ``path`` below the root of the site, with its encoded query if it has one."""

    path: str
    status: HTTPStatus
    fields: Mapping[str, str] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        plain, mark, query = self.path.partition("?")
        location = scope[CONTEXT].root + quote(plain) + mark + query
        own = {"Location": location, "Cache-Control": "no-cache", "Vary": "Accept", **self.fields}
        await BytesResponse(self.status, b"", encode_fields(own))(scope, receive, send)
