"""A finding: one thing that is wrong, or doubtful, at one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from skillwire.errors import Place

Level = Literal["error", "warning", "note"]


class Finding(NamedTuple):
    """What ``check`` reports and what a publisher or installer says about what it skipped.

    ``code`` is a row of :data:`skillwire.codes.CODES` or a lint rule of :data:`skillwire.folder.rules.RULES`.
    """

    code: str
    level: Level
    message: str
    place: Place
    fix: str
