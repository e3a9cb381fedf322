"""The thread of a client's agent on the local network, with an event loop of its own.

An agent listens and answers while the program does something else, so it cannot live on the loop of a program that has
none, or of one that ends with each ``asyncio.run``. The thread begins with the first request to the agent, and ends
with :meth:`LanThread.end`. Both clients use it; they differ in how they wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from skillwire.errors import FetchError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from concurrent.futures import Future

    from skillwire.adapters.lan.agent import LanAgent

T = TypeVar("T")


#: Makes the agent; called in a thread. Runs beside the agent, from its start to its end.
MakeAgent: TypeAlias = "Callable[[], LanAgent]"
Live: TypeAlias = "Callable[[LanAgent], Coroutine[Any, Any, None]]"

_PATIENCE: Final = 10.0  # seconds for the goodbyes of an agent that is stopped
_TURNS: Final = 4  # of the loop, after which waiters have got the start or a last value
_SLACK: Final = 2.0  # more seconds, to cancel the remaining tasks


class _Life:
    """One agent from its start to its end, on a thread and a loop that are never reused."""

    def __init__(self, make: MakeAgent, live: Live) -> None:
        self._make, self._live = make, live
        self._starting: asyncio.Task[LanAgent] | None = None
        self._living: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="skillwire-lan", daemon=True)
        self._thread.start()

    def submit(self, use: Callable[[LanAgent], Coroutine[Any, Any, T]]) -> Future[T]:
        """Begin ``use`` with the agent. Not after :meth:`end`: the loop would never run it."""
        return asyncio.run_coroutine_threadsafe(self._use(use), self._loop)

    def end(self) -> None:
        """Stop the agent, cancel the running tasks, and end the thread; once only."""
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(_PATIENCE + _SLACK)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._wait_and_stop())

    async def _wait_and_stop(self) -> None:
        await self._ending.wait()
        with contextlib.suppress(Exception):  # it ends either way, and nothing waits for the error
            async with asyncio.timeout(_PATIENCE):
                if self._starting is not None:
                    await (await self._starting).stop()
        for _ in range(_TURNS):  # listeners see the end of the changes rather than a cancellation
            await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        # Awaited, since the runner would log each error, which its caller gets already.
        await asyncio.gather(*left, return_exceptions=True)

    async def _use(self, use: Callable[[LanAgent], Coroutine[Any, Any, T]]) -> T:
        if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
            self._starting = asyncio.ensure_future(self._start())
        try:
            return await use(await asyncio.shield(self._starting))
        except asyncio.CancelledError:
            if not self._ending.is_set():
                raise
            message = "the client was closed before the local network had answered"
            raise FetchError("LAN_UNAVAILABLE", message, fix="Close it after its last request.") from None

    async def _start(self) -> LanAgent:
        agent = await asyncio.to_thread(self._make)  # keys are read from files, or made
        await agent.start()
        # Kept, since a loop holds its tasks weakly: one without a reference may be collected while it waits.
        self._living = asyncio.create_task(self._live(agent))
        return agent


class _Iteration(Generic[T]):
    """The state of an iterator between two of its values; it belongs to the life in which it began."""

    def __init__(self, iterate: Callable[[LanAgent], AsyncIterator[T]]) -> None:
        self._iterate = iterate
        self._iterator: AsyncIterator[T] | None = None
        self.life: _Life | None = None

    async def next(self, agent: LanAgent) -> tuple[T, ...]:
        """Return the next value; none at the end."""
        if self._iterator is None:
            self._iterator = aiter(self._iterate(agent))
        try:
            return (await anext(self._iterator),)
        except StopAsyncIteration:
            return ()


class LanThread:
    """Runs coroutines beside an agent that starts with the first of them.

    One lock guards the beginning, use and end of a life, so that nothing is given to a loop that is about to close:
    requests after the end of one life belong to the next.
    """

    def __init__(self, make: MakeAgent, live: Live) -> None:
        self._make, self._live = make, live
        self._lock = threading.Lock()
        self._life: _Life | None = None

    def submit(self, use: Callable[[LanAgent], Coroutine[Any, Any, T]]) -> Future[T]:
        """Begin ``use`` with the agent; the future has its result, or the error of the agent's start."""
        with self._lock:
            return self._begin().submit(use)

    def each(self, iterate: Callable[[LanAgent], AsyncIterator[T]]) -> Iterator[T]:
        """Yield the values of ``iterate`` until the agent ends; wait in place."""
        iteration = _Iteration(iterate)
        while (future := self._submit_next(iteration)) is not None:
            try:
                values = future.result()
            except BaseException:
                future.cancel()  # an interruption ends the work, too
                raise
            if not values:
                return
            yield from values

    async def each_awaited(self, iterate: Callable[[LanAgent], AsyncIterator[T]]) -> AsyncIterator[T]:
        """Yield the values of ``iterate`` until the agent ends; wait on the caller's loop."""
        iteration = _Iteration(iterate)
        while (future := self._submit_next(iteration)) is not None and (values := await asyncio.wrap_future(future)):
            yield values[0]

    def end(self) -> None:
        """Stop the agent, which says goodbye, and end the thread. Later requests start new ones."""
        with self._lock:
            life, self._life = self._life, None
        if life is not None:
            life.end()

    def _submit_next(self, iteration: _Iteration[T]) -> Future[tuple[T, ...]] | None:
        """Begin to wait for the next value; None after the life in which the iteration began."""
        with self._lock:
            if iteration.life is None:
                iteration.life = self._begin()
            return iteration.life.submit(iteration.next) if iteration.life is self._life else None

    def _begin(self) -> _Life:
        if self._life is None:
            self._life = _Life(self._make, self._live)
        return self._life
