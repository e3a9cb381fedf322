"""Content encodings: undoing the compression of a body, within its bound.

One encoding at most: two of them multiply a bomb's ratio and no server needs them. Decompression stops one byte
past the bound, so 400 kB that stand for 400 MB cost what the bound costs. Spec: RFC 9110 §8.4.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from skillwire.errors import FetchError, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from skillwire.wire.exchange import HttpResponse

_GZIP_WINDOW: Final = 31  # zlib's number for a gzip wrapper around the largest window


def decode_content(response: HttpResponse, max_bytes: int, *, codings: Collection[str] = ("gzip",)) -> HttpResponse:
    """Return the answer with its body content-decoded, and without the header that said how.

    Args:
        response: as it arrived.
        max_bytes: how large the decoded body may be.
        codings: what was asked for: ``gzip``, ``br``.

    Raises:
        FetchError: ``CONTENT_ENCODING`` when the encoding was not asked for or the data is damaged;
            ``BODY_TOO_LARGE``.

    Trust: body and header are a stranger's.
    """
    coding = response.headers.get("content-encoding", "identity").lower().removeprefix("x-")
    if coding == "identity" or not response.body:
        return response
    place = Place(response.url)
    if coding not in codings:
        raise FetchError("CONTENT_ENCODING", f"the encoding {coding[:80]!r} was not asked for", place=place)
    body = _DECODERS[coding](response.body, max_bytes + 1)
    if body is None:
        raise FetchError("CONTENT_ENCODING", f"the {coding} data is damaged", place=place)
    if len(body) > max_bytes:
        raise FetchError("BODY_TOO_LARGE", f"the body decodes to more than {int(max_bytes)} bytes", place=place)
    headers = {name: value for name, value in response.headers.items() if name != "content-encoding"}
    return response._replace(headers=headers, body=body)


def _gunzip(data: bytes, limit: int) -> bytes | None:
    stream = zlib.decompressobj(_GZIP_WINDOW)
    try:
        body = stream.decompress(data, limit)
    except zlib.error:
        return None
    # Data behind the end would be a second member, or something hidden.
    return body if len(body) >= limit or (stream.eof and not stream.unused_data) else None


def _unbrotli(data: bytes, limit: int) -> bytes | None:
    import brotli  # noqa: PLC0415 - never on the install path

    stream = brotli.Decompressor()
    body = bytearray()
    try:
        body += stream.process(data, output_buffer_limit=limit)
        while len(body) < limit and not stream.is_finished() and not stream.can_accept_more_data():
            body += stream.process(b"", output_buffer_limit=limit - len(body))
    except brotli.error:
        return None
    return bytes(body) if len(body) >= limit or stream.is_finished() else None


_DECODERS: Final[Mapping[str, Callable[[bytes, int], bytes | None]]] = {"gzip": _gunzip, "br": _unbrotli}
