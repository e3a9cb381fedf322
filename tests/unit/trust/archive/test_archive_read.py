"""The format is found in the bytes and must be the one that was stated."""

import pytest

from skillwire import limits
from skillwire.errors import DecodeError, SkillwireError, TrustError
from skillwire.folder.pack import pack
from skillwire.model.skill import FileContent
from skillwire.trust.archive import read_archive

FILES = (FileContent("SKILL.md", b"# a skill"), FileContent("a.md", b"text"))
TAR_GZ = pack(FILES).content
ZIP = pack((*FILES, FileContent("n" * 101, b""))).content


def test_either_format_is_found():
    assert read_archive(TAR_GZ).files == FILES
    assert read_archive(ZIP).files[:2] == FILES


def test_the_stated_format_must_be_the_found_one():
    assert read_archive(TAR_GZ, expected_format="tar.gz")
    assert read_archive(ZIP, expected_format="zip")
    for content, stated in ((TAR_GZ, "zip"), (ZIP, "tar.gz")):
        with pytest.raises(TrustError, match="its bytes are") as caught:
            read_archive(content, expected_format=stated)  # type: ignore[arg-type]  # a str of the table
        assert caught.value.code == "ARCHIVE_FORMAT_MISMATCH"


@pytest.mark.parametrize("content", [b"", b"\x1f", b"P", b"BZh9", b"<!doctype html>", b"PK\5\6" + bytes(18)])
def test_other_bytes_are_no_archive(content):
    with pytest.raises(DecodeError) as caught:
        read_archive(content)
    assert caught.value.code == "ARCHIVE_MALFORMED"


def test_the_archive_is_bounded_before_it_is_read():
    with pytest.raises(SkillwireError) as caught:
        read_archive(bytes(limits.ARCHIVE_BYTES + 1))
    assert caught.value.code == "ARCHIVE_SIZE"
