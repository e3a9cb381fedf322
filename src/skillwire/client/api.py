"""The asynchronous client: conversations on the event loop, work on files in threads. Documented by :class:`Client`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from skillwire.client.lan import AsyncLan
from skillwire.client.registry import AsyncRemoteRegistry
from skillwire.client.rpc import AsyncRpcSkills
from skillwire.client.runner import AsyncRunner, awaited, documented_by
from skillwire.client.session import ClientBase
from skillwire.client.skill import AsyncCallWatch, AsyncRemoteSkill
from skillwire.client.sync import Client
from skillwire.model.typed_output import check_type
from skillwire.resolver.references import endpoint_url
from skillwire.wire.exchange import TimeLimit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skillwire.client.calls import CallArguments
    from skillwire.model.remote_execution import RemoteExecution

T = TypeVar("T")


@documented_by(Client)
class AsyncClient(ClientBase[AsyncRunner]):
    """The same as :class:`Client`, awaited: requests on the event loop, work on files in threads."""

    _runner_class = AsyncRunner

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self.close()

    @cached_property
    def lan(self) -> AsyncLan:
        """The local network: its skills and scenes, and changes there. Nothing is asked yet."""
        return AsyncLan(self._session, self._runner)

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
        return AsyncRemoteSkill(ref, self._session, self._runner, limit.left(), reference)

    which = awaited(Client.which)

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

    sharing_document = awaited(Client.sharing_document)
    plan = awaited(Client.plan)
    plan_locked = awaited(Client.plan_locked)
    plan_update = awaited(Client.plan_update)
    inspect = awaited(Client.inspect)
    hold_back = awaited(Client.hold_back)
    diff = awaited(Client.diff)
    apply = awaited(Client.apply)
    add = awaited(Client.add)
    installed = awaited(Client.installed)
    verify = awaited(Client.verify)
    remove = awaited(Client.remove)
    compare = awaited(Client.compare)
    outdated = awaited(Client.outdated)
    update = awaited(Client.update)
    trusted_origins = awaited(Client.trusted_origins)
    revoke_trust = awaited(Client.revoke_trust)

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

    execution = awaited(Client.execution)
    result = awaited(Client.result)
    cancel = awaited(Client.cancel)

    def registry(self, url: str = "") -> AsyncRemoteRegistry:
        return AsyncRemoteRegistry(self._session.registry_url(url), self._session, self._runner)

    def rpc(self, endpoint: str) -> AsyncRpcSkills:
        return AsyncRpcSkills(endpoint_url(endpoint), self._session, self._runner)
