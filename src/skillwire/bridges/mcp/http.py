"""MCP by streamable HTTP: one endpoint that answers POST, each request by itself.

No session is kept, so none can be stolen, mixed up or left open: a request says all that its answer needs, and who
sent it is recognised each time. Clients of the versions with a handshake are answered without a session, which those
versions allow. An answer that takes long is a stream; when its reader goes away, what was begun for it is cancelled.
Spec: MCP Transports "Streamable HTTP".
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from skillwire import limits
from skillwire.bridges.mcp.server import CALLER

if TYPE_CHECKING:
    from mcp.server import Server
    from starlette.types import Receive, Scope, Send

    from skillwire.bridges.mcp.caller import Caller


class HttpEndpoint:
    """Answers requests with ``server``, from the first one until :meth:`close`."""

    def __init__(self, server: Server[dict[str, Any]]) -> None:
        self._manager = StreamableHTTPSessionManager(
            server, stateless=True, max_request_body_size=limits.EXECUTION_REQUEST_BYTES
        )
        self._ready = asyncio.Event()
        self._over = asyncio.Event()
        self._living: asyncio.Task[None] | None = None

    async def answer(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a POST of ``caller``. Where it may come from has been looked at."""
        if self._living is None:
            self._living = asyncio.create_task(self._live())
        await self._ready.wait()
        await self._manager.handle_request({**scope, CALLER: caller}, receive, send)

    async def close(self) -> None:
        """End what is under way."""
        if self._living is not None:
            self._over.set()
            await asyncio.gather(self._living, return_exceptions=True)

    async def _live(self) -> None:
        async with self._manager.run():
            self._ready.set()
            await self._over.wait()
