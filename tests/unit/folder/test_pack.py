"""The archives we write: the same bytes for the same files, and what other readers make of them."""

import gzip
import hashlib
import io
import random
import tarfile
import zipfile

import pytest

from skillwire import limits
from skillwire.errors import SkillwireError
from skillwire.folder.pack import _tar, pack
from skillwire.model.skill import FileContent

FILES = (
    FileContent("SKILL.md", b"# a skill\n" * 100),
    FileContent("assets/empty.txt", b""),
    FileContent("scripts/run.sh", b"#!/bin/sh\n", executable=True),
    FileContent("zebra/日本.md", b"x" * 512),
)
LONG = FileContent("n" * (limits.PUBLISH_PATH_BYTES + 1), b"long")


def standard_tar(files):
    """Return what tarfile writes for the same files, padded to a record."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, content, executable in files:
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(content), 0o755 if executable else 0o644
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def test_the_headers_are_those_of_the_standard_library():
    ours = _tar(FILES)
    theirs = standard_tar(FILES)
    assert theirs.startswith(ours)
    assert not theirs[len(ours) :].strip(b"\0")


def test_a_name_of_just_100_bytes_fits():
    files = (FILES[0], FileContent("n" * 100, b""))
    assert standard_tar(files).startswith(_tar(files))
    assert pack(files).extension == ".tar.gz"


def test_the_archive_says_nothing_of_who_packed_it_and_when():
    packed = pack(FILES)
    assert (packed.extension, packed.media_type) == (".tar.gz", "application/gzip")
    assert packed.content[:10] == b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    with tarfile.open(fileobj=io.BytesIO(packed.content)) as tar:
        assert [
            (member.name, member.mode, member.mtime, member.uid, member.gid, member.uname, member.gname)
            for member in tar.getmembers()
        ] == [(file.path, 0o755 if file.executable else 0o644, 0, 0, 0, "", "") for file in FILES]


def test_a_long_path_makes_it_a_zip():
    packed = pack((*FILES, LONG))
    assert (packed.extension, packed.media_type) == (".zip", "application/zip")
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        assert archive.testzip() is None
        assert [(info.filename, info.external_attr >> 16, info.date_time) for info in archive.infolist()] == [
            (file.path, 0o100755 if file.executable else 0o100644, (1980, 1, 1, 0, 0, 0))
            for file in sorted((*FILES, LONG), key=lambda file: file.path.encode())
        ]
        assert archive.getinfo("assets/empty.txt").compress_type == zipfile.ZIP_STORED


def test_skill_md_comes_first_and_the_rest_in_the_order_of_bytes():
    files = [FileContent(path, b"") for path in ("Z", "a-b", "a/b", "SKILL.md", "é", "B")]
    with tarfile.open(fileobj=io.BytesIO(pack(files).content)) as tar:
        assert tar.getnames() == ["SKILL.md", "B", "Z", "a-b", "a/b", "é"]


def test_the_compressed_bytes_stay_the_same_with_any_zlib():
    assert (
        hashlib.sha256(pack(FILES).content).hexdigest()
        == "83f7dcd8d3d3e69e556ab0cfe8989f3034862b79660dbe99c3473ae442357509"
    )
    numbers = random.Random(1)  # noqa: S311  # repeatable
    words = ("skill", "folder", "archive", "digest", "publish", "index")
    long = " ".join(numbers.choice(words) for _ in range(50_000))
    mixed = FileContent("long.txt", long.encode() + numbers.randbytes(20_000))
    assert (
        hashlib.sha256(pack((*FILES, mixed)).content).hexdigest()
        == "d04a091d9d244d75a755ae584a9a45baaf1fa818414e0ec83fe090a664cd47fc"
    )
    assert (
        hashlib.sha256(pack((*FILES, LONG)).content).hexdigest()
        == "65a07b9685dc2cd79d75cebb7d50dda6b5fbd48bbc3fc6be9864a95007a2a292"
    )


def test_the_uncompressed_bytes_stay_the_same_with_any_zlib():
    stream = gzip.decompress(pack(FILES).content)
    assert hashlib.sha256(stream).hexdigest() == "860c3b84104b70c6e57d8cb8f2e9b0124ebe9e76fcde55b6346b3f51d2a15a8d"


@pytest.mark.parametrize(
    ("code", "files"),
    [
        ("NO_SKILL_MD", [FileContent("README.md", b"")]),
        ("PATH_TRAVERSAL", [*FILES, FileContent("../x", b"")]),
        ("PATH_COLLISION", [*FILES, FileContent("skill.md", b"")]),
        ("ARCHIVE_RATIO", [*FILES, FileContent("zeros", bytes(limits.ARCHIVE_RATIO_FLOOR_BYTES))]),
        ("ARCHIVE_RATIO", [*FILES, LONG, FileContent("zeros", bytes(limits.ARCHIVE_RATIO_FLOOR_BYTES))]),
        ("ARCHIVE_ENTRIES", [*FILES, *(FileContent(f"f/{n}", b"") for n in range(limits.ARCHIVE_ENTRIES))]),
    ],
)
def test_nothing_is_packed_that_our_own_reader_would_refuse(code, files):
    with pytest.raises(SkillwireError) as caught:
        pack(files)
    assert caught.value.code == code


def test_an_archive_larger_than_is_read_is_not_made():
    noise = random.Random(1).randbytes(limits.ARCHIVE_FILE_BYTES)  # noqa: S311 -- it does not compress, no secret
    with pytest.raises(SkillwireError) as caught:
        pack([FILES[0], FileContent("noise.bin", noise)])
    assert caught.value.code == "ARCHIVE_SIZE"
    assert caught.value.message.endswith(f" bytes, at most {limits.ARCHIVE_BYTES:,}")
