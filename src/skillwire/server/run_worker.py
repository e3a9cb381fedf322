"""A worker process: it runs what servers on this machine accepted, and serves no requests."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import uvloop

from skillwire.adapters.files.atomic import state_directory
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.server.app import check_secrets, make_authentication, make_executors, open_executions

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillwire.server.configuration import ServerConfiguration
    from skillwire.server.executions import Executions


def make_worker(configuration: ServerConfiguration) -> Executions:
    """Return what works on the ledger in the state folder. Raises StorageError (``SECRETS_FILE``)."""
    settings = configuration.executions
    check_secrets(settings)
    blobs = FileBlobs(state_directory() / "blobs")
    executors = make_executors(settings, blobs, runs=configuration.runs)
    return open_executions(configuration, blobs, make_authentication(configuration), executors)


def run_worker(executions: Executions, *, on_ready: Callable[[], object]) -> None:
    """Work until SIGINT or SIGTERM; running executions get a while to end."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run_until_signalled(executions, on_ready))


async def _run_until_signalled(executions: Executions, on_ready: Callable[[], object]) -> None:
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    executions.start()
    on_ready()
    await told.wait()
    await executions.stop()
