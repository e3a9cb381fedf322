"""Probes: whether the endpoint of a skill takes a connection, which is a sign of life where beats are missing.

Few at once, one for each endpoint at a time, and none takes longer than a second: a stranger may announce a thousand
endpoints, and each would be ours to connect to. Nothing is sent. Spec: SDP §8.2; specs §3.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

_SECONDS: Final = 1.0
_AT_ONCE: Final = 32
#: Probes that wait or run; more are answered with no, and asked for again by the next silence.
_MOST: Final = 1024

Place = tuple[str, int]


class Prober:
    """Connects to endpoints; who asks for one that is being probed gets the same answer."""

    def __init__(self) -> None:
        self._under_way: dict[Place, asyncio.Task[bool]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def answers(self, host: str, port: int) -> bool:
        """Whether something listens at ``host`` and ``port``; IPv6 with a zone where it needs one."""
        place = host, port
        task = self._under_way.get(place)
        if task is None:
            if len(self._under_way) >= _MOST:
                return False
            task = asyncio.create_task(self._connect(host, port))
            self._under_way[place] = task
            task.add_done_callback(lambda _: self._under_way.pop(place, None))
        return await asyncio.shield(task)

    async def stop(self) -> None:
        """End all that are under way."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connect(self, host: str, port: int) -> bool:
        async with self._room:
            with suppress(OSError, TimeoutError, ValueError):
                async with asyncio.timeout(_SECONDS):
                    _, writer = await asyncio.open_connection(host, port)
                writer.transport.abort()
                return True
        return False
