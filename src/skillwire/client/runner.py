"""How the steps of a flow are done: in place, or awaited. All that the two clients differ in stands here.

A flow (:mod:`skillwire.wire.exchange`) decides; these drive it. The connections are opened with the first
conversation, under the address policy that the workplace has at that moment.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from skillwire.wire.exchange import All, Fetch, Sleep

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skillwire.adapters.http.asynchronous import AsyncDriver
    from skillwire.adapters.http.sync import SyncDriver
    from skillwire.client.session import ClientSession
    from skillwire.testing.publisher import SimulatedPublisher
    from skillwire.wire.exchange import Flow, Step


BlockingDriver: TypeAlias = "SyncDriver | SimulatedPublisher"
AwaitedDriver: TypeAlias = "AsyncDriver"

T = TypeVar("T")


class SyncRunner:
    """Each step in place, with the standard library only. Tests may set another ``pause``."""

    def __init__(self, workplace: ClientSession) -> None:
        self._workplace = workplace
        self.driver: BlockingDriver | None = None
        self.pause: Callable[[float], object] = time.sleep

    def run(self, flow: Flow[T]) -> T:
        """Drive ``flow`` to its end and return its result."""
        flow = self._workplace.leave.sending(flow)
        try:
            step = next(flow)
            while True:
                try:
                    result = self._do(step)
                except BaseException as error:  # noqa: BLE001  # an interruption, too, is for the flow to clean up after
                    step = flow.throw(error)
                else:
                    step = flow.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # StopIteration.value is typed Any

    def close(self) -> None:
        """Close the connections. The next conversation opens new ones."""
        if self.driver is not None:
            self.driver.close()
            self.driver = None

    def _do(self, step: Step) -> Any:
        if isinstance(step, Fetch):
            return self._http().run(step.exchange)
        if isinstance(step, All):
            return self._http().run_all(step.exchanges, on_done=step.on_done)
        return self.pause(step.seconds) if isinstance(step, Sleep) else step.call()

    def _http(self) -> BlockingDriver:
        if self.driver is None:
            from skillwire.adapters.http.sync import SyncDriver  # noqa: PLC0415  # not every command connects

            self.driver = SyncDriver(self._workplace.leave.addresses)
        self.driver.policy = self._workplace.leave.addresses
        self.driver.on_traffic = self._workplace.on_traffic
        return self.driver


class AsyncRunner:
    """Conversations on the event loop, work on files in threads. Tests may set another ``pause``."""

    def __init__(self, workplace: ClientSession) -> None:
        self._workplace = workplace
        self.driver: AwaitedDriver | None = None
        self.pause: Callable[[float], Awaitable[object]] = _sleep

    async def run(self, flow: Flow[T]) -> T:
        """Drive ``flow`` to its end and return its result."""
        flow = self._workplace.leave.sending(flow)
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

    async def close(self) -> None:
        """Close the connections. The next conversation opens new ones."""
        if self.driver is not None:
            await self.driver.close()
            self.driver = None

    async def _do(self, step: Step) -> Any:
        if isinstance(step, Fetch):
            return await self._http().run(step.exchange)
        if isinstance(step, All):
            return await self._http().run_all(step.exchanges, on_done=step.on_done)
        if isinstance(step, Sleep):
            return await self.pause(step.seconds)
        import asyncio  # noqa: PLC0415  # the synchronous client does without

        return await asyncio.to_thread(step.call)

    def _http(self) -> AwaitedDriver:
        if self.driver is None:
            from skillwire.adapters.http.asynchronous import AsyncDriver  # noqa: PLC0415  # asyncio is heavy

            self.driver = AsyncDriver(self._workplace.leave.addresses)
        self.driver.policy = self._workplace.leave.addresses
        self.driver.on_traffic = self._workplace.on_traffic
        return self.driver


async def _sleep(seconds: float) -> None:
    import asyncio  # noqa: PLC0415  # the synchronous client does without

    await asyncio.sleep(seconds)
