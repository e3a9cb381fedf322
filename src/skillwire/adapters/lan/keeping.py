"""Keeping: what an agent hears goes to :class:`~skillwire.adapters.lan.state.LanState` every few seconds, off the loop.

What is written is what has changed since, so that a quiet network costs nothing. A disk that fails is counted and tried
again; the agent goes on without.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from skillwire.adapters.clock import moment
from skillwire.adapters.lan.state import Changes, Kept, LanState
from skillwire.protocols.skill_discovery.codec import encode
from skillwire.protocols.skill_discovery.replay import ReplayGuard

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Mapping

    from skillwire.adapters.lan.link import Link
    from skillwire.protocols.skill_discovery.keyring import KeyRing
    from skillwire.protocols.skill_discovery.listing import Change, Key
    from skillwire.protocols.skill_discovery.messages import Profile
    from skillwire.protocols.skill_discovery.node import DiscoveryNode
    from skillwire.protocols.skill_discovery.replay import Stream

_LOG: Final = logging.getLogger("skillwire.lan")
_PAUSE: Final = 5.0


class Keeping:
    """What one agent keeps.

    Args:
        state: the file.
        agent_id: whose own skills are not kept: it knows them.
        profile: in which datagrams are written.
        window: seconds that a timestamp may differ from our clock.
        counters: what went wrong, by its reason.
    """

    def __init__(self, state: LanState, agent_id: str, profile: Profile, window: float, counters: Counter[str]) -> None:
        self._state = state
        self._agent_id = agent_id
        self._profile = profile
        self._window = window
        self._counters = counters
        self._kept = Kept()
        self._changed: dict[tuple[str, Key], Change] = {}
        #: Newest timestamps that are not written yet: who forgets one lets a replay count after a restart.
        self._timestamps: dict[Stream, int] = {}
        self._running: asyncio.Task[None] | None = None
        self._ends = asyncio.Event()
        self._links: Callable[[], Iterable[Link]] = tuple

    async def load(self) -> None:
        """Read what was kept."""
        self._kept = await asyncio.to_thread(self._state.load)
        if self._kept.is_broken:
            self._counters["state: made anew"] += 1
            _LOG.warning(
                "what was kept of the local network cannot be read, and is made anew: nobody is known from before"
            )

    def guard(self) -> ReplayGuard:
        """Return a guard that knows the timestamps that were kept."""
        return ReplayGuard(self._window, self._kept.timestamps)

    def restore(self, link: str, node: DiscoveryNode) -> None:
        """List what was heard on a link before, as UNKNOWN, and know whose key was whose."""
        now = moment().steady
        for heard in self._kept.heard:
            agent_id = heard.message.agent_id
            if heard.link != link or agent_id == self._agent_id:
                continue
            if node.ring.remember(agent_id, heard.key, heard.issuer):
                node.registry.restore([heard.message], now, host=heard.host)

    def start(self, links: Callable[[], Iterable[Link]]) -> None:
        """Begin to write; also after :meth:`stop`."""
        self._links = links
        self._ends.clear()
        self._running = asyncio.get_running_loop().create_task(self._run())

    def changed(self, link: str, change: Change) -> None:
        """Take note of a change of a registry; that only the health is otherwise is kept by nobody."""
        if change.listed.registration.agent_id == self._agent_id or change.listed.is_hint or not _is_to_keep(change):
            return
        self._changed[link, change.listed.key] = change

    async def stop(self) -> None:
        """Write what is not written yet, and end."""
        if self._running is not None:
            self._ends.set()
            await self._running
            self._running = None

    async def _run(self) -> None:
        while not self._ends.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE):
                    await self._ends.wait()
            await self._write()

    async def _write(self) -> None:
        changed, self._changed = self._changed, {}
        changes = self._collect(changed)
        if not (changes.heard or changes.gone or changes.timestamps):
            return
        try:
            await asyncio.to_thread(self._state.write, changes)
        except (OSError, sqlite3.Error) as error:
            self._counters[f"state: {type(error).__name__}"] += 1
            self._changed = {**changed, **self._changed}
        else:
            self._timestamps.clear()

    def _collect(self, changed: dict[tuple[str, Key], Change]) -> Changes:
        links = tuple(self._links())
        rings = {link.name: link.node.ring for link in links}
        heard = [
            (link, *key, change.after.host, encode(change.after.registration, self._profile), *_key(rings, link, key))
            for (link, key), change in changed.items()
            if change.after is not None
        ]
        gone = [named for named, change in changed.items() if change.after is None]
        edge = int((moment().wall - 2 * self._window) * 1000)
        newest = self._timestamps
        for link in links:
            for stream, at in link.node.gate.replay.changed():
                newest[stream] = max(at, newest.get(stream, at))
        newest = self._timestamps = {stream: at for stream, at in newest.items() if at >= edge}
        here = tuple(link.name for link in links if link.is_open)
        return Changes(tuple(heard), tuple(gone), tuple(newest.items()), edge, here)


def _is_to_keep(change: Change) -> bool:
    """Whether a change is of what is kept: the registration, where it came from, or whether its key is certified."""
    before, after = change.before, change.after
    if before is None or after is None:
        return True
    kept = (before.registration, before.host, before.is_verified, before.is_hint)
    return kept != (after.registration, after.host, after.is_verified, after.is_hint)


def _key(rings: Mapping[str, KeyRing], link: str, key: Key) -> tuple[bytes, bytes]:
    """Return the digest of the key of a skill's agent on a link, and who has certified it."""
    return rings[link].digest_of(key[0]) if link in rings else (b"", b"")
