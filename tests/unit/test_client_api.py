"""What a client takes as leave to connect and to send a credential."""

import pytest

from skillwire.client import Client
from skillwire.errors import SkillwireError
from skillwire.testing.publisher import SimulatedPublisher


def test_a_source_of_the_project_is_not_named_and_gets_no_credential(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SKILLWIRE_TOKENS", "http://127.0.0.1:9=secret")
    (tmp_path / "skillwire.toml").write_text('sources = ["127.0.0.1:9"]')
    client = Client(tmp_path)
    client.driver = SimulatedPublisher()
    before = client._workplace.leave.addresses
    with pytest.raises(SkillwireError):
        client.find("", [])
    assert client.driver.requests
    assert all("Authorization" not in request.headers for request in client.driver.requests)
    assert client._workplace.leave.addresses == before
