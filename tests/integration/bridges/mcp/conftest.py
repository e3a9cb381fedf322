from tests.unit.bridges.mcp.conftest import host  # noqa: F401  # fixtures
