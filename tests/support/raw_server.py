"""A server on loopback that answers whatever bytes a test wants, at the pace that it wants."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

from tests.support.eventually import readable

from skillwire.protocols.agent_skills.messages import SCHEMA_URI


class Peer:
    """The server's end of one connection.

    Args:
        sock: connected, past the TLS handshake where there is one.
        server: whose connection it is.
    """

    def __init__(self, sock: socket.socket, server: RawServer) -> None:
        self._socket = sock
        self._server = server
        self._buffer = b""

    def request(self) -> bytes:
        """Return the head of the next request, without its body; empty when the client is gone."""
        while b"\r\n\r\n" not in self._buffer:
            data = self._socket.recv(65536)
            if not data:
                return b""
            self._buffer += data
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        self._server.requests.append(head)
        return head

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def drip(self, data: bytes, seconds: float) -> None:
        """Send ``data`` byte by byte with a pause before each, until the test is over."""
        for index in range(len(data)):
            if self._server.stopping.wait(seconds):
                return
            self.send(data[index : index + 1])

    def reset(self) -> None:
        """End the connection by a reset, not by an orderly end."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def tunnel(self, port: int) -> None:
        """Carry bytes between the client and a port of this machine until one of them ends."""
        # The end of the test closes both: their descriptors are negative then.
        with contextlib.suppress(ValueError), socket.create_connection(("127.0.0.1", port)) as target:
            self._server.opened.append(target)
            other = {self._socket: target, target: self._socket}
            while True:
                for end in readable(*other, seconds=None):
                    if not (data := end.recv(65536)):
                        return
                    other[end].sendall(data)

    def cut(self) -> None:
        """End the TCP connection in order, but without an end of TLS."""
        self._socket.shutdown(socket.SHUT_WR)

    def end_tls(self) -> None:
        """End TLS in order, then the connection."""
        assert isinstance(self._socket, ssl.SSLSocket)
        self._socket.unwrap().close()


class RawServer:
    """Listens on a loopback address while the context lasts, each connection in a thread of its own.

    Args:
        talk: holds the conversation of one connection, which ends when it returns. None never accepts one.
        tls: for https.
        address: on which to listen.
    """

    def __init__(
        self, talk: Callable[[Peer], object] | None, *, tls: ssl.SSLContext | None = None, address: str = "127.0.0.1"
    ) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.stopping = threading.Event()
        self._talk = talk
        self._tls = tls
        self._listener = socket.create_server(
            (address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET
        )
        self.port: int = self._listener.getsockname()[1]
        self.opened: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def url(self, path: str = "/", *, host: str = "127.0.0.1") -> str:
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    def __enter__(self) -> Self:
        if self._talk is not None:
            self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        for sock in [self._listener, *self.opened]:
            with contextlib.suppress(OSError):  # the other side may have ended it already
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in self._threads:
            thread.join()

    def _begin(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed: the test is over
            while True:
                sock, _ = self._listener.accept()
                self.connections += 1
                self.opened.append(sock)
                if self.stopping.is_set():  # then the end of the test may have looked through them before
                    sock.close()
                    return
                self._begin(lambda sock=sock: self._hold(sock))  # type: ignore[misc]  # binds this turn's socket

    def _hold(self, sock: socket.socket) -> None:
        assert self._talk is not None
        # The client may go at any moment: that is what many tests are about.
        with contextlib.suppress(OSError), sock:
            if self._tls is None:
                self._talk(Peer(sock, self))
            else:
                with self._tls.wrap_socket(sock, server_side=True) as secure:
                    self.opened.append(secure)  # wrapping has taken the descriptor out of the other one
                    if not self.stopping.is_set():
                        self._talk(Peer(secure, self))


def answer(body: bytes = b"", *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def opening_tunnels(
    port: int, *, credentials: bytes | None = None, status: str = "200 Connection established"
) -> Callable[[Peer], None]:
    """Return the talk of a proxy that leads every tunnel to ``port``, for the header line ``credentials``."""

    def talk(peer: Peer) -> None:
        head = peer.request()
        if credentials is not None and credentials not in head.split(b"\r\n"):
            peer.send(answer(b"<p>Log in</p>", "Proxy-Authenticate: Basic", status="407 Who are you"))
        elif not status.startswith("200"):
            peer.send(answer(b"<p>No</p>", status=status))
        else:
            peer.send(f"HTTP/1.1 {status}\r\n\r\n".encode())
            peer.tunnel(port)

    return talk


def index_of(*entries: dict[str, Any]) -> bytes:
    """Return an index of Agent Skills."""
    return json.dumps({"$schema": SCHEMA_URI, "skills": entries}).encode()


def pages(found: Mapping[str, Any], *headers: str) -> Callable[[Peer], None]:
    """Return a talk that gives the document or the bytes of each path, as they are then, and no other."""

    def talk(peer: Peer) -> None:
        while request := peer.request():
            page = found.get(request.split(b" ")[1].decode())
            body = page if isinstance(page, bytes) else json.dumps(page or {}).encode()
            status = "200 OK" if page else "404 Not Found"
            peer.send(answer(body, "Content-Type: application/json", *headers, status=status))

    return talk


def serving(*answers: bytes) -> Callable[[Peer], None]:
    """Return a talk that gives one of ``answers`` to each request, the last one again and again."""

    def talk(peer: Peer) -> None:
        waiting = list(answers)
        while peer.request():
            peer.send(waiting.pop(0) if len(waiting) > 1 else waiting[0])

    return talk
