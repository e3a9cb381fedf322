"""The strict zip reader: the directory and the local headers must tell one story, byte for byte."""

import io
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass, replace

import pytest

from skillwire import limits
from skillwire.errors import SkillwireError
from skillwire.trust.archive.plan import Entry
from skillwire.trust.archive.zip import read_zip

FULL = 0xFFFFFFFF


def deflated(content):
    engine = zlib.compressobj(9, zlib.DEFLATED, -15)
    return engine.compress(content) + engine.flush()


@dataclass(frozen=True)
class Member:
    """One entry; a field whose name begins with ``local_`` differs there only."""

    name: bytes = b"SKILL.md"
    content: bytes = b"# a skill"
    method: int = 8
    flags: int = 0
    host: int = 3
    mode: int = 0o100644
    low_attributes: int = 0
    extra: bytes = b""
    comment: bytes = b""
    size: int | None = None
    compressed: int | None = None
    disk: int = 0
    local_extra: bytes = b""
    local_sizes: tuple[int, int, int] | None = None
    descriptor: bytes = b""
    data: bytes | None = None
    gap: bytes = b""

    @property
    def stored(self):
        if self.data is not None:
            return self.data
        return deflated(self.content) if self.method == 8 else self.content

    @property
    def sizes(self):
        compressed = len(self.stored) if self.compressed is None else self.compressed
        return zlib.crc32(self.content), compressed, len(self.content) if self.size is None else self.size

    def local(self):
        sizes = self.local_sizes or self.sizes
        fields = (20, self.flags, self.method, 0, 33, *sizes, len(self.name), len(self.local_extra))
        header = struct.pack("<4s5H3I2H", b"PK\3\4", *fields)
        return header + self.name + self.local_extra + self.stored + self.descriptor + self.gap

    def central(self, offset):
        attributes = self.mode << 16 | self.low_attributes
        lengths = (len(self.name), len(self.extra), len(self.comment))
        head = (20, self.host, 20, self.flags, self.method, 0, 33, *self.sizes, *lengths, self.disk, 0)
        header = struct.pack("<4s2B5H3I5H2I", b"PK\1\2", *head, attributes, offset)
        return header + self.name + self.extra + self.comment


def build(*members, comment=b"", between=b"", shift=0, **end):
    """Return a zip of ``members``; ``end`` overrules fields of the end record."""
    body = b""
    directory = b""
    for member in members:
        directory += member.central(len(body) + shift)
        body += member.local()
    fields = {"disk": 0, "first": 0, "here": len(members), "count": len(members)}
    fields |= {"size": len(directory), "start": len(body) + shift, "comment": len(comment)} | end
    return body + directory + between + struct.pack("<4s4H2IH", b"PK\5\6", *fields.values()) + comment


def end64(content, count=1, version=45, size=44, **locator):
    """Return what stands between a directory and its end record when the end has a 64-bit form."""
    start = content.index(b"PK\1\2")
    length = content.index(b"PK\5\6") - start
    fields = {"disk": 0, "offset": start + length, "disks": 1} | locator
    return struct.pack(
        "<4sQ2H2I4Q", b"PK\6\6", size, version, version, 0, 0, count, count, length, start
    ) + struct.pack("<4sIQI", b"PK\6\7", *fields.values())


def read(content):
    return [entry._replace(content=bytes(entry.content)) for entry in read_zip(content)]


def refusal(content):
    with pytest.raises(SkillwireError) as caught:
        read(content)
    return caught.value.code


SKILL = Member()
DESCRIPTOR = struct.pack("<3I", *SKILL.sizes)
DESCRIPTOR_64 = struct.pack("<I2Q", *SKILL.sizes)
UNICODE_PATH = struct.pack("<HHBI", 0x7075, 13, 1, zlib.crc32(b"SKILL.md")) + b"SKILL.md"


def zip64(*values):
    return struct.pack(f"<2H{len(values)}Q", 1, 8 * len(values), *values)


