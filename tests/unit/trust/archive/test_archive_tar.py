"""The strict tar reader: what it reads of other writers, and what makes two readers lose step."""

import io
import tarfile

import pytest

from skillwire import limits
from skillwire.errors import SkillwireError
from skillwire.trust.archive.plan import Entry
from skillwire.trust.archive.tar import read_tar

END = bytes(1024)
GNU = b"ustar  \0"
TIMES = b"15300242135\x0015300242136\0"


def block(
    name=b"a.md", size=0, kind=b"0", *, mode=b"0000644\0", link=b"", magic=b"ustar\x0000", prefix=b"", checksum=None
):
    """Return a header with the right checksum, unless another one is given."""
    digits = size if isinstance(size, bytes) else b"%011o\0" % size
    front = name.ljust(100, b"\0") + mode + b"0000000\0" * 2 + digits + b"00000000000\0"
    back = kind + link.ljust(100, b"\0") + magic + bytes(80) + prefix.ljust(155, b"\0") + bytes(12)
    return front + (checksum or b"%06o\0 " % (sum(front + back) + 256)) + back


def file(name=b"a.md", content=b"text", **fields):
    return block(name, len(content), **fields) + padded(content)


def padded(content):
    return content + bytes(-len(content) % 512)


def record(key, value):
    length = len(key) + len(value) + 3
    length += len(str(length + len(str(length))))
    return b"%d %s=%s\n" % (length, key, value)


def extended(*records, kind=b"x"):
    data = b"".join(records)
    return block(b"PaxHeader", len(data), kind) + padded(data)


def long_name(name, kind=b"L"):
    return block(b"././@LongLink", len(name), kind, magic=GNU) + padded(name)


def read(stream):
    return [entry._replace(content=bytes(entry.content)) for entry in read_tar(stream)]


def refusal(stream):
    with pytest.raises(SkillwireError) as caught:
        read(stream)
    return caught.value.code


def test_reads_the_kinds_of_entry():
    stream = (
        block(b"./", kind=b"5")
        + block(b"./scripts/", kind=b"5", mode=b"0000000\0")
        + file(b"./scripts/run.sh", b"#!", mode=b"0006755\0")
        + file(b"page.md", b"text", prefix=b"a/b")
        + block(b"s", kind=b"2", link=b"page.md")
        + block(b"h", kind=b"1", link=b"page.md")
        + file(b"old.md", b"", kind=b"\0", mode=b"   644 \0")
        + END
    )
    assert read(stream) == [
        Entry("folder", ""),
        Entry("folder", "scripts"),
        Entry("file", "scripts/run.sh", b"#!", executable=True),
        Entry("file", "a/b/page.md", b"text"),
        Entry("symlink", "s", target=b"page.md"),
        Entry("hardlink", "h", target=b"page.md"),
        Entry("file", "old.md"),
    ]


@pytest.mark.parametrize("prefix", [b"", b"a/b", b"p" * 130])
@pytest.mark.parametrize("times", [TIMES, TIMES.replace(b"\0", b" ")])
def test_two_times_may_end_the_prefix(prefix, times):
    (entry,) = read(file(prefix=prefix.ljust(131, b"\0") + times) + END)
    assert entry.path == (prefix + b"/" if prefix else b"").decode() + "a.md"


