import pytest
from tests.support.fake_lan import Network


@pytest.fixture
def network(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    made = Network(project, monkeypatch)
    yield made
    for client in made.clients:
        client.close()
