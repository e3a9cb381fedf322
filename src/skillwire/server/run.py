"""Running the application as a process: its socket, HTTP library, memory, signals, and an end that loses nothing."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import resource
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, cast
from urllib.parse import urlsplit

import structlog
import uvicorn

from skillwire import limits
from skillwire.errors import ConflictError, SourceLocation, UsageError
from skillwire.model.lan import host_and_port
from skillwire.protocols.skill_discovery.settings import LanSettings
from skillwire.server.app import Application
from skillwire.server.components import Services
from skillwire.server.fastpath import Connection
from skillwire.server.http import is_own_name
from skillwire.server.revision import Revision

_BACKLOG: Final = 2048
#: Open files that a server of the largest number of connections needs: half of them are for everything else.
_OPEN_FILES: Final = 2 * limits.SERVER_CONNECTIONS
_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_LARGE: Final = 128 * 1024  # with which the library begins
_KEPT: Final = 1024 * 1024


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one. Raises UsageError (``HOST_UNUSABLE``), ConflictError."""
    place = SourceLocation(f"{host}:{port}")
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return _listen(family, address)
    except socket.gaierror as error:
        raise UsageError("HOST_UNUSABLE", f"cannot listen at {host}: {error.strerror}", place=place) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConflictError("PORT_IN_USE", f"port {port} is in use", place=place) from error
        raise UsageError("HOST_UNUSABLE", f"cannot listen: {error.strerror}", place=place) from error


def listen_everywhere(port: int) -> list[socket.socket]:
    """Return sockets that listen on every IPv4 address, and on every IPv6 address if this machine has any."""
    first = listen("0.0.0.0", port)  # noqa: S104  # what is asked for
    with suppress(OSError):  # a machine without IPv6, or another program has the port there
        return [first, _listen(socket.AF_INET6, ("::", first.getsockname()[1]), is_only_ipv6=True)]
    return [first]


def listen_for(lan: LanSettings | None, host: str | None, port: int) -> list[socket.socket]:
    """Return the sockets of a server: on ``host``, or by default on all addresses with the LAN, else on loopback."""
    if host is None and lan is not None:
        return listen_everywhere(port)
    return [listen(host or "127.0.0.1", port)]


def _listen(family: int, address: Any, *, is_only_ipv6: bool = False) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if is_only_ipv6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def listener_url(listener: socket.socket) -> str:
    """Return the URL under which this machine reaches ``listener``."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # everywhere includes here
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def fit_connections() -> int:
    """Return how many connections the limit of open files allows, after raising that as far as it is useful."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # negative where there is none
    if 0 <= soft < (wanted := _OPEN_FILES if hard < 0 else min(_OPEN_FILES, hard)):
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    connections = limits.SERVER_CONNECTIONS if soft < 0 else min(limits.SERVER_CONNECTIONS, soft // 2)
    if connections < limits.SERVER_CONNECTIONS:
        fix = f"Allow {_OPEN_FILES} open files, as LimitNOFILE of systemd does."
        structlog.get_logger("skillwire").warning("few connections", connections=connections, open_files=soft, fix=fix)
    return connections


def is_local(services: Services, listeners: Iterable[socket.socket]) -> bool:
    """Whether no other machine reaches the server, and no address or proxy publishes it beyond this one."""
    names = [host_and_port(*one.getsockname()[:2]) for one in listeners]
    names += [urlsplit(services.base_url).netloc] if services.base_url else []
    return not services.configuration.trusted_proxies and all(map(is_own_name, names))


def trim_memory() -> None:
    """Return free memory to the system; takes 30 ms at 10,000 skills. Only glibc has a call that does it.

    Making a revision of thousands of skills takes several times the memory that the revision keeps, and freed memory
    stays with the process: Python keeps free tuples, and each pins a megabyte.

    What remains is excluded from the search for cycles until the next call: a request would be late by 60 ms when such
    a search went through 50,000 skills.
    """
    gc.unfreeze()
    gc.collect()  # it lets go of the free tuples
    gc.freeze()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_what_is_loaded() -> None:
    """Exclude everything loaded so far from the search for cycles; an execution then takes a tenth less CPU time."""
    gc.collect()
    gc.freeze()


def use_one_heap() -> None:
    """Make all threads share one heap, and return large blocks at once; Python's threads take turns anyway."""
    _set_heap((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, _LARGE))


def keep_freed_blocks() -> None:
    """Keep what requests free for the next ones: getting 700 kB anew takes longer than compressing a small skill in it.

    Not before the first revision: its blocks of this size would stand between freed ones, 13 MiB for 50,000 packages.
    """
    _set_heap((_M_MMAP_THRESHOLD, _KEPT), (_M_TRIM_THRESHOLD, 4 * _KEPT))


def _set_heap(*options: tuple[int, int]) -> None:
    """Set options of glibc's heap; other C libraries have none."""
    with suppress(OSError, AttributeError):
        for option, value in options:
            ctypes.CDLL(None).mallopt(option, value)


def run(
    application: Application, listener: socket.socket, *further: socket.socket, on_ready: Callable[[Revision], None]
) -> None:
    """Serve until SIGINT or SIGTERM, and finish open requests; ``on_ready`` gets the first revision."""
    listeners = [listener, *further]
    application.reached_at(*(one.getsockname()[:2] for one in listeners))
    application.services.is_local = is_local(application.services, listeners)
    proxies = application.services.configuration.trusted_proxies
    use_one_heap()
    keep_what_is_loaded()
    application.catalog.tidy = trim_memory
    config = uvicorn.Config(
        application,
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=[*proxies],
        limit_concurrency=fit_connections() + 1,
        timeout_keep_alive=limits.SERVER_IDLE_SECONDS,
        timeout_graceful_shutdown=limits.SERVER_SHUTDOWN_SECONDS,
    )

    async def wait_ready() -> None:
        if (revision := await application.catalog.first()) is not None:
            keep_freed_blocks()
            on_ready(revision)

    async def serve() -> None:
        ready = asyncio.create_task(wait_ready())
        try:
            await _Server(config).serve(sockets=listeners)
        except (Exception, SystemExit):  # the library's own end is not reached
            await application.unregister(has_failed=True)
            raise
        finally:
            ready.cancel()
            with suppress(asyncio.CancelledError):
                await ready

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(serve())


class _Server(uvicorn.Server):
    """The library's server, which ends with 0 when it is asked to end, and does not wait for what never ends."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say goodbye to the local network, end the pages that stay live, wait for the other answers under way."""
        application = cast("Application", self.config.app)
        await application.unregister()
        application.close_streams()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let the first signal end the server and a second SIGINT cut it short; nothing is raised again after."""
        wanted = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
