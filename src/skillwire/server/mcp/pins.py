"""The names of pinned skills, read as names of skills; and what the operator is told that clients will miss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from skillwire import limits
from skillwire.bridges.mcp.bounds import why_not
from skillwire.errors import UsageError
from skillwire.model.name import is_skill_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillwire.server.revision import Revision


def check_pins(pins: Iterable[str]) -> tuple[str, ...]:
    """Return the names, each once.

    Raises:
        UsageError: ``USAGE`` when one can be no skill's, or there are too many.
    """
    names = tuple(dict.fromkeys(pins))
    for name in names:
        if not is_skill_name(name):
            fix = "Write the name of its folder, such as --pin csv-profile."
            raise UsageError("USAGE", f"no skill can be called {name[:100]!a}", fix=fix)
    if len(names) > limits.MCP_PINS:
        raise UsageError("USAGE", f"{len(names)} skills are pinned, at most {limits.MCP_PINS} can be")
    return names


class MissingPins:
    """Tells the operator which pinned skills are not published, as soon as it is so, and once.

    Args:
        pins: the names of the skills that are tools of their own.
    """

    def __init__(self, pins: Iterable[str]) -> None:
        self._pins = tuple(pins)
        self._told: list[str] = []

    def tell(self, revision: Revision) -> None:
        """Log what a revision has not, unless that was said of the one before."""
        missing = [name for name in self._pins if name not in revision.everything.skills]
        if missing and missing != self._told:
            structlog.get_logger("skillwire.mcp").warning("pinned, but not published", skills=", ".join(missing))
        self._told = missing


def tell_left_out(revision: Revision) -> None:
    """Log the skills that no host has to take, which clients will miss; it looks at each: not for the event loop."""
    log = structlog.get_logger("skillwire.mcp")
    for skill in revision.everything.skills.values():
        if (reason := why_not(skill)) is not None:
            log.warning("a skill is left out of lists and resources", reason=reason)
