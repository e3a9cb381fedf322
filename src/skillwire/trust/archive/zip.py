"""The zip format, read strictly: the directory, the local headers, and the extra fields that matter.

A reader may search the end of a zip in different ways and find different directories. Here every byte has one meaning:
the end record ends the file, the directory ends where the end record (or its 64-bit form) begins, and the files' data
fill everything before, in the order of their offsets: no overlap, gap or prefix. Each file is described in the
directory and before its data; both must agree, as must the descriptors after streamed data.

Of the extra fields two matter: the 64-bit sizes, and the Unicode path, which some readers prefer to the name. The
others must be well-formed and are ignored. Spec: APPNOTE 4.3 to 4.6.9.
"""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from skillwire import limits
from skillwire.errors import DecodeError, TrustError
from skillwire.trust.archive.gzip import inflate
from skillwire.trust.archive.plan import Entry, check_file_size, entry_path, malformed, plausible_size
from skillwire.trust.paths import show

ZIP64: Final = 0x0001
_UNICODE_PATH: Final = 0x7075
_FIELD: Final = struct.Struct("<HH")
_UNICODE_PATH_HEAD: Final = struct.Struct("<BI")
_FULL: Final = 0xFFFFFFFF


def read_extra(extra: bytes) -> Mapping[int, bytes]:
    """Return the extra fields by id. Raises DecodeError (``ARCHIVE_MALFORMED``)."""
    fields: dict[int, bytes] = {}
    position = 0
    while position < len(extra):
        if len(extra) - position < _FIELD.size:
            raise malformed("an extra field is cut off")
        kind, size = _FIELD.unpack_from(extra, position)
        position += _FIELD.size + size
        if position > len(extra) or kind in fields:
            raise malformed("an extra field is cut off or repeated")
        fields[kind] = extra[position - size : position]
    return fields


def read_zip64(field: bytes | None, values: Sequence[int]) -> Sequence[int]:
    """Return ``values`` with each one that is full replaced by its 64-bit form, in their order.

    If none is full the field may repeat them all, as Python before 3.11.4 writes it. Raises DecodeError
    (``ARCHIVE_MALFORMED``) unless the field has exactly the expected values.
    """
    full = sum(value == _FULL for value in values)
    if not full and field == struct.pack(f"<{len(values)}Q", *values):
        return values
    if (field is not None or full) and len(field or b"") != 8 * full:
        raise malformed("a 64-bit extra field does not hold what the entry needs")
    long = iter(struct.unpack(f"<{full}Q", field or b""))
    return [next(long) if value == _FULL else value for value in values]


def check_unicode_path(extra: Mapping[int, bytes], name: bytes) -> None:
    """Refuse a Unicode path that differs from the name. Raises DecodeError (``ARCHIVE_MALFORMED``)."""
    field = extra.get(_UNICODE_PATH)
    if field is not None and field != _UNICODE_PATH_HEAD.pack(1, zlib.crc32(name)) + name:
        raise malformed("the Unicode path of an entry is another one than its name")


LOCAL_MAGIC: Final = b"PK\x03\x04"

_END: Final = struct.Struct("<4s4H2IH")
_END64: Final = struct.Struct("<4sQ2H2I4Q")
_LOCATOR: Final = struct.Struct("<4sIQI")
_CENTRAL: Final = struct.Struct("<4sBBHHH4x3I5H2I")
_END_MAGIC, _END64_MAGIC, _LOCATOR_MAGIC = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_CENTRAL_MAGIC: Final = b"PK\x01\x02"
_FULL_16, _FULL_32 = 0xFFFF, 0xFFFFFFFF
_COMMENT_BYTES: Final = 0xFFFF


class CentralEntry(NamedTuple):
    """A file's entry in the directory; ``host`` is the system of ``attributes`` (APPNOTE 4.4.2)."""

    name: bytes
    host: int
    flags: int
    method: int
    crc: int
    compressed: int
    size: int
    attributes: int
    offset: int


class Directory(NamedTuple):
    """The entries in the order of the directory, and where in the file the directory starts."""

    entries: list[CentralEntry]
    start: int


class _End(NamedTuple):
    entries: int
    size: int
    start: int


