"""What a client keeps of origins: responses by URL and credential, and what each origin has promised."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.memory_client import MemoryOriginBook, MemoryResponseCache

from skillwire.adapters.files.client_cache import FileOriginBook, FileResponseCache
from skillwire.model.ref import CachedResponse, OriginRecord

URL = "https://skills.example/index.json"
HEADERS = {"etag": '"1"', "cache-control": "max-age=60", "content-type": "text/plain", "last-modified": "x"}
BASE = "https://example.com"
FIRST, LATER = "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"


@pytest.fixture(params=["memory", "files"])
def cache(request, tmp_path):
    return MemoryResponseCache() if request.param == "memory" else FileResponseCache(tmp_path / "deep" / "responses")


@pytest.fixture(params=["memory", "files"])
def book(request, tmp_path):
    return MemoryOriginBook() if request.param == "memory" else FileOriginBook(tmp_path / "deep" / "origins.json")


def response(body=b"body", url=URL, at=1.5):
    return CachedResponse(url, body, HEADERS, at, f"{url}?answered")


@pytest.mark.parametrize(
    "body", [b"", b"\n", b'{"url": 1}\n\n\0\xff', b"x" * 3_000_000], ids=["empty", "line", "odd", "large"]
)
def test_a_response_is_found_as_it_was(cache, body):
    assert cache.look_up(URL, None) is None
    cache.keep(response(body), None)
    assert cache.look_up(URL, None) == response(body)


def test_a_response_takes_the_place_of_an_earlier_one_until_it_is_dropped(cache):
    cache.drop(URL, None)
    cache.keep(response(b"long before"), None)
    cache.keep(response(b"now", at=2.0), None)
    assert cache.look_up(URL, None) == response(b"now", at=2.0)
    cache.drop(URL, None)
    cache.drop(URL, None)
    assert cache.look_up(URL, None) is None


def test_a_response_is_found_with_its_credential_alone(cache):
    for credential in (None, "Bearer one", "Bearer two"):
        cache.keep(response(str(credential).encode()), credential)
    for credential in (None, "Bearer one", "Bearer two"):
        assert cache.look_up(URL, credential) == response(str(credential).encode())
    assert cache.look_up(URL, "Bearer three") is None
    cache.drop(URL, "Bearer one")
    assert cache.look_up(URL, "Bearer one") is None
    assert cache.look_up(URL, None) is not None


HOSTILE = (
    *("../../../etc/passwd", "https://a.example/../..", "/", "", "a\nb", "a\0b", "é" * 300, "x" * 10_000, ".", "C:\\x"),
    f"\n{URL}",
)


def test_no_url_is_taken_for_another_or_for_a_path(cache, tmp_path):
    before = {path.name for path in tmp_path.parent.iterdir()}
    for number, url in enumerate(HOSTILE):
        cache.keep(response(b"%d" % number, url), None)
        cache.keep(response(b"private %d" % number, url), f"Bearer ../{number}\n")
    for number, url in enumerate(HOSTILE):
        assert cache.look_up(url, None) == response(b"%d" % number, url)
        assert cache.look_up(url, f"Bearer ../{number}\n") == response(b"private %d" % number, url)
    assert {path.name for path in tmp_path.parent.iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} <= {"deep"}


def test_of_many_at_once_a_whole_response_is_found(cache):
    bodies = {letter * 100_000 for letter in (b"a", b"b", b"c")}

    def keep_and_look_up(body):
        cache.keep(response(body), None)
        found = cache.look_up(URL, None)
        return found is not None and found.body in bodies

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(keep_and_look_up, [*bodies] * 10))


def test_an_origin_is_remembered_as_it_was_recorded(book):
    assert book.look_up(BASE) is None
    records = {f"{BASE}/{name}": OriginRecord(FIRST, generation=name) for name in ("0.1.0", "0.2.0")}
    records |= {BASE: OriginRecord(FIRST), "https://é.example/../\n": OriginRecord(LATER, accepted=True)}
    for base, record in records.items():
        book.record(base, record)
    assert {base: book.look_up(base) for base in records} == records


def test_neither_consent_nor_digests_are_forgotten_by_a_later_record(book):
    book.record(BASE, OriginRecord(FIRST, accepted=True, generation="0.2.0"))
    book.record(BASE, OriginRecord(LATER, accepted=False, generation="0.1.0"))
    assert book.look_up(BASE) == OriginRecord(FIRST, accepted=True, generation="0.2.0")


def test_of_many_records_at_once_none_is_lost(book):
    def record(number):
        book.record(f"https://{number % 8}.example", OriginRecord(FIRST, accepted=number < 8))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(record, range(24)))
    assert [book.look_up(f"https://{number}.example").accepted for number in range(8)] == [True] * 8
