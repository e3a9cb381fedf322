"""The thread of an agent: it listens and answers while the program does something else.

An agent cannot live on the loop of a program that has none, or of one that ends with each ``asyncio.run``. Its thread
begins with the first request, and ends with :meth:`AgentThread.end`. Both clients use it; they differ in how they wait.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar

from skillwire.errors import FetchError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from concurrent.futures import Future

    from skillwire.adapters.lan.agent import LanAgent
    from skillwire.model.lan import LanChange


class Agent(Protocol):
    """What starts before its first use, and is stopped after the last."""

    async def start(self) -> object:
        """Begin."""

    async def stop(self) -> object:
        """End."""


T = TypeVar("T")
AgentT = TypeVar("AgentT", bound=Agent)

#: What a request does with the agent.
Use: TypeAlias = "Callable[[AgentT], Coroutine[Any, Any, T]]"

_PATIENCE: Final = 10.0  # seconds for the goodbyes of an agent that is stopped
_TURNS: Final = 4  # of the loop, after which waiters have got the start or a last value
_SLACK: Final = 2.0  # more seconds, to cancel the remaining tasks


class _Life(Generic[AgentT]):
    """One agent from its start to its end, on a thread and a loop that are never reused."""

    def __init__(self, make: Callable[[], AgentT], live: Use[AgentT, None] | None, name: str) -> None:
        self._make, self._live = make, live
        self._starting: asyncio.Task[AgentT] | None = None
        self._living: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, use: Use[AgentT, T]) -> Future[T]:
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
        with suppress(Exception):  # it ends either way, and nothing waits for the error
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

    async def _use(self, use: Use[AgentT, T]) -> T:
        if (
            task := asyncio.current_task()
        ) is not None:  # a caller that cancels it reads no error, which would be logged
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self._starting is None or (self._starting.done() and self._starting.exception() is not None):
            self._starting = asyncio.ensure_future(self._start())
        try:
            return await use(await asyncio.shield(self._starting))
        except asyncio.CancelledError:
            if not self._ending.is_set():
                raise
            message = "the client was closed before the network had answered"
            raise FetchError("LAN_UNAVAILABLE", message, fix="Close it after its last request.") from None

    async def _start(self) -> AgentT:
        agent = await asyncio.to_thread(self._make)  # keys are read from files, or made
        await agent.start()
        if self._live is not None:  # kept, since a loop holds its tasks weakly: it may be collected while it waits
            self._living = asyncio.create_task(self._live(agent))
        return agent


class AgentThread(Generic[AgentT]):
    """Runs coroutines beside an agent that starts with the first of them.

    One lock guards the beginning, use and end of a life, so that nothing is given to a loop that is about to close:
    requests after the end of one life belong to the next.

    Args:
        make: makes the agent; called in a thread.
        live: runs beside the agent, from its start to its end.
        name: of the thread.
    """

    def __init__(
        self, make: Callable[[], AgentT], live: Use[AgentT, None] | None = None, name: str = "skillwire-lan"
    ) -> None:
        self._make, self._live, self._name = make, live, name
        self._lock = threading.Lock()
        self._life: _Life[AgentT] | None = None

    def submit(self, use: Use[AgentT, T]) -> Future[T]:
        """Begin ``use`` with the agent; the future has its result, or the error of the agent's start."""
        with self._lock:
            return self._begin().submit(use)

    def end(self) -> None:
        """Stop the agent, which says goodbye, and end the thread. Later requests start new ones."""
        with self._lock:
            life, self._life = self._life, None
        if life is not None:
            life.end()

    def _begin(self) -> _Life[AgentT]:
        if self._life is None:
            self._life = _Life(self._make, self._live, self._name)
        return self._life


class LanThread(AgentThread["LanAgent"]):
    """The thread of an agent of the local network, which reports changes."""

    def listen(self) -> Iterator[LanChange]:
        """Return the changes that the agent reports from now on, until it ends; they are waited for in place."""
        submit_next = self._listen()

        def changes() -> Iterator[LanChange]:
            while (future := submit_next()) is not None:
                try:
                    change = future.result()
                except BaseException:
                    future.cancel()  # an interruption ends the work, too
                    raise
                if change is None:
                    return
                yield change

        return changes()

    def listen_awaited(self) -> AsyncIterator[LanChange]:
        """Return the changes that the agent reports from now on, until it ends; they are awaited."""
        submit_next = self._listen()

        async def changes() -> AsyncIterator[LanChange]:
            while (future := submit_next()) is not None and (change := await asyncio.wrap_future(future)) is not None:
                yield change

        return changes()

    def _listen(self) -> Callable[[], Future[LanChange | None] | None]:
        """Begin to listen; return what begins to wait for the next change, and returns None after this life."""
        with self._lock:
            life = self._begin()
            listening = life.submit(_new_listener)

        async def next_change(_: LanAgent) -> LanChange | None:
            changes = await asyncio.wrap_future(listening)
            return await anext(changes, None)

        def submit_next() -> Future[LanChange | None] | None:
            with self._lock:
                return life.submit(next_change) if life is self._life else None

        return submit_next


async def _new_listener(agent: LanAgent) -> AsyncIterator[LanChange]:
    return agent.listen()
