"""Details of hints: where mDNS has cut the lists of a skill and nobody registers it, the whole is fetched over HTTP.

One request goes to the very address and port that the hint leads to, which is in a network of ours, and nowhere else:
no redirect is followed, and nothing goes to this machine itself. Nobody has signed where a hint leads, so an endpoint
is asked only when it takes a connection, a few at a time, and has few turns
(:mod:`~skillwire.adapters.lan.detail_turns`); and not before a registration had its time, so that this costs nothing
where multicast is heard. What comes is a hint as well. Spec: specs §3 "mDNS".
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.adapters.clock import moment
from skillwire.adapters.lan.asking import ask
from skillwire.adapters.lan.detail_turns import GOOD, Door, Turns
from skillwire.adapters.lan.probe import Prober
from skillwire.errors import SkillwireError
from skillwire.model.lan import host_and_port
from skillwire.protocols.skill_discovery.details import AgentDetails, completed, read_details
from skillwire.protocols.skill_discovery.dnssd import PATH
from skillwire.wire.exchange import HttpRequest

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from skillwire.protocols.skill_discovery.listing import Key
    from skillwire.protocols.skill_discovery.messages import Register

_OK: Final = 200
#: Seconds in which whoever is heard by multicast registers.
_WAITS: Final = 1.5
_TAKES: Final = 5.0
_NOTHING: Final = AgentDetails("", {})


class _Cut(NamedTuple):
    """A hint whose lists were cut, the address of ours that leads there, and where there is more."""

    hint: Register
    ours: str
    door: Door


class Details:
    """The fetching of one agent.

    Args:
        is_wanted: whether a skill is a hint still, and nobody has registered it.
        on_whole: is told a hint whose lists are whole, and the address of ours that leads there.
        counters: what was passed over, and why.
        is_here: whether an address is of this machine, and a hint from elsewhere may lead there.
    """

    def __init__(
        self,
        is_wanted: Callable[[Key], bool],
        on_whole: Callable[[Register, str], object],
        counters: Counter[str],
        *,
        is_here: Callable[[str], bool],
    ) -> None:
        self._is_wanted = is_wanted
        self._on_whole = on_whole
        self._counters = counters
        self._is_here = is_here
        self._told: dict[Door, tuple[float, AgentDetails]] = {}
        self._cut: dict[Key, _Cut] = {}
        self._asking: dict[Door, asyncio.Task[None]] = {}
        self._at_once = asyncio.Semaphore(limits.LAN_DETAILS_AT_ONCE)
        self._turns = Turns()
        self._prober = Prober()  # of these alone, since suspects must not wait for them

    def found(self, hint: Register, ours: str, path: str) -> Register:
        """Take a hint whose lists were cut; return it as whole as it is known.

        Args:
            hint: without a signature.
            ours: which of our addresses is in its network.
            path: where more is told.
        """
        door, now = Door(hint.endpoint.host, hint.endpoint.port, path == PATH), moment().steady
        until, told = self._told.get(door, (0.0, _NOTHING))
        if until > now:
            return completed(hint, told) or hint
        has_room = len(self._asking) < limits.LAN_DETAILS_SOURCES
        if door in self._asking or (has_room and self._turns.may_ask(door, now)):
            self._cut[hint.agent_id, hint.skill_id] = _Cut(hint, ours, door)
            if door not in self._asking:
                task = self._asking[door] = asyncio.get_running_loop().create_task(self._fetch(door, path))
                task.add_done_callback(lambda _: self._ended(door))
        return hint

    def gone(self, key: Key) -> None:
        """Take note that a hint is gone."""
        self._cut.pop(key, None)

    async def stop(self) -> None:
        """Give all up."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await self._prober.stop()

    async def _fetch(self, door: Door, path: str) -> None:
        await asyncio.sleep(_WAITS)
        if not any(self._is_wanted(key) for key, cut in self._cut.items() if cut.door == door):
            return
        if self._is_here(door.host):
            self._counters["mdns leads here"] += 1
            return
        if not self._turns.take(door, moment().steady):
            return
        told = await self._ask(door, path)
        if told is None:
            self._counters["mdns no details"] += 1
            return
        now = moment().steady
        self._turns.again_soon(door, now)
        self._told = {one: kept for one, kept in self._told.items() if kept[0] > now}
        self._told[door] = now + GOOD, told
        for key, cut in list(self._cut.items()):
            if cut.door == door and self._is_wanted(key) and (whole := completed(cut.hint, told)) is not None:
                self._on_whole(whole, cut.ours)

    async def _ask(self, door: Door, path: str) -> AgentDetails | None:
        """Return what is told at an endpoint; None where there is none, or something else."""
        url = f"http://{host_and_port(door.host, door.port)}{path}"
        try:
            async with self._at_once, asyncio.timeout(_TAKES):
                if not await self._prober.answers(door.host, door.port):
                    self._turns.again_soon(door, moment().steady)
                    return None
                answer = await ask(HttpRequest(url, max_bytes=limits.LAN_DETAILS_BYTES))
            return read_details(answer.body, url) if answer.status == _OK else None
        except (SkillwireError, TimeoutError):
            return None

    def _ended(self, door: Door) -> None:
        del self._asking[door]
        self._cut = {key: cut for key, cut in self._cut.items() if cut.door != door}
