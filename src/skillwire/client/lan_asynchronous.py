"""The local network: its skills and scenes, awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from skillwire.client.lan import Filters, listed, scenes_of
from skillwire.client.lan_thread import AsyncLanThread
from skillwire.errors import FetchError, SkillwireError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from skillwire.adapters.lan.agent import LanAgent
    from skillwire.client.asynchronous import AsyncRemoteSkill
    from skillwire.client.call_values import CallArguments
    from skillwire.client.lan import LanAnswers, Names
    from skillwire.client.runner import AsyncRunner
    from skillwire.client.session import ClientSession
    from skillwire.model.execution import RemoteExecution
    from skillwire.model.lan import LanChange, LanScene, LanSkill, LanSnapshot, SceneResult
    from skillwire.protocols.skill_discovery.settings import LanSettings
    from skillwire.resolver.sources.lan import Providers, Stage


class AsyncLan:
    """The local network, as an agent of this client knows it: from :attr:`AsyncClient.lan`.

    The agent is there from the first thing that is asked until the client is closed, and stays told of the groups that
    it has joined. Everything raises ``FetchError`` for ``LAN_UNAVAILABLE`` when there is no network to speak on and the
    cache has no answer. Nothing raises ``DISC_005``: it is why a scene was joined without a key, in ``no_key`` of what
    :meth:`request_scene` returns. Spec: SDP §3, §4, §11, §12.
    """

    def __init__(self, session: ClientSession, runner: AsyncRunner, thread: AsyncLanThread | None = None) -> None:
        self._session, self._runner = session, runner
        self._access = session.lan
        self._is_silent = False
        self._thread = thread or AsyncLanThread(self._access.make_agent, self._access.live)

    @property
    def settings(self) -> LanSettings:
        """The settings in force: the tables ``[discovery]``, or the file that ``SKILLWIRE_DISCOVERY`` names."""
        return self._access.settings

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
        filters = Filters(
            listed("capabilities", capabilities), listed("scenes", scenes), listed("types", types), refresh
        )
        return await self._discover(query, filters, lambda agent: self._access.ask(agent, filters, patience, quiet))

    async def _discover(
        self, query: str, filters: Filters, ask: Callable[[LanAgent], Coroutine[Any, Any, LanAnswers]]
    ) -> list[LanSkill]:
        if self._access.is_offline:
            return await self._runner.run(self._access.kept(query, filters))
        try:
            heard = await self._thread.run(ask)
        except FetchError as error:
            return await self._runner.run(self._access.failed(query, filters, error))
        self._is_silent = not heard.is_anybody_there
        return await self._runner.run(self._access.answer(query, filters, heard))

    async def skill(self, skill: LanSkill, *, use_unverified: bool | None = None) -> AsyncRemoteSkill:
        """Return a skill of the network, read at its server: to look at it, to install it, or to call it.

        This opens the address of that server, and no other; a credential that is kept for it goes there only if the
        skill is verified.

        Raises:
            TrustError: ``DISC_004``, nobody has certified it, and ``use_unverified`` does not say to use it anyway.
            FetchError: ``DISC_006``, its server does not publish it; and what the network says.
        """
        from skillwire.client.asynchronous import AsyncRemoteSkill  # noqa: PLC0415  # it imports this module

        located = await self._runner.run(self._access.locate(skill, use_unverified=use_unverified))
        return AsyncRemoteSkill(located, self._session, self._runner)

    async def providers(self, capability: str, *, use_unverified: bool | None = None) -> Providers:
        """Ask who offers a capability; return whom to try, one after the other.

        Raises:
            FetchError: ``DISC_001``, nobody has answered.
        """
        filters = Filters((capability,), (), ())
        found = await self._discover(
            "", filters, lambda agent: self._access.ask_for_one(agent, filters, use_unverified=use_unverified)
        )
        if not found and self._is_silent:
            raise self._access.silence()
        return self._access.providers(capability, found, use_unverified=use_unverified)

    async def call(
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
        those of :meth:`AsyncClient.call`.

        Raises:
            NotFoundError: ``DISC_002``. TrustError: ``DISC_004``. FetchError: ``DISC_001``, ``DISC_006``. As
            :meth:`AsyncClient.call` otherwise.
        """
        providers = await self.providers(capability, use_unverified=use_unverified)
        while True:
            one, is_safe = providers.next(), False
            stage: Stage = "reading"
            try:
                skill = await self.skill(one, use_unverified=use_unverified)
                await skill.descriptor()
                stage = "checking"
                is_safe = (await skill.prepare(inputs, **options)).method == "GET"
                stage = "calling"
                execution = await skill.call(inputs, **options)
            except SkillwireError as error:
                providers.failed(one, error, stage, is_safe=is_safe)
            else:
                self._access.tell(providers)
                return execution

    async def request_scene(
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
            TrustError: ``DISC_004``, nobody has certified the provider, or only others have told of it.
            FetchError: ``OFFLINE``, ``LAN_UNAVAILABLE``.
            UsageError: ``USAGE`` for one text where a list is wanted.

        Spec: SDP §2.2, §4.2, §4.3.
        """
        wanted = listed("capabilities", capabilities)
        self._access.check_online()
        return await self._thread.run(
            lambda agent: self._access.request(agent, scene, wanted, is_join=join, use_unverified=use_unverified)
        )

    async def leave_scene(self, scene: str) -> None:
        """Leave the group of a scene; those who tell of it forget us by and by."""
        await self._thread.run(lambda agent: self._access.leave(agent, scene))

    async def scenes(self) -> list[LanScene]:
        """Ask which scenes there are; return them with who provides each, by name."""
        return scenes_of(await self.discover())

    async def snapshot(self) -> LanSnapshot:
        """Return the network as the agent knows it by now; it may have been there for a moment only."""
        return await self._thread.run(self._access.snapshot)

    def listen(self) -> AsyncIterator[LanChange]:
        """Return what happens on the network, one change after the other; a slow reader is told ``missed``.

        In the group of a scene that was joined others tell of changes, too, unsigned. What does not look so from here a
        heartbeat later comes as ``notice``, a hint to ask for the scene again.
        """
        return self._thread.each(self._access.listen)

    async def close(self) -> None:
        """Say goodbye. What is asked afterwards begins anew."""
        await self._thread.close()
        await self._runner.run(self._access.keep())
