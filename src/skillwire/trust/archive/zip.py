"""The files of a zip, after its directory and its local headers have been seen to agree. Spec: APPNOTE 4.3.

Each file is described twice, in the directory and in front of its data, and readers believe one or the
other. Here both must say the same, the descriptors behind streamed data too, and the entries in the order
of their offsets must fill the file from its first byte to the directory: no overlap, no gap, no prefix.
"""

from __future__ import annotations

import stat
import struct
import zlib
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import DecodeError, TrustError
from skillwire.trust.archive.deflate import inflate
from skillwire.trust.archive.entries import Entry, check_file_size, entry_path, malformed, plausible_size
from skillwire.trust.archive.zip_directory import LOCAL_MAGIC, read_directory
from skillwire.trust.archive.zip_extra import ZIP64, check_unicode_path, read_extra, read_zip64
from skillwire.trust.paths import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.trust.archive.zip_directory import CentralEntry, Directory

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

    Raises:
        DecodeError: ``ARCHIVE_MALFORMED``, ``ARCHIVE_ENCRYPTED`` or ``ARCHIVE_UNSUPPORTED_METHOD``.
        TrustError: ``ARCHIVE_ENTRIES``, ``ARCHIVE_FILE_SIZE``, ``ARCHIVE_TOTAL_SIZE``, ``ARCHIVE_RATIO``,
            ``ARCHIVE_ENTRY_TYPE`` or the codes of paths.

    Trust: all bounds are held against the declared sizes before the first byte is inflated, and inflating
    stops at the declared size.
    """
    directory = read_directory(content)
    _check_bounds(directory, len(content))
    starts = _data_starts(content, directory)
    view = memoryview(content)
    for entry in directory.entries:
        start = starts[entry.offset]
        yield _entry(entry, view[start : start + entry.compressed])


def _check_bounds(directory: Directory, archive_size: int) -> None:
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
        raise TrustError("ARCHIVE_TOTAL_SIZE", f"the files have {total} bytes, at most {limits.ARCHIVE_TOTAL_BYTES}")
    if total > plausible_size(archive_size):
        raise TrustError("ARCHIVE_RATIO", f"the files have over {limits.ARCHIVE_RATIO} times the archive's size")


def _data_starts(content: bytes, directory: Directory) -> dict[int, int]:
    """Return where each entry's data starts, by the entry's offset, when the entries fill the file."""
    ordered = sorted(directory.entries, key=lambda entry: entry.offset)
    ends = [entry.offset for entry in ordered[1:]] + [directory.start]
    expected = 0
    starts: dict[int, int] = {}
    for entry, end in zip(ordered, ends, strict=True):
        if entry.offset != expected:
            break
        start = _check_local(content, entry, end)
        _check_descriptor(content[start + entry.compressed : end], entry)
        starts[entry.offset] = start
        expected = end
    if expected != directory.start or len(starts) != len(ordered):
        raise malformed("the entries of the zip overlap or leave gaps")
    return starts


def _check_local(content: bytes, entry: CentralEntry, end: int) -> int:
    """Return where the data of ``entry`` starts, once its local header agrees with the directory."""
    start = entry.offset + _LOCAL.size
    if start > end:
        raise malformed("the entries of the zip overlap")
    magic, flags, method, crc, compressed, size, name_size, extra_size = _LOCAL.unpack_from(content, entry.offset)
    extra_start: int = start + name_size
    data_start: int = extra_start + extra_size
    if magic != LOCAL_MAGIC or data_start + entry.compressed > end:
        raise malformed("the entries of the zip overlap, or one has no local header")
    extra = read_extra(content[extra_start:data_start])
    size, compressed = read_zip64(extra.get(ZIP64), (size, compressed))
    same = (flags, method, content[start:extra_start]) == (entry.flags, entry.method, entry.name)
    if not same or not _agrees((crc, compressed, size), entry):
        raise malformed(f"the local header of {show(entry.name)} disagrees with the directory")
    check_unicode_path(extra, entry.name)
    return data_start


def _agrees(local: tuple[int, int, int], entry: CentralEntry) -> bool:
    """Whether a local header says what the directory says, or leaves to a descriptor what it says nothing of."""
    # The specification wants three zeros there; libarchive and Info-ZIP write the size that they know beforehand.
    true = (entry.crc, entry.compressed, entry.size)
    unsaid = bool(entry.flags & _DESCRIPTOR)
    return all(said == value or (unsaid and said == 0) for said, value in zip(local, true, strict=True))


def _check_descriptor(descriptor: bytes, entry: CentralEntry) -> None:
    """Refuse anything behind an entry's data but a descriptor that is due, and right."""
    if entry.flags & _DESCRIPTOR:
        # Where stored data end, a reader of streams can only guess. Info-ZIP streams empty files so, which have no end.
        if entry.method == _STORED and (entry.size or not descriptor.startswith(_DESCRIPTOR_MAGIC)):
            raise malformed(f"{show(entry.name)} is stored, and yet its size stands behind it")
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
        return Entry("symlink", path, target=_link_target(entry, data, path))
    content = _content(entry, data)
    if folder:
        if content:
            raise malformed(f"the folder {show(path)} has content")
        return Entry("folder", path)
    executable = entry.host in _UNIX_HOSTS and bool(mode & _OWNER_EXECUTES)
    return Entry("file", path, content, executable)


def _link_target(entry: CentralEntry, data: memoryview, path: str) -> bytes:
    if entry.host not in _UNIX_HOSTS:
        raise malformed(f"{show(path)} is a link on a system that has none")
    if entry.size > limits.ARCHIVE_PATH_BYTES:
        raise TrustError("PATH_TOO_LONG", f"the target of the link {show(path)} has {entry.size} bytes")
    return bytes(_content(entry, data))


def _content(entry: CentralEntry, data: memoryview) -> memoryview:
    content, taken = (data, len(data)) if entry.method == _STORED else inflate(data, entry.size)
    if len(content) != entry.size or taken != len(data) or zlib.crc32(content) != entry.crc:
        raise malformed(f"the data of {show(entry.name)} are not what the directory says")
    return memoryview(content).toreadonly()
