"""The one way out of a sandbox: a proxy that connects to granted origins and to nothing else.

It listens on a socket of the file system that only this sandbox sees, and understands one request, ``CONNECT
host:port``. The host has to match one of the skill's ``permissions.network``, and each of its addresses the address
policy (:mod:`skillwire.trust.address`). The proxy connects to the address that it checked, so a name that resolves
differently a moment later leads nowhere. Then it passes bytes unread: TLS is between the skill and the host. Time,
bytes and connections are limited.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from skillwire import limits
from skillwire.adapters.http.connection import Resolver, resolve_host
from skillwire.errors import SkillwireError, ValidationError
from skillwire.model.url import DEFAULT_PORTS, parse_url
from skillwire.trust.address import AddressPolicy


class Pattern(NamedTuple):
    """``https://host[:port]``, or ``https://*.host[:port]`` for every name below ``host``, and not itself."""

    host: str
    port: int
    is_wildcard: bool

    def covers(self, host: str, port: int) -> bool:
        """Whether the pattern means ``host``, in lower case, and ``port``."""
        return port == self.port and (host.endswith(f".{self.host}") if self.is_wildcard else host == self.host)


def read_patterns(texts: Iterable[str]) -> tuple[Pattern, ...]:
    """Return patterns that :func:`skillwire.folder.fields.check_network` has accepted."""
    found = []
    for text in texts:
        url = parse_url(text.replace("://*.", "://", 1))
        found.append(Pattern(url.host, url.port, "://*." in text))
    return tuple(found)


_REQUEST: Final = re.compile(rb"CONNECT ([A-Za-z0-9.-]{1,253}):([1-9][0-9]{0,4}) HTTP/1\.[01]\r\n")
_FIELDS: Final = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[ \t!-~\x80-\xff]*\r\n)*\r\n")
_END: Final = b"\r\n\r\n"
_PIECE: Final = 64 * 1024
_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV  # no name is looked up again
_SOCKET_PATH_LENGTH: Final = 100  # the kernel takes 107 bytes
_REFUSALS_LOGGED: Final = 10
_READABLE: Final = 0o666  # its folder is this server's alone, and the sandbox has a uid of its own


class _RefusedError(Exception):
    """The proxy does not connect; args are the status of the response and the reason."""


class AllowListProxy:
    """The proxy of one sandbox, while it is entered; it connects to ``patterns`` that ``policy`` allows.

    ``on_refusal`` is called with the reason of the first refusals, and at the end with the number of the others.
    """

    def __init__(
        self,
        patterns: Sequence[Pattern],
        policy: AddressPolicy,
        *,
        resolve: Resolver = resolve_host,
        on_refusal: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._patterns = patterns
        self._policy = policy
        self._resolve = resolve
        self._on_refusal = on_refusal
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0
        self._refused = 0
        self._bytes_left = int(limits.SANDBOX_PROXY_BYTES)

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        self.path, listener = await asyncio.to_thread(_listen)
        try:
            self._server = await asyncio.start_unix_server(self._accept, sock=listener, limit=_PIECE)
        except BaseException:
            listener.close()
            await asyncio.to_thread(shutil.rmtree, self.path.parent, ignore_errors=True)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """End every connection."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._refused > _REFUSALS_LOGGED:
            self._on_refusal(f"{self._refused - _REFUSALS_LOGGED:,} more connections")
        await asyncio.to_thread(shutil.rmtree, self.path.parent, ignore_errors=True)

    def _refuse(self, why: str) -> None:
        """Report a refusal, unless many were reported: a skill may try thousands of times a second."""
        self._refused += 1
        if self._refused <= _REFUSALS_LOGGED:
            self._on_refusal(why)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        if len(self._tasks) >= limits.SANDBOX_PROXY_OPEN or self._count > limits.SANDBOX_PROXY_CONNECTIONS:
            self._refuse("too many connections")
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(limits.SANDBOX_PROXY_HEAD_SECONDS):
                head = await reader.readuntil(_END)
            try:
                far = await self._connect(head)
            except _RefusedError as refusal:
                status, why = refusal.args
                self._refuse(why)
                writer.write(f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode())
                await writer.drain()
            else:
                await self._tunnel(reader, writer, *far)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return  # a malformed or broken request gets no response
        finally:
            writer.transport.abort()

    async def _connect(self, head: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to the target of the request ``head``. Raises _RefusedError."""
        if len(head) > limits.SANDBOX_PROXY_HEAD_BYTES:
            raise _RefusedError("431 Request Header Fields Too Large", "the request to the proxy is too long")
        found = _REQUEST.match(head)
        if found is None or not _FIELDS.fullmatch(head, found.end()):
            target = None
        else:
            host, port = found.groups()
            try:
                target = parse_url(f"https://{host.decode('ascii')}:{port.decode('ascii')}/")
            except ValidationError:
                target = None
        if target is None:
            why = "the proxy was asked for something else than CONNECT host:port"
            raise _RefusedError("405 Method Not Allowed", why)
        if not any(pattern.covers(target.host, target.port) for pattern in self._patterns):
            raise _RefusedError("403 Not Granted", f"{target.origin} is not granted")
        try:
            # The pattern grants the port; the policy judges the name and its addresses.
            self._policy.check_url(target._replace(port=DEFAULT_PORTS["https"]))
            addresses = await asyncio.to_thread(self._resolve, target.host)
            failure: Exception = OSError(0, "no address")
            for address in addresses[: limits.HTTP_ADDRESSES]:
                try:
                    self._policy.check_address(target, address)
                    async with asyncio.timeout(limits.HTTP_CONNECT_SECONDS):
                        return await asyncio.open_connection(address, target.port, limit=_PIECE, flags=_NUMERIC)
                except (SkillwireError, OSError) as error:
                    failure = error
            raise failure
        except SkillwireError as error:
            raise _RefusedError("502 Bad Gateway", f"{target.origin}: {error.message}") from error
        except OSError as error:
            why = f"{target.origin}: {error.strerror or 'no connection'}"
            raise _RefusedError("502 Bad Gateway", why) from error

    async def _tunnel(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        try:
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            async with asyncio.timeout(limits.SANDBOX_PROXY_IDLE_SECONDS) as idle, asyncio.TaskGroup() as ways:
                ways.create_task(self._carry(reader, far_writer, idle))
                ways.create_task(self._carry(far_reader, writer, idle))
        except* OSError:
            pass  # one side has gone, both fell silent, or a limit is reached
        finally:
            far_writer.transport.abort()

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, idle: asyncio.Timeout) -> None:
        def moved() -> None:
            if not idle.expired():
                idle.reschedule(asyncio.get_running_loop().time() + limits.SANDBOX_PROXY_IDLE_SECONDS)

        while data := await source.read(_PIECE):
            moved()
            self._bytes_left -= len(data)
            if self._bytes_left < 0:
                self._refuse("too many bytes")
                raise ConnectionAbortedError
            target.write(data)
            await target.drain()
            moved()
        with contextlib.suppress(OSError):
            target.write_eof()


def _listen() -> tuple[Path, socket.socket]:
    """Return a socket that only this server and the sandbox can reach, and its path."""
    folder = tempfile.mkdtemp(prefix="skillwire-")
    if len(folder) > _SOCKET_PATH_LENGTH - len("/proxy.sock"):
        Path(folder).rmdir()
        folder = tempfile.mkdtemp(prefix="skillwire-", dir="/tmp")  # a short path, for the owner alone
    path = Path(folder, "proxy.sock")
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(_READABLE)
    except BaseException:
        listener.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return path, listener
