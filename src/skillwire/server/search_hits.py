"""A hit of a search as JSON, made once for each skill and kept in a file.

Twenty of them are most of what an answer costs to make, and only the address of the site differs from one answer
to the next. It is left out of what is kept, as a byte that JSON text never holds.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from skillwire.adapters.files.row_file import RowFile
from skillwire.adapters.files.skill_summaries import read_summary
from skillwire.errors import StorageError
from skillwire.protocols.agent_skills.messages import WELL_KNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from skillwire.adapters.files.packed_skills import Rows

_SITE: Final = b"\0"
_HIT: Final = (
    b'{"id":%s,"name":%s,"source":"\0","installs":0,"description":%s,"version":%s,'  # nobody counts installs
    b'"digest":"sha256:%s","url":"\0%s/sha256/%s%s","kind":"%s"}'
)
_encode: Final = msgspec.json.Encoder().encode


class SearchHits:
    """The hits that the skills in ``rows`` are; used by one thread.

    Args:
        rows: skills, packed.
        directory: where the file is made.
    """

    def __init__(self, rows: Rows, directory: Path) -> None:
        self.rows = rows
        self._kept = RowFile(directory)
        self._places = array("I")  # by the skill's row: that of its hit, counted from one

    def join(self, numbers: Iterable[int], site: str) -> bytes:
        """Return the hits that the rows of these numbers are, as the items of a JSON array.

        Args:
            numbers: of rows.
            site: the address of this site, with a final slash.
        """
        return b",".join(map(self._hit, numbers)).replace(_SITE, _encode(site)[1:-1])

    def _hit(self, number: int) -> bytes:
        places = self._places
        if number >= len(places):
            places.frombytes(bytes((number + 1 - len(places)) * places.itemsize))
        if place := places[number]:
            return self._kept[place - 1]
        hit = encode_hit(self.rows[number])
        with suppress(StorageError):  # it is then made again the next time
            places[number] = self._kept.add(hit) + 1
        return hit


def encode_hit(packed: bytes) -> bytes:
    """Return the hit that a packed skill is, with a zero byte wherever the address of the site belongs."""
    skill = read_summary(packed)
    digest = skill.digest.encode("ascii")
    return _HIT % (
        _encode(skill.identifiers[0] if skill.identifiers else f"{skill.publisher}/{skill.name}"),
        _encode(skill.name),
        _encode(skill.description),
        _encode(skill.version),
        digest,
        WELL_KNOWN[1:].encode("ascii"),
        digest,
        skill.artifact.extension.encode("ascii"),
        skill.kind.encode("ascii"),
    )
