from __future__ import annotations

from skillwire.adapters.files.response_cache import FileResponseCache
from skillwire.model.cached_response import CachedResponse

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
