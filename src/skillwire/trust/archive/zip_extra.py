"""The extra fields of a zip entry, as far as they change what the entry is. Spec: APPNOTE 4.5, 4.6.9.

Two matter: the 64-bit sizes, and the Unicode path, which some readers prefer to the name. Whatever else
there is (times, owners, alignment) is passed over, once it is seen to be well-formed.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from skillwire.trust.archive.entries import malformed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ZIP64: Final = 0x0001

_UNICODE_PATH: Final = 0x7075
_FIELD: Final = struct.Struct("<HH")
_UNICODE_PATH_HEAD: Final = struct.Struct("<BI")
_FULL: Final = 0xFFFFFFFF


def read_extra(extra: bytes) -> Mapping[int, bytes]:
    """Return the extra fields by id.

    Raises:
        DecodeError: ``ARCHIVE_MALFORMED`` when one is cut off or stands twice.
    """
    fields: dict[int, bytes] = {}
    position = 0
    while position < len(extra):
        if len(extra) - position < _FIELD.size:
            raise malformed("an extra field is cut off")
        kind, size = _FIELD.unpack_from(extra, position)
        position += _FIELD.size + size
        if position > len(extra) or kind in fields:
            raise malformed("an extra field is cut off, or stands twice")
        fields[kind] = extra[position - size : position]
    return fields


def read_zip64(field: bytes | None, values: Sequence[int]) -> Sequence[int]:
    """Return ``values`` with each one that is full replaced by its 64-bit form, in their order.

    Where none is full the field may repeat them all, as Python before 3.11.4 writes it: both readings agree.

    Raises:
        DecodeError: ``ARCHIVE_MALFORMED`` unless the field has exactly the values that are full.
    """
    full = [number for number, value in enumerate(values) if value == _FULL]
    if not full and field == struct.pack(f"<{len(values)}Q", *values):
        return values
    if (field is not None or full) and len(field or b"") != 8 * len(full):
        raise malformed("a 64-bit extra field does not hold what the entry needs")
    if not full or field is None:
        return values
    replaced = list(values)
    for number, value in zip(full, struct.unpack(f"<{len(full)}Q", field), strict=True):
        replaced[number] = value
    return replaced


def check_unicode_path(extra: Mapping[int, bytes], name: bytes) -> None:
    """Refuse a Unicode path that is another one than the name.

    Raises:
        DecodeError: ``ARCHIVE_MALFORMED``.
    """
    field = extra.get(_UNICODE_PATH)
    if field is not None and field != _UNICODE_PATH_HEAD.pack(1, zlib.crc32(name)) + name:
        raise malformed("the Unicode path of an entry is another one than its name")
