"""The asynchronous driver: exchanges over asyncio, for servers, crawlers and :class:`skillwire.AsyncClient`.

It does what :mod:`skillwire.adapters.http.sync` does, with the same reader, the same policy and the same bounds, so
that what one refuses the other refuses: read that module for the way of a request. It stands on asyncio's
transports alone and runs on any loop. Beside a general HTTP library it is faster where each host is a new
connection, and has no second reading of HTTP (docs/decisions/0009).

Names are looked up in the loop's executor, large bodies are decompressed in a thread, and one timeout spans the
whole request, so neither a slow name server nor a slow peer holds up anything else. A large body goes into the sink
of its request as it arrives, in the loop: each piece is one write to the system's cache.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Self, TypeVar, cast

from skillwire import limits
from skillwire.adapters.http.kept import Kept
from skillwire.adapters.http.names import known_addresses, look_up
from skillwire.adapters.http.rules import USER_AGENT, may_repeat, no_address, still_allowed, timed_out, weightier
from skillwire.adapters.http.stream import open_stream
from skillwire.errors import FetchError, SkillwireError, TrustError
from skillwire.model.url import parse_url
from skillwire.wire.coding import decode_content
from skillwire.wire.http1 import ResponseReader, encode_request

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Sequence

    from skillwire.adapters.http.names import Resolver
    from skillwire.adapters.http.stream import Stream
    from skillwire.model.url import Url
    from skillwire.trust.address import AddressPolicy
    from skillwire.wire.exchange import Exchange, HttpRequest, HttpResponse

T = TypeVar("T")

_CODINGS: Final = ("gzip", "br")
_DECODE_APART_BYTES: Final = 64 * 1024  # more than this keeps the loop waiting for a millisecond


class AsyncDriver:
    """Drives exchanges, one or several at a time, all in one event loop.

    Args:
        policy: where connections may lead. It may be replaced at any time; each request asks the current one.
        user_agent: of the requests that name none.
        resolve: asked for the addresses of names, in a thread.

    ``on_traffic`` may be set: it is told a host and 0 when a request is made, and the bytes of each piece that comes.
    """

    def __init__(self, policy: AddressPolicy, *, user_agent: str = USER_AGENT, resolve: Resolver = look_up) -> None:
        self.policy = policy
        self.on_traffic: Callable[[str, int], object] = lambda *_: None
        self._defaults = {"user-agent": user_agent, "accept-encoding": ", ".join(_CODINGS)}
        self._resolve = resolve
        self._kept: Kept[Stream] = Kept()
        self._context: ssl.SSLContext | None = None

    async def __aenter__(self) -> Self:
        """Return the driver."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the kept connections."""
        await self.close()

    async def close(self) -> None:
        """Close the kept connections. The driver may be used again, and then opens new ones."""
        self._kept.close()
        await asyncio.sleep(0)  # the loop closes a socket in its next turn

    async def run(self, exchange: Exchange[T]) -> T:
        """Drive ``exchange`` to its end and return its result; errors are thrown into it first."""
        try:
            request = next(exchange)
            while True:
                try:
                    response = await self._ask(request)
                except SkillwireError as error:
                    request = exchange.throw(error)
                else:
                    request = exchange.send(response)
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def run_all(
        self,
        exchanges: Iterable[Exchange[T]],
        *,
        concurrency: int = limits.HTTP_CONCURRENCY,
        on_done: Callable[[], object] = lambda: None,
    ) -> list[T | SkillwireError]:
        """Drive ``exchanges``, several at once; return their results or errors in order.

        Args:
            exchanges: independent of each other.
            concurrency: how many at once, at least 1.
            on_done: called after each.
        """
        waiting = list(exchanges)
        results: list[T | SkillwireError | None] = [None] * len(waiting)
        numbered = iter(enumerate(waiting))

        async def work() -> None:
            for index, exchange in numbered:
                try:
                    results[index] = await self.run(exchange)
                except SkillwireError as error:
                    results[index] = error
                on_done()

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(concurrency, len(waiting))):
                workers.create_task(work())
        return cast("list[T | SkillwireError]", results)

    async def _ask(self, request: HttpRequest) -> HttpResponse:
        """Make one request and return its answer, content-decoded."""
        url = parse_url(request.url)
        self.policy.check_url(url)
        self.on_traffic(url.authority, 0)
        message = encode_request(request, url, self._defaults)
        if request.delay:
            await asyncio.sleep(request.delay)
        try:
            async with asyncio.timeout(request.timeout):
                response = await self._ask_kept(request, url, message)
                if response is None:
                    stream = await self._connect(url)
                    response = await self._converse(stream, url, message, ResponseReader(request))
        except TimeoutError as error:
            raise timed_out(request) from error
        if len(response.body) > _DECODE_APART_BYTES and "content-encoding" in response.headers:
            return await asyncio.to_thread(decode_content, response, request.max_bytes, codings=_CODINGS)
        return decode_content(response, request.max_bytes, codings=_CODINGS)

    async def _ask_kept(self, request: HttpRequest, url: Url, message: bytes) -> HttpResponse | None:
        """Ask on a kept connection; return None when there is none, or when it ended before it saw the request."""
        stream = self._take(url)
        if stream is None:
            return None
        reader = ResponseReader(request)
        try:
            return await self._converse(stream, url, message, reader)
        except FetchError as error:
            if may_repeat(request, reader, error):
                return None
            raise

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

    def _take(self, url: Url) -> Stream | None:
        """Return a kept connection to the origin of ``url`` that may still be used."""
        while (stream := self._kept.take(url.origin)) is not None:
            if stream.is_quiet() and still_allowed(self.policy, url, stream.address):
                return stream
            stream.close()
        return None

    async def _connect(self, url: Url) -> Stream:
        """Connect to the first address that the policy allows and that answers."""
        loop = asyncio.get_running_loop()
        found: Sequence[str] | None = known_addresses(url.host)
        if found is None:
            found = await loop.run_in_executor(None, self._resolve, url.host)
        addresses = found[: limits.HTTP_ADDRESSES]
        end = loop.time() + limits.HTTP_CONNECT_SECONDS
        context = await self._tls() if url.scheme == "https" else None
        failure: SkillwireError | None = None
        for index, address in enumerate(addresses):
            seconds = (end - loop.time()) / (len(addresses) - index)
            try:
                self.policy.check_address(url, address)
                return await open_stream(url, address, seconds, context)
            except (FetchError, TrustError) as error:
                failure = weightier(failure, error)
        raise failure or no_address(url)

    async def _tls(self) -> ssl.SSLContext:
        from skillwire.adapters.http.tls import client_context  # noqa: PLC0415 - what meets no https needs no ssl

        if self._context is None:
            self._context = await asyncio.to_thread(client_context)
        return self._context
