"""A gzip file of exactly one member, inflated within bounds. Spec: RFC 1952.

The format allows several members, and readers differ: some stop at the first, some continue, some skip zeros between.
So one archive could be two skills, and only the plain form is accepted: nothing before, between or after. Inflating a
hostile stream never exceeds its limit and never holds two copies.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from skillwire import limits
from skillwire.errors import TrustError
from skillwire.trust.archive.plan import malformed, plausible_size

# Small enough to stay in the processor's cache, large enough that the calls cost nothing.
_INPUT_BYTES: Final = 128 * 1024
_OUTPUT_BYTES: Final = 256 * 1024


def inflate(source: memoryview, limit: int) -> tuple[bytes | bytearray, int]:
    """Inflate the raw deflate stream that ``source`` begins with; return the result and the stream's length.

    The result of a stream beyond ``limit`` has one byte more than ``limit``. Raises DecodeError
    (``ARCHIVE_MALFORMED``). Trust: memory is bounded by ``limit`` and two small buffers.
    """
    engine = zlib.decompressobj(-zlib.MAX_WBITS)
    result = bytearray()
    position = 0
    pending: bytes | memoryview = b""
    full = False
    while True:
        # zlib may hold back output after it has taken all input, so new input is not always due.
        if not pending and not full:
            pending = source[position : position + _INPUT_BYTES]
            position += len(pending)
            if not pending:
                raise malformed("compressed data ends too early")
        wanted = min(_OUTPUT_BYTES, limit + 1 - len(result))
        try:
            piece = engine.decompress(pending, wanted)
        except zlib.error as error:
            raise malformed(f"compressed data is broken: {error}") from error
        pending = engine.unconsumed_tail
        full = len(piece) == wanted
        if engine.eof and not result:
            return piece, position - len(engine.unused_data)
        result += piece
        if engine.eof or len(result) > limit:
            return result, position - len(engine.unused_data)


MAGIC: Final = b"\x1f\x8b"

_FIXED: Final = struct.Struct("<2sBB4xBB")
_TRAILER: Final = struct.Struct("<II")
_DEFLATE: Final = 8
_HEADER_CRC, _EXTRA, _NAME, _COMMENT, _RESERVED = 0x02, 0x04, 0x08, 0x10, 0xE0


def read_gzip(content: bytes) -> bytes | bytearray:
    """Return the content of the one member. Trust: inflating stops at the bounds on size and ratio.

    Raises:
        DecodeError: ``ARCHIVE_MALFORMED``.
        TrustError: ``ARCHIVE_HEADER_SIZE``, ``ARCHIVE_TOTAL_SIZE``, ``ARCHIVE_RATIO`` or ``ARCHIVE_TRAILING_DATA``.
    """
    start = _header_size(content)
    plausible = plausible_size(len(content))
    result, taken = inflate(memoryview(content)[start:], min(plausible, limits.ARCHIVE_STREAM_BYTES))
    if len(result) > limits.ARCHIVE_STREAM_BYTES:
        raise TrustError("ARCHIVE_TOTAL_SIZE", f"the archive inflates to over {limits.ARCHIVE_STREAM_BYTES} bytes")
    if len(result) > plausible:
        raise TrustError("ARCHIVE_RATIO", f"the archive inflates to over {limits.ARCHIVE_RATIO} times its size")
    surplus = len(content) - start - taken - _TRAILER.size
    if surplus < 0:
        raise malformed("the gzip trailer is cut off")
    if surplus > 0:
        raise TrustError("ARCHIVE_TRAILING_DATA", f"{surplus} bytes follow the gzip member")
    if _TRAILER.unpack_from(content, start + taken) != (zlib.crc32(result), len(result)):
        raise malformed("the gzip checksum or length is wrong")
    return result


def _header_size(content: bytes) -> int:
    if len(content) < _FIXED.size:
        raise malformed("the gzip header is cut off")
    magic, method, flags, _, _ = _FIXED.unpack_from(content)
    if magic != MAGIC or method != _DEFLATE or flags & _RESERVED:
        raise malformed("the gzip header is not one that RFC 1952 knows")
    size = _FIXED.size
    if flags & _EXTRA:
        size += 2 + int.from_bytes(content[size : size + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            size = _end_of_text(content, size)
    if size > limits.ARCHIVE_HEADER_BYTES:
        raise TrustError("ARCHIVE_HEADER_SIZE", f"the gzip header has over {limits.ARCHIVE_HEADER_BYTES} bytes")
    if flags & _HEADER_CRC:
        if content[size : size + 2] != (zlib.crc32(content[:size]) & 0xFFFF).to_bytes(2, "little"):
            raise malformed("the gzip header's checksum is wrong")
        size += 2
    return size


def _end_of_text(content: bytes, start: int) -> int:
    end = content.find(b"\0", start, limits.ARCHIVE_HEADER_BYTES)
    if end >= 0:
        return end + 1
    if len(content) > limits.ARCHIVE_HEADER_BYTES:
        raise TrustError("ARCHIVE_HEADER_SIZE", f"the gzip header has over {limits.ARCHIVE_HEADER_BYTES} bytes")
    raise malformed("the gzip header is cut off")
