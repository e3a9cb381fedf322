"""``skillwire mcp --server``: an MCP endpoint for hosts that start programs, with the credentials stored here.

Messages are relayed concurrently; a cancelled one closes its connection, which the endpoint sees.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

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

_AT_ONCE: Final = 32  # messages relayed concurrently


class RelayClient(AsyncClient):
    """A client that relays messages to an endpoint."""

    async def relay(self, endpoint: str, lines: AsyncIterator[bytes | None], write: Callable[[bytes], object]) -> None:
        """Relay each line to ``endpoint`` until the input ends, and ``write`` the answers."""
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
                if (cancelled := cancelled_id(message)) is not None:
                    if (task := tasks.get(cancelled)) is not None:
                        task.cancel()
                    continue
                await places.acquire()
                task = group.create_task(self._relay_one(relay, message, write))
                task.add_done_callback(lambda _: places.release())
                if message.get("method") == "initialize":
                    await asyncio.wait([task])  # later messages state the negotiated version
                if (key := id_of(message.get("id"))) is not None:
                    tasks[key] = task
                    task.add_done_callback(lambda _, key=key: tasks.pop(key, None))  # type: ignore[misc]  # the key of now

    async def _relay_one(self, relay: Relay, message: Message, write: Callable[[bytes], object]) -> None:
        def ask() -> Flow[HttpResponse]:
            yield from work(partial(self._session.access.allow_url, relay.endpoint))
            request = relay.request(message, self._session.context.credential_for(relay.endpoint))
            return (yield from fetch(request))

        try:
            response = await self._runner.run(ask())
            lines: list[bytes | None] = [*relay.lines(message, response)]
        except SkillwireError as error:
            self._session.access.explain(error)
            lines = [error_line(message, error)]
        except Exception as error:  # noqa: BLE001  # one message must not end the others
            lines = [error_line(message, SkillwireError("INTERNAL", f"the relay failed: {type(error).__name__}"))]
        for line in lines:
            if line is not None:
                write(line)


def endpoint_of(server: str) -> str:
    """Return the URL of the user's endpoint: of a bare origin, ``/mcp``."""
    url = parse_url(server if "://" in server else f"https://{server}")
    return str(url._replace(path="/mcp") if url.target == "/" else url)


async def run_relay(
    endpoint: str, token: str | None, lines: AsyncIterator[bytes | None], write: Callable[[bytes], object]
) -> None:
    """Relay ``lines`` to ``endpoint``, with ``token`` or the stored credential, and ``write`` the answers."""
    async with RelayClient() as client:
        if token is not None:
            client.set_token(endpoint, token)
        await client.relay(endpoint, lines, write)
