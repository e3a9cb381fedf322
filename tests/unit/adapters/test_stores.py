"""Where the stores are: an option, the environment, a file that the environment names, the state directory."""

import pytest

from skillwire.adapters.stores import Stores, open_stores
from skillwire.errors import StorageError


def test_a_file_holds_the_address_of_the_database(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    assert open_stores().url == ""
    (tmp_path / "store").write_text("postgresql://host/one\n")
    monkeypatch.setenv("SKILLWIRE_STORE_FILE", str(tmp_path / "store"))
    assert open_stores().url == "postgresql://host/one"
    monkeypatch.setenv("SKILLWIRE_STORE", "postgresql://host/two")
    assert open_stores().url == "postgresql://host/two"
    assert open_stores("postgresql://host/three").url == "postgresql://host/three"
    monkeypatch.delenv("SKILLWIRE_STORE")
    monkeypatch.setenv("SKILLWIRE_STORE_FILE", str(tmp_path / "absent"))
    with pytest.raises(StorageError, match="SKILLWIRE_STORE_FILE names it"):
        open_stores()


def test_a_key_that_the_environment_names_is_not_made(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SKILLWIRE_SERVER_KEY_FILE", str(tmp_path / "servre.key"))
    with pytest.raises(StorageError, match="SKILLWIRE_SERVER_KEY_FILE names it") as caught:
        Stores(tmp_path / "state").server_key()
    assert caught.value.code == "SERVER_KEY"
    assert not list(tmp_path.iterdir())
    monkeypatch.delenv("SKILLWIRE_SERVER_KEY_FILE")
    assert len(Stores(tmp_path / "state").server_key()) == 32
