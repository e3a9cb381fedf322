from tests.unit.server.lan.conftest import operator, serve, skills, tokens  # noqa: F401  # fixtures
