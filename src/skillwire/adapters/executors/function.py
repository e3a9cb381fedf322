"""Skills that are functions of this process, registered by :class:`skillwire.Publisher`.

They are the operator's own code and run with the operator's rights, outside any sandbox. A coroutine runs in the
server's event loop, where it must not block, and ends when it is cancelled. Any other function runs in a thread, which
cannot be ended from outside: its result is dropped, ``CallContext.is_cancelled`` becomes true, and its place among
:data:`~skillwire.limits.FUNCTION_THREADS` stays taken until it returns. The process does not wait for such threads
when it ends.

An exception ends the attempt. The caller gets its message, shortened and without hidden characters; the log gets the
traceback. ``ConnectionError`` and ``TimeoutError`` allow another attempt.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import threading
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from skillwire import limits
from skillwire.errors import SkillwireError
from skillwire.model.execution import Attempt, CallContext, Failure, Outcome
from skillwire.trust.hidden_text import neutralise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skillwire.folder.functions import TypedFunction


#: What a function in a thread may raise, and what would mean something to the loop, or to a coroutine.
_MEANING_MORE: Final = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, StopIteration, StopAsyncIteration)


class FunctionExecutor:
    """Fills :class:`skillwire.ports.Executor` for functions, by the skill's name."""

    def __init__(self, functions: Mapping[str, TypedFunction]) -> None:
        self._functions = functions
        self._threads = asyncio.Semaphore(limits.FUNCTION_THREADS)
        self._log = structlog.get_logger("skillwire")

    async def execute(self, attempt: Attempt) -> Outcome:
        """Call the function of the skill once."""
        typed = self._functions.get(attempt.skill.name)
        if typed is None:
            return Outcome(failure=Failure("unavailable", "The function is not registered here any more"))
        try:
            arguments = typed.read(attempt.inputs)
        except msgspec.ValidationError as error:
            return Outcome(failure=_unfit(error))
        context = CallContext(
            execution_id=attempt.execution.execution_id,
            trace_id=attempt.execution.trace_id,
            attempt=attempt.execution.attempt,
            deadline=datetime.fromtimestamp(attempt.execution.deadline, UTC),
        )
        if typed.context is not None:
            arguments[typed.context] = context
        try:
            async with asyncio.timeout(max(attempt.seconds, 0.0)) as bound:
                result = await self._call(partial(typed.function, **arguments))
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever it raises is an outcome
            if bound.expired():
                return Outcome(failure=Failure("deadline", "The function took too long", code="INVOCATION_TIMEOUT"))
            self._log.warning("a function failed", skill=attempt.skill.name, exc_info=error)
            return Outcome(failure=_raised(error))
        finally:
            context.is_cancelled = True
        try:
            output = msgspec.to_builtins(result, str_keys=True)
            json.dumps(output, allow_nan=False, ensure_ascii=False).encode()  # msgspec would write NaN as null
            return Outcome(output)
        except (TypeError, ValueError, RecursionError) as error:
            self._log.warning("a function returned what is no JSON value", skill=attempt.skill.name, exc_info=error)
            return Outcome(failure=Failure("output", "The function returned what is no JSON value"))

    async def _call(self, call: partial[Any]) -> Any:
        """Return the result. A ``CancelledError`` of the function's own is an error, unless the task was cancelled."""
        try:
            if inspect.iscoroutinefunction(call.func) or inspect.iscoroutinefunction(
                getattr(call.func, "__call__", None)  # noqa: B004  # an object that awaits
            ):
                return await call()
            await self._threads.acquire()
            result = await in_thread(call, self._threads.release)
            return await result if inspect.isawaitable(result) else result
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise _RaisedError(str(error) or type(error).__name__) from error


async def in_thread(call: Callable[[], Any], done: Callable[[], None]) -> Any:
    """Return the result of ``call`` in a thread of its own, which cancelling leaves alone.

    ``done`` is called in the loop when the thread ends.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        done()
        if not future.done():
            future.set_result((result, error))

    def run() -> None:
        result, error = None, None
        try:
            result = context.run(call)
        except BaseException as raised:  # noqa: BLE001  # raised again where it is awaited
            error = raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:  # the loop has ended, so no caller waits
            return

    context = contextvars.copy_context()
    try:
        threading.Thread(target=run, name="skillwire-function", daemon=True).start()
    except RuntimeError:  # the system gives no more threads
        done()
        raise
    result, error = await future
    if error is not None:
        if isinstance(error, _MEANING_MORE):
            raise _RaisedError(str(error) or type(error).__name__) from error
        raise error
    return result


class _RaisedError(Exception):
    """What a function raised that would mean something else in the loop."""


def _unfit(error: msgspec.ValidationError) -> Failure:
    """Return the failure for inputs that the schema lets pass and the function's types do not."""
    message, _, path = str(error).partition(" - at `$")
    where = "/inputs" + path.rstrip("`").replace(".", "/").replace("[", "/").replace("]", "")
    details = {"errors": [{"path": where, "message": neutralise(message)}]}
    return Failure("exception", f"{where}: {neutralise(message)}", code="VALIDATION_ERROR", details=details)


def _raised(error: BaseException) -> Failure:
    message = error.message if isinstance(error, SkillwireError) else str(error)
    text = neutralise(" ".join(message.split()))[: limits.FUNCTION_MESSAGE] or type(error).__name__
    passing = isinstance(error, ConnectionError | TimeoutError) or (
        isinstance(error, SkillwireError) and error.retryable
    )
    return Failure("exception", text, is_passing=passing)
