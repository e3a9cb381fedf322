"""Blobs are read under the digest that they have, and an interrupted download is never one."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from tests.support.memory_client import MemoryBlobs

from skillwire.adapters.files.blobs import FileBlobs
from skillwire.errors import StorageError
from skillwire.model.digest import Digest

CONTENT = b"0123456789"
DIGEST = Digest.of(CONTENT)
LARGE = bytes(range(256)) * 20_000  # 5 MB


@pytest.fixture(params=["memory", "files", "durable files"])
def blobs(request, tmp_path):
    if request.param == "memory":
        return MemoryBlobs()
    return FileBlobs(tmp_path / "deep" / "blobs", durable=request.param == "durable files")


def begun(blobs, content=CONTENT[:4]):
    download = blobs.download(DIGEST)
    assert download.begin(0)
    download.append(content)
    return download


def is_absent(blobs, digest, size):
    return (blobs.read(digest), blobs.path(digest), blobs.has(digest, size)) == (None, None, False)


@pytest.mark.parametrize("content", [b"content", b"", b"\0\n\r\xff", LARGE], ids=["text", "empty", "binary", "large"])
def test_what_was_put_can_be_read_under_its_digest(blobs, content):
    digest = blobs.put(content)
    assert digest == Digest.of(content)
    assert blobs.read(digest) == content
    assert (blobs.path(digest) is None) or blobs.path(digest).read_bytes() == content
    assert blobs.has(digest, len(content))
    assert not blobs.has(digest, len(content) + 1)
    assert blobs.put(content) == digest
    assert blobs.read(digest) == content


def test_what_was_never_put_is_absent(blobs):
    assert is_absent(blobs, Digest.of(b"other"), 5)
    blobs.put(CONTENT)
    assert is_absent(blobs, Digest.of(b"other"), 5)


def test_many_put_and_read_the_same_at_once(blobs):
    contents = [b"%d" % (number % 3) * 50_000 for number in range(24)]

    def put_and_read(content):
        return blobs.read(blobs.put(content)) == content

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(put_and_read, contents))


@pytest.mark.parametrize("pieces", [1, 3, 10])
def test_what_broke_off_is_taken_up_and_becomes_a_blob_when_it_is_whole(blobs, pieces):
    begun(blobs).close()
    assert is_absent(blobs, DIGEST, len(CONTENT))
    download = blobs.download(DIGEST)
    assert download.size == 4
    assert download.begin(4)
    for start in range(4, len(CONTENT), pieces):
        download.append(CONTENT[start : start + pieces])
    assert (download.size, download.digest()) == (len(CONTENT), DIGEST)
    assert is_absent(blobs, DIGEST, len(CONTENT))
    download.keep()
    assert blobs.read(DIGEST) == CONTENT
    assert blobs.download(DIGEST).size == 0


def test_beginning_anew_forgets_what_came(blobs):
    begun(blobs, b"garbage").close()
    download = blobs.download(DIGEST)
    assert download.begin(0)
    download.append(CONTENT)
    assert download.digest() == DIGEST
    download.keep()
    assert blobs.read(DIGEST) == CONTENT


def test_no_download_goes_on_behind_its_end(blobs):
    begun(blobs).close()
    download = blobs.download(DIGEST)
    assert not download.begin(5)
    assert download.size == 0
    download.close()


def test_one_writes_at_a_time(blobs):
    first = begun(blobs)
    second = blobs.download(DIGEST)
    assert second.size == 0
    assert not second.begin(0)
    with pytest.raises(StorageError):
        second.append(b"stray")
    second.discard()
    first.append(CONTENT[4:])
    assert first.digest() == DIGEST
    first.close()
    second.close()


def test_downloads_of_several_blobs_do_not_mix(blobs):
    def fetch(number):
        content = b"%d" % number * 10_000
        download = blobs.download(Digest.of(content))
        assert download.begin(0)
        for start in range(0, len(content), 1_000):
            download.append(content[start : start + 1_000])
        download.keep()
        return blobs.read(Digest.of(content)) == content

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(fetch, range(16)))


def test_what_is_discarded_is_gone_and_may_begin_again(blobs):
    download = begun(blobs)
    download.discard()
    other = blobs.download(DIGEST)
    assert download.size == other.size == 0
    other.close()
    assert download.begin(0)
    download.append(CONTENT)
    assert download.digest() == DIGEST
    download.close()


def test_bytes_of_another_digest_are_never_read_as_the_blob(blobs):
    begun(blobs, b"9876543210").keep()
    assert blobs.read(DIGEST) is None
    assert is_absent(blobs, DIGEST, len(CONTENT))
    blobs.put(CONTENT)
    assert blobs.read(DIGEST) == CONTENT


@pytest.mark.parametrize("end", ["close", "keep"])
def test_no_byte_arrives_after_the_end(blobs, end):
    download = begun(blobs, CONTENT)
    getattr(download, end)()
    before = blobs.read(DIGEST)
    with pytest.raises(StorageError):
        download.append(b"stray")
    assert not download.begin(0)
    assert blobs.read(DIGEST) == before
    for close in (download.close, download.discard, partial(download.close)):
        close()
    assert blobs.read(DIGEST) == before
