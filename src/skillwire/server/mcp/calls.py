"""Calls of skills over MCP: begun and followed as every run, and waited for no longer than a client waits.

Who cancels a call before it was told the id of its run can never ask for it again, so the run is cancelled too.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from skillwire.bridges.mcp.caller import Running
from skillwire.errors import PendingError, SkillwireError, TrustError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.model.skill import Skill
    from skillwire.protocols.skills_rpc.messages import Run
    from skillwire.server.audience import Audience
    from skillwire.server.runs import Runs


class Calls:
    """Has skills run by ``runs``."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._leaving: set[asyncio.Task[None]] = set()

    async def begin(
        self, owner: str, audience: Audience, skill: Skill, arguments: Mapping[str, Any], seconds: float
    ) -> Run | Running:
        """Have a skill run for ``owner``, and wait for its end for so many seconds.

        Raises:
            TrustError: ``PERMISSION_DENIED``: it is not opened to this caller.
            SkillwireError: it is not accepted; see :meth:`skillwire.server.runs.Runs.begin_skill`.
        """
        if skill.name not in audience.usable.skills:
            raise TrustError("PERMISSION_DENIED", f"{skill.name} is not open to this caller")
        beginning = asyncio.create_task(self._runs.begin_skill(owner, skill, arguments))
        try:
            return await self.follow(owner, await asyncio.shield(beginning), seconds)
        except asyncio.CancelledError:
            leaving = asyncio.create_task(self._leave(owner, beginning))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            await asyncio.shield(leaving)
            raise

    async def _leave(self, owner: str, beginning: asyncio.Task[str]) -> None:
        """Cancel a run, as soon as it is known which one: what is on its way to the disk is accepted nonetheless."""
        with suppress(SkillwireError):  # it was not accepted
            await self._runs.cancel(owner, await beginning)

    async def follow(self, owner: str, run_id: str, seconds: float) -> Run | Running:
        """Return what came of a run of ``owner``, or how far it is after so many seconds.

        Raises:
            NotFoundError: ``RUN_NOT_FOUND``.
        """
        try:
            return await self._runs.follow(owner, run_id, seconds)
        except PendingError as pending:
            return Running(run_id, str(pending.details["status"]))
