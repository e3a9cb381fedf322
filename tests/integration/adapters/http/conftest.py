from tests.support.drivers import drive  # noqa: F401  # fixtures