def test_reads_the_kinds_of_entry():
    content = build(
        Member(b"./", b"", method=0, mode=stat.S_IFDIR | 0o755, low_attributes=0x10),
        Member(b"scripts/", b"", mode=0, host=0),
        Member(b"scripts/run.sh", b"#!", mode=0o106777),
        Member(b"dos.md", b"text" * 100, method=0, mode=0o777, host=0),
        Member(b"link", b"dos.md", mode=stat.S_IFLNK | 0o777),
        Member("日本.md".encode(), b"", method=0, flags=0x0806),
        comment=b"0123456789abcdef, as git archive writes",
    )
    assert read(content) == [
        Entry("folder", ""),
        Entry("folder", "scripts"),
        Entry("file", "scripts/run.sh", b"#!", executable=True),
        Entry("file", "dos.md", b"text" * 100),
        Entry("symlink", "link", target=b"dos.md"),
        Entry("file", "日本.md"),
    ]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_reads_what_the_standard_library_writes(method):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.mkdir("a")
        archive.writestr("a/é.md", "text" * 1000)
        with archive.open("large.md", "w", force_zip64=True) as file:
            file.write(b"large")
    assert [(entry.path, len(entry.content)) for entry in read(stream.getvalue())] == [
        ("a", 0),
        ("a/é.md", 4000),
        ("large.md", 5),
    ]


