from tests.unit.adapters.sqlite.conftest import office  # noqa: F401  # fixtures
