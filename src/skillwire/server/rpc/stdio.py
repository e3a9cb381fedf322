"""JSON-RPC on standard input and output: a line is a document, in and out **[ours]**.

Requests are answered as they are ready, which need not be the order in which they came: a list does not wait for a run
that was asked for before it. It ends with its input, as soon as what came is answered; or at once when nobody reads its
answers any more. Spec: JSON-RPC 2.0; specs §4.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from skillwire import limits
from skillwire.adapters.lines import LineWriter, lines_of
from skillwire.errors import Place, StorageError, ValidationError
from skillwire.protocols.skills_rpc.json_rpc import encode_error
from skillwire.server.audience import Audiences
from skillwire.server.auth.rate_limit import caller_of
from skillwire.server.invocation.bodies import Bodies, Body
from skillwire.server.local import LOCAL, started, take_output
from skillwire.server.rpc.answering import Answering
from skillwire.server.rpc.methods import Caller, Methods
from skillwire.server.rpc.room import REQUESTS, Room

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from skillwire.server.compose import Parts


async def serve_stdio(parts: Parts) -> None:
    """Answer what comes in by standard input until it ends."""
    writer, caller = LineWriter(take_output()), _LocalCaller(parts)
    session = Session(Answering(Methods(parts.executions.runs)), caller.now, writer.write)
    async with started(parts):
        await caller.now()  # what cannot be loaded at all is told before anything is read
        await session.run(lines_of(0, limits.RPC_REQUEST_BYTES))


class Session:
    """Answers lines.

    Args:
        answering: answers what came.
        caller: returns who calls, with what is published at that moment.
        write: sends a line, with its end.
    """

    def __init__(
        self,
        answering: Answering,
        caller: Callable[[], Awaitable[Caller]],
        write: Callable[[bytes], Awaitable[None]],
    ) -> None:
        self._answering = answering
        self._caller = caller
        self._write = write
        self._bodies = Bodies(REQUESTS)
        self._places = asyncio.Semaphore(limits.RPC_STDIO_AT_ONCE)

    async def run(self, lines: AsyncIterator[bytes | None]) -> None:
        """Answer each of ``lines``; return when all are answered, or nobody reads the answers."""
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
            raise StorageError("STORAGE", message, place=Place("standard output")) from None

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
        return await self._answering.answer(request, await self._caller(), Room(body))


class _LocalCaller:
    """Who started the process."""

    def __init__(self, parts: Parts) -> None:
        self._publication = parts.publication
        self._audiences = Audiences(parts.base_url)
        self._skills = parts.skills

    async def now(self) -> Caller:
        """Return what it may use of what is published now; waits until something is."""
        revision = self._publication.current or await self._publication.first()
        if revision is None:
            raise StorageError("STORAGE", "the skills could not be loaded")
        audience = await self._audiences.of(LOCAL, revision)
        return Caller(caller_of(LOCAL, ""), await self._skills.of(audience, revision))
