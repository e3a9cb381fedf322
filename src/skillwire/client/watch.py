"""Watching a call: an iterator of its events, for both clients.

The provider is asked to wait for the next change of the execution (``Prefer: wait``), so an event costs one request,
and nothing is sent between two events. A provider of Skill Sharing states the status alone. What a run printed is known
from endpoints of the Skills Protocol, when the run has ended.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Self, TypeAlias

from skillwire import limits
from skillwire.client.runner import AsyncRunner, RunnerT, SyncRunner
from skillwire.model.remote_execution import RemoteExecution
from skillwire.wire.exchange import TimeLimit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillwire.client.calls import CallArguments
    from skillwire.client.session import ClientSession
    from skillwire.resolver.calls import ExecutionFollower
    from skillwire.wire.exchange import Flow


EventKind: TypeAlias = Literal["accepted", "running", "waiting", "log", "completed", "failed", "timeout"]


class CallEvent(NamedTuple):
    """What happened to a watched call.

    Args:
        kind: the new status: ``accepted``, ``running``, ``completed``, ``failed`` or ``timeout``; ``waiting`` when the
            provider answered without a change, for which it is asked to wait 30 s; ``log`` for a line of the run.
        execution: its state now; the event ``completed`` has the output.
        text: the line of a ``log``.
    """

    kind: EventKind
    execution: RemoteExecution
    text: str = ""


class _WatchFlows(Generic[RunnerT]):
    """The events of one call, as flows. ``execution`` is its latest state; None before the call was accepted."""

    def __init__(
        self,
        runner: RunnerT,
        session: ClientSession,
        reference: str,
        inputs: Mapping[str, Any],
        options: CallArguments,
        *,
        use_unverified: bool | None,
    ) -> None:
        self.execution: RemoteExecution | None = None
        self._session, self._runner = session, runner
        self._limit = TimeLimit(limits.CALL_WAIT_SECONDS if (seconds := options.get("timeout")) is None else seconds)
        self._begin = session.call_reference(
            reference, inputs, options, use_unverified=use_unverified, is_followed=True
        )
        self._follower: ExecutionFollower | None = None
        self._events: deque[CallEvent] = deque()
        self._is_closed = False

    @property
    def goes_on(self) -> bool:
        """Whether the execution had not ended when its provider was last asked."""
        return self.execution is not None and not self.execution.is_final

    def _stop(self) -> bool:
        self._is_closed = True
        self._events.clear()
        self._begin.close()
        return self.goes_on

    def _next(self) -> Flow[CallEvent | None]:
        """Return the next event; None at the end of the execution or of the time, and after ``close``."""
        while not self._events:
            before = self.execution
            if self._is_closed or self._limit.is_over or (before is not None and before.is_final):
                return None
            try:
                if before is None:
                    now = yield from self._begin
                elif self._follower is None:
                    self._follower = yield from self._session.calls.follower(before)
                    now = self._follower.execution
                else:
                    now = yield from self._follower.follow_once(self._limit.left() or 0.0)
            except BaseException:
                self._is_closed = True
                raise
            self.execution = now
            if now.is_final:
                self._events.extend(CallEvent("log", now, line) for line in now.log.splitlines())
            is_changed = before is None or now.status is not before.status
            self._events.append(CallEvent(now.status.value if is_changed else "waiting", now))
        return self._events.popleft()


class CallWatch(_WatchFlows[SyncRunner]):
    """The events of a call, from :meth:`Client.watch`: an iterator and a context manager."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> CallEvent:
        event = self._runner.run(self._next())
        if event is None:
            raise StopIteration
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> bool:
        """Stop waiting; return whether the execution goes on at its provider."""
        return self._stop()


class AsyncCallWatch(_WatchFlows[AsyncRunner]):
    """The same as :class:`CallWatch`, awaited."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> CallEvent:
        event = await self._runner.run(self._next())
        if event is None:
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop()

    async def close(self) -> bool:
        """Stop waiting; return whether the execution goes on at its provider."""
        return self._stop()
