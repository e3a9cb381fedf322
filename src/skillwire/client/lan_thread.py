"""The thread on which a client's agent on the local network lives, with an event loop of its own.

An agent hears and answers as long as it is there, also while the program does something else, so it cannot live on the
loop of a program that has none, or of one that ends with each ``asyncio.run``. The thread begins with the first thing
that is asked of the agent, and ends with :meth:`close`. Both clients use the same; they differ in how they wait.
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

#: Makes the agent; called in a thread. What goes on beside it, from its start to its end.
MakeAgent: TypeAlias = "Callable[[], LanAgent]"
Live: TypeAlias = "Callable[[LanAgent], Coroutine[Any, Any, None]]"

_PATIENCE: Final = 10.0  # seconds for the goodbyes of an agent that is stopped
_TURNS: Final = 4  # of the loop: who waits for the start behind others, or for a last value, has it by then
_SLACK: Final = 2.0  # seconds more for what was begun meanwhile to be given up


class _Life:
    """One agent from its start to its end, on a thread and a loop of its own, which never begin again.

    Args:
        make: makes the agent; called in a thread.
        live: goes on beside the agent, from its start to its end.
    """

    def __init__(self, make: MakeAgent, live: Live) -> None:
        self._make, self._live = make, live
        self._starting: asyncio.Task[LanAgent] | None = None
        self._living: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="skillwire-lan", daemon=True)
        self._thread.start()

    def submit(self, use: Callable[[LanAgent], Coroutine[Any, Any, T]]) -> Future[T]:
        """Begin what ``use`` does with the agent. Not after :meth:`end`: nothing would ever run it."""
        return asyncio.run_coroutine_threadsafe(self._use(use), self._loop)

    def end(self) -> None:
        """Stop the agent, give up what is under way, and end the thread; once only."""
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(_PATIENCE + _SLACK)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._last())

    async def _last(self) -> None:
        """Wait for the end, and say goodbye."""
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
            raise FetchError("LAN_UNAVAILABLE", message, fix="Close it when nothing asks it any more.") from None

    async def _start(self) -> LanAgent:
        agent = await asyncio.to_thread(self._make)  # keys are read from files, or made
        await agent.start()
        # Kept, since a loop holds its tasks weakly: one without a reference may be collected while it waits.
        self._living = asyncio.create_task(self._live(agent))
        return agent


class _Iteration(Generic[T]):
    """What of an iterator is known between two of its values; it belongs to the life in which it began."""

    def __init__(self, iterate: Callable[[LanAgent], AsyncIterator[T]]) -> None:
        self._iterate = iterate
        self._iterator: AsyncIterator[T] | None = None
        self.life: _Life | None = None

    async def next(self, agent: LanAgent) -> tuple[T, ...]:
        """Return the next value; none when it has ended."""
        if self._iterator is None:
            self._iterator = aiter(self._iterate(agent))
        try:
            return (await anext(self._iterator),)
        except StopAsyncIteration:
            return ()


class LanThread:
    """Runs coroutines beside an agent that is started with the first of them.

    A life is begun, used and let go of under one lock, as a whole: whatever comes after the end of one belongs to the
    next, and nothing is given to a loop that is about to close.

    Args:
        make: makes the agent; called in a thread.
        live: goes on beside the agent, from its start to its end.
    """

    def __init__(self, make: MakeAgent, live: Live) -> None:
        self._make, self._live = make, live
        self._lock = threading.Lock()
        self._life: _Life | None = None

    def submit(self, use: Callable[[LanAgent], Coroutine[Any, Any, T]]) -> Future[T]:
        """Begin what ``use`` does with the agent; the future has its result, or why the agent cannot be started."""
        with self._lock:
            return self._begun().submit(use)

    def submit_next(self, iteration: _Iteration[T]) -> Future[tuple[T, ...]] | None:
        """Begin to wait for the next value; None when the life in which the iteration began has ended."""
        with self._lock:
            if iteration.life is None:
                iteration.life = self._begun()
            return iteration.life.submit(iteration.next) if iteration.life is self._life else None

    def end(self) -> None:
        """Stop the agent, which says goodbye, and end the thread. What is asked afterwards starts new ones."""
        with self._lock:
            life, self._life = self._life, None
        if life is not None:
            life.end()

    def _begun(self) -> _Life:
        if self._life is None:
            self._life = _Life(self._make, self._live)
        return self._life


class SyncLanThread(LanThread):
    """Waits in place, also in a thread that has a running loop of its own."""

    def run(self, use: Callable[[LanAgent], Coroutine[Any, Any, T]]) -> T:
        """Return what ``use`` does with the agent."""
        return _result(self.submit(use))

    def each(self, iterate: Callable[[LanAgent], AsyncIterator[T]]) -> Iterator[T]:
        """Yield what ``iterate`` gives, as it comes, until the agent ends."""
        iteration = _Iteration(iterate)
        while (future := self.submit_next(iteration)) is not None and (values := _result(future)):
            yield from values

    def close(self) -> None:
        """Stop the agent, and end the thread."""
        self.end()


class AsyncLanThread(LanThread):
    """Waits on the loop that asks."""

    async def run(self, use: Callable[[LanAgent], Coroutine[Any, Any, T]]) -> T:
        """Return what ``use`` does with the agent."""
        return await asyncio.wrap_future(self.submit(use))

    async def each(self, iterate: Callable[[LanAgent], AsyncIterator[T]]) -> AsyncIterator[T]:
        """Yield what ``iterate`` gives, as it comes, until the agent ends."""
        iteration = _Iteration(iterate)
        while (future := self.submit_next(iteration)) is not None and (values := await asyncio.wrap_future(future)):
            yield values[0]

    async def close(self) -> None:
        """Stop the agent, and end the thread."""
        await asyncio.to_thread(self.end)


def _result(future: Future[T]) -> T:
    try:
        return future.result()
    except BaseException:
        future.cancel()  # an interruption ends the work, too
        raise
