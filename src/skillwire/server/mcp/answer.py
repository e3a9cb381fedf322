"""One answer of MCP over HTTP: bounded together with all others, and sent to whoever reads it.

The SDK writes an answer several times over, as a model, as text and as bytes, on the event loop. So a large value of
one is written by us, aside, and the SDK is given a mark that stands for it. Where the mark comes out, the value is
sent. What the SDK has written itself is counted while it is sent. Trust: strangers ask, and need not read.
"""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import DecodeError, SkillwireError
from skillwire.server.invocation.bodies import CROWDED
from skillwire.server.problems import Problem
from skillwire.server.sending import in_pieces, send_pieces

if TYPE_CHECKING:
    from starlette.types import Message, Send

    from skillwire.server.rpc.room import Room

_TOO_LARGE: Final = Problem(500, "LIMIT_SIZE", f"the answer has more than {limits.RPC_ANSWER_BYTES:,} bytes")
_LENGTH: Final = b"content-length"


class Answer:
    """An answer; :meth:`send` takes what the SDK writes.

    Args:
        room: what it may take.
        send: where it goes.
    """

    def __init__(self, room: Room, send: Send) -> None:
        self._room = room
        self._send = send
        self._attached: dict[bytes, bytes] = {}
        self._start: Message | None = None
        self._is_over = False

    def reserve(self, size: int) -> None:
        """Take so many bytes of room, or give some back.

        Raises:
            SkillwireError: there is none; see :meth:`skillwire.server.rpc.room.Room.reserve`.
        """
        self._room.reserve(size)

    def attach(self, value: bytes) -> str:
        """Return what stands for ``value``, JSON for which room was taken, as a string in what the SDK writes."""
        mark = f"skillwire-{token_hex(16)}"
        self._attached[f'"{mark}"'.encode()] = value
        return mark

    async def send(self, message: Message) -> None:
        """Send what the SDK says, and what it stands for. The head waits for the first of the body."""
        if self._is_over:
            return
        if message["type"] != "http.response.body":
            self._start = message
            return
        body = message.get("body", b"")
        try:
            self._room.reserve(len(body))
        except SkillwireError as refusal:
            await self._refuse(refusal)
            return
        try:
            await self._send_body(body, is_last=not message.get("more_body", False))
        finally:
            self._room.reserve(-len(body))

    async def _send_body(self, body: bytes, *, is_last: bool) -> None:
        parts = self._filled(body)
        size = sum(map(len, parts))
        await self._send_start(size - len(body))
        if size <= limits.SERVER_PIECE_BYTES:
            await self._send({"type": "http.response.body", "body": b"".join(parts), "more_body": not is_last})
        elif not await send_pieces(in_pieces(parts), size, self._send, is_last=is_last):
            self._is_over = True

    def _filled(self, body: bytes) -> list[bytes]:
        parts = [body]
        for mark, value in self._attached.items():
            before, found, after = parts[-1].partition(mark)
            if found:
                parts[-1:] = [before, value, after]
        return parts

    async def _send_start(self, more: int) -> None:
        if self._start is None:
            return
        start, self._start = self._start, None
        fields = [(key, b"%d" % (int(value) + more) if key == _LENGTH else value) for key, value in start["headers"]]
        await self._send({**start, "headers": fields})

    async def _refuse(self, refusal: SkillwireError) -> None:
        self._is_over = True
        if self._start is not None:  # else a stream has begun, and is cut
            await (_TOO_LARGE if isinstance(refusal, DecodeError) else CROWDED).send(self._send)
