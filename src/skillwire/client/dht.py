"""The DHT for programs: the four operations of SDP 6.3, and what a node knows.

:class:`Client` and :class:`AsyncClient` ask through a node of their own that stores nothing for others. It joins with
the first operation, and remembers the nodes that it has met until the client is closed.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from skillwire.client.agent_thread import AgentThread
from skillwire.client.lan_flows import checked_names
from skillwire.client.runner import awaited, documented_by
from skillwire.client.session import ClientSession
from skillwire.errors import NotFoundError, UsageError
from skillwire.resolver.sources.dht import check_answers, check_put, with_bootstrap

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from pathlib import Path

    from skillwire.adapters.dht.agent import DhtAgent
    from skillwire.client.lan_flows import Names
    from skillwire.model.lan import DhtAnswer, DhtPong, DhtPut, DhtStatus
    from skillwire.protocols.skill_discovery.dht.records import DhtOffer
    from skillwire.protocols.skill_discovery.settings import LanSettings

T = TypeVar("T")
Match = Literal["all", "any"]
_SECONDS = 5.0  # that an operation may take


class _Base:
    def __init__(
        self, project: Path | str = ".", *, bootstrap: Sequence[str] = (), settings: LanSettings | None = None
    ) -> None:
        if settings is None:
            settings = ClientSession.own_discovery(project)
        self.settings = with_bootstrap(settings, bootstrap)
        make = partial(ClientSession.make_dht_agent, self.settings)
        self._thread: AgentThread[DhtAgent] = AgentThread(make, name="skillwire-dht")

    async def _get(self, skill_id: str, capability: str, seconds: float, agent: DhtAgent) -> DhtAnswer:
        checked_names("skill_id and capability", [skill_id, *([capability] if capability else [])])
        if capability:
            answer = await agent.get(skill_id, capability, seconds=seconds)
        else:
            answer = await agent.find_by_name(skill_id, seconds=seconds)
        check_answers([answer], self.settings.dht)
        return answer


class Client(_Base):
    """The DHT, as a node of this process sees it. Spec: SDP §6.

    Every operation raises ``FetchError`` (``DHT_UNREACHABLE``) when no node answers. Records are signed with the key of
    this machine's agent; every returned record was verified.

    Args:
        project: whose settings name the bootstrap nodes, beside the user's own.
        bootstrap: ``host:port`` of nodes, in place of those of the settings.
        settings: in place of those of the settings files.

    Raises:
        UsageError: ``DHT_BOOTSTRAP`` without a bootstrap node.
    """

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the DHT."""
        self.close()

    def put(self, offer: DhtOffer, *, timeout: float = _SECONDS) -> DhtPut:
        """Store a record of a skill for ten minutes; put it again within that time, or let ``serve --dht`` do it.

        Raises:
            TrustError: ``DISC_003``, no node stores it. ValidationError: ``DHT_RECORD``, it is too large.
        """

        async def put(agent: DhtAgent) -> DhtPut:
            done = await agent.put(offer, seconds=timeout)
            check_put(done, self.settings.dht, offer.skill_id)
            return done

        return self._run(put)

    def get(self, skill_id: str, capability: str = "", *, timeout: float = _SECONDS) -> DhtAnswer:
        """Return the records of a skill with a capability, by both forms of its key; or all records of that name."""
        return self._run(partial(self._get, skill_id, capability, timeout))

    def find_by_capability(self, capabilities: Names, *, match: Match = "all", timeout: float = _SECONDS) -> DhtAnswer:
        """Return the records that have all capabilities, or any of them; every key is looked up."""

        async def find(agent: DhtAgent) -> DhtAnswer:
            names = checked_names("capabilities", capabilities)
            if not names:
                raise UsageError("USAGE", "no capability is named", fix="Name one: capabilities=['org-data-read'].")
            answer = await agent.find_by_capability(names, match=match, seconds=timeout)
            check_answers([answer], self.settings.dht)
            return answer

        return self._run(find)

    def remove(self, skill_id: str, capabilities: Names = (), *, timeout: float = _SECONDS) -> DhtPut:
        """Replace our record of a skill by a signed tombstone, which outlives it.

        Without ``capabilities``, those of our record are looked up first.

        Raises:
            NotFoundError: ``DISC_002``, there is no record of ours. TrustError: ``DISC_003``.
        """

        async def remove(agent: DhtAgent) -> DhtPut:
            names = checked_names("capabilities", capabilities)
            if not names:
                answer = await self._get(skill_id, "", timeout, agent)
                own = [one for one in answer.skills if one.key_id == agent.key_id]
                if not own:
                    message = f"the DHT has no record of {skill_id} that is signed with this machine's key"
                    raise NotFoundError("DISC_002", message, fix=f"List the records: skillwire dht get {skill_id}.")
                names = tuple(dict.fromkeys(able for one in own for able in one.capabilities))
            done = await agent.remove(skill_id, names, seconds=timeout)
            check_put(done, self.settings.dht, skill_id)
            return done

        return self._run(remove)

    def ping(self, host: str, port: int, *, timeout: float = _SECONDS) -> DhtPong:
        """Return the node at an address, which proves its key."""
        return self._run(lambda agent: agent.ping(host, port, seconds=timeout))

    def status(self) -> DhtStatus:
        """Return what this client's node knows: the nodes that it has met, and the bootstrap nodes that answer."""

        async def status(agent: DhtAgent) -> DhtStatus:
            return agent.status()

        return self._run(status)

    def close(self) -> None:
        """Leave the DHT. A later operation joins it again."""
        self._thread.end()

    def _run(self, use: Callable[[DhtAgent], Coroutine[Any, Any, T]]) -> T:
        future = self._thread.submit(use)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # an interruption ends the work, too
            raise


@documented_by(Client)
class AsyncClient(_Base):
    """The same as :class:`Client`, awaited."""

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave the DHT."""
        await self.close()

    put = awaited(Client.put)
    get = awaited(Client.get)
    find_by_capability = awaited(Client.find_by_capability)
    remove = awaited(Client.remove)
    ping = awaited(Client.ping)
    status = awaited(Client.status)

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.end)

    async def _run(self, use: Callable[[DhtAgent], Coroutine[Any, Any, T]]) -> T:
        return await asyncio.wrap_future(self._thread.submit(use))
