"""Skills for clients of the Model Context Protocol: as skills of its extension, as resources, and as tools.

The SDK is an extra and takes a second to import, so nothing here is imported before a person speaks MCP. What a caller
may know of and use is decided by whoever hosts the bridge, and handed over as a
:class:`~skillwire.bridges.mcp.caller.McpSkills`.
"""
