"""Suspects: skills that have fallen silent, whose endpoints are probed before they are given up. Spec: SDP §8.1."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skillwire.adapters.clock import moment
from skillwire.adapters.lan.probe import Prober

if TYPE_CHECKING:
    from skillwire.adapters.lan.link import Link
    from skillwire.protocols.skill_discovery.listing import Change


class Suspects:
    """The suspects of one agent that are being probed."""

    def __init__(self) -> None:
        self._prober = Prober()
        self._tasks: set[asyncio.Task[None]] = set()

    def probe(self, link: Link, change: Change) -> None:
        """Connect to the endpoint of a suspect of a link, in the background; an answer is a sign of life."""
        task = asyncio.get_running_loop().create_task(self._probe(link, change))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Give all up."""
        await self._prober.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _probe(self, link: Link, change: Change) -> None:
        place = change.listed.registration.endpoint
        if await self._prober.answers(link.reached(place.host), place.port):
            link.node.answered_probe(change.listed.key, moment())
            link.driver.tend()
