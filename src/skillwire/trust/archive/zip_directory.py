"""The directory of a zip: the end record, its 64-bit form, and the central entries. Spec: APPNOTE 4.3, 4.4.

A zip is found from its end, so a reader may look for the end in different ways and find different
directories. Here every byte has one meaning: the end record ends the file, the directory ends where the
end record (or its 64-bit form) begins, and :mod:`.zip` proves that the files' data fill everything before.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.errors import TrustError
from skillwire.trust.archive.entries import malformed
from skillwire.trust.archive.zip_extra import ZIP64, check_unicode_path, read_extra, read_zip64

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """What the directory says of one file. ``host`` is the system of ``attributes`` (APPNOTE 4.4.2)."""

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
    """Return the one directory of ``content``.

    Raises:
        DecodeError: ``ARCHIVE_MALFORMED``.
        TrustError: ``ARCHIVE_ENTRIES``.
    """
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
        limit, end = _read_end64(content, position - _LOCATOR.size, end)
    if end.entries > limits.ARCHIVE_ENTRIES:
        raise TrustError("ARCHIVE_ENTRIES", f"the zip has {end.entries} entries, at most {limits.ARCHIVE_ENTRIES}")
    if end.start + end.size != limit:
        raise malformed("the zip's directory is not where its end record says")
    entries = list(_read_entries(content, end, limit))
    return Directory(entries, end.start)


def _read_end64(content: bytes, position: int, end: _End) -> tuple[int, _End]:
    """Return where the 64-bit end record begins, and what it says, which the plain one must not contradict."""
    _, disk, offset, disks = _LOCATOR.unpack_from(content, position)
    if disk or disks != 1 or offset + _END64.size != position:
        raise malformed("the zip's 64-bit end record is not in front of its locator")
    magic, size, _, _, disk, first_disk, here, *rest = _END64.unpack_from(content, offset)
    if magic != _END64_MAGIC or size != _END64.size - 12 or disk or first_disk:
        raise malformed("the zip's 64-bit end record is broken")
    end64 = _End(*rest)
    full = _End(_FULL_16, _FULL_32, _FULL_32)
    if here != end64.entries or any(
        said not in {true, unsaid} for said, true, unsaid in zip(end, end64, full, strict=True)
    ):
        raise malformed("the zip's two end records disagree")
    return offset, end64


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
        yield _entry(content, position + _CENTRAL.size, fields)
        position = behind
    if position != limit:
        raise malformed("the zip's directory holds more than its entries")


def _entry(content: bytes, position: int, fields: tuple[int, ...]) -> CentralEntry:
    _, _, host, _, flags, method, crc, compressed, size, name_size, extra_size, _, disk, _, attributes, offset = fields
    name = content[position : position + name_size]
    extra = read_extra(content[position + name_size : position + name_size + extra_size])
    check_unicode_path(extra, name)
    size, compressed, offset = read_zip64(extra.get(ZIP64), (size, compressed, offset))
    if disk:
        raise malformed("the zip is one of several parts")
    return CentralEntry(name, host, flags, method, crc, compressed, size, attributes, offset)
