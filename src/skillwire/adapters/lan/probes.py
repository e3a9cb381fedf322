"""One request of an agent over HTTP: for a certificate, for lists, for details, for the key of a scene's provider.

Probes: whether the endpoint of a skill takes a connection, which is a sign of life where beats are missing.

Few at once, fewer of one host, one for each endpoint at a time, and none takes longer than a second: a stranger may
announce a thousand endpoints, each would be ours to connect to, and a true suspect elsewhere must not wait for them.
Nothing is sent. Spec: SDP §8.2; specs §3.

Suspects: skills that have fallen silent, whose endpoints are probed before they are given up. Spec: SDP §8.1.

What others tell of skills that are not listed here, and whether there is anything at their endpoints.

Anybody may answer a discovery with a thousand records, and a connection to each endpoint would send us wherever a
stranger likes. So the endpoint is probed where the answer came from that very host, a few of one host, and where
somebody has proven that it is theirs or is certified to tell of it; a name is never looked up; and all of it together
takes a bounded time. What is not probed is UNKNOWN, as what nobody knows anything of.

An answer names no agent, and whoever answers tells of all that it lists, also of other agents at its own address. So
whoever has proven to answer, and is certified, vouches for nothing of it: a skill is verified, and has an agent, by its
registration alone. For the same reason a skill that is told at an IPv4 and at an IPv6 address of one network is taken
for one. Spec: SDP §3.3; specs §3.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from skillwire.adapters.clock import moment
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.model.lan import LanSkill
from skillwire.model.url import parse_url, without_zone
from skillwire.trust.address import AddressPolicy

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from skillwire.adapters.lan.link import Link
    from skillwire.protocols.skill_discovery.events import Found
    from skillwire.protocols.skill_discovery.health import Change
    from skillwire.wire.exchange import HttpRequest, HttpResponse


async def ask(request: HttpRequest) -> HttpResponse:
    """Make one request to a URL whose address is known to be good, wherever that is, and follow nothing.

    Raises:
        FetchError: nobody answers.
    """
    async with AsyncDriver(AddressPolicy().naming(parse_url(request.url))) as driver:
        return await driver.send(request)


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


class SuspectProbes:
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


#: Seconds for all probes of one discovery together.
_PROBE_SECONDS: Final = 2.0
#: Endpoints of one host that nobody has proven to be: a source can be forged.
_UNPROVEN: Final = 4


async def probe_unregistered(told: Collection[tuple[Link, Found]], prober: Prober) -> list[LanSkill]:
    """Return the skills that answers tell of, UNHEALTHY where nothing takes a connection."""
    answers: dict[Place, bool] = {}

    async def probe(place: Place) -> None:
        answers[place] = await prober.answers(*place)

    told = _once_each(told)
    with suppress(TimeoutError):
        async with asyncio.timeout(_PROBE_SECONDS):
            await asyncio.gather(*(probe(place) for place in _places(told)))
    return [_skill(link, found, is_there=answers.get(_place(link, found), True)) for link, found in told]


def _once_each(told: Collection[tuple[Link, Found]]) -> list[tuple[Link, Found]]:
    """Leave out what is told at an IPv6 address where it is told at an IPv4 one, too."""
    at_ipv4 = {_what(*one) for one in told if ":" not in one[1].record.endpoint.host}
    return [one for one in told if ":" not in one[1].record.endpoint.host or _what(*one) not in at_ipv4]


def _what(link: Link, found: Found) -> tuple[str, str, str, int]:
    record = found.record
    return link.name.rpartition("/")[0], record.skill_id, record.version, record.endpoint.port


def _places(told: Collection[tuple[Link, Found]]) -> Sequence[Place]:
    """Return the endpoints that are ours to connect to, those that are proven first."""
    proven: dict[Place, None] = {}
    unproven: dict[str, dict[Place, None]] = {}
    for link, found in told:
        place = _place(link, found)
        if not _is_address(place[0]):
            continue
        if found.agent_id:
            proven[place] = None
        elif found.record.endpoint.host == without_zone(found.source.host):
            unproven.setdefault(place[0], {})[place] = None
    few = [place for places in unproven.values() for place in list(places)[:_UNPROVEN] if place not in proven]
    return [*proven, *few]


def _place(link: Link, found: Found) -> Place:
    return link.reached(found.record.endpoint.host), found.record.endpoint.port


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _skill(link: Link, found: Found, *, is_there: bool) -> LanSkill:
    """Return a skill that somebody told of, and that is not listed here."""
    record = found.record
    host, port = _place(link, found)
    return LanSkill(
        "",
        record.skill_id,
        record.version,
        found.skill_type,
        host,
        port,
        record.capabilities,
        record.scenes,
        "UNKNOWN" if is_there else "UNHEALTHY",
        heard=moment().wall,
    )
