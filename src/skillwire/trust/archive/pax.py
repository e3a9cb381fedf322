"""The records of a PAX extended header: ``LENGTH KEY=VALUE`` and a line feed. Spec: POSIX.1 pax.

An extended header may overrule an entry's name, link target and size. The length of a record counts its
own digits, and readers that trust it lose step; the size may contradict the header's, and readers that
believe one lose step with readers that believe the other. So each length must fit exactly, each key that
matters may stand once, and a size must repeat what the header says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from skillwire.errors import TrustError
from skillwire.trust.archive.entries import malformed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LENGTH: Final = re.compile(rb"([1-9][0-9]{0,5}) ")
_SIZE: Final = re.compile(rb"0|[1-9][0-9]{0,19}")
_UTF_8: Final = b"ISO-IR 10646 2000 UTF-8"
_SPARSE: Final = b"GNU.sparse."
#: The keys that change what an entry is.
_MEANINGFUL: Final = frozenset({b"path", b"linkpath", b"size", b"hdrcharset", b"charset"})


def read_extended(data: bytes) -> Mapping[bytes, bytes]:
    """Return ``path``, ``linkpath`` and ``size`` of an extended header, as far as it has them.

    What else it says (times, owners, attributes, comments) is passed over.

    Raises:
        DecodeError: ``ARCHIVE_MALFORMED``.
        TrustError: ``ARCHIVE_ENTRY_TYPE`` for a sparse file.
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
    """Refuse a global header that changes the entries after it; ``git archive`` writes a harmless one.

    Raises:
        DecodeError: ``ARCHIVE_MALFORMED``.
    """
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
