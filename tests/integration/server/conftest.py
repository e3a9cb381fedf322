from tests.unit.server.conftest import executor, home, serving, settle  # noqa: F401  # fixtures
