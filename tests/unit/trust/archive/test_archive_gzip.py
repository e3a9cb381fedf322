"""One gzip member, and bounded inflating."""

import gzip
import random
import struct
import zlib

import pytest

from skillwire import limits
from skillwire.errors import DecodeError, SkillwireError
from skillwire.trust.archive.gzip import inflate, read_gzip

NOISE = random.Random(1)  # noqa: S311 -- bytes that do not compress, no secret
TEXT = b"what the member holds " * 50
NAME, EXTRA, COMMENT, HEADER_CRC, TEXT_FLAG = 8, 4, 16, 2, 1


def deflated(content):
    engine = zlib.compressobj(9, zlib.DEFLATED, -15)
    return engine.compress(content) + engine.flush()


def member(content=TEXT, flags=0, fields=b""):
    header = b"\x1f\x8b\x08" + bytes([flags]) + bytes(6) + fields
    if flags & HEADER_CRC:
        header += struct.pack("<H", zlib.crc32(header) & 0xFFFF)
    return header + deflated(content) + struct.pack("<2I", zlib.crc32(content), len(content))


def refusal(content):
    with pytest.raises(SkillwireError) as caught:
        read_gzip(content)
    return caught.value.code


@pytest.mark.parametrize(
    ("flags", "fields"),
    [
        (0, b""),
        (TEXT_FLAG, b""),
        (NAME, b"skill.tar\0"),
        (EXTRA | COMMENT, b"\x03\x00abcwords\0"),
        (EXTRA | NAME | COMMENT | HEADER_CRC, b"\x00\x00a\0b\0"),
    ],
)
def test_every_field_of_the_header_is_passed_over(flags, fields):
    assert read_gzip(member(flags=flags, fields=fields)) == TEXT


def test_reads_what_the_standard_library_writes():
    assert read_gzip(gzip.compress(TEXT)) == TEXT
    assert read_gzip(gzip.compress(b"")) == b""


@pytest.mark.parametrize("cut", [1, 5, 9, 12, len(member()) - 8, len(member()) - 1])
def test_a_cut_off_member_is_malformed(cut):
    assert refusal(member()[:cut]) == "ARCHIVE_MALFORMED"


@pytest.mark.parametrize(
    "content",
    [
        b"\x1f\x8b\x07" + member()[3:],
        member(flags=0x20),
        member()[:-8] + bytes(4) + member()[-4:],
        member()[:-4] + struct.pack("<I", len(TEXT) + 1),
        member(flags=HEADER_CRC)[:10] + b"\0\0" + member()[10:],
        member(flags=NAME, fields=b"never ends")[:25],
        b"\x1f\x8b\x08\0" + bytes(6) + b"\xff" * 40,
        b"\x1f\x8b\x08\x04" + bytes(6) + b"\xff\x00",
    ],
)
def test_a_broken_member_is_malformed(content):
    assert refusal(content) == "ARCHIVE_MALFORMED"


@pytest.mark.parametrize("more", [b"\0", b"garbage", member(), bytes(512) + member()])
def test_nothing_may_follow_the_member(more):
    assert refusal(member() + more) == "ARCHIVE_TRAILING_DATA"


@pytest.mark.parametrize("flags", [NAME, COMMENT])
def test_the_header_is_bounded(flags):
    assert refusal(member(flags=EXTRA, fields=b"\xff\xff" + b"x" * 0xFFFF)) == "ARCHIVE_HEADER_SIZE"
    fields = b"n" * limits.ARCHIVE_HEADER_BYTES + b"\0"
    assert refusal(member(flags=flags, fields=fields)) == "ARCHIVE_HEADER_SIZE"
    assert (
        refusal(member(flags=EXTRA | flags, fields=b"\xf0\xff" + b"x" * 0xFFF0 + b"n" * 40 + b"\0"))
        == "ARCHIVE_HEADER_SIZE"
    )


def test_a_high_ratio_is_refused_above_the_floor_only():
    zeros = bytes(limits.ARCHIVE_RATIO_FLOOR_BYTES)
    assert len(read_gzip(member(zeros))) == len(zeros)
    assert refusal(member(zeros + b"\0")) == "ARCHIVE_RATIO"


def test_the_inflated_size_is_bounded():
    assert refusal(member(NOISE.randbytes(400_000) + bytes(limits.ARCHIVE_STREAM_BYTES))) == "ARCHIVE_TOTAL_SIZE"


@pytest.mark.parametrize("size", [0, 1, 1000, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 1_000_000])
@pytest.mark.parametrize("content", [bytes, NOISE.randbytes], ids=["zeros", "noise"])
def test_inflating_gives_all_and_says_how_much_it_took(size, content):
    plain = content(size)
    stream = deflated(plain)
    result, taken = inflate(memoryview(stream + b"behind"), size)
    assert (bytes(result), taken) == (plain, len(stream))


@pytest.mark.parametrize("limit", [0, 1, 999, 256 * 1024, 400_000])
def test_inflating_stops_one_byte_beyond_the_limit(limit):
    result, _ = inflate(memoryview(deflated(bytes(500_000))), limit)
    assert len(result) == limit + 1


def test_a_stream_that_ends_early_is_malformed():
    with pytest.raises(DecodeError, match="ends too early"):
        inflate(memoryview(deflated(TEXT)[:-1]), len(TEXT))
    with pytest.raises(DecodeError, match="broken"):
        inflate(memoryview(b"\xff\xff\xff\xff"), 10)
