"""Whether skills may run here, as it was a moment ago: a grant is not looked up for each call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from skillwire.invocation.grants import needs_grant
from skillwire.server.log import GRANT

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.model.digest import Digest
    from skillwire.model.skill import Skill

#: For how long a grant is believed when a call is accepted. Whoever runs it looks again, so what was taken back
#: meanwhile does not run.
_SECONDS: Final = 1.0
#: For so many skills it is remembered that the operator was told.
_TOLD: Final = 1_000


class Granted:
    """Whether skills may run here.

    Args:
        may_run: whether somebody agreed that a skill runs here. Called in a thread.
    """

    def __init__(self, may_run: Callable[[Skill], bool]) -> None:
        self._may_run = may_run
        self._until: dict[Digest, float] = {}
        self._told: set[Digest] = set()
        self._log = structlog.get_logger("skillwire.executions")

    def is_known(self, skill: Skill) -> bool:
        """Whether it is known, without a look, that a skill may run."""
        if not needs_grant(skill):
            return True
        return self._until.get(skill.artifact.digest, 0.0) > asyncio.get_running_loop().time()

    async def look(self, skill: Skill) -> bool:
        """Return whether a skill may run; look if that is not known. The first time that it may not is logged."""
        if self.is_known(skill):
            return True
        now = asyncio.get_running_loop().time()
        self._until = {digest: until for digest, until in self._until.items() if until > now}
        if not await asyncio.to_thread(self._may_run, skill):
            self._tell(skill)
            return False
        self._until[skill.artifact.digest] = asyncio.get_running_loop().time() + _SECONDS
        return True

    def _tell(self, skill: Skill) -> None:
        if skill.artifact.digest in self._told:
            return
        if len(self._told) >= _TOLD:
            self._told.clear()
        self._told.add(skill.artifact.digest)
        self._log.warning("a call was refused: not granted", skill=skill.name, fix=GRANT)
