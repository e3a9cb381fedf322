"""The local network through a client: its skills and scenes, and what changes there.

:class:`Lan` and :class:`AsyncLan` run the same flows (:mod:`skillwire.client.lan_flows`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from skillwire.client.lan_flows import LanFlows
from skillwire.client.lan_thread import AsyncLanThread, SyncLanThread
from skillwire.client.skill import AsyncRemoteSkill, RemoteSkill

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from skillwire.client.calls import CallArguments
    from skillwire.client.lan_flows import Names
    from skillwire.client.runner import AsyncRunner, SyncRunner
    from skillwire.client.session import ClientSession
    from skillwire.model.execution import RemoteExecution
    from skillwire.model.lan import LanChange, LanScene, LanSkill, LanSnapshot, SceneResult
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.resolver.sources.lan import Providers


class Lan:
    """The local network, as an agent of this client knows it: from :attr:`Client.lan`.

    The agent is there from the first thing that is asked until the client is closed, and stays told of the groups that
    it has joined. Everything raises ``FetchError`` for ``LAN_UNAVAILABLE`` when there is no network to speak on and the
    cache has no answer. Nothing raises ``DISC_005``: it is why a scene was joined without a key, in ``no_key`` of what
    :meth:`request_scene` returns. Spec: SDP §3, §4, §11, §12.
    """

    def __init__(self, session: ClientSession, runner: SyncRunner) -> None:
        self._session, self._runner = session, runner
        self._flows = LanFlows(session, SyncLanThread)

    @property
    def settings(self) -> LanSettings:
        """The settings in force: the tables ``[discovery]``, or the file that ``SKILLWIRE_DISCOVERY`` names."""
        return self._flows.settings

    def discover(
        self,
        query: str = "",
        *,
        capabilities: Names = (),
        scenes: Names = (),
        types: Names = (),
        patience: float | None = None,
        quiet: float | None = None,
        refresh: bool = False,
    ) -> list[LanSkill]:
        """Ask for skills; return those that are found, whether or not they are verified and well, the best first.

        When nobody answers, what was found before is the answer as long as it is good; ``found_via`` says so.

        Args:
            query: words of an identifier, a capability or a scene; what has none of them is left out.
            capabilities: that each has to have.
            scenes: of which each has to be in one.
            types: of which each has to be one, such as ``tool-skill``.
            patience: seconds that answers are collected at most; those of the settings unless given.
            quiet: seconds without news after an answer that end it before; those of the settings unless given. With as
                many as ``patience`` it is never ended before.
            refresh: do without what was found before.

        Raises:
            UsageError: ``USAGE`` for one text where a list of names is wanted.
        """
        filters = self._flows.filters(capabilities, scenes, types, refresh=refresh)
        return self._runner.run(self._flows.discover(query, filters, patience, quiet))

    def skill(self, skill: LanSkill, *, use_unverified: bool | None = None) -> RemoteSkill:
        """Return a skill of the network, read at its server: to look at it, to install it, or to call it.

        This opens the address of that server, and no other; a credential that is kept for it goes there only if the
        skill is verified.

        Raises:
            TrustError: ``DISC_004``, nobody has certified it, and ``use_unverified`` does not say to use it anyway.
            FetchError: ``DISC_006``, its server does not publish it; and what the network says.
        """
        ref = self._runner.run(self._flows.locate(skill, use_unverified=use_unverified))
        return RemoteSkill(ref, self._session, self._runner)

    def providers(self, capability: str, *, use_unverified: bool | None = None) -> Providers:
        """Ask who offers a capability; return whom to try, one after the other.

        Raises:
            FetchError: ``DISC_001``, nobody has answered.
        """
        return self._runner.run(self._flows.providers(capability, use_unverified=use_unverified))

    def call(
        self,
        capability: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        use_unverified: bool | None = None,
        **options: Unpack[CallArguments],
    ) -> RemoteExecution:
        """Call a skill that offers a capability: the first that is well, or the next where that one fails.

        Another one is tried only when the one before has certainly not accepted the call, or nothing would happen
        twice. Who was passed over, and why, is reported; the execution's ``reference`` says who answered. Arguments are
        those of :meth:`Client.call`.

        Raises:
            NotFoundError: ``DISC_002``. TrustError: ``DISC_004``. FetchError: ``DISC_001``, ``DISC_006``. As
            :meth:`Client.call` otherwise.
        """
        flow = self._flows.call(capability, inputs or {}, options, use_unverified=use_unverified)
        return self._runner.run(flow)

    def request_scene(
        self,
        scene: str,
        capabilities: Names = (),
        *,
        join: bool = False,
        use_unverified: bool | None = None,
    ) -> SceneResult:
        """Ask for a scene; return how its provider is reached, and the group that was joined.

        We are told of changes in the group (:meth:`listen`) until :meth:`leave_scene`, or until the client is closed.

        Args:
            scene: such as ``auth``.
            capabilities: that its provider has to have.
            join: only join a scene that is known to be there, rather than ask for one.
            use_unverified: let the provider be one whose key nobody certified; as the settings say unless given.

        Returns:
            ``is_joined`` is False when nobody provides the scene, and ``is_missing`` tells whether somebody said so.
            ``connection_info`` has ``apiKey`` where the provider gave us a key, and ``authHeader``, the field of HTTP
            that it goes into. Where a key could not be had, ``no_key`` has the code (``DISC_005``, ``DISC_004``), the
            cause and what to do; what is public is there without one.

        Raises:
            TrustError: ``DISC_004``, the provider is not certified, or has not announced the scene itself.
            FetchError: ``OFFLINE``, ``LAN_UNAVAILABLE``.
            UsageError: ``USAGE`` for one text where a list is wanted.

        Spec: SDP §2.2, §4.2, §4.3.
        """
        flow = self._flows.request_scene(scene, capabilities, join=join, use_unverified=use_unverified)
        return self._runner.run(flow)

    def leave_scene(self, scene: str) -> None:
        """Leave the group of a scene; its other members drop us when our registration ends."""
        self._runner.run(self._flows.leave_scene(scene))

    def scenes(self) -> list[LanScene]:
        """Ask which scenes there are; return them with who provides each, by name."""
        return self._runner.run(self._flows.scenes())

    def snapshot(self) -> LanSnapshot:
        """Return the network as the agent knows it by now; it may have been there for a moment only."""
        return self._runner.run(self._flows.snapshot())

    def listen(self) -> Iterator[LanChange]:
        """Return the changes on the network, one after the other; a slow reader gets ``missed`` for those it lost.

        Members of a joined scene also announce changes, unsigned. A change that is not confirmed here a
        heartbeat later comes as ``notice``, a hint to ask for the scene again.
        """
        return self._flows.thread.each(LanFlows.listen)

    def close(self) -> None:
        """Say goodbye. What is asked afterwards begins anew."""
        self._flows.thread.close()
        self._runner.run(self._flows.keep())


class AsyncLan:
    """The same as :class:`Lan`, awaited."""

    def __init__(self, session: ClientSession, runner: AsyncRunner) -> None:
        self._session, self._runner = session, runner
        self._flows = LanFlows(session, AsyncLanThread)

    @property
    def settings(self) -> LanSettings:
        """The settings in force: the tables ``[discovery]``, or the file that ``SKILLWIRE_DISCOVERY`` names."""
        return self._flows.settings

    async def discover(
        self,
        query: str = "",
        *,
        capabilities: Names = (),
        scenes: Names = (),
        types: Names = (),
        patience: float | None = None,
        quiet: float | None = None,
        refresh: bool = False,
    ) -> list[LanSkill]:
        """As :meth:`Lan.discover`."""
        filters = self._flows.filters(capabilities, scenes, types, refresh=refresh)
        return await self._runner.run(self._flows.discover(query, filters, patience, quiet))

    async def skill(self, skill: LanSkill, *, use_unverified: bool | None = None) -> AsyncRemoteSkill:
        """As :meth:`Lan.skill`."""
        ref = await self._runner.run(self._flows.locate(skill, use_unverified=use_unverified))
        return AsyncRemoteSkill(ref, self._session, self._runner)

    async def providers(self, capability: str, *, use_unverified: bool | None = None) -> Providers:
        """As :meth:`Lan.providers`."""
        return await self._runner.run(self._flows.providers(capability, use_unverified=use_unverified))

    async def call(
        self,
        capability: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        use_unverified: bool | None = None,
        **options: Unpack[CallArguments],
    ) -> RemoteExecution:
        """As :meth:`Lan.call`."""
        return await self._runner.run(
            self._flows.call(capability, inputs or {}, options, use_unverified=use_unverified)
        )

    async def request_scene(
        self,
        scene: str,
        capabilities: Names = (),
        *,
        join: bool = False,
        use_unverified: bool | None = None,
    ) -> SceneResult:
        """As :meth:`Lan.request_scene`."""
        flow = self._flows.request_scene(scene, capabilities, join=join, use_unverified=use_unverified)
        return await self._runner.run(flow)

    async def leave_scene(self, scene: str) -> None:
        """As :meth:`Lan.leave_scene`."""
        await self._runner.run(self._flows.leave_scene(scene))

    async def scenes(self) -> list[LanScene]:
        """As :meth:`Lan.scenes`."""
        return await self._runner.run(self._flows.scenes())

    async def snapshot(self) -> LanSnapshot:
        """As :meth:`Lan.snapshot`."""
        return await self._runner.run(self._flows.snapshot())

    def listen(self) -> AsyncIterator[LanChange]:
        """As :meth:`Lan.listen`."""
        return self._flows.thread.each(LanFlows.listen)

    async def close(self) -> None:
        """As :meth:`Lan.close`."""
        await self._flows.thread.close()
        await self._runner.run(self._flows.keep())
