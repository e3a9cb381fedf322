from tests.unit.client.conftest import network  # noqa: F401  # a fixture
