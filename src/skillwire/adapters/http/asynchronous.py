"""The asynchronous driver: flows over asyncio, for servers, crawlers and :class:`skillwire.AsyncClient`.

It behaves as :mod:`skillwire.adapters.http.sync` does, with the same reader, address policy and bounds; that module
describes the life of a request. It uses asyncio's transports only and runs on any loop. Compared with a general HTTP
library it is faster where each host is a new connection, and adds no second HTTP parser (docs/decisions/0002).

Names are resolved in the loop's executor, large bodies are decompressed in a thread, and one timeout covers the whole
request, so a slow name server or peer delays nothing else. A large body is written into its sink as it arrives.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, Self, TypeVar, cast

from skillwire import limits
from skillwire.adapters.http.connection import (
    RECEIVE_BYTES,
    HttpDriver,
    Proxy,
    check_peer,
    client_context,
    connect_error,
    is_quiet,
    known_addresses,
    look_up,
    may_repeat,
    more_serious,
    no_address_error,
    socket_address,
    timeout_error,
    tunnel_reader,
)
from skillwire.errors import FetchError, SkillwireError, TrustError
from skillwire.model.url import Url
from skillwire.wire.exchange import All, Flow, HttpRequest, HttpResponse, Step, Work, drive_async
from skillwire.wire.http1 import ResponseReader, decode_content


class Stream(asyncio.Protocol):
    """A connected transport to an ``address`` that passed the address policy."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader: ResponseReader | None = None
        self._answer: asyncio.Future[HttpResponse] | None = None
        self._on_bytes: Callable[[int], object] = lambda _: None

    def is_quiet(self) -> bool:
        """Whether it is open and nothing came since the last answer."""
        if self._transport is None or self._transport.is_closing():
            return False
        return is_quiet(self._transport.get_extra_info("socket").fileno())

    def close(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()

    async def converse(
        self, message: bytes, reader: ResponseReader, on_bytes: Callable[[int], object] = lambda _: None
    ) -> HttpResponse:
        """Send a request and return its response, content-encoded; ``on_bytes`` gets each piece's size."""
        if self._transport is None or self._transport.is_closing():
            raise reader.lost("it was closed")
        self._reader, self._answer, self._on_bytes = reader, self._loop.create_future(), on_bytes
        self._transport.write(message)
        try:
            return await self._answer
        finally:
            self._reader = self._answer = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand ``data`` to the reader."""
        if self._reader is None:
            self.close()  # unexpected bytes would pass for the next response
        else:
            self._on_bytes(len(data))
            self._settle(self._reader.feed, data)

    def eof_received(self) -> None:
        """End the response."""
        if self._reader is not None and not self._was_cut():
            self._settle(self._reader.end)

    def _was_cut(self) -> bool:
        """Whether a TLS stream ended without a close message, which asyncio does not report."""
        secure = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        try:
            return secure is not None and secure.read(1) != b""
        except OSError:
            return True  # it still waits for more

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail a pending answer."""
        if self._reader is not None and self._answer is not None and not self._answer.done():
            self._answer.set_exception(self._reader.lost(str(exc or "it ended")))

    def _settle(self, read: Callable[..., HttpResponse | None], *data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.close()
            return
        try:
            response = read(*data)
        except SkillwireError as error:
            self._answer.set_exception(error)
            self.close()
        else:
            if response is not None:
                self._answer.set_result(response)


async def open_stream(
    url: Url, address: str, seconds: float, context: ssl.SSLContext | None, proxy: Proxy | None
) -> Stream:
    """Connect as :func:`skillwire.adapters.http.connection.open_connection` does."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
            try:
                sock.setblocking(False)
                await loop.sock_connect(sock, socket_address(address, (proxy.url if proxy else url).port))
                if proxy is not None and context is not None:
                    await loop.sock_sendall(sock, proxy.connect_message(url))
                    reader, response = tunnel_reader(proxy), None
                    while response is None:
                        data = await loop.sock_recv(sock, RECEIVE_BYTES)
                        response = reader.feed(data) if data else reader.end()
                    proxy.check(response, url, is_tunnel=True)
            except BaseException:
                sock.close()
                raise
            # From here on the loop owns the socket, and closes it when something fails.
            name = url.name if context else None
            _, stream = await loop.create_connection(
                lambda: Stream(address), sock=sock, ssl=context, server_hostname=name
            )
            return stream
    except OSError as error:
        raise connect_error(url, address, error, str(error) or "timed out", proxy) from error


T = TypeVar("T")

_DECODE_APART_BYTES: Final = 64 * 1024  # more than this keeps the loop waiting for a millisecond


class AsyncDriver(HttpDriver[Stream]):
    """Runs flows, one or several at a time, in one event loop."""

    _codings = ("gzip", "br") if find_spec("brotli") else ("gzip",)  # brotli comes with a server's packages

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the kept connections. The driver may be used again, and then opens new ones."""
        self._kept.close()
        await asyncio.sleep(0)  # the loop closes a socket in its next turn

    async def run(self, flow: Flow[T]) -> T:
        """Run ``flow`` to its end and return its result; errors are thrown into it first."""
        return await drive_async(flow, self._do)

    async def run_all(
        self,
        flows: Iterable[Flow[T]],
        *,
        run: Callable[[Flow[T]], Awaitable[T]] | None = None,
        concurrency: int = limits.HTTP_CONCURRENCY,
        on_done: Callable[[], object] = lambda: None,
        is_enough: Callable[[T], bool] = lambda _: False,
        delays: Sequence[float] = (),
    ) -> list[T | SkillwireError]:
        """Run independent ``flows`` concurrently, each by ``run``; return their results or errors in order.

        After one that ``is_enough`` the others are cancelled. ``delays`` are those of ``All``.
        """
        waiting = list(flows)
        results: list[T | SkillwireError | None] = [None] * len(waiting)
        numbered = (pair for pair in enumerate(waiting))
        tasks = set[asyncio.Task[None]]()

        async def work() -> None:
            for index, flow in numbered:
                try:
                    results[index] = result = await (run or self.run)(flow)
                except SkillwireError as error:
                    results[index] = error
                else:
                    if is_enough(result):
                        for task in tasks - {asyncio.current_task()}:
                            task.cancel()
                        numbered.close()
                on_done()
                if delays:
                    return

        async with asyncio.TaskGroup() as workers:
            for number in range(len(waiting) if delays else min(concurrency, len(waiting))):
                tasks.add(workers.create_task(work()))
                if delays:
                    running = [task for task in tasks if not task.done()]
                    await asyncio.wait(running, timeout=delays[number], return_when=asyncio.FIRST_COMPLETED)
        return cast("list[T | SkillwireError]", results)

    async def _do(self, step: Step) -> Any:
        if isinstance(step, HttpRequest):
            return await self.send(step)
        if isinstance(step, All):
            return await self.run_all(**step._asdict())
        return await (asyncio.to_thread(step.call) if isinstance(step, Work) else asyncio.sleep(step.seconds))

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Make one request and return its answer, content-decoded."""
        url, proxy, message = self._prepare(request)
        try:
            async with asyncio.timeout(request.timeout):
                kept, reader = self._kept.take(self.policy, url, proxy), ResponseReader(request)
                try:
                    response = await self._converse(kept or await self._connect(url, proxy), url, message, reader)
                except FetchError as error:
                    if kept is None or not may_repeat(request, reader, error):
                        raise
                    stream = await self._connect(url, proxy)
                    response = await self._converse(stream, url, message, ResponseReader(request))
        except TimeoutError as error:
            raise timeout_error(request) from error
        if proxy is not None:
            proxy.check(response, url, is_tunnel=False)
        if len(response.body) > _DECODE_APART_BYTES and "content-encoding" in response.headers:
            return await asyncio.to_thread(decode_content, response, request.max_bytes, codings=self._codings)
        return decode_content(response, request.max_bytes, codings=self._codings)

    async def _converse(self, stream: Stream, url: Url, message: bytes, reader: ResponseReader) -> HttpResponse:
        try:
            response = await stream.converse(message, reader, partial(self.on_traffic, url.authority))
        except BaseException:
            stream.close()
            raise
        if reader.reusable:
            self._kept.keep(url.origin, stream)
        else:
            stream.close()
        return response

    async def _connect(self, url: Url, proxy: Proxy | None) -> Stream:
        """Connect to the first address, of the host or its proxy, that the policy allows and that answers."""
        loop = asyncio.get_running_loop()
        peer = proxy.url if proxy else url
        found: Sequence[str] | None = known_addresses(peer.host)
        if found is None:
            found = await loop.run_in_executor(None, look_up, self._resolve, peer.host, proxy)
        addresses = found[: limits.HTTP_ADDRESSES]
        end = loop.time() + limits.HTTP_CONNECT_SECONDS
        context = await self._tls() if url.scheme == "https" else None
        failure: SkillwireError | None = None
        for index, address in enumerate(addresses):
            seconds = (end - loop.time()) / (len(addresses) - index)
            try:
                check_peer(self.policy, url, proxy, address)
                return await open_stream(url, address, seconds, context, proxy)
            except (FetchError, TrustError) as error:
                failure = more_serious(failure, error)
        raise failure or no_address_error(peer)

    async def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = await asyncio.to_thread(client_context)
        return self._context
