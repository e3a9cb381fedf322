"""A transport that hands on at the end of a turn of the event loop what was written in it.

The HTTP library writes the head of an answer and its body one after the other, which costs two system calls and the
client two reads. So what is written within one turn leaves together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable


class JoinedWrites:
    """Stands before ``transport``; whatever else is asked of it goes there."""

    __slots__ = ("_loop", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Write ``data`` at the end of this turn."""
        if data:
            if not self._parts:
                self._loop.call_soon(self._flush)
            self._parts.append(data)

    def writelines(self, parts: Iterable[bytes]) -> None:
        """Write ``parts`` now, behind what was written before."""
        if self._parts:
            self._flush()
        self._transport.writelines(parts)

    def close(self) -> None:
        """Write what is left, then close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if self._transport.is_closing():
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif parts:
            self._transport.writelines(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
