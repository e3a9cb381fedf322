from tests.unit.server.rpc.conftest import folder, key, rpc, speaking, talk  # noqa: F401  # fixtures
