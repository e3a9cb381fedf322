"""The local network through a client: its skills and scenes, and what changes there.

:class:`Lan` and :class:`AsyncLan` run the same flows (:mod:`skillwire.client.lan_flows`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Unpack

from skillwire.client.runner import AsyncRunner, RunnerT, SyncRunner, awaited, documented_by
from skillwire.client.skill import AsyncRemoteSkill, RemoteSkill

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from skillwire.client.calls import CallArguments
    from skillwire.client.lan_flows import DiscoverOptions, Names
    from skillwire.client.session import ClientSession
    from skillwire.model.lan import LanChange, LanScene, LanSkill, LanSnapshot, SceneResult
    from skillwire.model.ref import SkillRef
    from skillwire.model.remote_execution import RemoteExecution
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.resolver.ladder import RungTrace
    from skillwire.resolver.sources.lan import Providers


class _LanBase(Generic[RunnerT]):
    def __init__(self, session: ClientSession, runner: RunnerT) -> None:
        self._session, self._runner, self._flows = session, runner, session.lan

    @property
    def settings(self) -> LanSettings:
        """The settings in force: the tables ``[discovery]``, or the file that ``SKILLWIRE_DISCOVERY`` names."""
        return self._flows.settings


class Lan(_LanBase[SyncRunner]):
    """The local network, as an agent of this client knows it: from :attr:`Client.lan`.

    The agent runs from the first request until the client is closed. Without a network and a cached answer every method
    raises ``FetchError`` (``LAN_UNAVAILABLE``). Spec: SDP §3, §4, §11, §12.
    """

    def discover(self, query: str = "", **options: Unpack[DiscoverOptions]) -> list[LanSkill]:
        """Return the skills on the network, verified or not, healthy or not, best first.

        If no agent answers, valid skills of the cache are returned; ``found_via`` shows this.

        Args:
            query: words of an identifier, a capability or a scene, all required.
            capabilities: all required.
            scenes: one required.
            types: one required, such as ``tool-skill``.
            patience: seconds to collect answers at most; by default as the settings say.
            quiet: seconds without a new answer that end it earlier; by default as the settings say.
            refresh: do not use the cache.
        """
        return self._runner.run(self._flows.discover(query, **options))

    def skill(
        self, skill: LanSkill | SkillRef, *, use_unverified: bool | None = None, timeout: float | None = None
    ) -> RemoteSkill:
        """Return a skill of the network, or of :meth:`next_provider`, read at its server: to show, install or call it.

        Only the address of that server is opened; a stored credential is sent to it only for a verified skill. The
        requests end within ``timeout`` seconds, and so do those for its descriptor.

        Raises:
            TrustError: ``DISC_004``, it has no certified key, and ``use_unverified`` is off.
            FetchError: ``DISC_006``, its server does not publish it.
        """
        ref = self._runner.run(self._flows.read(skill, use_unverified=use_unverified), timeout)
        return RemoteSkill(ref, self._session, self._runner, timeout)

    def providers(
        self, capability: str, *, use_unverified: bool | None = None, timeout: float | None = None
    ) -> Providers:
        """Return the providers of a capability, in call order; :meth:`next_provider` looks for them."""
        return self._flows.providers(capability, use_unverified=use_unverified, timeout=timeout)

    def next_provider(self, providers: Providers) -> SkillRef:
        """Return the provider to call next: of the network, then of the SkillCenter, then of the cache.

        Raises:
            NotFoundError: ``DISC_002``. TrustError: ``DISC_004``. FetchError: ``DISC_001``, ``DISC_006``, ``TIMEOUT``.
        """
        return self._runner.run(providers.next())

    def call(
        self,
        capability: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        use_unverified: bool | None = None,
        **options: Unpack[CallArguments],
    ) -> RemoteExecution:
        """Call the first healthy provider of a capability, or the next if that one fails. See :meth:`Client.call`.

        The next provider is called only if the one before has certainly not accepted the call, or the call is safe to
        repeat. Skipped providers are reported; the execution's ``reference`` names the provider.

        Raises:
            NotFoundError: ``DISC_002``. TrustError: ``DISC_004``. FetchError: ``DISC_001``, ``DISC_006``.
        """
        flow = self._session.call_capability(capability, inputs or {}, options, use_unverified=use_unverified)
        return self._runner.run(flow)

    def request_scene(
        self,
        scene: str,
        capabilities: Names = (),
        *,
        join: bool = False,
        use_unverified: bool | None = None,
        choose: Callable[[Sequence[SkillRef]], SkillRef | None] | None = None,
    ) -> SceneResult:
        """Request a scene; return the connection to its provider, and the group that was joined.

        :meth:`listen` returns the changes of its providers.

        Args:
            scene: such as ``auth``.
            capabilities: that its provider must have.
            join: only join a known scene, rather than request one.
            use_unverified: accept a provider without a certified key; by default as the settings say.
            choose: without a provider, gets the skills that the SkillCenter of the settings has for the scene, and
                returns the one to use: it is installed, and served for the scene until the client is closed.

        Returns:
            ``is_joined`` is False without a provider; ``is_missing`` if an agent said so. ``connection_info`` has
            ``apiKey`` if the provider gave a key, and ``authHeader``, its HTTP field. Without a key, which public
            skills do not need, ``no_key`` has the code (``DISC_005``, ``DISC_004``), the cause and the fix.

        Raises:
            TrustError: ``DISC_004``, the provider is not certified, or has not announced the scene itself.
            FetchError: ``OFFLINE``, ``LAN_UNAVAILABLE``.

        Spec: SDP §2.2, §4.2, §4.3.
        """
        flow = self._session.request_scene(scene, capabilities, choose, join=join, use_unverified=use_unverified)
        return self._runner.run(flow)

    def provide_scene(
        self, folder: Path, scene: str, capabilities: Names = (), *, port: int = 0, logs: bool = False
    ) -> SceneResult:
        """Serve the skill in ``folder`` for a scene until the client is closed, and join the scene. Spec: SDP §4.2.

        Args:
            folder: of an installed skill.
            scene: such as ``auth``.
            capabilities: of the skill, that the provider must have.
            port: of its server; a free one by default.
            logs: log its requests to standard error.

        Raises:
            FetchError: ``DISC_006``, the server ends; ``OFFLINE``, ``LAN_UNAVAILABLE``.
        """
        return self._runner.run(self._flows.provide_scene(folder, scene, capabilities, port=port, logs=logs))

    def scene_skills(
        self,
        scene: str,
        capabilities: Names = (),
        origins: Sequence[str] = (),
        after: Sequence[RungTrace] = (),
    ) -> list[RemoteSkill]:
        """Return installable skills for a scene: of SkillCenter, cache and sources, or else of ``origins``.

        Those that declare the scene come first. ``Client.rungs`` then begins with ``after``, the rungs of
        :meth:`request_scene`. Spec: SDP §4.2, §7.

        Raises:
            FetchError, DecodeError, ValidationError: none is reached, or its answer has another form.
        """
        found = self._runner.run(self._session.scene_skills(scene, tuple(capabilities), origins, after))
        return [RemoteSkill(skill, self._session, self._runner) for skill in found]

    def scenes(self, found: Sequence[LanSkill] | None = None) -> list[LanScene]:
        """Return the scenes of the network, or those of ``found`` skills, by name, each with its providers.

        A registry that answers decides about the order of providers that are trusted alike.
        """
        return self._runner.run(self._flows.scenes(found))

    def snapshot(self) -> LanSnapshot:
        """Return the network as the agent knows it; it may have run for a moment only."""
        return self._runner.run(self._flows.snapshot())

    def listen(self) -> Iterator[LanChange]:
        """Start the agent, and return the changes from this call on; a slow reader gets ``missed`` for lost ones."""
        return self._flows.thread.listen()

    def close(self) -> None:
        """Say goodbye. A later request starts a new agent."""
        self._flows.close()
        self._runner.run(self._flows.save())


@documented_by(Lan)
class AsyncLan(_LanBase[AsyncRunner]):
    """The same as :class:`Lan`, awaited."""

    discover = awaited(Lan.discover)

    async def skill(
        self, skill: LanSkill | SkillRef, *, use_unverified: bool | None = None, timeout: float | None = None
    ) -> AsyncRemoteSkill:
        ref = await self._runner.run(self._flows.read(skill, use_unverified=use_unverified), timeout)
        return AsyncRemoteSkill(ref, self._session, self._runner, timeout)

    async def providers(
        self, capability: str, *, use_unverified: bool | None = None, timeout: float | None = None
    ) -> Providers:
        return self._flows.providers(capability, use_unverified=use_unverified, timeout=timeout)

    next_provider = awaited(Lan.next_provider)
    call = awaited(Lan.call)
    request_scene = awaited(Lan.request_scene)
    provide_scene = awaited(Lan.provide_scene)

    async def scene_skills(
        self,
        scene: str,
        capabilities: Names = (),
        origins: Sequence[str] = (),
        after: Sequence[RungTrace] = (),
    ) -> list[AsyncRemoteSkill]:
        found = await self._runner.run(self._session.scene_skills(scene, tuple(capabilities), origins, after))
        return [AsyncRemoteSkill(skill, self._session, self._runner) for skill in found]

    scenes = awaited(Lan.scenes)
    snapshot = awaited(Lan.snapshot)

    def listen(self) -> AsyncIterator[LanChange]:
        return self._flows.thread.listen_awaited()

    async def close(self) -> None:
        await asyncio.to_thread(self._flows.close)
        await self._runner.run(self._flows.save())
