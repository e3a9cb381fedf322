"""Inflating a hostile stream: never more than was allowed, never two copies of it."""

from __future__ import annotations

import zlib
from typing import Final

from skillwire.trust.archive.entries import malformed

# Small enough to stay in the processor's cache, large enough that the calls cost nothing.
_INPUT_BYTES: Final = 128 * 1024
_OUTPUT_BYTES: Final = 256 * 1024


def inflate(source: memoryview, limit: int) -> tuple[bytes | bytearray, int]:
    """Inflate the raw deflate stream that ``source`` begins with.

    Args:
        source: the stream, and whatever follows it.
        limit: how many bytes the result may have.

    Returns:
        The result, and how many bytes of ``source`` the stream took. Inflating stops beyond ``limit``, so
        a result that is longer (by one byte) means that the stream goes on.

    Raises:
        DecodeError: ``ARCHIVE_MALFORMED`` when the stream is broken or ends too early.

    Trust: memory is bounded by ``limit`` and two small buffers, whatever ``source`` says.
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
        piece = _step(engine, pending, wanted)
        pending = engine.unconsumed_tail
        full = len(piece) == wanted
        if engine.eof and not result:
            return piece, position - len(engine.unused_data)
        result += piece
        if engine.eof or len(result) > limit:
            return result, position - len(engine.unused_data)


def _step(engine: zlib._Decompress, pending: bytes | memoryview, wanted: int) -> bytes:
    try:
        return engine.decompress(pending, wanted)
    except zlib.error as error:
        raise malformed(f"compressed data is broken: {error}") from error
