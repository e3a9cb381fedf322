"""The asynchronous client: conversations on the event loop, work on files in threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from skillwire.client.remote import AsyncRemoteSkill
from skillwire.client.workplace import Workplace
from skillwire.resolver.flow import Fetch, FetchAll

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from skillwire.adapters.http.asynchronous import AsyncDriver
    from skillwire.resolver.flow import Flow, Work
    from skillwire.resolver.install import Report

T = TypeVar("T")


class AsyncClient(Workplace):
    """The asynchronous client: the same verbs, awaited. An asynchronous context manager."""

    #: Drives the conversations; opened when the first one is held.
    driver: AsyncDriver | None = None

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self.driver is not None:
            await self.driver.close()
            self.driver = None

    async def index(self, origin: str) -> list[AsyncRemoteSkill]:
        """Return the skills of an origin, or of whatever index ``origin`` leads to."""
        return [AsyncRemoteSkill(self, skill) for skill in await self.run(self.locate(origin))]

    async def skill(self, reference: str) -> AsyncRemoteSkill:
        """Return the one skill that ``reference`` means."""
        return AsyncRemoteSkill(self, await self.run(self.locate_one(reference)))

    async def add(
        self,
        *references: str,
        agents: Sequence[str] = (),
        consent: bool = False,
        overwrite: bool = False,
        copy: bool | None = None,
    ) -> Report:
        """Install skills, as :meth:`Client.add` does."""
        plan = await self.run(self.plan(references, agents, copy=copy))
        return await self.run(self.apply(plan, consent=consent, overwrite=overwrite))

    async def run(self, flow: Flow[T]) -> T:
        """Drive a flow: conversations are awaited, work goes to a thread."""
        try:
            step = next(flow)
            while True:
                try:
                    result = await self._do(step)
                except BaseException as error:  # noqa: BLE001  # an interruption, too, is for the flow to clean up after
                    step = flow.throw(error)
                else:
                    step = flow.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # StopIteration.value is typed Any

    async def _do(self, step: Fetch | FetchAll | Work) -> Any:
        if isinstance(step, Fetch):
            return await self._http().run(step.exchange)
        if isinstance(step, FetchAll):
            return await self._http().run_all(step.exchanges, on_done=step.on_done)
        import asyncio  # noqa: PLC0415  # the synchronous client does without

        return await asyncio.to_thread(step.call)

    def _http(self) -> AsyncDriver:
        if self.driver is None:
            from skillwire.adapters.http.asynchronous import AsyncDriver  # noqa: PLC0415  # asyncio is heavy

            self.driver = AsyncDriver(self.addresses)
        self.driver.policy = self.addresses
        return self.driver