def read_directory(content: bytes) -> Directory:
    """Return the one directory of ``content``. Raises DecodeError (``ARCHIVE_MALFORMED``), TrustError."""
    position = content.rfind(_END_MAGIC, max(0, len(content) - _END.size - _COMMENT_BYTES))
    if position < 0 or len(content) - position < _END.size:
        raise malformed("the zip has no end record")
    _, disk, first_disk, here, count, size, start, comment = _END.unpack_from(content, position)
    if position + _END.size + comment != len(content):
        raise malformed("the zip does not end with its end record")
    if disk or first_disk or here != count:
        raise malformed("the zip is one of several parts")
    end = _End(count, size, start)
    limit = position
    if content[max(0, position - _LOCATOR.size) : position].startswith(_LOCATOR_MAGIC):
        # The 64-bit end record counts, and the plain one must not contradict it.
        position -= _LOCATOR.size
        _, disk, limit, disks = _LOCATOR.unpack_from(content, position)
        if disk or disks != 1 or limit + _END64.size != position:
            raise malformed("the zip's 64-bit end record is not in front of its locator")
        magic, size, _, _, disk, first_disk, here, *rest = _END64.unpack_from(content, limit)
        if magic != _END64_MAGIC or size != _END64.size - 12 or disk or first_disk:
            raise malformed("the zip's 64-bit end record is broken")
        end64 = _End(*rest)
        full = _End(_FULL_16, _FULL_32, _FULL_32)
        if here != end64.entries or any(
            said not in {true, unsaid} for said, true, unsaid in zip(end, end64, full, strict=True)
        ):
            raise malformed("the zip's two end records disagree")
        end = end64
    if end.entries > limits.ARCHIVE_ENTRIES:
        raise TrustError("ARCHIVE_ENTRIES", f"the zip has {end.entries} entries, at most {limits.ARCHIVE_ENTRIES}")
    if end.start + end.size != limit:
        raise malformed("the zip's directory is not where its end record places it")
    return Directory(list(_read_entries(content, end, limit)), end.start)


def _read_entries(content: bytes, end: _End, limit: int) -> Iterator[CentralEntry]:
    position = end.start
    for _ in range(end.entries):
        if limit - position < _CENTRAL.size:
            raise malformed("the zip's directory is cut off")
        fields = _CENTRAL.unpack_from(content, position)
        if fields[0] != _CENTRAL_MAGIC:
            raise malformed("the zip's directory holds something that is no entry")
        behind = position + _CENTRAL.size + sum(fields[9:12])
        if behind > limit:
            raise malformed("the zip's directory is cut off")
        _, _, host, _, flags, method, crc, compressed, size, name_size, extra_size, _, disk, _, bits, offset = fields
        extra_start = position + _CENTRAL.size + name_size
        name = content[position + _CENTRAL.size : extra_start]
        extra = read_extra(content[extra_start : extra_start + extra_size])
        check_unicode_path(extra, name)
        size, compressed, offset = read_zip64(extra.get(ZIP64), (size, compressed, offset))
        if disk:
            raise malformed("the zip is one of several parts")
        yield CentralEntry(name, host, flags, method, crc, compressed, size, bits, offset)
        position = behind
    if position != limit:
        raise malformed("the zip's directory holds more than its entries")


_LOCAL: Final = struct.Struct("<4s2xHH4x3IHH")
_STORED, _DEFLATED = 0, 8
_ENCRYPTED: Final = 0x2041  # encrypted, strongly encrypted, names masked
_DESCRIPTOR: Final = 0x0008
_DESCRIPTOR_MAGIC: Final = b"PK\x07\x08"
_HARMLESS: Final = 0x0806  # how hard the compressor tried, and that names are UTF-8
_UNIX_HOSTS: Final = frozenset({3, 19})
_DOS_FOLDER: Final = 0x10
_OWNER_EXECUTES: Final = 0o100


def read_zip(content: bytes) -> Iterator[Entry]:
    """Yield the entries of a zip, in the order of its directory.

    Trust: all bounds are checked against declared sizes before the first byte is inflated, and inflating stops at the
    declared size.

    Raises:
        DecodeError: ``ARCHIVE_MALFORMED``, ``ARCHIVE_ENCRYPTED`` or ``ARCHIVE_UNSUPPORTED_METHOD``.
        TrustError: ``ARCHIVE_ENTRIES``, ``ARCHIVE_FILE_SIZE``, ``ARCHIVE_TOTAL_SIZE``, ``ARCHIVE_RATIO``,
            ``ARCHIVE_ENTRY_TYPE`` or the codes of paths.
    """
    directory = read_directory(content)
    for entry in directory.entries:
        if entry.flags & _ENCRYPTED:
            raise DecodeError("ARCHIVE_ENCRYPTED", f"{show(entry.name)} is encrypted")
        if entry.method not in {_STORED, _DEFLATED}:
            raise DecodeError("ARCHIVE_UNSUPPORTED_METHOD", f"{show(entry.name)} uses method {entry.method}")
        if entry.flags & ~(_DESCRIPTOR | _HARMLESS):
            raise malformed(f"{show(entry.name)} has flags that are not known")
        check_file_size(entry.size, entry.name)
    total = sum(entry.size for entry in directory.entries)
    if total > limits.ARCHIVE_TOTAL_BYTES:
        raise TrustError("ARCHIVE_TOTAL_SIZE", f"{total:,} bytes of files, at most {limits.ARCHIVE_TOTAL_BYTES:,}")
    if total > plausible_size(len(content)):
        raise TrustError("ARCHIVE_RATIO", f"the files have over {limits.ARCHIVE_RATIO} times the archive's size")
    starts = _data_starts(content, directory)
    view = memoryview(content)
    for entry in directory.entries:
        start = starts[entry.offset]
        yield _entry(entry, view[start : start + entry.compressed])


