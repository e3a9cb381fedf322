"""MCP on standard input and output: folders of skills, for the host that started this process.

Who that is, and how the process lives and ends, is the same for every protocol: :mod:`skillwire.server.stdio`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skillwire.bridges.mcp.server import make_server, serve_stdio
from skillwire.errors import StorageError
from skillwire.server.auth.rate_limit import caller_of
from skillwire.server.mcp_backend import McpCaller, MissingPins, log_left_out, make_mcp_backend
from skillwire.server.stdio import LOCAL, run_local, started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.server.components import Components


def run_stdio(parts: Components, pins: Sequence[str]) -> None:
    """Answer what comes in by standard input until it ends, or until SIGINT or SIGTERM.

    Args:
        parts: what is served.
        pins: the names of the skills that are tools of their own.
    """
    run_local(_serve(parts, pins))


async def _serve(parts: Components, pins: Sequence[str]) -> None:
    catalog = parts.catalog
    audiences, shelves = parts.views, make_mcp_backend(parts)

    async def alone() -> McpCaller:
        revision = catalog.current or await catalog.first()
        if revision is None:
            raise StorageError("STORAGE", "the skills could not be loaded")
        return McpCaller(await audiences.of(LOCAL, revision), revision, caller_of(LOCAL, ""), shelves)

    async def tell() -> None:
        if (revision := await catalog.first()) is not None:
            await asyncio.to_thread(log_left_out, revision)

    catalog.prepares.append(MissingPins(pins).log)
    async with started(parts):
        telling = asyncio.create_task(tell())
        try:
            await serve_stdio(make_server(alone, pins=pins))
        finally:
            telling.cancel()
