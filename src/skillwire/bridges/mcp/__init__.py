"""Skills for MCP clients: as skills of the MCP extension, as resources, and as tools.

The SDK is an extra and takes a second to import, so it is imported only for MCP requests. The host of the bridge
decides what a caller may see and use, and passes it as a :class:`~skillwire.bridges.mcp.caller.McpSkills`.
"""
