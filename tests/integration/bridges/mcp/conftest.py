from tests.unit.bridges.mcp.conftest import host, shout  # noqa: F401  # fixtures
