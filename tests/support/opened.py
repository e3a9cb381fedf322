"""The stores of the state folder, and any others, for tests that do not await."""

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any

from skillwire.adapters.sqlite.database import Database
from skillwire.adapters.stores import open_stores
from skillwire.model.execution import Execution, NewExecution


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return an event loop that runs in a thread for as long as the tests do."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="blocking", daemon=True).start()
    return loop


def run_blocking(work: Coroutine[Any, Any, Any]) -> Any:
    """Run ``work`` to its end in that loop."""
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


class Blocking:
    """The methods of ``wrapped``, each run to its end."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.wrapped, name)
        if not callable(value):
            return value

        def call(*arguments: Any, **options: Any) -> Any:
            result = value(*arguments, **options)
            return run_blocking(result) if inspect.iscoroutine(result) else result

        return call


class BlockingLedger(Blocking):
    """A ledger, which also accepts one execution at a time."""

    def accept(self, execution, key=None, **more):
        (accepted,) = self.accept_all([NewExecution(execution, key, **more)])
        return accepted

    def accept_all(self, new):
        accepted = self.__getattr__("accept_all")(
            [NewExecution(one) if isinstance(one, Execution) else one for one in new]
        )
        for one in accepted:
            if isinstance(one, Exception):
                raise one
        return accepted


def open_ledger() -> BlockingLedger:
    return BlockingLedger(open_stores().ledger)


def open_tokens() -> Blocking:
    return Blocking(open_stores().tokens())


def open_grants() -> Blocking:
    return Blocking(open_stores().grants())


def open_database() -> Database:
    return open_stores().sqlite.database
