"""Probes: whether the endpoint of a suspect takes a connection, which is a sign of life where heartbeats are missing.

An untrusted peer can register a thousand endpoints, and each would be probed. So there are few probes at once, fewer
for one host, one for each endpoint, and none takes longer than a second: a suspect elsewhere does not wait for them.
Nothing is sent on the connection. A refused one proves that host and network are well, and the server is gone. Spec:
SDP §8.1, §8.2; specs §3.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.adapters.lan.link import Link
from skillwire.model.url import parse_url
from skillwire.protocols.skill_discovery.health import ListedSkill
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpRequest, HttpResponse

_PROBE_SECONDS: Final = 1.0
_MAX_RUNNING: Final = 32
_MAX_RUNNING_OF_HOST: Final = 4
#: Probes that wait or run. A further one returns None; the next missed heartbeat repeats it.
_MAX_PENDING: Final = 4096
_MAX_PENDING_OF_HOST: Final = 256

#: A host and a port.
Address = tuple[str, int]


async def send_to_known_address(request: HttpRequest) -> HttpResponse:
    """Send one request to a URL whose address is known to be good, without a proxy; follow no redirect.

    Raises: FetchError.
    """
    async with AsyncDriver(AddressPolicy().naming(parse_url(request.url)), proxy_for=lambda _: None) as driver:
        return await driver.send(request)


@dataclass(slots=True)
class _Host:
    """The probes of one host: how many wait or run, and the limit of those that run."""

    probes: int = 0
    limit: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_RUNNING_OF_HOST))


class Prober:
    """Connects to endpoints; callers for one endpoint share a probe."""

    def __init__(self) -> None:
        self._under_way: dict[Address, asyncio.Task[bool | None]] = {}
        self._hosts: dict[str, _Host] = {}
        self._limit = asyncio.Semaphore(_MAX_RUNNING)

    async def answers(self, host: str, port: int) -> bool | None:
        """Return whether a server listens; False when refused, None without an answer; ``host`` has its IPv6 zone."""
        address = host, port
        probe = self._under_way.get(address)
        if probe is None:
            of_host = self._hosts.get(host)
            if len(self._under_way) >= _MAX_PENDING or (of_host is not None and of_host.probes >= _MAX_PENDING_OF_HOST):
                return None
            self._hosts.setdefault(host, _Host()).probes += 1
            probe = self._under_way[address] = asyncio.create_task(self._connect(host, port))
            probe.add_done_callback(partial(self._ended, address))
        return await asyncio.shield(probe)

    async def stop(self) -> None:
        """End all probes."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connect(self, host: str, port: int) -> bool | None:
        async with self._hosts[host].limit, self._limit:
            try:
                async with asyncio.timeout(_PROBE_SECONDS):
                    _, writer = await asyncio.open_connection(host, port)
            except ConnectionRefusedError:
                return False
            except (OSError, TimeoutError, ValueError):
                return None
            writer.transport.abort()
            return True

    def _ended(self, address: Address, _: object) -> None:
        del self._under_way[address]
        of_host = self._hosts[address[0]]
        of_host.probes -= 1
        if not of_host.probes:
            del self._hosts[address[0]]


class SuspectProbes:
    """Probes the endpoints of suspects in the background."""

    def __init__(self) -> None:
        self._prober = Prober()
        self._tasks: set[asyncio.Task[None]] = set()

    def probe(self, link: Link, listed: ListedSkill) -> None:
        """Probe the endpoint of a skill on a link: an answer is a sign of life, a refusal its end."""
        task = asyncio.get_running_loop().create_task(self._probe(link, listed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """End all probes."""
        await self._prober.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _probe(self, link: Link, listed: ListedSkill) -> None:
        endpoint = listed.registration.endpoint
        is_there = await self._prober.answers(link.reached(endpoint.host), endpoint.port)
        if is_there is not None:
            link.node.on_probe(listed.key, link.clock(), is_there=is_there)
            link.driver.tend()
