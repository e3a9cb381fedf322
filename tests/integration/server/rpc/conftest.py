from tests.unit.server.rpc.conftest import folder, key, rpc, speaking  # noqa: F401  # fixtures
