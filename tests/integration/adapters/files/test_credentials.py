"""Stored credentials: for one owner's eyes, never half written, and where they were put."""

import json

import keyring
import pytest
from tests.support.credentials import KEY, ORIGIN, TOKEN, Memory

from skillwire.adapters.files.credentials import CredentialStore
from skillwire.errors import StorageError
from skillwire.model.credential import Credential


@pytest.fixture
def store(tmp_path):
    return CredentialStore(tmp_path / "state" / "credentials.json")


@pytest.fixture
def memory():
    before, memory = keyring.get_keyring(), Memory()
    keyring.set_keyring(memory)
    yield memory
    keyring.set_keyring(before)


@pytest.mark.parametrize("credential", [KEY, TOKEN, Credential(ORIGIN, "custom", "hush", "l", key_id="k")])
@pytest.mark.parametrize("in_keyring", [False, True])
@pytest.mark.usefixtures("memory")
def test_what_is_kept_is_found_again(store, credential, in_keyring):
    store.keep(credential, in_keyring=in_keyring)
    assert store.find(ORIGIN) == credential
    assert store.find("https://skills.example:8443") is None
    ((listed, where),) = store.logins()
    assert (listed.origin, listed.secret, where) == (ORIGIN, "", in_keyring)
    assert listed.grant is None or listed.grant.refresh_token is None
    assert store.remove(ORIGIN)
    assert not store.remove(ORIGIN)
    assert store.find(ORIGIN) is None


def test_the_secrets_of_the_keyring_are_in_no_file(store, memory):
    store.keep(TOKEN, in_keyring=True)
    assert "hush" not in store.path.read_text()
    assert list(memory.entries) == [("skillwire", ORIGIN)]
    store.keep(KEY)  # a renewal leaves it where it is
    assert "hush" not in store.path.read_text()
    store.keep(KEY, in_keyring=False)
    assert memory.entries == {}
    assert json.loads(store.path.read_text())[ORIGIN]["secrets"] == {"secret": "hush-key"}


def test_a_keyring_that_refuses_is_said_without_its_words(store, memory):
    store.keep(TOKEN, in_keyring=True)
    memory.locked = True
    with pytest.raises(StorageError) as caught:
        store.find(ORIGIN)
    assert caught.value.code == "KEYRING"
    assert "KeyringLocked" in str(caught.value)
    assert "hush" not in str(caught.value)
    assert store.logins()[0].in_keyring  # a list asks for no password
