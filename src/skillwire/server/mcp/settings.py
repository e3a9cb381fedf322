"""What an operator may set about MCP: the table ``[mcp]`` of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class McpSettings:
    """The table ``[mcp]``.

    Args:
        serve: whether ``/mcp`` answers, where the extra is installed.
        pins: the names of the skills that are tools of their own.
    """

    serve: bool = True
    pins: tuple[str, ...] = ()
