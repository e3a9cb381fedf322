"""Archives of skills: equal files have equal bytes, so a digest identifies the content.

An archive is a ustar in gzip, or a zip when a path exceeds the 100 bytes of a ustar header, and holds files only: no
``./``, folders, links or owners. Times are zero (in a zip 1980), modes 0644 and 0755; ``SKILL.md`` comes first, the
rest sorted by the bytes of their paths. The headers are written here because no library promises the same ones in its
next version. They are compressed by the libdeflate of one release of ``deflate``, not by zlib, which is another one on
each system. Spec: ASD Archive Structure; specs §1 "Archives we write".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from skillwire import limits
from skillwire.errors import TrustError
from skillwire.model.skill import SKILL_MD, FileContent
from skillwire.trust.archive.plan import plan_files, plausible_size

#: Skills are 0.1 % smaller than by level 6 of zlib, in less than half the time; level 9 saves 0.7 %, in twice the time.
_LEVEL: Final = 6

_BLOCK: Final = 512
_END_OF_TAR: Final = bytes(2 * _BLOCK)
#: Mode, owner and group; then, behind the size: time, checksum, type and the rest. Octal, NUL-terminated.
_MODES: Final = {False: b"0000644\0" + b"0000000\0" * 2, True: b"0000755\0" + b"0000000\0" * 2}
_TIME: Final = b"00000000000\0"
_TYPE: Final = b"0" + bytes(100) + b"ustar\x0000" + bytes(247)
#: Deflate, no name, time 0, no hint on the level, no system: nothing that tells who packed it when.
_GZIP_HEADER: Final = bytes.fromhex("1f8b08000000000000ff")

_LOCAL: Final = struct.Struct("<4s5H3I2H")
_CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
_END_OF_ZIP: Final = struct.Struct("<4s4H2IH")
_VERSION: Final = 20
_MADE_ON_UNIX: Final = 3 << 8 | _VERSION
_NAMES_ARE_UTF_8: Final = 0x0800
_FIRST_OF_1980: Final = 1 << 5 | 1
_STORED, _DEFLATED = 0, 8
_ATTRIBUTES: Final = {False: 0o100644 << 16, True: 0o100755 << 16}


class Packed(NamedTuple):
    """An archive: its bytes, ``.tar.gz`` or ``.zip``, and the media type to serve it as."""

    content: bytes
    extension: str
    media_type: str


def pack(files: Iterable[FileContent]) -> Packed:
    """Return the archive of ``files``, given in any order.

    Raises:
        ValidationError: ``NOSKILL_MD``.
        TrustError: an ``ARCHIVE_...`` or ``PATH_...`` code when our own reader would refuse the archive.
    """
    ordered = sorted(plan_files(files).files, key=lambda file: (file.path != SKILL_MD, file.path.encode()))
    if any(len(file.path.encode()) > limits.PUBLISH_PATH_BYTES for file in ordered):
        packed = Packed(zip_files(ordered), ".zip", "application/zip")
        inflated = sum(len(file.content) for file in ordered)
    else:
        stream = _tar(ordered)
        trailer = struct.pack("<2I", zlib.crc32(stream), len(stream))
        packed = Packed(b"".join((_GZIP_HEADER, _deflate(stream), trailer)), ".tar.gz", "application/gzip")
        inflated = len(stream)
    size = len(packed.content)
    if size > limits.ARCHIVE_BYTES:
        raise TrustError("ARCHIVE_SIZE", f"the archive has {size:,} bytes, at most {limits.ARCHIVE_BYTES:,}")
    if inflated > plausible_size(size):
        raise TrustError("ARCHIVE_RATIO", f"the files compress more than {limits.ARCHIVE_RATIO} times, as a bomb does")
    return packed


def _tar(files: Sequence[FileContent]) -> bytes:
    parts: list[bytes | memoryview] = []
    for path, content, executable in files:
        name = path.encode()
        padding = bytes(limits.PUBLISH_PATH_BYTES - len(name))
        front = b"%s%s%s%011o\0%s" % (name, padding, _MODES[executable], len(content), _TIME)
        checksum = sum(front) + 8 * ord(" ") + sum(_TYPE)  # its own eight bytes count as spaces
        parts += (b"%s%06o\0 %s" % (front, checksum, _TYPE), content, bytes(-len(content) % _BLOCK))
    return b"".join((*parts, _END_OF_TAR))


def _deflate(content: bytes | memoryview) -> bytes:
    import deflate  # noqa: PLC0415  # installing packs nothing

    return bytes(deflate.deflate_compress(content, _LEVEL))


def zip_files(files: Sequence[FileContent], *, deflates: bool = True) -> bytes:
    """Return the same archive for the same files, in their order."""
    parts: list[bytes | memoryview] = []
    directory: list[bytes] = []
    offset = 0
    for path, content, executable in files:
        name = path.encode()
        deflated = _deflate(content) if deflates else content
        method, data = (_DEFLATED, deflated) if len(deflated) < len(content) else (_STORED, content)
        flags = 0 if path.isascii() else _NAMES_ARE_UTF_8
        sizes = (zlib.crc32(content), len(data), len(content), len(name), 0)
        common = (_VERSION, flags, method, 0, _FIRST_OF_1980, *sizes)
        parts += (_LOCAL.pack(b"PK\x03\x04", *common), name, data)
        attributes = _ATTRIBUTES[executable]
        directory += (_CENTRAL.pack(b"PK\x01\x02", _MADE_ON_UNIX, *common, 0, 0, 0, attributes, offset), name)
        offset += _LOCAL.size + len(name) + len(data)
    size = sum(map(len, directory))
    end = _END_OF_ZIP.pack(b"PK\x05\x06", 0, 0, len(files), len(files), size, offset, 0)
    return b"".join((*parts, *directory, end))
