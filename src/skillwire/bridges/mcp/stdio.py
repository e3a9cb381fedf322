"""MCP over standard input and output, as hosts speak it with the programs that they start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import structlog
from mcp.server.stdio import stdio_server

from skillwire import limits
from skillwire.adapters.lines import lines_of, take_input

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio import AsyncFile
    from mcp.server import Server


async def serve_stdio(server: Server[dict[str, Any]]) -> None:
    """Answer what comes in by standard input until it ends. Nothing else may write to standard output meanwhile."""
    lines = _told(lines_of(take_input(), limits.RPC_REQUEST_BYTES))
    async with stdio_server(stdin=cast("AsyncFile[str]", lines)) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def _told(lines: AsyncIterator[bytes | None]) -> AsyncIterator[bytes]:
    """Yield the lines that may be messages; no other has an id to be answered with."""
    async for line in lines:
        if line is None:
            structlog.get_logger("skillwire.mcp").warning("a message is too long", most=limits.RPC_REQUEST_BYTES)
        elif line.strip():
            yield line
