"""Where the stores are: an option, the environment, a file that the environment names, the state directory."""

import pytest

from skillwire.adapters.stores import open_stores
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
    with pytest.raises(StorageError):
        open_stores()
