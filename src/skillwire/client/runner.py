"""Runs flows for the two clients: each step in place, or awaited. All that the two clients differ in is here.

A flow (:mod:`skillwire.wire.exchange`) decides; a runner does its steps. Requests get their stored credentials here,
the moment before they go out (:meth:`skillwire.client.credentials.StoredCredentials.send`). Connections are opened with
the first request, under the address policy that the session has at that moment.
"""

from __future__ import annotations

import time
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from skillwire.errors import SkillwireError
from skillwire.wire.exchange import TIME_LEFT, All, Flow, HttpRequest, Step, Work, drive, drive_async, limit_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from skillwire.client.session import AsyncHttp, ClientSession, SyncHttp

P = ParamSpec("P")
T = TypeVar("T")
Kind = TypeVar("Kind", bound=type)
#: The runner of one of the two clients.
RunnerT = TypeVar("RunnerT")


def documented_by(blocking: type) -> Callable[[Kind], Kind]:
    """Return a class decorator: a method without a docstring gets that of the same method of ``blocking``."""

    def decorate(kind: Kind) -> Kind:
        for name, member in vars(kind).items():
            if not name.startswith("_") and isinstance(member, FunctionType) and member.__doc__ is None:
                member.__doc__ = getattr(blocking, name).__doc__
        return kind

    return decorate


def awaited(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return ``method`` for the asynchronous twin of its class, whose runner returns what must be awaited.

    ``method`` returns what its runner returns, and does nothing with it.
    """

    @wraps(method)
    async def twin(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: Any = method(self, *args, **kwargs)
        return await answer  # type: ignore[no-any-return]  # of the other runner

    return twin


class SyncRunner:
    """Does each step in place, with the standard library only. Tests may set another ``sleep``."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self.driver: SyncHttp | None = None
        self.sleep: Callable[[float], object] = time.sleep

    def run(self, flow: Flow[T], seconds: float | None = None) -> T:
        """Run ``flow`` to its end and return its result; an error names the credential that was sent.

        Its requests end within these ``seconds``, and within the client's limit.
        """
        try:
            return drive(limit_time(limit_time(flow, seconds), self._session.limit.left()), self._do)
        except SkillwireError as error:
            self._session.explain(error)
            raise

    def close(self) -> None:
        """Close the connections. The next request opens new ones."""
        if self.driver is not None:
            self.driver.close()
            self.driver = None

    def _do(self, step: Step) -> Any:
        if isinstance(step, HttpRequest):
            return drive(self._session.access.stored.send(step), self._do_plain)
        if isinstance(step, All):
            return self._http().run_all(**step._asdict(), run=self.run)
        return self._do_plain(step)

    def _do_plain(self, step: Step) -> Any:
        if isinstance(step, HttpRequest):
            return self._http().send(step)
        assert not isinstance(step, All)  # noqa: S101  # run() has done these
        if not isinstance(step, Work):
            return self.sleep(step.seconds)
        result = step.call()
        if not hasattr(result, "add_done_callback"):
            return result
        try:
            return result.result()
        except BaseException:
            result.cancel()  # an interruption ends the work, too
            raise

    def _http(self) -> SyncHttp:
        self.driver = self._session.configure(self.driver or self._session.open_http())
        return self.driver


class AsyncRunner:
    """Awaits requests on the event loop, and does work on files in threads. Tests may set another ``sleep``."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self.driver: AsyncHttp | None = None
        self.sleep: Callable[[float], Awaitable[object]] | None = None

    async def run(self, flow: Flow[T], seconds: float | None = None) -> T:
        """Run ``flow`` to its end and return its result; an error names the credential that was sent.

        Its requests end within these ``seconds``, and within the client's limit.
        """
        try:
            return await drive_async(limit_time(limit_time(flow, seconds), self._session.limit.left()), self._do)
        except SkillwireError as error:
            self._session.explain(error)
            raise

    async def close(self) -> None:
        """Close the connections. The next request opens new ones."""
        if self.driver is not None:
            await self.driver.close()
            self.driver = None

    async def _do(self, step: Step) -> Any:
        if isinstance(step, HttpRequest):
            return await drive_async(self._session.access.stored.send(step), self._do_plain)
        if isinstance(step, All):
            return await self._http().run_all(**step._asdict(), run=self.run)
        return await self._do_plain(step)

    async def _do_plain(self, step: Step) -> Any:
        if isinstance(step, HttpRequest):
            return await self._http().send(step)
        import asyncio  # noqa: PLC0415  # the synchronous client does without

        if isinstance(step, Work):
            result = step.call() if step is TIME_LEFT else await asyncio.to_thread(step.call)
            return await asyncio.wrap_future(result) if hasattr(result, "add_done_callback") else result
        assert not isinstance(step, All)  # noqa: S101  # run() has done these
        return await (self.sleep or asyncio.sleep)(step.seconds)

    def _http(self) -> AsyncHttp:
        self.driver = self._session.configure(self.driver or self._session.open_async_http())
        return self.driver
