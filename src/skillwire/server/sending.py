"""Sending what is large: in pieces, to somebody who reads them.

Who does not read what was asked for holds room and a connection that others need. So a large body has a time to be
taken in, as long as one of its size has to arrive, and each piece of it has the time of a small one; then the server
cuts the connection. Trust: strangers read, or do not.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skillwire import limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from starlette.types import Send


async def in_pieces(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield bytes in pieces of which none is large."""
    for part in parts:
        for start in range(0, len(part), limits.SERVER_PIECE_BYTES):
            yield part[start : start + limits.SERVER_PIECE_BYTES]


async def send_pieces(pieces: AsyncIterator[bytes], size: int, send: Send, *, is_last: bool = True) -> bool:
    """Send a body, or a part of one, whose head was sent; return whether it was taken in.

    When it was not, nothing more is to be sent: the server cuts a connection whose answer is not whole.

    Args:
        pieces: of the body.
        size: of all of them.
        send: where they go.
        is_last: whether nothing follows them.
    """
    clock, seconds = asyncio.get_running_loop().time, limits.SERVER_REQUEST_SECONDS
    end = clock() + seconds + size / limits.SERVER_REQUEST_RATE
    try:
        async with asyncio.timeout_at(end) as timeout:
            async for piece in pieces:
                timeout.reschedule(min(end, clock() + seconds))
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                # Writes are joined to the end of a turn, and only then is it seen that nobody reads.
                await asyncio.sleep(0)
            if is_last:
                await send({"type": "http.response.body", "body": b""})
    except TimeoutError:
        return False
    return True