def _data_starts(content: bytes, directory: Directory) -> dict[int, int]:
    """Return where each entry's data starts, by its offset, when entries fill the file and local headers agree."""
    ordered = sorted(directory.entries, key=lambda entry: entry.offset)
    ends = [entry.offset for entry in ordered[1:]] + [directory.start]
    expected = 0
    starts: dict[int, int] = {}
    for entry, end in zip(ordered, ends, strict=True):
        if entry.offset != expected:
            break
        start = entry.offset + _LOCAL.size
        if start > end:
            raise malformed("the entries of the zip overlap")
        magic, flags, method, crc, compressed, size, name_size, extra_size = _LOCAL.unpack_from(content, entry.offset)
        extra_start: int = start + name_size
        starts[entry.offset] = data_start = extra_start + extra_size
        if magic != LOCAL_MAGIC or data_start + entry.compressed > end:
            raise malformed("the entries of the zip overlap, or one has no local header")
        extra = read_extra(content[extra_start:data_start])
        size, compressed = read_zip64(extra.get(ZIP64), (size, compressed))
        same = (flags, method, content[start:extra_start]) == (entry.flags, entry.method, entry.name)
        # With a descriptor the specification wants three zeros; libarchive and Info-ZIP write the size if they know it.
        allowed_zero = 0 if entry.flags & _DESCRIPTOR else None
        pairs = ((crc, entry.crc), (compressed, entry.compressed), (size, entry.size))
        if not same or any(local not in {value, allowed_zero} for local, value in pairs):
            raise malformed(f"the local header of {show(entry.name)} disagrees with the directory")
        check_unicode_path(extra, entry.name)
        _check_descriptor(content[data_start + entry.compressed : end], entry)
        expected = end
    if expected != directory.start or len(starts) != len(ordered):
        raise malformed("the entries of the zip overlap or leave gaps")
    return starts


def _check_descriptor(descriptor: bytes, entry: CentralEntry) -> None:
    """Refuse anything behind an entry's data but a descriptor that is due, and right."""
    if entry.flags & _DESCRIPTOR:
        # Where stored data end, a reader of streams can only guess. Info-ZIP streams empty files so, which have no end.
        if entry.method == _STORED and (entry.size or not descriptor.startswith(_DESCRIPTOR_MAGIC)):
            raise malformed(f"{show(entry.name)} is stored, but its size follows it")
        forms = (struct.pack(form, entry.crc, entry.compressed, entry.size) for form in ("<3I", "<I2Q"))
        if descriptor in {signature + form for form in forms for signature in (b"", _DESCRIPTOR_MAGIC)}:
            return
        raise malformed(f"the data descriptor of {show(entry.name)} disagrees with the directory")
    if descriptor:
        raise malformed("the entries of the zip leave gaps")


def _entry(entry: CentralEntry, data: memoryview) -> Entry:
    mode = entry.attributes >> 16
    kind = stat.S_IFMT(mode)
    folder = entry.name.endswith(b"/")
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}:
        raise TrustError("ARCHIVE_ENTRY_TYPE", f"{show(entry.name)} is neither file, folder nor link")
    path = entry_path(entry.name, folder=folder)
    if (kind and folder != (kind == stat.S_IFDIR)) or (entry.attributes & _DOS_FOLDER and not folder):
        raise malformed(f"{show(entry.name)} is a folder by its name or by its attributes, not by both")
    if kind == stat.S_IFLNK:
        if entry.host not in _UNIX_HOSTS:
            raise malformed(f"{show(path)} is a link on a system that has none")
        if entry.size > limits.ARCHIVE_PATH_BYTES:
            raise TrustError("PATH_TOO_LONG", f"the target of the link {show(path)} has {entry.size} bytes")
        return Entry("symlink", path, target=bytes(_content(entry, data)))
    content = _content(entry, data)
    if folder:
        if content:
            raise malformed(f"the folder {show(path)} has content")
        return Entry("folder", path)
    executable = entry.host in _UNIX_HOSTS and bool(mode & _OWNER_EXECUTES)
    return Entry("file", path, content, executable)


def _content(entry: CentralEntry, data: memoryview) -> memoryview:
    content, taken = (data, len(data)) if entry.method == _STORED else inflate(data, entry.size)
    if len(content) != entry.size or taken != len(data) or zlib.crc32(content) != entry.crc:
        raise malformed(f"the data of {show(entry.name)} do not match the directory")
    return memoryview(content).toreadonly()
