"""MCP on standard input and output: folders of skills, for the host that started this process.

Who that is, and how the process lives and ends, is the same for every protocol: :mod:`skillwire.server.local`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skillwire.bridges.mcp.server import make_server
from skillwire.bridges.mcp.stdio import serve_stdio
from skillwire.errors import StorageError
from skillwire.server.audience import Audiences
from skillwire.server.auth.rate_limit import caller_of
from skillwire.server.local import LOCAL, run_local, started
from skillwire.server.mcp.caller import AudienceCaller, make_shelves
from skillwire.server.mcp.pins import MissingPins, tell_left_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.server.compose import Parts


def run_stdio(parts: Parts, pins: Sequence[str]) -> None:
    """Answer what comes in by standard input until it ends, or until SIGINT or SIGTERM.

    Args:
        parts: what is served.
        pins: the names of the skills that are tools of their own.
    """
    run_local(_serve(parts, pins))


async def _serve(parts: Parts, pins: Sequence[str]) -> None:
    publication = parts.publication
    audiences, shelves = Audiences(parts.base_url), make_shelves(parts)

    async def alone() -> AudienceCaller:
        revision = publication.current or await publication.first()
        if revision is None:
            raise StorageError("STORAGE", "the skills could not be loaded")
        return AudienceCaller(await audiences.of(LOCAL, revision), revision, caller_of(LOCAL, ""), shelves)

    async def tell() -> None:
        if (revision := await publication.first()) is not None:
            await asyncio.to_thread(tell_left_out, revision)

    publication.prepares.append(MissingPins(pins).tell)
    async with started(parts):
        telling = asyncio.create_task(tell())
        try:
            await serve_stdio(make_server(alone, pins=pins))
        finally:
            telling.cancel()
