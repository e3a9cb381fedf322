"""Skills for MCP clients: as skills of the MCP extension, as resources, and as tools.

The SDK is an extra and takes a second to import, so it is imported only for MCP requests. The host of the bridge
decides what a caller may see and use, and passes it as a :class:`~skillwire.bridges.mcp.host.McpSkills`.
"""

from importlib.util import find_spec

from skillwire.errors import UsageError


def has_sdk() -> bool:
    """Whether the extra is installed; imports nothing of it."""
    return find_spec("mcp") is not None and find_spec("mcp_types") is not None


def require_sdk() -> None:
    """Raise UsageError (``MCP_MISSING``) without the extra."""
    if not has_sdk():
        raise UsageError("MCP_MISSING", "the SDK of the Model Context Protocol is not installed")
