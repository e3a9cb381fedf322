"""MCP, hosted: at ``/mcp`` of the application, and on standard input and output."""
