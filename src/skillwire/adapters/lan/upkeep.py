"""What goes on beside an agent as long as it runs: its certificate is renewed, and what was taken back is learned."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from skillwire.adapters.lan.renewal import Renewal
from skillwire.adapters.lan.revocations import RevocationRefresh

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.adapters.files.lan_trust import LanTrust
    from skillwire.protocols.skill_discovery.configuration import LanSettings

_LOG: Final = logging.getLogger("skillwire.lan")
_LOG.addHandler(
    logging.NullHandler()
)  # a command that is over soon says nothing of it; a server has handlers of its own
_NOTES: Final = 16


class Upkeep:
    """The care for what one agent trusts, and is trusted by.

    Args:
        trust: of the agent; what it holds is changed in place.
        settings: of the agent.
        on_revoked: is called when something more was taken back, in the loop.

    ``notes`` holds what went wrong last, for people.
    """

    def __init__(self, trust: LanTrust, settings: LanSettings, on_revoked: Callable[[], object]) -> None:
        self.notes: list[str] = list(trust.notes)
        self.renewal = Renewal(trust, settings, tell=self._tell)
        self._on_revoked = on_revoked
        self.refresh = RevocationRefresh(trust, settings, self._learned, tell=self._tell)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, in the running loop."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self.renewal.run()), loop.create_task(self.refresh.run())]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """End."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _learned(self) -> None:
        """Go on with what more was taken back, by us it may be, or with a SkillCenter CA that is new."""
        self._on_revoked()
        self.renewal.wake()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Say it where a part of this has broken, which nobody waits for."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("the care for certificates has ended", exc_info=error)

    def _tell(self, text: str) -> None:
        _LOG.warning("%s", text)
        self.notes = [*self.notes[1 - _NOTES :], text]
