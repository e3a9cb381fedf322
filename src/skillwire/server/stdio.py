"""Serving the program that started this process, over standard input and output.

That program reads the folders anyway, so it may see and use every skill in them, whatever their access is over the
network. Executions follow the same rules as everywhere: the configuration and the grants. Standard output carries the
protocol alone; everything else that is printed goes to standard error.

JSON-RPC **[ours]**: a line is a document, in and out. Requests are answered as they are ready, in any order, so that a
list does not wait for a run. The session ends when its input has ended and every request is answered, or at once when
the client stops reading. Spec: JSON-RPC 2.0; specs §4.

MCP: the same folders for the MCP host that started this process. Its SDK takes a second to import.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import SourceLocation, StorageError, ValidationError
from skillwire.model.access import EVERY_SKILL, Principal
from skillwire.protocols.skills_rpc.codec import encode_error
from skillwire.server.app import make_components
from skillwire.server.quotas import caller_of
from skillwire.server.request_bodies import Bodies, Body
from skillwire.server.routes.mcp import McpCaller, check_pins, log_left_out, make_mcp_backend, missing_pins
from skillwire.server.rpc_methods import RPC_BOUNDS, ByteQuota, RpcCaller, RpcDispatcher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence

    from skillwire.server.components import Components
    from skillwire.server.configuration import ServerConfiguration
    from skillwire.server.revision import AccessView, Revision

    Lines = AsyncIterator[bytes | None]
    Write = Callable[[bytes], Awaitable[None]]

#: The program that started this process.
LOCAL: Final = Principal("local", frozenset({EVERY_SKILL}))
OWNER: Final = caller_of(LOCAL, "")


def take_output() -> int:
    """Return a private descriptor of standard output; everything that is printed from now on goes to standard error."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    return own


def serve_rpc(
    folders: Sequence[str],
    configuration: ServerConfiguration,
    lines: Lines,
    make_writer: Callable[[int], Write],
    *,
    publisher: str,
) -> None:
    """Serve the Skills Protocol for ``folders`` until the end of the input, or until SIGINT or SIGTERM.

    ``make_writer`` gets the descriptor of the output.
    """
    parts = make_components(folders, publisher=publisher, access_log=False, configuration=configuration, is_local=True)
    run_local(serve_stdio(parts, lines, make_writer(take_output())))


def run_local(serving: Coroutine[None, None, None]) -> None:
    """Serve until the end of the input, or until SIGINT or SIGTERM."""

    async def until_signalled() -> None:
        task = asyncio.create_task(serving)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(until_signalled())


@asynccontextmanager
async def started(parts: Components) -> AsyncIterator[None]:
    """Load and watch the folders inside; at the end, stop the executions, after a while."""
    parts.catalog.start()
    try:
        yield
    finally:
        parts.executions.close_streams()
        await parts.executions.stop()
        await asyncio.to_thread(parts.catalog.stop)
        await parts.authentication.close()


async def load_local(parts: Components) -> tuple[AccessView, Revision]:
    """Return what the local program may use of the current revision; waits for the first. Raises StorageError."""
    revision = parts.catalog.current or await parts.catalog.first()
    if revision is None:
        raise StorageError("STORAGE", "the skills could not be loaded")
    return await parts.views.of(LOCAL, revision), revision


async def serve_stdio(parts: Components, lines: Lines, write: Write) -> None:
    """Answer ``lines``, each with its end cut off and None for one that is too long, until they end."""

    async def caller() -> RpcCaller:
        return RpcCaller(OWNER, await parts.skills.of(*await load_local(parts)))

    session = StdioSession(RpcDispatcher(parts.executions.runs), caller, write)
    async with started(parts):
        await caller()  # reports folders that cannot be loaded before anything is read
        await session.run(lines)


class StdioSession:
    """Answers lines; ``caller`` returns the caller with the skills that are published at that moment."""

    def __init__(self, dispatcher: RpcDispatcher, caller: Callable[[], Awaitable[RpcCaller]], write: Write) -> None:
        self._dispatcher = dispatcher
        self._caller = caller
        self._write = write
        self._bodies = Bodies(RPC_BOUNDS)
        self._slots = asyncio.Semaphore(limits.RPC_STDIO_AT_ONCE)

    async def run(self, lines: Lines) -> None:
        """Answer each of ``lines``; return when all are answered, or the client does not read the answers."""
        failed: ExceptionGroup[OSError] | None = None
        try:
            async with asyncio.TaskGroup() as group:
                async for line in lines:
                    if line is not None and not line.strip():
                        continue
                    await self._slots.acquire()
                    group.create_task(self._answer(line)).add_done_callback(lambda _: self._slots.release())
        except* BrokenPipeError:
            pass
        except* OSError as errors:
            failed = errors  # what is raised here reaches the caller within a group
        if failed is not None:
            message = f"the answers cannot be written: {failed.exceptions[0]}"
            raise StorageError("STORAGE", message, place=SourceLocation("standard output"))

    async def _answer(self, line: bytes | None) -> None:
        body = Body(self._bodies, "")
        try:
            answer: bytes | None
            if line is None:
                message = f"a line has at most {limits.RPC_REQUEST_BYTES:,} bytes"
                answer = encode_error(None, ValidationError("RPC_REQUEST", message))
            else:
                body.data = line
                request = await self._dispatcher.decode(line)
                answer = await self._dispatcher.answer(request, await self._caller(), ByteQuota(body))
            if answer is not None:
                await self._write(answer + b"\n")
        finally:
            body.release()


def serve_mcp(
    folders: Sequence[str], configuration: ServerConfiguration, lines: Lines, pins: Sequence[str], *, publisher: str
) -> None:
    """Serve MCP for ``folders`` until the input ends, or a signal; ``pins`` are tools beside the configured."""
    named = check_pins([*configuration.mcp.pins, *pins])
    parts = make_components(folders, publisher=publisher, access_log=False, configuration=configuration, is_local=True)
    run_local(serve_mcp_stdio(parts, lines, named))


async def serve_mcp_stdio(parts: Components, lines: Lines, pins: Sequence[str]) -> None:
    """Answer an MCP host with the skills of ``parts``."""
    from skillwire.bridges.mcp import server  # noqa: PLC0415  # imports the SDK

    catalog, backend = parts.catalog, make_mcp_backend(parts)

    async def caller() -> McpCaller:
        return McpCaller(*await load_local(parts), OWNER, backend)

    async def log_first() -> None:
        if (revision := await catalog.first()) is not None:
            await asyncio.to_thread(log_left_out, revision)

    catalog.follows.append(missing_pins(pins).log)
    async with started(parts):
        logging = asyncio.create_task(log_first())
        try:
            await server.serve_stdio(server.make_server(caller, pins=pins), lines)
        finally:
            logging.cancel()
