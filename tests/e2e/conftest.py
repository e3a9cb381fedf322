from tests.support.drivers import drive  # noqa: F401 - a fixture
