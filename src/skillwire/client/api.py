"""The asynchronous client: conversations on the event loop, work on files in threads. Documented by :class:`Client`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from skillwire.client.lan import AsyncLan
from skillwire.client.registry import AsyncRemoteRegistry
from skillwire.client.rpc import AsyncRpcSkills
from skillwire.client.runner import AsyncRunner, documented_by
from skillwire.client.session import ClientBase
from skillwire.client.skill import AsyncRemoteSkill
from skillwire.client.sync import Client
from skillwire.client.watch import AsyncCallWatch
from skillwire.model.typed_output import check_type
from skillwire.resolver.lockfile import Verification, remove, verify
from skillwire.resolver.references import endpoint_url
from skillwire.wire.exchange import TimeLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from types import TracebackType

    from skillwire.client.calls import CallArguments
    from skillwire.errors import SkillwireError
    from skillwire.folder.review import SkillReview
    from skillwire.model.install import LockedSkill, OriginRecord
    from skillwire.model.ref import SkillRef
    from skillwire.model.remote_execution import RemoteExecution
    from skillwire.resolver.apply import InstallReport
    from skillwire.resolver.plan import InstallPlan, UpdateComparison
    from skillwire.resolver.which import Resolution

T = TypeVar("T")


@documented_by(Client)
class AsyncClient(ClientBase[AsyncRunner]):
    """The same as :class:`Client`, awaited: requests on the event loop, work on files in threads."""

    _runner_class = AsyncRunner
    _lan: AsyncLan | None = None

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.close()

    @property
    def lan(self) -> AsyncLan:
        """The local network: its skills and scenes, and changes there. Nothing is asked yet."""
        if self._lan is None:
            self._lan = AsyncLan(self._session, self._runner)
        return self._lan

    async def close(self) -> None:
        try:
            if self._session.is_on_lan:
                await self.lan.close()
        finally:
            await self._runner.close()

    async def index(self, origin: str, *, timeout: float | None = None) -> list[AsyncRemoteSkill]:
        found = await self._runner.run(self._session.resolve(origin), timeout)
        return [AsyncRemoteSkill(skill, self._session, self._runner) for skill in found]

    async def show(self, reference: str, *, both: bool = False, timeout: float | None = None) -> AsyncRemoteSkill:
        limit = TimeLimit(timeout)
        ref = await self._runner.run(self._session.resolve_one(reference, both=both), timeout)
        return AsyncRemoteSkill(ref, self._session, self._runner, limit.left())

    async def which(self, reference: str, *, explain: bool = False, timeout: float | None = None) -> Resolution:
        return await self._runner.run(self._session.which(reference, explain=explain), timeout)

    async def find(
        self,
        query: str = "",
        origins: Sequence[str] | str = (),
        *,
        capability_type: str | None = None,
        timeout: float | None = None,
    ) -> list[tuple[AsyncRemoteSkill, float]]:
        hits = await self._runner.run(self._session.search(query, origins, capability_type), timeout)
        return [(AsyncRemoteSkill(skill, self._session, self._runner), score) for skill, score in hits]

    async def sharing_document(self, url: str) -> bytes:
        return await self._runner.run(self._session.sharing_document(url))

    async def plan(
        self,
        *references: str,
        agents: Sequence[str] = (),
        copy: bool | None = None,
        choose: Callable[[Sequence[SkillRef]], Sequence[SkillRef]] | None = None,
        timeout: float | None = None,
    ) -> InstallPlan:
        return await self._runner.run(self._session.plan(references, agents, copy=copy, choose=choose), timeout)

    async def plan_locked(self, *names: str) -> InstallPlan:
        return await self._runner.run(self._session.plan_locked(names))

    async def plan_update(self, comparisons: Sequence[UpdateComparison]) -> InstallPlan:
        return await self._runner.run(self._session.plan_update(comparisons))

    async def inspect(
        self, plan: InstallPlan, *, consent: bool = False, on_done: Callable[[], object] = lambda: None
    ) -> InstallPlan:
        return await self._runner.run(self._session.inspect(plan, consent=consent, on_done=on_done))

    async def hold_back(
        self, plan: InstallPlan, accept: Collection[str] = (), declined: Collection[str] = ()
    ) -> tuple[InstallPlan, dict[str, SkillwireError]]:
        return await self._runner.run(self._session.hold_back(plan, accept, declined))

    async def diff(self, reference: str, version: str = "", *, timeout: float | None = None) -> SkillReview:
        return await self._runner.run(self._session.diff(reference, version), timeout)

    async def apply(
        self,
        plan: InstallPlan,
        *,
        consent: bool = False,
        overwrite: bool = False,
        on_done: Callable[[], object] = lambda: None,
    ) -> InstallReport:
        flow = self._session.apply(plan, consent=consent, overwrite=overwrite, on_done=on_done)
        return await self._runner.run(flow)

    async def add(
        self,
        *references: str,
        agents: Sequence[str] = (),
        consent: bool = False,
        overwrite: bool = False,
        copy: bool | None = None,
        timeout: float | None = None,
    ) -> InstallReport:
        flow = self._session.add(references, agents, consent=consent, overwrite=overwrite, copy=copy)
        return await self._runner.run(flow, timeout)

    async def installed(self) -> list[LockedSkill]:
        return await self._runner.run(self._session.installed())

    async def verify(self, *names: str) -> Verification:
        return await self._runner.run(verify(self._session.folder, names))

    async def remove(self, *names: str, overwrite: bool = False) -> list[LockedSkill]:
        return await self._runner.run(remove(self._session.folder, names, overwrite=overwrite))

    async def compare(self, *names: str, to: str = "") -> list[UpdateComparison]:
        return await self._runner.run(self._session.compare(names, to))

    async def outdated(self, *names: str, timeout: float | None = None) -> list[UpdateComparison]:
        return await self._runner.run(self._session.outdated(names), timeout)

    async def update(
        self,
        *names: str,
        accept: Collection[str] = (),
        consent: bool = False,
        overwrite: bool = False,
        timeout: float | None = None,
    ) -> InstallReport:
        flow = self._session.update(names, accept, consent=consent, overwrite=overwrite)
        return await self._runner.run(flow, timeout)

    async def trusted_origins(self) -> dict[str, OriginRecord]:
        return await self._runner.run(self._session.trusted_origins())

    async def revoke_trust(self, origin: str, *, dry_run: bool = False) -> list[str]:
        return await self._runner.run(self._session.revoke_trust(origin, dry_run=dry_run))

    @overload
    async def call(
        self,
        reference: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        into: None = None,
        use_unverified: bool | None = None,
        **options: Unpack[CallArguments],
    ) -> RemoteExecution: ...

    @overload
    async def call(
        self,
        reference: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        into: type[T],
        use_unverified: bool | None = None,
        **options: Unpack[CallArguments],
    ) -> T: ...

    async def call(
        self,
        reference: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        into: type[T] | None = None,
        use_unverified: bool | None = None,
        **options: Unpack[CallArguments],
    ) -> RemoteExecution | T:
        if into is not None:
            check_type(into)
        flow = self._session.call_reference(reference, inputs or {}, options, use_unverified=use_unverified)
        execution = await self._runner.run(flow)
        return execution if into is None else execution.output_as(into)

    def watch(
        self,
        reference: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        use_unverified: bool | None = None,
        **options: Unpack[CallArguments],
    ) -> AsyncCallWatch:
        return AsyncCallWatch(
            self._runner, self._session, reference, inputs or {}, options, use_unverified=use_unverified
        )

    async def execution(self, execution: str) -> RemoteExecution:
        return await self._runner.run(self._session.calls.status(execution))

    async def result(
        self,
        execution: str,
        *,
        timeout: float | None = None,
        on_change: Callable[[RemoteExecution], object] = lambda _: None,
    ) -> RemoteExecution:
        return await self._runner.run(self._session.calls.wait(execution, timeout, on_change))

    async def cancel(self, execution: str) -> RemoteExecution:
        return await self._runner.run(self._session.calls.cancel(execution))

    def registry(self, url: str = "") -> AsyncRemoteRegistry:
        return AsyncRemoteRegistry(self._session.registry_url(url), self._session, self._runner)

    def rpc(self, endpoint: str) -> AsyncRpcSkills:
        return AsyncRpcSkills(endpoint_url(endpoint), self._session, self._runner)
