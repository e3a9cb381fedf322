"""Serving the one who started this process, over its standard input and output.

Whoever starts it reads the folders anyway, so it may know of and use every skill in them, whatever their access is over
the network. What is executed is decided as everywhere: by the configuration, and by what was granted.

Standard output is for the protocol alone. What else is printed, by whatever part of the process, goes to standard
error.

JSON-RPC on standard input and output: a line is a document, in and out **[ours]**.

Requests are answered as they are ready, which need not be the order in which they came: a list does not wait for a run
that was asked for before it. The session ends when its input has ended and every request is answered, or at once when
the client stops reading. Spec: JSON-RPC 2.0; specs §4.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.adapters.lines import LineWriter, lines_of
from skillwire.errors import SourceLocation, StorageError, ValidationError
from skillwire.model.access import EVERY_SKILL, Principal
from skillwire.protocols.skills_rpc.codec import encode_error
from skillwire.server.auth.rate_limit import caller_of
from skillwire.server.request_bodies import Bodies, Body
from skillwire.server.rpc_methods import RPC_BOUNDS, ByteQuota, Methods, RpcCaller, RpcDispatcher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from skillwire.server.components import Components


#: Who starts the process.
LOCAL: Final = Principal("local", frozenset({EVERY_SKILL}))


def take_output() -> int:
    """Return a descriptor of standard output that is no other; what is printed goes to standard error from now."""
    if sys.stdout is not None:
        sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    return own


def run_local(serving: Coroutine[None, None, None]) -> None:
    """Serve until the end of the input, or until SIGINT or SIGTERM."""
    asyncio.run(_until_signalled(serving))


async def _until_signalled(serving: Coroutine[None, None, None]) -> None:
    task = asyncio.create_task(serving)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await task


@asynccontextmanager
async def started(parts: Components) -> AsyncIterator[None]:
    """Load and watch the folders meanwhile; at the end, end what runs, after a while."""
    parts.catalog.start()
    try:
        yield
    finally:
        parts.executions.hang_up()
        await parts.executions.stop()
        await asyncio.to_thread(parts.catalog.stop)
        await parts.authentication.close()


async def serve_stdio(parts: Components) -> None:
    """Answer what comes in by standard input until it ends."""
    writer, caller = LineWriter(take_output()), _LocalCaller(parts)
    session = StdioSession(RpcDispatcher(Methods(parts.executions.runs)), caller.now, writer.write)
    async with started(parts):
        await caller.now()  # what cannot be loaded at all is told before anything is read
        await session.run(lines_of(0, limits.RPC_REQUEST_BYTES))


class StdioSession:
    """Answers lines.

    Args:
        answering: answers what came.
        caller: returns who calls, with what is published at that moment.
        write: sends a line, with its end.
    """

    def __init__(
        self,
        answering: RpcDispatcher,
        caller: Callable[[], Awaitable[RpcCaller]],
        write: Callable[[bytes], Awaitable[None]],
    ) -> None:
        self._answering = answering
        self._caller = caller
        self._write = write
        self._bodies = Bodies(RPC_BOUNDS)
        self._places = asyncio.Semaphore(limits.RPC_STDIO_AT_ONCE)

    async def run(self, lines: AsyncIterator[bytes | None]) -> None:
        """Answer each of ``lines``; return when all are answered, or the client does not read the answers."""
        try:
            async with asyncio.TaskGroup() as group:
                async for line in lines:
                    if line is not None and not line.strip():
                        continue
                    await self._places.acquire()
                    group.create_task(self._answer(line)).add_done_callback(lambda _: self._places.release())
        except* BrokenPipeError:
            pass
        except* OSError as errors:
            message = f"the answers cannot be written: {errors.exceptions[0]}"
            raise StorageError("STORAGE", message, place=SourceLocation("standard output")) from None

    async def _answer(self, line: bytes | None) -> None:
        body = Body(self._bodies, "")
        try:
            answer = await self._answer_to(line, body)
            if answer is not None:
                await self._write(answer + b"\n")
        finally:
            body.release()

    async def _answer_to(self, line: bytes | None, body: Body) -> bytes | None:
        if line is None:
            message = f"a line has at most {limits.RPC_REQUEST_BYTES:,} bytes"
            return encode_error(None, ValidationError("RPC_REQUEST", message))
        body.data = line
        request = await self._answering.decode(line)
        return await self._answering.answer(request, await self._caller(), ByteQuota(body))


class _LocalCaller:
    """Who started the process."""

    def __init__(self, parts: Components) -> None:
        self._catalog = parts.catalog
        self._audiences = parts.views
        self._skills = parts.skills

    async def now(self) -> RpcCaller:
        """Return what it may use of what is published now; waits until something is."""
        revision = self._catalog.current or await self._catalog.first()
        if revision is None:
            raise StorageError("STORAGE", "the skills could not be loaded")
        audience = await self._audiences.of(LOCAL, revision)
        return RpcCaller(caller_of(LOCAL, ""), await self._skills.of(audience, revision))
