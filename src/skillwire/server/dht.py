"""The DHT node of a server: it announces the public skills, follows their changes, and withdraws them at the end.

Every node can read a record, so private skills are never announced, and restricted ones only if the configuration says
so. A record lists as many scenes and capabilities as fit; the server's own answers list all. It points to the server's
public URL, or without one to the address of this machine. When the node cannot start, for example because its port is
in use, the failure is logged once and the start is repeated, while the HTTP server runs. Tombstones are stored while
the server still answers. Spec: SDP §6; specs §3.
"""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.model.access import Access
from skillwire.model.lan import host_and_port
from skillwire.protocols.skill_discovery.dht.records import DhtOffer
from skillwire.protocols.skill_discovery.messages import Endpoint
from skillwire.server.lan.service import LanService, NetworkService, log_skipped, make_offer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skillwire.adapters.dht.agent import DhtAgent
    from skillwire.model.lan import DhtStatus
    from skillwire.model.skill import Skill
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.server.background import BackgroundTasks
    from skillwire.server.catalog_service import CatalogService
    from skillwire.server.revision import Revision

#: Seconds between two checks of the catalog and the local network, and that resolving bootstrap nodes may take.
_LOOK: Final = 5.0
#: Seconds that leaving the DHT may take; storing tombstones takes at most 2.5 s.
_GOODBYE: Final = 4.0


def make_offers(revision: Revision, url: str, *, has_restricted: bool) -> list[DhtOffer]:
    """Return offers that point to ``url``: of the public skills, and with ``has_restricted`` of the restricted ones."""
    skills: Iterable[Skill] = revision.catalog.skills.values()
    if has_restricted:
        skills = (one for one in revision.everything.skills.values() if one.access is not Access.PRIVATE)
    found = []
    for skill in skills:
        offer = make_offer(skill, Endpoint("", 0))
        kind = offer.skill_type.value
        facts = (offer.skill_id, offer.version, kind, url, offer.capabilities, offer.scenes)
        found.append(DhtOffer(*facts, str(skill.artifact.digest)))
    return found


class DhtService(NetworkService["DhtAgent"]):
    """Runs a node of the DHT for a server.

    ``make_agent`` is called in a thread. ``lan`` is the service on the local network, if there is one; its mDNS leads
    to other nodes. An empty ``base_url`` stands for the address of this machine.
    """

    def __init__(
        self,
        settings: LanSettings,
        catalog: CatalogService,
        make_agent: Callable[[], DhtAgent],
        *,
        base_url: str,
        background: BackgroundTasks,
        lan: LanService | None = None,
    ) -> None:
        super().__init__("dht", "in the DHT", catalog, background)
        self._settings = settings.dht
        self._make_agent = make_agent
        self._url = base_url.rstrip("/")
        self._lan = lan
        self._address = ("", 0)
        self._announced: tuple[Revision, str] | None = None
        self._skipped: tuple[dict[str, str], dict[str, str]] = {}, {}

    def status(self) -> DhtStatus | None:
        """Return the state of the node; None until it has started."""
        return None if self._agent is None else self._agent.status()

    def note(self) -> str:
        """Return a warning for the operator about the node's present state; an empty text if there is none."""
        if self.trouble:
            return f"not in the DHT: {self.trouble}"
        if self._agent is None:
            return ""
        if not self._url_of(self._agent):
            return "no skill is announced in the DHT: the server has no address that others reach; set --base-url"
        return self._agent.silence

    def reached_at(self, *addresses: tuple[str, int]) -> None:
        """Set the hosts and ports on which this server listens. Call it before :meth:`start`."""
        hosts = [host for host, _ in addresses]
        is_everywhere = "::" in hosts or "0.0.0.0" in hosts  # noqa: S104  # compared with
        self._address = ("" if is_everywhere else addresses[0][0], addresses[0][1])

    def start(self) -> None:
        """Start the node on the running event loop. A second call does nothing."""
        if not self._tasks and not self._is_stopped:
            self._start(self._live())

    async def unregister(self) -> None:
        """Store tombstones for the announced skills and stop, within 4 seconds. A second call does nothing."""
        if self._is_stopped or (agent := await self._stop_tasks()) is None:
            return
        try:
            async with asyncio.timeout(_GOODBYE):
                await agent.stop()
        except Exception as error:  # noqa: BLE001  # the server ends nevertheless
            self._log.warning("left the DHT without tombstones", exc_info=error)

    async def _live(self) -> None:
        agent = await self._start_agent(self._make_agent)
        self._log.info("in the DHT", agent=agent.agent_id, port=agent.port)
        await agent.wait_for_names(_LOOK)  # a loopback address is announced if a bootstrap node has one
        await self._repeat("dht", lambda: self._announce(agent), _LOOK)

    async def _announce(self, agent: DhtAgent) -> None:
        """Announce the skills of the current revision if it or the URL changed; exchange nodes with the LAN service."""
        if self._lan is not None:
            agent.use_found(self._lan.exchange_dht(agent.port))
        revision, url = self._catalog.current, self._url_of(agent)
        if revision is None or not url or self._announced == (revision, url):
            return
        offers = await asyncio.to_thread(self._fitting, agent, revision, url)
        agent.offer(offers)
        self._announced = revision, url

    def _fitting(self, agent: DhtAgent, revision: Revision, url: str) -> list[DhtOffer]:
        """Return the offers, each shortened until it fits a record; log changes of the skipped and shortened ones."""
        found: list[DhtOffer] = []
        skipped, cut = dict[str, str](), dict[str, str]()
        for whole in make_offers(revision, url, has_restricted=self._settings.announces_restricted):
            offer, reason = whole, agent.flaw(whole)
            flaw = reason
            while flaw is not None and (offer.scenes or offer.capabilities):
                if offer.scenes:
                    offer = offer._replace(scenes=offer.scenes[:-1])
                else:
                    offer = offer._replace(capabilities=offer.capabilities[:-1])
                flaw = agent.flaw(offer)
            if flaw is not None or len(found) >= limits.DHT_OFFERS:
                skipped[offer.skill_id] = flaw or f"a node announces at most {int(limits.DHT_OFFERS):,} skills"
                continue
            found.append(offer)
            if reason is not None:
                cut[offer.skill_id] = reason
        if (skipped, cut) != self._skipped:
            log_skipped(self._log, "in the DHT", skipped)
            log_skipped(self._log, "whole in the DHT", cut)
        self._skipped = skipped, cut
        return found

    def _url_of(self, agent: DhtAgent) -> str:
        """Return the configured URL, or that of the server's address; an empty text if others cannot reach it."""
        host, port = self._address
        host = host or next(iter(agent.hosts), "")
        if self._url or not host:
            return self._url
        is_reached = not ip_address(host).is_loopback or agent.is_local
        return f"http://{host_and_port(host, port)}" if is_reached else ""
