"""Our two HTTP drivers beside the libraries that they replace: ``python bench/http_clients.py [ROUNDS]``.

- *downloads*: a hundred small files over one kept connection, as an install does; the synchronous driver beside
  ``http.client`` with the same address policy's modules imported. Counted is the CPU time of the whole process,
  start-up and imports included.
- *crawl*: the index of a thousand hosts, each a new connection, with its digest; the asynchronous driver with the
  address policy beside a bare aiohttp ``GET``. Counted are hosts a second, of time and of processor time, without
  imports.

The server is a separate process on loopback. Both sides take turns. The goals are at most 1.0 of the processor time,
and at least 0.8 of the hosts.
"""

from __future__ import annotations

import asyncio
import functools
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from comparison import Goal, compare
from skillwire.adapters.http.asynchronous import AsyncDriver
from skillwire.model.digest import Digest
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from skillwire.wire.exchange import Flow

ROUNDS: Final = 9
DOWNLOADS: Final = 100
HOSTS: Final = 1_000
AT_ONCE: Final = 20
BODY: Final = b"x" * 2_000

SERVER: Final = f"""
import asyncio
HEADERS = ["HTTP/1.1 200 OK", "content-type: application/json", 'etag: "0123456789abcdef"', "vary: accept-encoding",
    "cache-control: public, max-age=60", "date: Tue, 01 Jan 2030 00:00:00 GMT", "server: x",
    "access-control-allow-origin: *", "content-length: {len(BODY)}", "", ""]
ANSWER = "\\r\\n".join(HEADERS).encode() + b"x" * {len(BODY)}
class Peer(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.seen = transport, b""
    def data_received(self, data):
        *requests, self.seen = (self.seen + data).split(b"\\r\\n\\r\\n")
        self.transport.write(ANSWER * len(requests))
async def main():
    server = await asyncio.get_running_loop().create_server(Peer, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

OUR_DOWNLOADS: Final = """
import sys, click
from skillwire.adapters.http.sync import SyncDriver
from skillwire.model.url import parse_url
from skillwire.trust.address import AddressPolicy
from skillwire.wire.exchange import HttpRequest
from skillwire.wire.fetch import fetch
port, count = sys.argv[1:]
url = f"http://127.0.0.1:{port}/"
with SyncDriver(AddressPolicy().naming(parse_url(url))) as driver:
    results = driver.run_all([fetch(HttpRequest(f"{url}{number}")) for number in range(int(count))])
assert all(len(result.body) == 2000 for result in results)
"""

THEIR_DOWNLOADS: Final = """
import sys, click, http.client, skillwire.trust.address, skillwire.wire.fetch
port, count = sys.argv[1:]
connection = http.client.HTTPConnection("127.0.0.1", int(port))
for number in range(int(count)):
    connection.request("GET", f"/{number}")
    assert len(connection.getresponse().read()) == 2000
"""


def download(program: str, port: int, compiled: str) -> float:
    """Return the CPU milliseconds of a process that downloads, its byte code kept in the folder ``compiled``."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program, str(port), str(DOWNLOADS)], check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def our_crawl(port: int) -> tuple[float, float]:
    """Return the seconds of a crawl with the asynchronous driver."""

    def digest(url: str) -> Flow[Digest]:
        return Digest.of((yield from fetch(HttpRequest(url))).body)

    async def crawl() -> None:
        allow = tuple(f"http://h{number}.example:{port}" for number in range(HOSTS))
        async with AsyncDriver(AddressPolicy(allow=allow), resolve=lambda _: ["127.0.0.1"]) as driver:
            digests = await driver.run_all([digest(f"{origin}/index.json") for origin in allow], concurrency=AT_ONCE)
        assert set(digests) == {Digest.of(BODY)}

    return timed(crawl)


class Here(AbstractResolver):
    """Resolves every name to this machine, in a thread, as aiohttp's own resolver and ours do."""

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        """Return loopback."""
        found = ResolveResult(hostname=host, host="127.0.0.1", port=port, family=family, proto=0, flags=0)
        return await asyncio.get_running_loop().run_in_executor(None, lambda: [found])

    async def close(self) -> None:
        """Do nothing."""


def their_crawl(port: int) -> tuple[float, float]:
    """Return the seconds of a crawl with bare aiohttp."""

    async def crawl() -> None:
        waiting = iter(range(HOSTS))
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, resolver=Here(), family=socket.AF_INET)
        ) as session:

            async def work() -> None:
                for number in waiting:
                    async with session.get(f"http://h{number}.example:{port}/index.json") as response:
                        assert await response.read() == BODY

            await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    return timed(crawl)


def timed(crawl: Callable[[], Coroutine[None, None, None]]) -> tuple[float, float]:
    """Return the seconds of a coroutine function's run, and those of processor time."""
    start, cpu = time.perf_counter(), time.process_time()
    asyncio.run(crawl())
    return time.perf_counter() - start, time.process_time() - cpu


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with (
        tempfile.TemporaryDirectory() as compiled,
        subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            ours = functools.partial(download, OUR_DOWNLOADS, port, compiled)
            theirs = functools.partial(download, THEIR_DOWNLOADS, port, compiled)
            ours(), theirs()  # compiles
            pairs = [(ours(), theirs()) for _ in range(rounds)]
            mine, their = zip(*pairs, strict=True)
            compare(f"{DOWNLOADS} downloads, CPU", mine, their, Goal("at most", 1.0), peer="http.client")
            crawls = [(our_crawl(port), their_crawl(port)) for _ in range(rounds)]
            for measured, place in (("", 0), (", CPU", 1)):
                our_rates, their_rates = (
                    [HOSTS / times[place] for times in side] for side in zip(*crawls, strict=True)
                )
                what, goal = f"crawl of {HOSTS:,} hosts{measured}", Goal("at least", 1.2)
                compare(what, our_rates, their_rates, goal, peer="bare aiohttp", unit="hosts/s")
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
