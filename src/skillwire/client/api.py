"""The asynchronous client: conversations on the event loop, work on files in threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, Unpack

from skillwire.client.runner import AsyncRunner
from skillwire.client.session import ClientSession
from skillwire.client.skill import AsyncRemoteSkill
from skillwire.resolver.references import endpoint_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from skillwire.adapters.http.asynchronous import AsyncDriver
    from skillwire.client.calls import CallArguments
    from skillwire.client.lan import AsyncLan
    from skillwire.client.rpc import AsyncRpcSkills
    from skillwire.model.execution import RemoteExecution
    from skillwire.model.install import LockedSkill, OriginRecord
    from skillwire.model.skill import Finding
    from skillwire.resolver.apply import InstallReport
    from skillwire.resolver.lockfile import Verification
    from skillwire.resolver.plan import InstallPlan, InstallPolicy, UpdateComparison
    from skillwire.resolver.settings import Settings
    from skillwire.resolver.which import Resolution


class AsyncClient:
    """The same as :class:`Client`, awaited: requests on the event loop, work on files in threads."""

    def __init__(
        self,
        project: Path | str = ".",
        *,
        for_user: bool = False,
        tokens: Mapping[str, str] | None = None,
        settings: Settings | None = None,
        policy: InstallPolicy | None = None,
        offline: bool | None = None,
        refresh: bool = False,
        report: Callable[[Finding], object] = lambda _: None,
        on_traffic: Callable[[str, int], object] = lambda *_: None,
    ) -> None:
        self._session = ClientSession(
            project,
            for_user=for_user,
            tokens=tokens or {},
            settings=settings,
            policy=policy,
            offline=offline,
            refresh=refresh,
            report=report,
            on_traffic=on_traffic,
        )
        self._runner = AsyncRunner(self._session)
        self._lan: AsyncLan | None = None

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.close()

    @property
    def root(self) -> Path:
        """As :meth:`Client.root`."""
        return self._session.root

    @property
    def driver(self) -> AsyncDriver | None:
        """What holds the conversations; None until the first one. Tests set a simulated publisher."""
        return self._runner.driver

    @driver.setter
    def driver(self, driver: AsyncDriver | None) -> None:
        self._runner.driver = driver

    @property
    def lan(self) -> AsyncLan:
        """As :meth:`Client.lan`."""
        if self._lan is None:
            from skillwire.client.lan import AsyncLan  # noqa: PLC0415  # installing does without

            self._lan = AsyncLan(self._session, self._runner)
        return self._lan

    def set_token(self, origin: str, token: str) -> None:
        """As :meth:`Client.set_token`."""
        self._session.access.set_token(origin, token)

    async def close(self) -> None:
        """As :meth:`Client.close`."""
        try:
            if self._lan is not None:
                await self._lan.close()
        finally:
            await self._runner.close()

    async def index(self, origin: str) -> list[AsyncRemoteSkill]:
        """As :meth:`Client.index`."""
        found = await self._runner.run(self._session.resolve(origin))
        return [AsyncRemoteSkill(skill, self._session, self._runner) for skill in found]

    async def show(self, reference: str, *, both: bool = False) -> AsyncRemoteSkill:
        """As :meth:`Client.show`."""
        ref = await self._runner.run(self._session.resolve_one(reference, both=both))
        return AsyncRemoteSkill(ref, self._session, self._runner)

    async def which(self, reference: str, *, explain: bool = False) -> Resolution:
        """As :meth:`Client.which`."""
        return await self._runner.run(self._session.which(reference, explain=explain))

    async def find(
        self, query: str = "", origins: Sequence[str] | str = (), *, capability_type: str | None = None
    ) -> list[tuple[AsyncRemoteSkill, float]]:
        """As :meth:`Client.find`."""
        hits = await self._runner.run(self._session.search(query, origins, capability_type))
        return [(AsyncRemoteSkill(skill, self._session, self._runner), score) for skill, score in hits]

    async def sharing_document(self, url: str) -> bytes:
        """As :meth:`Client.sharing_document`."""
        return await self._runner.run(self._session.sharing_document(url))

    async def plan(self, *references: str, agents: Sequence[str] = (), copy: bool | None = None) -> InstallPlan:
        """As :meth:`Client.plan`."""
        return await self._runner.run(self._session.plan(references, agents, copy=copy))

    async def plan_locked(self, *names: str) -> InstallPlan:
        """As :meth:`Client.plan_locked`."""
        return await self._runner.run(self._session.plan_locked(names))

    async def plan_update(self, comparisons: Sequence[UpdateComparison]) -> InstallPlan:
        """As :meth:`Client.plan_update`."""
        return await self._runner.run(self._session.plan_update(comparisons))

    async def apply(
        self,
        plan: InstallPlan,
        *,
        consent: bool = False,
        overwrite: bool = False,
        on_done: Callable[[], object] = lambda: None,
    ) -> InstallReport:
        """As :meth:`Client.apply`."""
        flow = self._session.apply(plan, consent=consent, overwrite=overwrite, on_done=on_done)
        return await self._runner.run(flow)

    async def add(
        self,
        *references: str,
        agents: Sequence[str] = (),
        consent: bool = False,
        overwrite: bool = False,
        copy: bool | None = None,
    ) -> InstallReport:
        """As :meth:`Client.add`."""
        flow = self._session.add(references, agents, consent=consent, overwrite=overwrite, copy=copy)
        return await self._runner.run(flow)

    async def installed(self) -> list[LockedSkill]:
        """As :meth:`Client.installed`."""
        return await self._runner.run(self._session.installed())

    async def verify(self, *names: str) -> Verification:
        """As :meth:`Client.verify`."""
        return await self._runner.run(self._session.verify(names))

    async def remove(self, *names: str) -> list[LockedSkill]:
        """As :meth:`Client.remove`."""
        return await self._runner.run(self._session.remove(names))

    async def compare(self, *names: str) -> list[UpdateComparison]:
        """As :meth:`Client.compare`."""
        return await self._runner.run(self._session.compare(names))

    async def outdated(self, *names: str) -> list[UpdateComparison]:
        """As :meth:`Client.outdated`."""
        return await self._runner.run(self._session.outdated(names))

    async def update(self, *names: str, consent: bool = False, overwrite: bool = False) -> InstallReport:
        """As :meth:`Client.update`."""
        return await self._runner.run(self._session.update(names, consent=consent, overwrite=overwrite))

    async def trusted_origins(self) -> dict[str, OriginRecord]:
        """As :meth:`Client.trusted_origins`."""
        return await self._runner.run(self._session.trusted_origins())

    async def revoke_trust(self, origin: str, *, dry_run: bool = False) -> list[str]:
        """As :meth:`Client.revoke_trust`."""
        return await self._runner.run(self._session.revoke_trust(origin, dry_run=dry_run))

    async def call(
        self,
        reference: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        use_unverified: bool | None = None,
        **options: Unpack[CallArguments],
    ) -> RemoteExecution:
        """As :meth:`Client.call`."""
        if reference.startswith("lan:"):
            from skillwire.resolver.sources.lan import lan_capability  # noqa: PLC0415  # few calls are of the local network

            if (capability := lan_capability(reference)) is not None:
                return await self.lan.call(capability, inputs, use_unverified=use_unverified, **options)
        return await (await self.show(reference)).call(inputs, **options)

    async def execution(self, execution: str) -> RemoteExecution:
        """As :meth:`Client.execution`."""
        return await self._runner.run(self._session.calls.status(execution))

    async def result(
        self,
        execution: str,
        *,
        timeout: float | None = None,
        on_change: Callable[[RemoteExecution], object] = lambda _: None,
    ) -> RemoteExecution:
        """As :meth:`Client.result`."""
        return await self._runner.run(self._session.calls.wait(execution, timeout, on_change))

    async def cancel(self, execution: str) -> RemoteExecution:
        """As :meth:`Client.cancel`."""
        return await self._runner.run(self._session.calls.cancel(execution))

    def rpc(self, endpoint: str) -> AsyncRpcSkills:
        """As :meth:`Client.rpc`."""
        from skillwire.client.rpc import AsyncRpcSkills  # noqa: PLC0415  # installing does without

        return AsyncRpcSkills(endpoint_url(endpoint), self._session, self._runner)
