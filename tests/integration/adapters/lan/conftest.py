from tests.unit.adapters.lan.conftest import authority, clock, desk, learned, settings, trust  # noqa: F401  # fixtures
