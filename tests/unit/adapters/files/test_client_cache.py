import json

import pytest

from skillwire.adapters.files.client_cache import FileOriginBook, FileResponseCache
from skillwire.errors import SkillwireError, StorageError
from skillwire.model.ref import CachedResponse, OriginRecord

URLS = ["https://skills.example/a", "https://skills.example/b"]


def test_what_was_seen_with_a_credential_is_forgotten_and_nothing_else(tmp_path):
    cache = FileResponseCache(tmp_path)
    for url in URLS:
        for credential in (None, "Stored one", "Stored two"):
            cache.keep(CachedResponse(url, b"private\n", {}, 1.0, url), credential)
    (tmp_path / "aa").mkdir(exist_ok=True)
    (tmp_path / "aa" / "cut off").write_bytes(b"{")
    assert cache.forget("Stored one") == 2
    assert [cache.look_up(url, "Stored one") for url in URLS] == [None, None]
    assert all(cache.look_up(url, credential) for url in URLS for credential in (None, "Stored two"))
    assert cache.forget("Stored one") == 0


def test_no_credential_stands_in_the_cache(tmp_path):
    FileResponseCache(tmp_path).keep(CachedResponse(URLS[0], b"", {}, 1.0, URLS[0]), "Bearer hush")
    (path,) = tmp_path.glob("*/*")
    assert b"hush" not in path.read_bytes()


def test_a_cache_that_there_is_not_has_nothing_to_forget(tmp_path):
    assert FileResponseCache(tmp_path / "none").forget("Stored one") == 0


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    cache, book = FileResponseCache(tmp_path / "file"), FileOriginBook(tmp_path / "file" / "origins.json")
    with pytest.raises(StorageError):
        cache.keep(CachedResponse(URLS[0], b"", {}, 1.0, URLS[0]), None)
    with pytest.raises(StorageError):
        book.record(BASE, OriginRecord(FIRST))
    assert cache.look_up(URLS[0], None) is None


BASE = "https://example.com"
FIRST = "2026-01-01T00:00:00Z"


def test_only_the_oldest_that_were_merely_looked_at_are_forgotten(tmp_path):
    path = tmp_path / "origins.json"
    glanced = {
        f"https://{number}.example": {
            "first_seen": f"2025-01-01T00:{number // 60:02}:{number % 60:02}Z",
            "accepted": False,
            "generation": "0.1.0",
        }
        for number in range(2_500)
    }
    kept = {"https://kept.example": {"first_seen": "2020-01-01T00:00:00Z", "accepted": True, "generation": None}}
    path.write_text(json.dumps({**glanced, **kept}))
    book = FileOriginBook(path)
    book.record(BASE, OriginRecord(FIRST))
    assert book.look_up("https://kept.example") is not None
    assert book.look_up("https://0.example") is None
    assert book.look_up("https://2499.example") is not None
    assert len(json.loads(path.read_text())) == 2_001


def test_a_damaged_file_is_said_not_forgotten(tmp_path):
    path = tmp_path / "origins.json"
    path.write_text("{")
    with pytest.raises(SkillwireError):
        FileOriginBook(path).look_up(BASE)


def test_a_consent_is_taken_back_and_the_promise_of_digests_stays(tmp_path):
    book = FileOriginBook(tmp_path / "origins.json")
    book.record("https://b.example", OriginRecord("2026-01-01T00:00:00Z", accepted=True, generation="0.2.0"))
    book.record("https://a.example", OriginRecord("2026-01-02T00:00:00Z", accepted=True))
    book.withdraw("https://b.example")
    book.withdraw("https://unknown.example")
    assert book.records() == {
        "https://a.example": OriginRecord("2026-01-02T00:00:00Z", accepted=True),
        "https://b.example": OriginRecord("2026-01-01T00:00:00Z", accepted=False, generation="0.2.0"),
    }
    assert list(book.records()) == ["https://a.example", "https://b.example"]