def test_reads_what_the_standard_library_streams():
    class Pipe(io.RawIOBase):
        written = bytearray()

        def write(self, data):
            self.written += data
            return len(data)

    with zipfile.ZipFile(Pipe(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.md", "text")
        with archive.open("b.md", "w", force_zip64=True) as file:
            file.write(b"more")
    assert [entry.path for entry in read(bytes(Pipe.written))] == ["a.md", "b.md"]


@pytest.mark.parametrize(
    "member",
    [
        Member(flags=8, descriptor=DESCRIPTOR),
        Member(flags=8, descriptor=b"PK\7\x08" + DESCRIPTOR, local_sizes=(0, 0, 0)),
        Member(flags=8, descriptor=DESCRIPTOR_64, local_sizes=(0, 0, 0)),
        Member(flags=8, descriptor=b"PK\7\x08" + DESCRIPTOR, local_sizes=(0, 0, SKILL.sizes[2])),
        Member(flags=8, descriptor=b"PK\7\x08" + DESCRIPTOR, local_sizes=(0, *SKILL.sizes[1:])),
        Member(flags=8, descriptor=b"PK\7\x08" + DESCRIPTOR_64, local_sizes=(0, FULL, FULL), local_extra=zip64(0, 0)),
        Member(local_sizes=(SKILL.sizes[0], FULL, FULL), local_extra=zip64(*SKILL.sizes[:0:-1])),
        Member(local_extra=zip64(*SKILL.sizes[:0:-1])),
        Member(size=FULL, local_sizes=SKILL.sizes, extra=zip64(len(SKILL.content))),
        Member(extra=UNICODE_PATH, local_extra=UNICODE_PATH),
        Member(extra=b"UT\x05\x00\x01" + bytes(4), comment=b"words"),
    ],
)
def test_other_ways_to_write_the_same_are_read(member):
    assert read(build(member)) == [Entry("file", "SKILL.md", b"# a skill")]


def test_an_empty_file_that_is_stored_in_a_stream_is_read():
    member = Member(content=b"", method=0, flags=8, descriptor=b"PK\7\x08" + bytes(12))
    assert read(build(member)) == [Entry("file", "SKILL.md")]
    assert refusal(build(replace(member, descriptor=bytes(12)))) == "ARCHIVE_MALFORMED"


def test_the_64_bit_end_record_is_read():
    plain = build(SKILL)
    assert read(build(SKILL, between=end64(plain)))
    assert read(build(SKILL, between=end64(plain), here=0xFFFF, count=0xFFFF, size=FULL, start=FULL))


@pytest.mark.parametrize(
    ("code", "content"),
    [
        # the end
        ("ARCHIVE_MALFORMED", b"PK\3\4"),
        ("ARCHIVE_MALFORMED", build(SKILL)[:-1]),
        ("ARCHIVE_MALFORMED", build(SKILL) + b"\n"),
        ("ARCHIVE_MALFORMED", b"#!" + build(SKILL)),
        ("ARCHIVE_MALFORMED", b"#!" + build(SKILL, shift=2)),
        ("ARCHIVE_MALFORMED", build(SKILL) + build(SKILL)),
        ("ARCHIVE_MALFORMED", build(SKILL, comment=build(SKILL))),
        ("ARCHIVE_MALFORMED", build(SKILL, comment=struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0, 0, 0, 0, 0))),
        ("ARCHIVE_MALFORMED", build(SKILL, disk=1)),
        ("ARCHIVE_MALFORMED", build(SKILL, first=1)),
        ("ARCHIVE_MALFORMED", build(SKILL, here=0)),
        ("ARCHIVE_MALFORMED", build(SKILL, here=0, count=0)),
        ("ARCHIVE_MALFORMED", build(SKILL, here=2, count=2)),
        ("ARCHIVE_MALFORMED", build(SKILL, start=0)),
        ("ARCHIVE_MALFORMED", build(SKILL, size=FULL, start=FULL)),
        ("ARCHIVE_ENTRIES", build(SKILL, here=2001, count=2001)),
        ("ARCHIVE_MALFORMED", build(SKILL, between=b"gap")),
        ("ARCHIVE_MALFORMED", build(SKILL, between=end64(build(SKILL), count=2))),
        ("ARCHIVE_MALFORMED", build(SKILL, between=end64(build(SKILL), size=45))),
        ("ARCHIVE_MALFORMED", build(SKILL, between=end64(build(SKILL), offset=0))),
        ("ARCHIVE_MALFORMED", build(SKILL, between=end64(build(SKILL), offset=2**63))),
        ("ARCHIVE_MALFORMED", build(SKILL, between=end64(build(SKILL), disks=2))),
        ("ARCHIVE_MALFORMED", build(SKILL, between=b"PK\6\7" + bytes(16))),
        ("ARCHIVE_MALFORMED", build(replace(SKILL, comment=b"x" * 10)).replace(b"PK\1\2", b"PK\1\3")),
        # what the directory says
        ("ARCHIVE_MALFORMED", build(Member(disk=1))),
        ("ARCHIVE_MALFORMED", build(Member(flags=0x20))),
        ("ARCHIVE_MALFORMED", build(Member(flags=0x10))),
        ("ARCHIVE_ENCRYPTED", build(Member(flags=1))),
        ("ARCHIVE_ENCRYPTED", build(Member(flags=0x2000))),
        ("ARCHIVE_UNSUPPORTED_METHOD", build(Member(method=99))),
        ("ARCHIVE_FILE_SIZE", build(Member(size=limits.ARCHIVE_FILE_BYTES + 1))),
        ("ARCHIVE_TOTAL_SIZE", build(*[Member(size=limits.ARCHIVE_FILE_BYTES)] * 3)),
        ("ARCHIVE_RATIO", build(Member(size=limits.ARCHIVE_RATIO_FLOOR_BYTES + 1))),
        ("ARCHIVE_MALFORMED", build(Member(extra=b"UT\x09\x00\x01"))),
        ("ARCHIVE_MALFORMED", build(Member(extra=b"UT\0"))),
        ("ARCHIVE_MALFORMED", build(Member(extra=b"UT\0\0UT\0\0"))),
        ("ARCHIVE_MALFORMED", build(Member(extra=zip64(9)))),
        ("ARCHIVE_MALFORMED", build(Member(size=FULL))),
        ("ARCHIVE_MALFORMED", build(Member(size=FULL, extra=zip64(9, 11)))),
        ("ARCHIVE_MALFORMED", build(Member(extra=UNICODE_PATH[:-1] + b"X"))),
        ("ARCHIVE_MALFORMED", build(Member(local_extra=UNICODE_PATH[:-1] + b"X"))),
        ("ARCHIVE_MALFORMED", build(Member(extra=b"\x75\x70\x00\x00"))),
        # local headers
        ("ARCHIVE_MALFORMED", build(SKILL).replace(b"PK\3\4", b"PK\3\5")),
        ("ARCHIVE_MALFORMED", build(SKILL).replace(b"SKILL.md", b"EVIL_.md", 1)),
        ("ARCHIVE_MALFORMED", build(Member(local_sizes=(0, 0, 0)))),
        ("ARCHIVE_MALFORMED", build(Member(local_sizes=(1, *SKILL.sizes[1:])))),
        ("ARCHIVE_MALFORMED", build(Member(local_extra=zip64(9, 12)))),
        ("ARCHIVE_MALFORMED", build(Member(local_extra=b"\0"))),
        ("ARCHIVE_MALFORMED", build(Member(gap=b"hidden"))),
        ("ARCHIVE_MALFORMED", build(Member(gap=b"hidden"), Member(b"b"))),
        ("ARCHIVE_MALFORMED", build(Member(compressed=10_000))),
        # descriptors
        ("ARCHIVE_MALFORMED", build(Member(flags=8))),
        ("ARCHIVE_MALFORMED", build(Member(flags=8, descriptor=bytes(12)))),
        ("ARCHIVE_MALFORMED", build(Member(flags=8, descriptor=DESCRIPTOR + b"\0"))),
        ("ARCHIVE_MALFORMED", build(Member(descriptor=DESCRIPTOR))),
        ("ARCHIVE_MALFORMED", build(Member(flags=8, descriptor=DESCRIPTOR, local_sizes=(1, 0, 0)))),
        ("ARCHIVE_MALFORMED", build(Member(flags=8, descriptor=DESCRIPTOR, local_sizes=(0, 1, 0)))),
        ("ARCHIVE_MALFORMED", build(Member(flags=8, descriptor=DESCRIPTOR, local_sizes=(0, 0, 1)))),
        ("ARCHIVE_MALFORMED", build(Member(local_sizes=(0, 0, SKILL.sizes[2])))),
        (
            "ARCHIVE_MALFORMED",
            build(Member(flags=8, method=0, descriptor=b"PK\7\x08" + struct.pack("<3I", *Member(method=0).sizes))),
        ),
        ("ARCHIVE_MALFORMED", build(Member(flags=8, method=0, descriptor=struct.pack("<3I", *Member(method=0).sizes)))),
        # contents
        ("ARCHIVE_MALFORMED", build(Member(size=8))),
        ("ARCHIVE_MALFORMED", build(Member(size=10))),
        ("ARCHIVE_MALFORMED", build(Member(method=0, size=10))),
        ("ARCHIVE_MALFORMED", build(Member(data=deflated(b"# b skill")))),
        ("ARCHIVE_MALFORMED", build(Member(data=deflated(b"# a skill") + b"hidden"))),
        ("ARCHIVE_MALFORMED", build(Member(data=deflated(b"# a skill")[:-1]))),
        # kinds
        ("ARCHIVE_MALFORMED", build(Member(mode=stat.S_IFDIR | 0o755))),
        ("ARCHIVE_MALFORMED", build(Member(b"a/", b""))),
        ("ARCHIVE_MALFORMED", build(Member(low_attributes=0x10))),
        ("ARCHIVE_MALFORMED", build(Member(b"a/", b"text", mode=0))),
        ("ARCHIVE_MALFORMED", build(Member(mode=stat.S_IFLNK, host=0))),
        ("PATH_TOO_LONG", build(Member(content=b"x" * 513, mode=stat.S_IFLNK))),
        ("ARCHIVE_ENTRY_TYPE", build(Member(mode=stat.S_IFIFO))),
        ("ARCHIVE_ENTRY_TYPE", build(Member(mode=stat.S_IFSOCK, host=0))),
        # names
        ("PATH_INVALID", build(Member(b""))),
        ("PATH_INVALID", build(Member(b"a\0b"))),
        ("PATH_INVALID", build(Member(b"\x82.md", flags=0))),
        ("PATH_ABSOLUTE", build(Member(b"/"))),
        ("PATH_TOO_LONG", build(Member(b"n" * 60_000))),
    ],
)
def test_what_readers_could_read_differently_is_refused(code, content):
    assert refusal(content) == code


def test_an_entry_that_reaches_out_of_the_directory_is_refused():
    content = bytearray(build(SKILL))
    content[content.index(b"PK\1\2") + 28] = 255  # the length of its name
    assert refusal(bytes(content)) == "ARCHIVE_MALFORMED"


def test_entries_that_share_their_data_are_refused():
    one, two = Member(b"a"), Member(b"b")
    body = one.local()
    directory = one.central(0) + two.central(0)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 2, 2, len(directory), len(body), 0)
    assert refusal(body + directory + end) == "ARCHIVE_MALFORMED"


def test_the_order_of_the_directory_may_be_another_one():
    one, two = Member(b"a"), Member(b"b")
    body = one.local() + two.local()
    directory = two.central(len(one.local())) + one.central(0)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 2, 2, len(directory), len(body), 0)
    assert [entry.path for entry in read(body + directory + end)] == ["b", "a"]
