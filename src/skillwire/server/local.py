"""Serving the one who started this process, over its standard input and output.

Whoever starts it reads the folders anyway, so it may know of and use every skill in them, whatever their access is over
the network. What is executed is decided as everywhere: by the configuration, and by what was granted.

Standard output is for the protocol alone. What else is printed, by whatever part of the process, goes to standard
error.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from skillwire.model.access import EVERY_SKILL, Principal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from skillwire.server.auth.configuration import ServerConfiguration
    from skillwire.server.compose import Parts

#: Who starts the process.
LOCAL: Final = Principal("local", frozenset({EVERY_SKILL}))


def as_local(configuration: ServerConfiguration) -> ServerConfiguration:
    """Return what holds for this process alone: its executions are a queue of its own.

    So what a host leaves that has vanished is run by nobody else, and ends at its deadline. Where the configuration
    leaves all running to ``skillwire work``, they stay in the queue that this works for.
    """
    runs = replace(configuration.runs, is_local=True)
    executions = configuration.executions
    if executions.concurrency:
        executions = replace(executions, queue=f"process {os.getpid()} {secrets.token_hex(8)}")
    return replace(configuration, runs=runs, executions=executions)


def take_output() -> int:
    """Return a descriptor of standard output that is nobody else's; what is printed goes to standard error from now."""
    if sys.stdout is not None:
        sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    return own


def run_local(serving: Coroutine[None, None, None]) -> None:
    """Serve until the end of the input, or until SIGINT or SIGTERM."""
    asyncio.run(_until_told(serving))


async def _until_told(serving: Coroutine[None, None, None]) -> None:
    task = asyncio.create_task(serving)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await task


@asynccontextmanager
async def started(parts: Parts) -> AsyncIterator[None]:
    """Load and watch the folders meanwhile; at the end, end what runs, after a while."""
    parts.publication.start()
    try:
        yield
    finally:
        parts.executions.hang_up()
        await parts.executions.stop()
        await asyncio.to_thread(parts.publication.stop)
        await parts.authentication.close()
