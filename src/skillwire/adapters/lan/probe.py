"""Probes: whether the endpoint of a skill takes a connection, which is a sign of life where beats are missing.

Few at once, fewer of one host, one for each endpoint at a time, and none takes longer than a second: a stranger may
announce a thousand endpoints, each would be ours to connect to, and a true suspect elsewhere must not wait for them.
Nothing is sent. Spec: SDP §8.2; specs §3.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

_SECONDS: Final = 1.0
_AT_ONCE: Final = 32
_AT_ONCE_OF_HOST: Final = 4
#: Probes that wait or run; more are answered with no, and asked for again by the next silence.
_MOST: Final = 4096
_MOST_OF_HOST: Final = 256

Place = tuple[str, int]


class _Host:
    """What is probed of one host: how many probes wait or run, and the room for those that run."""

    __slots__ = ("probes", "room")

    def __init__(self) -> None:
        self.probes = 0
        self.room = asyncio.Semaphore(_AT_ONCE_OF_HOST)


class _Probe:
    """One probe, and how many wait for its answer."""

    __slots__ = ("askers", "task")

    def __init__(self, task: asyncio.Task[bool]) -> None:
        self.askers = 0
        self.task = task


class Prober:
    """Connects to endpoints; who asks for one that is being probed gets the same answer."""

    def __init__(self) -> None:
        self._under_way: dict[Place, _Probe] = {}
        self._hosts: dict[str, _Host] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def answers(self, host: str, port: int) -> bool:
        """Whether something listens at ``host`` and ``port``; IPv6 with a zone where it needs one.

        A probe ends when nobody waits for its answer any more.
        """
        place = host, port
        probe = self._under_way.get(place)
        if probe is None:
            of_host = self._hosts.get(host)
            if len(self._under_way) >= _MOST or (of_host is not None and of_host.probes >= _MOST_OF_HOST):
                return False
            probe = self._begin(place)
        probe.askers += 1
        try:
            return await asyncio.shield(probe.task)
        finally:
            probe.askers -= 1
            if not probe.askers and not probe.task.done():
                probe.task.cancel()
                self._forget(place, probe)  # who asks from now on must not get what was given up

    async def stop(self) -> None:
        """End all that are under way."""
        tasks = [probe.task for probe in self._under_way.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, place: Place) -> _Probe:
        probe = self._under_way[place] = _Probe(asyncio.create_task(self._connect(*place)))
        self._hosts.setdefault(place[0], _Host()).probes += 1
        probe.task.add_done_callback(lambda _: self._ended(place, probe))
        return probe

    async def _connect(self, host: str, port: int) -> bool:
        async with self._hosts[host].room, self._room:
            with suppress(OSError, TimeoutError, ValueError):
                async with asyncio.timeout(_SECONDS):
                    _, writer = await asyncio.open_connection(host, port)
                writer.transport.abort()
                return True
        return False

    def _ended(self, place: Place, probe: _Probe) -> None:
        self._forget(place, probe)
        of_host = self._hosts[place[0]]
        of_host.probes -= 1
        if not of_host.probes:
            del self._hosts[place[0]]

    def _forget(self, place: Place, probe: _Probe) -> None:
        if self._under_way.get(place) is probe:
            del self._under_way[place]
