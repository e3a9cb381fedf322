"""Who may see a skill, as its folder says it, also where the rest of the folder cannot be read.

A skill that is being closed must be closed even if the same edit breaks it. So of a folder that is not published, its
access is read apart from everything else, and doubt closes: what is mistyped or cannot be decoded is *private*, and
where the files differ the narrowest counts. A folder that says nothing of it is for everybody.
"""

from __future__ import annotations

import os
import stat
from contextlib import closing
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from skillwire import limits
from skillwire.errors import SkillwireError
from skillwire.model.access import Access
from skillwire.trust.guarded_json import load_json
from skillwire.trust.guarded_toml import load_toml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_FIELD: Final = "access"
#: How alike a key must be to be taken for a mistyped ``access``, on the scale of :mod:`difflib`: "acess" is.
_ALIKE: Final = 0.8
#: From the widest to the narrowest.
_ORDER: Final = (Access.PUBLIC, Access.RESTRICTED, Access.PRIVATE)
_OPEN: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def narrowest(*accesses: Access) -> Access:
    """Return the one of ``accesses`` that lets in the fewest; public when there is none."""
    return max(accesses, key=_ORDER.index, default=Access.PUBLIC)


def decode_access(value: object) -> Access:
    """Return the access that ``value`` spells; private when it spells none."""
    return Access(value) if isinstance(value, str) and value in set(Access) else Access.PRIVATE


def read_access(path: Path) -> Access:
    """Return who may see the skill in the folder ``path``, as far as ``skill.toml`` and ``descriptor.json`` tell.

    Trust: both may hold anything; reading is bounded, and nothing that they hold raises.
    """
    return narrowest(*_in_manifest(path / "skill.toml"), *_in_descriptor(path / "descriptor.json"))


def _in_manifest(file: Path) -> Iterator[Access]:
    try:
        data = _content(file, limits.TOML_BYTES)
        document = {} if data is None else load_toml(data)
    except (OSError, SkillwireError):  # who may see it cannot be told, and somebody else says why
        yield Access.PRIVATE
        return
    if _FIELD in document:
        yield decode_access(document[_FIELD])
    elif any(_is_misplaced(key, value) for key, value in _values(document)):
        yield Access.PRIVATE


def _in_descriptor(file: Path) -> Iterator[Access]:
    try:
        data = _content(file, limits.DESCRIPTOR_BYTES)
        document = {} if data is None else load_json(data, max_bytes=limits.DESCRIPTOR_BYTES)
    except (OSError, SkillwireError):  # as above
        document = None
    if not isinstance(document, dict):
        yield Access.PRIVATE
    elif _FIELD in document:
        yield decode_access(document[_FIELD])
    elif any(_is_misplaced(key, value) for key, value in document.items()):
        yield Access.PRIVATE


def _values(table: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the keys of ``table`` and of the tables in it: what is added below a table's head belongs to that."""
    for key, value in table.items():
        yield key, value
        if isinstance(value, dict):
            yield from _values(value)


def _is_misplaced(key: str, value: object) -> bool:
    return isinstance(value, str) and bool(get_close_matches(key.lower(), (_FIELD,), cutoff=_ALIKE))


def _content(file: Path, most: int) -> bytes | None:
    """Return what ``file`` holds, at most one byte more than ``most``; None when there is none.

    Raises:
        OSError: it cannot be read, or is no file.
    """
    if not os.path.lexists(file):
        return None
    with closing(open(file, "rb", buffering=0, opener=_open)) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(f"{file} is no file")
        return stream.read(most + 1)


def _open(name: str, _: int) -> int:
    return os.open(name, _OPEN)