@pytest.mark.parametrize("style", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_reads_what_the_standard_library_writes(style):
    path = "/".join(["a-folder-with-a-long-name"] * (3 if style == tarfile.USTAR_FORMAT else 8)) + "/é.md"
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=style, pax_headers={"comment": "c"}) as tar:
        member = tarfile.TarInfo(path)
        member.size, member.mtime, member.uname = 3, 1.5, "nobody"
        tar.addfile(member, io.BytesIO(b"abc"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, path
        tar.addfile(link)
    assert read(stream.getvalue()) == [Entry("file", path, b"abc"), Entry("symlink", "link", target=path.encode())]


def test_extension_headers_rename_the_next_entry_only():
    stream = (
        extended(record(b"comment", b"0" * 40), kind=b"g")
        + extended(record(b"path", b"pax.md"), record(b"size", b"4"), record(b"SCHILY.xattr.x", b"\x01\0\n"))
        + file(b"short")
        + long_name(b"gnu.md\0")
        + long_name(b"target.md\0", b"K")
        + block(b"short", kind=b"2", link=b"short")
        + extended(record(b"linkpath", b"pax-target"), record(b"hdrcharset", b"ISO-IR 10646 2000 UTF-8"))
        + block(b"l", kind=b"2", link=b"short")
        + file(b"plain.md")
        + END
    )
    assert [(entry.path, entry.target) for entry in read(stream)] == [
        ("pax.md", b""),
        ("gnu.md", b"target.md"),
        ("l", b"pax-target"),
        ("plain.md", b""),
    ]


@pytest.mark.parametrize(
    ("code", "stream"),
    [
        # the end
        ("ARCHIVE_MALFORMED", b""),
        ("ARCHIVE_MALFORMED", file()),
        ("ARCHIVE_MALFORMED", file() + END[:512]),
        ("ARCHIVE_MALFORMED", file() + END + b"\0"),
        ("ARCHIVE_MALFORMED", file()[:-1]),
        ("ARCHIVE_MALFORMED", file() + block()[:300]),
        ("ARCHIVE_TRAILING_DATA", file() + END[:512] + file() + END),
        ("ARCHIVE_TRAILING_DATA", file() + END + bytes(100 * 512) + file(b"hidden.md") + END),
        # numbers
        ("ARCHIVE_MALFORMED", block(size=b"\x80" + bytes(10) + b"\x01") + END),
        ("ARCHIVE_MALFORMED", block(size=b"\xff" * 12) + END),
        ("ARCHIVE_MALFORMED", block(size=b"-0000000001\0") + END),
        ("ARCHIVE_MALFORMED", block(size=b"0000000008\0\0") + END),
        ("ARCHIVE_MALFORMED", block(size=bytes(12)) + END),
        ("ARCHIVE_MALFORMED", block(size=b"0000 000001\0") + END),
        ("ARCHIVE_MALFORMED", block(mode=b"\x80\0\0\0\0\0\x01\0") + END),
        ("ARCHIVE_MALFORMED", block(checksum=b"000000\0 ") + END),
        ("ARCHIVE_MALFORMED", block(size=1)),
        # kinds
        ("ARCHIVE_MALFORMED", block(magic=bytes(8)) + END),
        ("ARCHIVE_MALFORMED", block(magic=b"ustar\x0001") + END),
        ("ARCHIVE_MALFORMED", block(magic=GNU, prefix=b"../evil") + END),
        ("ARCHIVE_MALFORMED", file(kind=b"5") + END),
        ("ARCHIVE_MALFORMED", file(kind=b"2", link=b"x") + END),
        ("ARCHIVE_ENTRY_TYPE", block(kind=b"3") + END),
        ("ARCHIVE_ENTRY_TYPE", block(kind=b"7") + END),
        ("ARCHIVE_ENTRY_TYPE", file(kind=b"S") + END),
        # names
        ("PATH_INVALID", block(b"a.md\0hidden") + END),
        ("PATH_INVALID", file(prefix=b"a\0hidden".ljust(131, b"\0") + TIMES) + END),
        ("PATH_INVALID", file(prefix=b"a\0b".ljust(155, b"\0")) + END),
        ("PATH_INVALID", file(prefix=bytes(131) + TIMES.replace(b"5", b"8")) + END),
        ("PATH_INVALID", file(prefix=bytes(131) + TIMES[:12]) + END),
        ("PATH_INVALID", file(prefix=bytes(131) + TIMES[:-1] + b"/") + END),
        ("PATH_INVALID", file(prefix=bytes(130) + b"p" + TIMES) + END),
        ("PATH_INVALID", block(b"") + END),
        ("PATH_INVALID", block(b"a/") + END),
        ("PATH_INVALID", block(b"././a") + END),
        ("PATH_ABSOLUTE", block(b"/", kind=b"5") + END),
        ("PATH_ABSOLUTE", block(b".//a") + END),
        ("PATH_TRAVERSAL", block(b"evil.md", prefix=b"..") + END),
        # extension headers
        ("ARCHIVE_MALFORMED", extended(record(b"path", b"x")) + END),
        ("ARCHIVE_MALFORMED", extended(record(b"comment", b"x")) + END),
        ("ARCHIVE_MALFORMED", extended(record(b"comment", b"x")) * 2 + file() + END),
        ("ARCHIVE_MALFORMED", extended(record(b"path", b"x")) + long_name(b"y\0") + file() + END),
        ("ARCHIVE_MALFORMED", extended() + long_name(b"y\0", b"K") + file() + END),
        ("ARCHIVE_MALFORMED", long_name(b"y\0") + extended(record(b"comment", b"x")) + file() + END),
        ("ARCHIVE_MALFORMED", long_name(b"x\0") + long_name(b"y\0") + file() + END),
        ("ARCHIVE_MALFORMED", file() + extended(record(b"comment", b"x"), kind=b"g") + file() + END),
        ("ARCHIVE_MALFORMED", extended(record(b"size", b"4"), kind=b"g") + file() + END),
        ("ARCHIVE_MALFORMED", extended(record(b"GNU.sparse.name", b"x"), kind=b"g") + file() + END),
        ("ARCHIVE_MALFORMED", extended(record(b"size", b"0")) + file() + END),
        ("ARCHIVE_MALFORMED", extended(record(b"size", b"04")) + file() + END),
        ("ARCHIVE_MALFORMED", extended(record(b"size", b"+4")) + file() + END),
        ("ARCHIVE_MALFORMED", extended(record(b"path", b"")) + file() + END),
        ("ARCHIVE_MALFORMED", extended(record(b"path", b"x") * 2) + file() + END),
        ("ARCHIVE_MALFORMED", extended(record(b"hdrcharset", b"BINARY")) + file() + END),
        ("ARCHIVE_MALFORMED", extended(b"8 path=x\n") + file() + END),
        ("ARCHIVE_MALFORMED", extended(b"11 path=x\n") + file() + END),
        ("ARCHIVE_MALFORMED", extended(b"010 path=x\n") + file() + END),
        ("ARCHIVE_MALFORMED", extended(b"0 path=x\n") + file() + END),
        ("ARCHIVE_MALFORMED", extended(b"3 \n") + file() + END),
        ("ARCHIVE_MALFORMED", extended(b"7 path\n") + file() + END),
        ("ARCHIVE_MALFORMED", extended(b"5 =x\n") + file() + END),
        ("ARCHIVE_MALFORMED", extended(b"999999 path=x\n") + file() + END),
        ("ARCHIVE_MALFORMED", extended(b"9999999999 path=x\n") + file() + END),
        ("ARCHIVE_ENTRY_TYPE", extended(record(b"GNU.sparse.major", b"1")) + file() + END),
        ("ARCHIVE_HEADER_SIZE", long_name(b"n" * 70_000) + file() + END),
        ("PATH_TOO_LONG", long_name(b"n" * 60_000) + file() + END),
        ("PATH_INVALID", long_name(b"a\0b\0") + file() + END),
        ("PATH_INVALID", extended(record(b"path", b"a\0b")) + file() + END),
    ],
)
def test_what_readers_could_read_differently_is_refused(code, stream):
    assert refusal(stream) == code


def test_a_file_is_bounded():
    content = bytes(limits.ARCHIVE_FILE_BYTES + 1)
    assert refusal(file(content=content) + END) == "ARCHIVE_FILE_SIZE"


def test_a_checksum_that_is_right_modulo_anything_else_is_still_wrong():
    # Names of high bytes push the sum beyond 16 bits, and beyond what Adler-32 can tell apart.
    name = b"\xc3\xbf" * 50
    right = sum(block(name)[:148] + block(name)[156:]) + 256
    assert right > 20_000
    assert read(block(name) + END)[0].path == "ÿ" * 50
    for wrong in (right - 65_521, right + 65_521, right + 1, right % 2**8):
        if wrong > 0:
            assert refusal(block(name, checksum=b"%06o\0 " % wrong) + END) == "ARCHIVE_MALFORMED"


@pytest.mark.parametrize("wrap", [bytes, bytearray])
def test_contents_are_views_that_cannot_be_written(wrap):
    (entry,) = read_tar(wrap(file() + END))
    assert isinstance(entry.content, memoryview)
    assert entry.content.readonly
