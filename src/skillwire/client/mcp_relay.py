"""``skillwire mcp --server``: an endpoint of MCP for hosts that start programs, with the credentials kept here.

Messages are relayed side by side, as many at once as a host may have under way; one that the host takes back closes its
connection, by which the endpoint sees it.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from skillwire import limits
from skillwire.adapters.lines import lines_of, take_input
from skillwire.bridges.mcp.relay import Relay, cancelled_id, error_line, id_of, read_message, unread_line
from skillwire.client.api import AsyncClient
from skillwire.errors import SkillwireError
from skillwire.model.url import parse_url
from skillwire.wire.exchange import work
from skillwire.wire.fetch import fetch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from skillwire.bridges.mcp.relay import Message
    from skillwire.wire.exchange import Flow, HttpResponse

#: Messages that are under way at once.
_AT_ONCE: Final = 32


class RelayClient(AsyncClient):
    """A client that relays messages to an endpoint."""

    async def relay(self, endpoint: str, lines: AsyncIterator[bytes | None], write: Callable[[bytes], object]) -> None:
        """Relay each line to ``endpoint`` until there are no more, and ``write`` what comes back."""
        relay, places = Relay(endpoint), asyncio.Semaphore(_AT_ONCE)
        tasks: dict[Any, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            async for line in lines:
                try:
                    message = read_message(line)
                except SkillwireError as error:
                    write(unread_line(error))
                    continue
                if message is None:
                    continue
                if (taken_back := cancelled_id(message)) is not None:
                    if (task := tasks.get(taken_back)) is not None:
                        task.cancel()
                    continue
                await places.acquire()
                task = group.create_task(self._relay_one(relay, message, write))
                task.add_done_callback(lambda _: places.release())
                if message.get("method") == "initialize":
                    await asyncio.wait([task])  # what follows says the version that it settles
                if (key := id_of(message.get("id"))) is not None:
                    tasks[key] = task
                    task.add_done_callback(partial(_forget, tasks, key))

    async def _relay_one(self, relay: Relay, message: Message, write: Callable[[bytes], object]) -> None:
        def ask() -> Flow[HttpResponse]:
            yield from work(partial(self._session.access.allow_url, relay.endpoint))
            request = relay.request(message, self._session.context.credential_for(relay.endpoint))
            return (yield from fetch(request))

        try:
            response = await self._runner.run(ask())
            lines = relay.lines(message, response)
        except SkillwireError as error:
            self._session.access.explain(error)
            lines = _refused(message, error)
        except Exception as error:  # noqa: BLE001  # one message is not to end what others wait for
            lines = _refused(message, SkillwireError("INTERNAL", f"the relay failed: {type(error).__name__}"))
        for line in lines:
            write(line)


def endpoint_of(server: str) -> str:
    """Return the URL of the endpoint that the user means: of a bare origin, ``/mcp``.

    Raises:
        ValidationError: ``URL``.
    """
    url = parse_url(server if "://" in server else f"https://{server}")
    return str(url._replace(path="/mcp") if url.target == "/" else url)


def run_relay(endpoint: str, token: str | None) -> None:
    """Relay standard input to ``endpoint``, and what it answers to standard output, until the input ends."""
    output = sys.stdout.buffer
    asyncio.run(_run(endpoint, token, partial(_write, output)))


async def _run(endpoint: str, token: str | None, write: Callable[[bytes], object]) -> None:
    async with RelayClient() as client:
        if token is not None:
            client.set_token(endpoint, token)
        await client.relay(endpoint, lines_of(take_input(), limits.RPC_REQUEST_BYTES), write)


def _forget(tasks: dict[Any, asyncio.Task[None]], key: str | int, _: object) -> None:
    tasks.pop(key, None)


def _refused(message: Message, error: SkillwireError) -> list[bytes]:
    line = error_line(message, error)
    return [] if line is None else [line]


def _write(output: Any, line: bytes) -> None:
    output.write(line + b"\n")
    output.flush()
