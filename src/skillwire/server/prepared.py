"""Answers that are ready before they are asked for: encoded, compressed, hashed, their header fields built.

An index is asked for by every client of every skill, so it is prepared once a revision and then costs a lookup
in a table and one comparison or two. Each coding of it is a representation of its own and has its own strong
tag; a client that holds any of them is told so (304) with the tag that it sent. A large index is kept compressed
alone, which is a quarter of it, and inflated for the rare client that takes no coding.
"""

from __future__ import annotations

import asyncio
import gzip
import zlib
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

import brotli

from skillwire import limits
from skillwire.model.digest import Digest
from skillwire.protocols.agent_skills.fields import OPEN_FIELDS
from skillwire.server.headers import VARY, Fields, encode_fields, join_fields
from skillwire.server.negotiation import Coding, choose_coding, matching_tag

if TYPE_CHECKING:
    from starlette.types import Scope, Send

    from skillwire.protocols.agent_skills.server import Cache

#: The methods that read, as a request line says them.
WIRE_READ: Final = (b"GET", b"HEAD")

#: Below it a packet carries the answer either way.
_WORTH_CODING: Final = 1024
#: Above it the best compression takes longer than it can save: 5 MiB cost brotli 0.2 s at 5, and 9 s at 11.
_LARGE: Final = 512 * 1024
_BROTLI_QUALITY: Final = (9, 5)
_GZIP_LEVEL: Final = (9, 6)
_GZIP: Final = 16 + zlib.MAX_WBITS  # how zlib is told to read a gzip
_OPEN: Final = encode_fields(OPEN_FIELDS)  # once: indexes of scopes are many
_STATUS_LINES: Final = {200: b"HTTP/1.1 200 OK\r\n", 304: b"HTTP/1.1 304 Not Modified\r\n"}
#: Clients send few different values; those are read once. Bounded, because the values are theirs.
_REMEMBERED: Final = 256

_codings: dict[bytes, Coding] = {}


class Variant(NamedTuple):
    """One coding of an answer: header fields of a 200 and of a 304, and the body, None when it is to be inflated.

    ``heads`` holds the same fields, with their status line, as they go over the wire.
    """

    fields: dict[int, Fields]
    heads: dict[int, bytes]
    body: bytes | None
    size: int


class Ready(NamedTuple):
    """An answer as it goes over the wire; who writes it ends the head, with the ``Date`` and an empty line."""

    status: int
    head: bytes
    body: bytes


class Prepared:
    """An answer with all of its codings.

    Args:
        content: the bytes of the identity coding.
        media_type: its ``Content-Type``.
        cache: its ``Cache-Control``.
    """

    __slots__ = ("_by_coding", "_by_tag", "_tags", "size")

    def __init__(self, content: bytes, media_type: str, cache: Cache) -> None:
        digest = Digest.of(content).hex
        self._by_coding: dict[Coding, Variant] = {}
        self._by_tag: dict[bytes, Variant] = {}
        tags = []
        self.size = 0
        bodies = _codings_of(content)
        for coding, body in bodies.items():
            tag = f'"{digest}"' if coding == "identity" else f'"{digest}-{coding}"'
            kept = {"ETag": tag, "Cache-Control": cache.value, "Vary": VARY}
            sent = {"Content-Type": media_type, "Content-Length": str(len(body))}
            if coding != "identity":
                sent["Content-Encoding"] = coding
            fields = {200: [*encode_fields(sent, kept), *_OPEN], 304: [*encode_fields(kept), *_OPEN]}
            heads = {status: _STATUS_LINES[status] + join_fields(group) for status, group in fields.items()}
            inflated = coding == "identity" and len(body) >= _LARGE and "gzip" in bodies
            held = None if inflated else body
            variant = Variant(fields, heads, held, len(body))
            self._by_coding[coding] = self._by_tag[tag.encode()] = variant
            tags.append(tag)
            self.size += len(held or b"")
        self._tags = tuple(tags)

    async def send(self, scope: Scope, send: Send) -> tuple[int, int]:
        """Answer a GET or HEAD; return status and length of the body."""
        status, variant = self.choose(scope["headers"])
        await send({"type": "http.response.start", "status": status, "headers": variant.fields[status].copy()})
        if status == HTTPStatus.NOT_MODIFIED or scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return status, 0
        if variant.body is None:
            await self._send_inflated(send)
        else:
            await send({"type": "http.response.body", "body": variant.body})
        return status, variant.size

    def ready(self, method: bytes, fields: Fields) -> Ready | None:
        """Return the answer to a request with this method and these header fields, if it is there as a whole."""
        if method not in WIRE_READ:
            return None
        status, variant = self.choose(fields)
        body = b"" if status == HTTPStatus.NOT_MODIFIED or method == b"HEAD" else variant.body
        return None if body is None else Ready(status, variant.heads[status], body)

    def choose(self, fields: Fields) -> tuple[int, Variant]:
        """Return the status and the coding for a request with these header fields."""
        accepted = condition = None
        for name, value in fields:
            if name == b"accept-encoding":
                accepted = value if accepted is None else accepted + b"," + value
            elif name == b"if-none-match":
                condition = value if condition is None else condition + b"," + value
        if condition is not None and (held := self._held(condition)) is not None:
            return 304, held
        return 200, self.variant(accepted)

    async def _send_inflated(self, send: Send) -> None:
        packed = self._by_coding["gzip"].body or b""
        inflate = zlib.decompressobj(wbits=_GZIP)
        while piece := inflate.decompress(packed, limits.SERVER_PIECE_BYTES):
            packed = inflate.unconsumed_tail
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)  # others have their turn
        await send({"type": "http.response.body", "body": b""})

    def variant(self, accept_encoding: bytes | None) -> Variant:
        """Return the coding for a client with this ``Accept-Encoding``."""
        return self._by_coding.get(_coding(accept_encoding)) or self._by_coding["identity"]

    def _held(self, condition: bytes) -> Variant | None:
        if (variant := self._by_tag.get(condition)) is not None:
            return variant
        tag = matching_tag(condition.decode("latin-1"), self._tags)
        return None if tag is None else self._by_tag[tag.encode()]


def _coding(accepted: bytes | None) -> Coding:
    if accepted is None:
        return "identity"
    coding = _codings.get(accepted)
    if coding is None:
        coding = choose_coding(accepted.decode("latin-1"))
        if len(_codings) >= _REMEMBERED:
            _codings.clear()
        _codings[accepted] = coding
    return coding


def _codings_of(content: bytes) -> dict[Coding, bytes]:
    """Return the codings of ``content`` that are worth having; identity first."""
    bodies: dict[Coding, bytes] = {"identity": content}
    if len(content) >= _WORTH_CODING:
        large = len(content) >= _LARGE
        bodies["br"] = brotli.compress(content, mode=brotli.MODE_TEXT, quality=_BROTLI_QUALITY[large])
        bodies["gzip"] = gzip.compress(content, _GZIP_LEVEL[large], mtime=0)
    return {coding: body for coding, body in bodies.items() if coding == "identity" or len(body) < len(content)}
