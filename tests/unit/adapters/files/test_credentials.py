"""Stored credentials: for one owner's eyes, never half written, and where they were put."""

import sys
import threading

import pytest
from tests.support.credentials import KEY, ORIGIN, TOKEN

from skillwire.adapters.files.credentials import CredentialStore, find_password, find_token, open_store
from skillwire.errors import ConflictError, DecodeError, SourceLocation, StorageError, UsageError
from skillwire.model.credential import Credential
from skillwire.model.url import parse_url
from skillwire.resolver.references import parse_reference


@pytest.fixture
def store(tmp_path):
    return CredentialStore(tmp_path / "state" / "credentials.json")


def test_the_file_is_for_its_owner_alone(store):
    store.keep(KEY)
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in store.path.parent.iterdir()) == ["credentials.json"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_file_that_others_can_read_or_change_is_refused(store, mode):
    store.keep(KEY)
    store.path.chmod(mode)
    for call in (lambda: store.find(ORIGIN), lambda: store.keep(TOKEN), store.logins):
        with pytest.raises(StorageError) as caught:
            call()
        assert caught.value.code == "CREDENTIALS_OPEN"
        assert "chmod 600" in caught.value.diagnostics().fix


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"https://skills.example": 1}',
        '{"https://skills.example": {}}',
        '{"https://skills.example": {"kind": "api_key", "x": "hush-key", "secrets": {"secret": "hush-key"}}}',
    ],
)
def test_a_damaged_file_is_said_and_not_shown(store, content):
    store.path.parent.mkdir()
    store.path.write_text(content)
    store.path.chmod(0o600)
    with pytest.raises(DecodeError) as caught:
        store.find(ORIGIN)
    assert "hush-key" not in f"{caught.value} {caught.value.diagnostics()} {caught.value.__cause__}"


def test_without_the_extra_the_fix_says_how_to_have_it(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(StorageError) as caught:
        store.keep(TOKEN, in_keyring=True)
    assert caught.value.code == "KEYRING"
    assert "with the extra keyring" in caught.value.diagnostics().fix
    assert not store.path.exists()


def test_writers_at_once_lose_nothing(store):
    origins = [f"https://{number}.example" for number in range(8)]
    threads = [
        threading.Thread(target=store.keep, args=(Credential(origin, "api_key", "s", "l"),)) for origin in origins
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [login.credential.origin for login in store.logins()] == origins


def test_one_renews_an_origin_at_a_time(store):
    handle = store.lock_renewal(ORIGIN)
    with pytest.raises(ConflictError):
        store.lock_renewal(ORIGIN)
    other = store.lock_renewal("https://other.example")
    store.unlock_renewal("https://other.example", other)
    store.unlock_renewal(ORIGIN, handle)
    store.unlock_renewal(ORIGIN, store.lock_renewal(ORIGIN))


def test_the_users_store_is_in_the_state_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLWIRE_HOME", str(tmp_path))
    assert open_store().path == tmp_path / "state" / "credentials.json"


@pytest.fixture
def netrc(tmp_path):
    path = tmp_path / "netrc"
    path.write_text("machine example.com login me password pw\nmachine 127.0.0.1 login me password pw\n")
    path.chmod(0o600)
    return {"NETRC": str(path)}


@pytest.mark.parametrize(
    ("url", "is_sent"),
    [
        ("https://example.com/", True),
        ("https://example.com:8443/", False),
        ("http://example.com/", False),
        ("http://127.0.0.1:8000/", True),
        ("https://other.example/", False),
    ],
)
def test_netrc_stands_for_the_usual_https_origin_and_for_this_machine(netrc, url, is_sent):
    assert (find_password(parse_url(url), netrc) is not None) == is_sent


@pytest.mark.parametrize("url", ["https://example.com/", "https://example.com:8443/"])
def test_a_token_of_the_environment_is_for_its_port_only(url):
    found = find_token(parse_url(url), {"SKILLWIRE_TOKENS": "https://example.com:8443=t"})
    assert found == ("Bearer t" if ":8443" in url else None)


@pytest.mark.parametrize(
    ("origin", "url"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000/"),
        ("localhost:8000", "http://localhost:8000/"),
        ("192.168.1.5", "http://192.168.1.5/"),
        ("example.com", "https://example.com/"),
    ],
)
def test_an_origin_without_a_scheme_is_read_as_in_references(origin, url):
    environment = {"SKILLWIRE_TOKENS": f"{origin}=t"}
    assert find_token(parse_url(url), environment) == "Bearer t"
    assert parse_reference(f"{origin}/notes").lookups[0].base + "/" == url


def test_a_netrc_that_cannot_be_read_is_said(tmp_path):
    path = tmp_path / "netrc"
    path.write_bytes(b"machine \xff login a password b\n")
    with pytest.raises(UsageError):
        find_password(parse_url("https://example.com/"), {"NETRC": str(path)})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("oops\n", 1),
        ("oops", 1),
        ("oops\n\n\n", 1),
        ("machine\n", 1),
        ("machine example.com login me\n  oops x\n", 2),
        ("machine example.com login me\n  password x\noops\n", 3),
    ],
)
def test_a_malformed_netrc_is_reported_at_the_line_of_the_wrong_word(tmp_path, text, line):
    path = tmp_path / "netrc"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        find_password(parse_url("https://example.com/"), {"NETRC": str(path)})
    assert (refused.value.code, refused.value.place) == ("SETTING_FORM", SourceLocation(str(path), line))
