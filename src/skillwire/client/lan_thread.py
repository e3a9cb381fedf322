"""The thread on which a client's agent on the local network lives, with an event loop of its own.

An agent hears and answers as long as it is there, also while the program does something else, so it cannot live on the
loop of a program that has none, or of one that ends with each ``asyncio.run``. The thread begins with the first thing
that is asked of the agent, and ends with :meth:`close`. Both clients use the same; they differ in how they wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from concurrent.futures import Future

    from skillwire.adapters.lan.agent import LanAgent

T = TypeVar("T")

_PATIENCE: Final = 10.0  # seconds for the goodbyes of an agent that is stopped


class LanThread:
    """Runs coroutines beside an agent that is started with the first of them.

    Args:
        make: makes the agent; called in a thread.
        live: goes on beside the agent, from its start to its end.
    """

    def __init__(self, make: Callable[[], LanAgent], live: Callable[[LanAgent], Coroutine[Any, Any, None]]) -> None:
        self._make = make
        self._live = live
        self._living: asyncio.Task[None] | None = None
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting: asyncio.Task[LanAgent] | None = None

    def submit(self, use: Callable[[LanAgent], Coroutine[Any, Any, T]]) -> Future[T]:
        """Begin what ``use`` does with the agent; the future has its result, or why the agent cannot be started."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="skillwire-lan", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(self._use(use), self._loop)

    def end(self) -> None:
        """Stop the agent, which says goodbye, and end the thread. What is asked afterwards starts new ones."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        with contextlib.suppress(Exception):  # it ends either way, and nobody asked for what it says now
            asyncio.run_coroutine_threadsafe(self._stop(), loop).result(_PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE)
        if not loop.is_running():
            loop.close()

    async def _use(self, use: Callable[[LanAgent], Coroutine[Any, Any, T]]) -> T:
        if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
            self._starting = asyncio.ensure_future(self._start())
        return await use(await asyncio.shield(self._starting))

    async def _start(self) -> LanAgent:
        agent = await asyncio.to_thread(self._make)  # keys are read from files, or made
        await agent.start()
        self._living = asyncio.create_task(self._live(agent))
        return agent

    async def _stop(self) -> None:
        starting, self._starting = self._starting, None
        try:
            if starting is not None:
                agent = await starting
                await agent.stop()
        finally:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)


class BlockingLanThread(LanThread):
    """Waits in place, also in a thread that has a running loop of its own."""

    def run(self, use: Callable[[LanAgent], Coroutine[Any, Any, T]]) -> T:
        """Return what ``use`` does with the agent."""
        future = self.submit(use)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # an interruption, too, ends what nobody waits for any more
            raise

    def each(self, iterate: Callable[[LanAgent], AsyncIterator[T]]) -> Iterator[T]:
        """Yield what ``iterate`` gives, as it comes."""
        held: list[AsyncIterator[T]] = []
        while True:
            found, value = self.run(lambda agent: _next(agent, iterate, held))
            if not found:
                return
            yield value

    def close(self) -> None:
        """Stop the agent, and end the thread."""
        self.end()


class AwaitedLanThread(LanThread):
    """Waits on the loop that asks."""

    async def run(self, use: Callable[[LanAgent], Coroutine[Any, Any, T]]) -> T:
        """Return what ``use`` does with the agent."""
        return await asyncio.wrap_future(self.submit(use))

    async def each(self, iterate: Callable[[LanAgent], AsyncIterator[T]]) -> AsyncIterator[T]:
        """Yield what ``iterate`` gives, as it comes."""
        held: list[AsyncIterator[T]] = []
        while True:
            found, value = await self.run(lambda agent: _next(agent, iterate, held))
            if not found:
                return
            yield value

    async def close(self) -> None:
        """Stop the agent, and end the thread."""
        await asyncio.to_thread(self.end)


async def _next(
    agent: LanAgent, iterate: Callable[[LanAgent], AsyncIterator[T]], held: list[AsyncIterator[T]]
) -> tuple[bool, Any]:
    """Return the next value of an iterator that ``held`` keeps; whether there was one, too."""
    if not held:
        held.append(aiter(iterate(agent)))
    try:
        return True, await anext(held[0])
    except StopAsyncIteration:
        return False, None
