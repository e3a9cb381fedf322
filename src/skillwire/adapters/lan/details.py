"""Details of hints: where mDNS has cut the lists of a skill and nobody registers it, the whole is fetched over HTTP.

One request goes to the very address and port that the hint leads to, which is in a network of ours, and nowhere else:
no redirect is followed. A few at a time, each agent's once in a while, and not before a registration had its time, so
that this costs nothing where multicast is heard. What comes is a hint as well. Spec: specs §3 "mDNS".
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.adapters.clock import moment
from skillwire.adapters.lan.renewal import ask
from skillwire.errors import SkillwireError
from skillwire.model.lan import host_and_port
from skillwire.protocols.skill_discovery.details import completed, read_details
from skillwire.wire.exchange import HttpRequest

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from skillwire.protocols.skill_discovery.details import Lists
    from skillwire.protocols.skill_discovery.listing import Key
    from skillwire.protocols.skill_discovery.messages import Register

_OK: Final = 200
#: Seconds in which whoever is heard by multicast registers.
_WAITS: Final = 1.5
#: Seconds for which what was told, or was not, is good.
_GOOD: Final = 60.0
_TAKES: Final = 5.0


class _Source(NamedTuple):
    """Where an agent tells more."""

    agent_id: str
    url: str


class Details:
    """The fetching of one agent.

    Args:
        is_wanted: whether a skill is a hint still, and nobody has registered it.
        on_whole: is told a hint whose lists are whole, and the address of ours that leads there.
        counters: what was passed over, and why.
    """

    def __init__(
        self,
        is_wanted: Callable[[Key], bool],
        on_whole: Callable[[Register, str], object],
        counters: Counter[str],
    ) -> None:
        self._is_wanted = is_wanted
        self._on_whole = on_whole
        self._counters = counters
        self._told: dict[_Source, tuple[float, dict[str, Lists]]] = {}
        self._cut: dict[Key, tuple[Register, str, _Source]] = {}
        self._asking: dict[_Source, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(limits.LAN_DETAILS_AT_ONCE)

    def found(self, hint: Register, ours: str, path: str) -> Register:
        """Take a hint whose lists were cut; return it as whole as it is known.

        Args:
            hint: without a signature.
            ours: which of our addresses is in its network.
            path: where more is told.
        """
        source = _Source(hint.agent_id, f"http://{host_and_port(hint.endpoint.host, hint.endpoint.port)}{path}")
        key = hint.agent_id, hint.skill_id
        until, lists = self._told.get(source, (0.0, {}))
        if until <= moment().steady and (source in self._asking or len(self._asking) < limits.LAN_DETAILS_SOURCES):
            self._cut[key] = hint, ours, source
            if source not in self._asking:
                task = self._asking[source] = asyncio.get_running_loop().create_task(self._fetch(source))
                task.add_done_callback(lambda _: self._ended(source))
        return completed(hint, lists) or hint

    def gone(self, key: Key) -> None:
        """Take note that a hint is gone."""
        self._cut.pop(key, None)

    async def stop(self) -> None:
        """Give all up."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _fetch(self, source: _Source) -> None:
        await asyncio.sleep(_WAITS)
        if not any(self._is_wanted(key) for key, cut in self._cut.items() if cut[2] == source):
            return
        lists: dict[str, Lists] = {}
        try:
            async with self._turns, asyncio.timeout(_TAKES):
                answer = await ask(HttpRequest(source.url, max_bytes=limits.LAN_DETAILS_BYTES))
            if answer.status == _OK:
                lists = read_details(answer.body, source.agent_id, source.url)
        except (SkillwireError, TimeoutError):
            self._counters["mdns no details"] += 1
        self._told.pop(source, None)
        self._told[source] = moment().steady + _GOOD, lists
        if len(self._told) > limits.LAN_DETAILS_SOURCES:
            del self._told[next(iter(self._told))]
        for key, (hint, ours, where) in list(self._cut.items()):
            if where == source and self._is_wanted(key) and (whole := completed(hint, lists)) is not None:
                self._on_whole(whole, ours)

    def _ended(self, source: _Source) -> None:
        del self._asking[source]
        self._cut = {key: cut for key, cut in self._cut.items() if cut[2] != source}
