from tests.unit.adapters.lan.conftest import authority, clock, desk, settings, trust  # noqa: F401  # fixtures
