"""An upload goes on where it ended, belongs to its account, and is published whole or not at all."""

import asyncio

import pytest
from tests.support.opened import Blocking, run_blocking

from skillwire import limits
from skillwire.adapters.files.uploads import FileUploads
from skillwire.adapters.postgres.database import PostgresDatabase
from skillwire.adapters.sql.uploads import SqlUploads
from skillwire.errors import SkillwireError
from skillwire.model.digest import Digest

CONTENT = bytes(range(256)) * 20
DIGEST = Digest.of(CONTENT)


@pytest.fixture(params=["files", "postgres"])
def uploads(request, tmp_path):
    """Return the uploads; ``clock`` moves their time."""
    if request.param == "files":
        yield Blocking(FileUploads(tmp_path))
    else:
        database = Blocking(PostgresDatabase(request.getfixturevalue("postgres_url")))
        yield Blocking(SqlUploads(database.wrapped))
        database.close()


async def in_pieces(content, size=100):
    for start in range(0, len(content), size):
        yield content[start : start + size]


def refused(call, *arguments):
    with pytest.raises(SkillwireError) as caught:
        call(*arguments)
    return caught.value.code


def test_pieces_of_several_requests_become_one_upload(uploads):
    number = uploads.begin("ann", len(CONTENT), DIGEST).number
    assert uploads.append("ann", number, 0, in_pieces(CONTENT[:777])).offset == 777
    assert uploads.begin("ann", len(CONTENT), DIGEST).offset == 777
    assert refused(uploads.read, "ann", number) == "UPLOAD_OFFSET"
    assert refused(uploads.append, "ann", number, 700, in_pieces(CONTENT[700:])) == "UPLOAD_OFFSET"
    done = uploads.append("ann", number, 777, in_pieces(CONTENT[777:]))
    assert (done.offset, done.size, done.digest) == (len(CONTENT), len(CONTENT), DIGEST)
    assert uploads.read("ann", number) == CONTENT
    uploads.remove("ann", number)
    assert refused(uploads.find, "ann", number) == "UPLOAD_NOT_FOUND"


def test_what_came_before_a_broken_request_stays(uploads):
    async def broken():
        yield CONTENT[:300]
        raise ValueError("it broke")

    number = uploads.begin("ann", len(CONTENT), DIGEST).number
    with pytest.raises(ValueError, match="it broke"):
        uploads.append("ann", number, 0, broken())
    assert uploads.find("ann", number).offset == 300


def test_a_large_upload_comes_back_as_it_was_sent(uploads):
    content = CONTENT * 500  # 2.5 MB
    number = uploads.begin("ann", len(content), Digest.of(content)).number
    uploads.append("ann", number, 0, in_pieces(content, 300_000))
    assert uploads.read("ann", number) == content


def test_of_two_requests_at_one_offset_one_is_written(uploads):
    async def write_both():
        number = (await uploads.wrapped.begin("ann", len(CONTENT), DIGEST)).number
        calls = [uploads.wrapped.append("ann", number, 0, in_pieces(CONTENT, len(CONTENT))) for _ in range(2)]
        return number, await asyncio.gather(*calls, return_exceptions=True)

    number, results = run_blocking(write_both())
    assert sorted(one.code for one in results if isinstance(one, SkillwireError)) == ["UPLOAD_OFFSET"]
    assert uploads.read("ann", number) == CONTENT


def test_an_upload_that_is_removed_while_its_bytes_come_is_not_there(uploads):
    number = uploads.begin("ann", len(CONTENT), DIGEST).number

    async def removing():
        yield CONTENT[:100]
        await uploads.wrapped.remove("ann", number)
        yield CONTENT[100:]

    assert refused(uploads.append, "ann", number, 0, removing()) == "UPLOAD_NOT_FOUND"
    for call in (uploads.read, uploads.find, uploads.remove):
        assert refused(call, "ann", number) == "UPLOAD_NOT_FOUND"
    assert uploads.begin("ann", len(CONTENT), DIGEST).offset == 0


def test_bytes_of_another_digest_have_to_be_sent_again(uploads):
    number = uploads.begin("ann", 3, DIGEST).number
    uploads.append("ann", number, 0, in_pieces(b"abc"))
    assert refused(uploads.read, "ann", number) == "DIGEST_MISMATCH"
    assert refused(uploads.find, "ann", number) == "UPLOAD_NOT_FOUND"


def test_bounds_are_kept(uploads, monkeypatch):
    assert refused(uploads.begin, "ann", 0, DIGEST) == "UPLOAD_SIZE"
    assert refused(uploads.begin, "ann", limits.ARCHIVE_BYTES + 1, DIGEST) == "UPLOAD_SIZE"
    number = uploads.begin("ann", 3, DIGEST).number
    assert refused(uploads.append, "ann", number, 0, in_pieces(b"abcd", 1)) == "UPLOAD_SIZE"
    for size in range(4, 4 + limits.REGISTRY_UPLOADS - 1):
        uploads.begin("ann", size, DIGEST)
    assert refused(uploads.begin, "ann", 100, DIGEST) == "UPLOADS_FULL"
    uploads.begin("bob", 100, DIGEST)
    monkeypatch.setattr(limits, "REGISTRY_UPLOADS_BYTES", 1)
    assert refused(uploads.begin, "eve", 100, DIGEST) == "UPLOADS_FULL"


def test_an_upload_belongs_to_its_account_until_it_expires(uploads):
    number = uploads.begin("ann", 3, DIGEST).number
    assert refused(uploads.find, "bob", number) == "UPLOAD_NOT_FOUND"
    for hostile in ("../ann", "", "a" * 5000, f"{number}\n", f"3-{'a' * 63}/", "3-" + "é" * 64, "\0"):
        for call in (uploads.find, uploads.read, uploads.remove):
            assert refused(call, "ann", hostile) == "UPLOAD_NOT_FOUND"
        assert refused(uploads.append, "ann", hostile, 0, in_pieces(b"abc")) == "UPLOAD_NOT_FOUND"
    uploads.wrapped._clock = lambda: 1e11
    assert refused(uploads.find, "ann", number) == "UPLOAD_NOT_FOUND"
    uploads.expire()
