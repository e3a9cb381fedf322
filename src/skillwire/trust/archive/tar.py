"""The tar format, as POSIX (ustar, pax) and GNU write it, read strictly.

Extension headers precede their entry: a PAX one (``x``: records ``LENGTH KEY=VALUE``), or GNU's long name (``L``) and
long link (``K``). Most attacks make two readers disagree on block boundaries, so that one takes a file's content for
headers. Here each number has one form, extension headers of different kinds do not mix, only zeros follow the end, and
a header that is neither ustar nor GNU is refused. In a PAX header each length must fit exactly, each relevant key may
occur once, and a size must repeat the header's. Owners, times, device numbers and extended attributes are never read.
Spec: POSIX.1 pax.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from skillwire import limits
from skillwire.errors import TrustError
from skillwire.trust.archive.plan import Entry, check_file_size, entry_path, malformed
from skillwire.trust.paths import show

_LENGTH: Final = re.compile(rb"([1-9][0-9]{0,5}) ")
_SIZE: Final = re.compile(rb"0|[1-9][0-9]{0,19}")
_UTF_8: Final = b"ISO-IR 10646 2000 UTF-8"
_SPARSE: Final = b"GNU.sparse."
#: The keys that change what an entry is.
_MEANINGFUL: Final = frozenset({b"path", b"linkpath", b"size", b"hdrcharset", b"charset"})


def read_extended(data: bytes) -> Mapping[bytes, bytes]:
    """Return ``path``, ``linkpath`` and ``size`` of an extended header, where present; other keys are ignored.

    Raises DecodeError (``ARCHIVE_MALFORMED``), TrustError (``ARCHIVE_ENTRY_TYPE``) for a sparse file.
    """
    known: dict[bytes, bytes] = {}
    for key, value in _records(data):
        if key.startswith(_SPARSE):
            raise TrustError("ARCHIVE_ENTRY_TYPE", "the archive holds a sparse file")
        if key not in _MEANINGFUL:
            continue
        if key in known or not value:
            raise malformed("an extended header names a field twice, or empties it")
        known[key] = value
    if known.pop(b"hdrcharset", _UTF_8) != _UTF_8 or known.pop(b"charset", _UTF_8) != _UTF_8:
        raise malformed("an extended header is in another character set than UTF-8")
    if not _SIZE.fullmatch(known.get(b"size", b"0")):
        raise malformed("an extended header has a size that is no number")
    return known


def check_global(data: bytes) -> None:
    """Refuse a global header that changes later entries; ``git archive`` writes a harmless one."""
    for key, _ in _records(data):
        if key in _MEANINGFUL or key.startswith(_SPARSE):
            raise malformed("a global header changes the name, size or kind of every entry")


def _records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    position = 0
    while position < len(data):
        length = _LENGTH.match(data, position)
        end = position + int(length[1]) if length else 0
        if not length or not length.end() < end <= len(data) or data[end - 1 : end] != b"\n":
            raise malformed("a record of an extended header has a wrong length")
        key, separator, value = data[length.end() : end - 1].partition(b"=")
        if not key or not separator:
            raise malformed("a record of an extended header is no KEY=VALUE")
        yield key, value
        position = end


_BLOCK: Final = 512
_HEADER: Final = struct.Struct("100s8s16x12s12x8ss100s8s80x155s12x")
_OCTAL: Final = re.compile(rb" *([0-7]+)[ \0]*")
_USTAR, _GNU = b"ustar\x0000", b"ustar  \x00"
_KINDS: Final[Mapping[bytes, str]] = {b"0": "file", b"\0": "file", b"1": "hardlink", b"2": "symlink", b"5": "folder"}
_EXTENSIONS: Final = frozenset(b"gxLK")
_NO_BYTES: Final = bytes(155)
#: Star and npm's tar end the prefix 24 bytes earlier and keep two times there, of access and of change.
_TIMED_PREFIX: Final = re.compile(rb"([^\0]{0,130}\0+)(?:[0-7]{11}[ \0]){2}")
_OWNER_EXECUTES: Final = 0o100


class _Header(NamedTuple):
    name: bytes
    mode: int
    size: int
    type: bytes
    link: bytes


def read_tar(stream: bytes | bytearray) -> Iterator[Entry]:
    """Yield the entries of an inflated tar. Trust: a size is used only after it is seen to lie inside ``stream``.

    Raises:
        DecodeError: ``ARCHIVE_MALFORMED``.
        TrustError: ``ARCHIVE_TRAILING_DATA``, ``ARCHIVE_ENTRY_TYPE``, ``ARCHIVE_FILE_SIZE``, ``ARCHIVE_HEADER_SIZE``,
            or the codes of paths.
    """
    view = memoryview(stream).toreadonly()
    extension: dict[bytes, bytes] = {}
    offset = 0
    while (header := _read_header(view, offset)) is not None:
        start = offset + _BLOCK
        offset = start + -(-header.size // _BLOCK) * _BLOCK
        if offset > len(view):
            raise malformed("the tar is cut off inside a file")
        content = view[start : start + header.size]
        if header.type[0] in _EXTENSIONS:
            _read_extension(header, content, extension, first=start == _BLOCK)
        else:
            yield _entry(header, content, extension)
            extension = {}
    if extension:
        raise malformed("an extension header has no entry after it")
    if len(view) < offset + 2 * _BLOCK or len(view) % _BLOCK:
        raise malformed("the tar is cut off at its end")
    for start in range(offset, len(view), limits.ARCHIVE_HEADER_BYTES):
        rest = bytes(view[start : start + limits.ARCHIVE_HEADER_BYTES])
        if rest.count(0) != len(rest):
            raise TrustError("ARCHIVE_TRAILING_DATA", "something other than zeros follows the tar's end")


def _read_header(view: memoryview, offset: int) -> _Header | None:
    """Return the header at ``offset``; None when the block is zeros, which begins the end."""
    block = bytes(view[offset : offset + _BLOCK])
    if len(block) < _BLOCK:
        raise malformed("the tar is cut off")
    if block.count(0) == _BLOCK:
        return None
    name, mode, size, checksum, kind, link, magic, prefix = _HEADER.unpack(block)
    if magic not in {_USTAR, _GNU}:
        raise malformed("a tar header is neither ustar nor GNU")
    # Adler-32 keeps 1 + the sum of the bytes modulo 65,521, which half a block cannot reach.
    total = sum((zlib.adler32(half) & 0xFFFF) - 1 for half in (block[: _BLOCK // 2], block[_BLOCK // 2 :]))
    if _number(checksum) != total - sum(checksum) + 8 * ord(" "):
        raise malformed("a tar header's checksum is wrong")
    if magic == _GNU and prefix != _NO_BYTES:
        # GNU's incremental dumps keep times here, which other readers take for the front of the name.
        raise malformed("a GNU tar header fills the field of the ustar prefix")
    timed = _TIMED_PREFIX.fullmatch(prefix)
    name, prefix = _text(name), _text(timed[1] if timed else prefix)
    return _Header(prefix + b"/" + name if prefix else name, _number(mode), _number(size), kind, _text(link))


def _number(field: bytes) -> int:
    octal = _OCTAL.fullmatch(field)
    if octal is None:
        # Base 256 is the other form; it is only needed beyond 8 GiB, and below zero.
        raise malformed("a tar header has a number that is not octal")
    return int(octal[1], 8)


def _text(field: bytes) -> bytes:
    text, _, rest = field.partition(b"\0")
    if rest.strip(b"\0"):
        raise TrustError("PATH_INVALID", f"a name in a tar header goes on behind its end: {show(field)}")
    return text


def _read_extension(header: _Header, content: memoryview, extension: dict[bytes, bytes], *, first: bool) -> None:
    if header.size > limits.ARCHIVE_HEADER_BYTES:
        raise TrustError("ARCHIVE_HEADER_SIZE", f"an extension header has {header.size} bytes")
    data = bytes(content)
    if header.type == b"g":
        if not first:
            raise malformed("a global header follows an entry")
        check_global(data)
    elif header.type == b"x":
        if extension:
            raise malformed("two extension headers speak of one entry")
        # The mark makes an extended header without a field of ours count as one.
        extension |= {b"x": b"", **read_extended(data)}
    else:
        key = b"path" if header.type == b"L" else b"linkpath"
        if b"x" in extension or key in extension:
            raise malformed("two extension headers speak of one entry")
        extension[key] = data.removesuffix(b"\0")


def _entry(header: _Header, content: memoryview, extension: Mapping[bytes, bytes]) -> Entry:
    name = extension.get(b"path", header.name)
    kind = _KINDS.get(header.type)
    if kind is None:
        raise TrustError("ARCHIVE_ENTRY_TYPE", f"{show(name)} is of type {header.type!r}")
    if int(extension.get(b"size", header.size)) != header.size:
        raise malformed(f"two headers disagree on the size of {show(name)}")
    if kind == "file":
        check_file_size(header.size, name)
        return Entry("file", entry_path(name, folder=False), content, bool(header.mode & _OWNER_EXECUTES))
    if header.size:
        raise malformed(f"{show(name)} is no file and yet has content")
    if kind == "folder":
        return Entry("folder", entry_path(name, folder=True))
    target = extension.get(b"linkpath", header.link)
    return Entry("symlink" if kind == "symlink" else "hardlink", entry_path(name, folder=False), target=target)
