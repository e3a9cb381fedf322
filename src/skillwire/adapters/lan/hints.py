"""Hints: an agent's mDNS beside its multicast.

What is offered is published there too, and what others publish is listed, as a hint, by the registry of the link that
leads to it. All of it is done in the background, since importing the library and probing for a name take their time;
what is superseded meanwhile is passed over. Spec: SDP §1.2; specs §3.
"""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from skillwire.adapters.clock import moment
from skillwire.adapters.lan.details import Details
from skillwire.adapters.lan.dnssd import DnsSd
from skillwire.adapters.lan.interfaces import present
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery.dnssd import key_id_of
from skillwire.trust.ecdsa import public_key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skillwire.adapters.lan.links import Links
    from skillwire.protocols.skill_discovery.identity import Identity
    from skillwire.protocols.skill_discovery.listing import Key
    from skillwire.protocols.skill_discovery.messages import HealthStatus, Register
    from skillwire.protocols.skill_discovery.route_agent import Offer

#: Seconds in which others have answered by mDNS that we are there: the library is imported, and asks and is answered
#: after pauses of up to 0.12 s each.
_TAKES: Final = 1.0


class Hints:
    """The mDNS of one agent, from :meth:`start` to :meth:`stop`.

    Args:
        agent_id: whose it is.
        identity: what the agent signs with.
        links: of the agent.
    """

    def __init__(self, agent_id: str, identity: Identity, links: Links) -> None:
        self._links = links
        self._offers: tuple[Offer, ...] = ()
        self._statuses: dict[str, HealthStatus] = {}
        self._identity = identity
        self._dnssd = DnsSd(self._hosts(), agent_id, self._found, self._gone, key_id=self._key_id)
        self._details = Details(self._is_hint, self._list, self._dnssd.counters, is_here=self._is_here)
        self._has_news = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._failure = ""
        self._began = 0.0

    def due(self) -> float:
        """Return in how many seconds those who are there have answered."""
        return 0.0 if self.note else max(0.0, self._began + _TAKES - moment().steady)

    @property
    def note(self) -> str:
        """Why mDNS is off; empty when it is not."""
        return self._dnssd.note or self._failure

    @property
    def counters(self) -> Mapping[str, int]:
        """What was passed over, and why."""
        return self._dnssd.counters

    def start(self) -> None:
        """Begin."""
        self._began = moment().steady
        self._running = asyncio.get_running_loop().create_task(self._run())
        self._running.add_done_callback(self._ended)

    def announce(self, offers: Iterable[Offer]) -> None:
        """Publish exactly these."""
        self._offers = tuple(offers)
        offered = {offer.skill_id for offer in self._offers}
        self._statuses = {name: status for name, status in self._statuses.items() if name in offered}
        self._has_news.set()

    def report(self, skill_id: str, status: HealthStatus) -> None:
        """Publish that a skill is otherwise than before."""
        self._statuses[skill_id] = status
        self._has_news.set()

    def follow_links(self) -> None:
        """Use the links that there are now."""
        self._has_news.set()

    async def stop(self) -> None:
        """Say goodbye for what was published, and end."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        await self._details.stop()
        await self._dnssd.stop()

    async def _run(self) -> None:
        await self._dnssd.start()
        while not self._dnssd.note:
            self._has_news.clear()
            await self._dnssd.use(self._hosts())
            await self._dnssd.publish(self._offers, self._statuses)
            await self._has_news.wait()

    def _ended(self, running: asyncio.Task[None]) -> None:
        """Say so when mDNS has ended by a fault of ours or of the library; multicast goes on without."""
        error = None if running.cancelled() else running.exception()
        if error is not None:
            self._failure = f"mDNS is off, since it failed: {error!r}"
            what = {"message": "mDNS has failed", "exception": error, "task": running}
            running.get_loop().call_exception_handler(what)

    def _key_id(self) -> str:
        return key_id_of(public_key_of(self._identity.certificate))

    def _hosts(self) -> list[str]:
        return [link.address.host for link in self._links.open_links() if link.address is not None]

    def _found(self, hint: Register, ours: str, path: str) -> None:
        self._list(self._details.found(hint, ours, path) if path else hint, ours)

    def _is_hint(self, key: Key) -> bool:
        """Whether a skill is known by mDNS alone."""
        known = [listed for link in self._links if (listed := link.node.registry.get(key)) is not None]
        return bool(known) and all(listed.is_hint for listed in known)

    def _is_here(self, host: str) -> bool:
        """Whether an address is of this machine, where others than this machine may have said so.

        Who is on this machine is heard by multicast; and who is on loopback alone hears nobody else.
        """
        hosts = self._hosts()
        if hosts and all(ip_address(one).is_loopback for one in hosts):
            return False
        address = ip_address(without_zone(host))
        return (
            address.is_loopback or address.is_unspecified or any(address == ip_address(one.host) for one in present())
        )

    def _list(self, hint: Register, ours: str) -> None:
        """List a hint on the link that leads to it, and on no other."""
        now = moment()
        for link in self._links:
            if link.is_open and link.address is not None and link.address.host == ours:
                has_changed = link.node.hint(hint, hint.endpoint.host, now)
            else:
                has_changed = link.node.unhint((hint.agent_id, hint.skill_id), now)
            if has_changed:
                link.driver.tend(now)

    def _gone(self, key: Key) -> None:
        self._details.gone(key)
        now = moment()
        for link in self._links:
            if link.node.unhint(key, now):
                link.driver.tend(now)
