"""MCP on standard input and output: folders of skills, for the host that started this process.

:mod:`skillwire.server.stdio` says how such a process lives and ends.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skillwire.bridges.mcp.server import make_server, serve_stdio
from skillwire.server.app import make_components
from skillwire.server.mcp_backend import McpCaller, MissingPins, check_pins, log_left_out, make_mcp_backend
from skillwire.server.stdio import OWNER, load_local, run_local, started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.server.components import Components
    from skillwire.server.configuration import ServerConfiguration


def serve_mcp(
    folders: Sequence[str], configuration: ServerConfiguration, pins: Sequence[str], *, publisher: str
) -> None:
    """Serve ``folders`` until the input ends, or until SIGINT or SIGTERM; ``pins`` are tools beside the configured."""
    named = check_pins([*configuration.mcp.pins, *pins])
    parts = make_components(folders, publisher=publisher, access_log=False, configuration=configuration, is_local=True)
    run_local(_serve(parts, named))


async def _serve(parts: Components, pins: Sequence[str]) -> None:
    catalog, backend = parts.catalog, make_mcp_backend(parts)

    async def caller() -> McpCaller:
        return McpCaller(*await load_local(parts), OWNER, backend)

    async def log_first() -> None:
        if (revision := await catalog.first()) is not None:
            await asyncio.to_thread(log_left_out, revision)

    catalog.prepares.append(MissingPins(pins).log)
    async with started(parts):
        logging = asyncio.create_task(log_first())
        try:
            await serve_stdio(make_server(caller, pins=pins))
        finally:
            logging.cancel()
