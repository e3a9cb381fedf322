from tests.unit.folder.conftest import write  # noqa: F401  # a fixture
