"""The server's key is made once, and is only its owner's."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from skillwire.adapters import stores as opening
from skillwire.adapters.stores import read_server_key
from skillwire.errors import StorageError


def test_key_is_made_once_whoever_is_first(tmp_path):
    path = tmp_path / "state" / "server.key"
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: read_server_key(path), range(16)))
    assert len(keys) == 1
    assert len(keys.pop()) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["server.key"]


def test_key_that_is_there_is_read_from_a_folder_that_takes_nothing(tmp_path, monkeypatch):
    key = read_server_key(tmp_path / "server.key")
    monkeypatch.setattr(opening, "write_atomically", lambda *_, **__: pytest.fail("nothing can be written here"))
    assert read_server_key(tmp_path / "server.key") == key


def test_key_that_cannot_be_put_in_place_leaves_nothing(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StorageError):
        read_server_key(tmp_path / "server.key")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_key_that_others_may_read_is_refused_with_the_fix(tmp_path):
    path = tmp_path / "server.key"
    read_server_key(path)
    path.chmod(0o640)
    with pytest.raises(StorageError, match="others may read or change it") as caught:
        read_server_key(path)
    assert caught.value.fix == f"Make it private: chmod 600 {path}"


@pytest.mark.parametrize("content", [b"", b"short", b"k" * 33])
def test_file_that_holds_no_key_is_refused_and_left(tmp_path, content):
    path = tmp_path / "server.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(StorageError) as caught:
        read_server_key(path)
    assert caught.value.code == "SERVER_KEY"
    assert path.read_bytes() == content
