"""A listener on loopback for the browser's redirect after a login: one path, one answer, a few minutes.

It listens on 127.0.0.1 only, on a free port. Any program on this machine and any web page can send it a request, so
:mod:`skillwire.protocols.oauth.client` judges what arrives. Here a request is bounded in size and time; it must be a
``GET`` of the one path, with this very address as its ``Host``, which a page under another name cannot send, and must
repeat the ``state`` of this login. Other requests are answered, and the wait continues. Browsers open connections in
advance, so each is read in a thread of its own; beyond a limit the oldest is closed. Spec: RFC 8252 §7.3, §8.3.
"""

from __future__ import annotations

import contextlib
import hmac
import re
import socket
import threading
from collections import deque
from queue import Empty, SimpleQueue
from typing import Final, Self
from urllib.parse import parse_qs

from skillwire import limits
from skillwire.errors import FetchError, SourceLocation, in_seconds

PATH: Final = "/callback"

_HEAD: Final = re.compile(rb"GET ([!-~]+) HTTP/1\.[01]\r\n(.*)", re.DOTALL)
_HOST: Final = re.compile(rb"^host:[\t ]*([!-~]*)[\t ]*\r?$", re.IGNORECASE | re.MULTILINE)
_IDLE_SECONDS: Final = 60.0  # before the first byte; browsers hold connections ready for that long
_ONE_REQUEST_SECONDS: Final = 5.0
_MOST_FIELDS: Final = 30
_PAGE: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>skillwire</title>"
    "<p>{}</p><p>You may close this page and go back to the terminal.</p></html>"
)


class RedirectListener:
    """Listens while the context lasts; the authorization server has to redirect to its ``url``."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._authority = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = f"http://{self._authority}{PATH}"
        self._open: deque[socket.socket] = deque()  # the oldest first
        self._found: SimpleQueue[str] = SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _cut(self._listener)
        for connection in tuple(self._open):
            _cut(connection)

    def wait(self, state: str, seconds: float = limits.LOGIN_BROWSER_SECONDS) -> str:
        """Return path and query of the first request with this login's ``state``.

        Raises FetchError (``LOGIN_TIMEOUT``).
        """
        threading.Thread(target=self._accept, args=(state,), daemon=True).start()
        try:
            return self._found.get(timeout=seconds)
        except Empty:
            message = f"no browser came back within {in_seconds(seconds)}"
            raise FetchError("LOGIN_TIMEOUT", message, place=SourceLocation(self.url)) from None

    def _accept(self, state: str) -> None:
        """Read each connection in a thread of its own, until the listener is closed."""
        while self._listener.fileno() >= 0:
            with contextlib.suppress(OSError):  # the client has gone already, or the listener was closed
                connection, _ = self._listener.accept()
                self._open.append(connection)
                if len(self._open) > limits.LOGIN_CONNECTIONS:
                    _cut(self._open.popleft())
                threading.Thread(target=self._serve, args=(connection, state), daemon=True).start()

    def _serve(self, connection: socket.socket, state: str) -> None:
        received = b""
        with connection:
            with contextlib.suppress(OSError):  # it was broken off or cut, or took too long
                connection.settimeout(_IDLE_SECONDS)
                while b"\r\n\r\n" not in received and len(received) <= limits.LOGIN_REDIRECT_BYTES:
                    if not (data := connection.recv(4096)):
                        break
                    received += data
                    connection.settimeout(_ONE_REQUEST_SECONDS)
            status, message, target = self._judge(received.partition(b"\r\n\r\n")[0] + b"\r\n", state)
            with contextlib.suppress(OSError):  # whether the browser hears of it does not matter
                _answer(connection, status, message)
        with contextlib.suppress(ValueError):  # the oldest of too many
            self._open.remove(connection)
        if target:
            self._found.put(target)

    def _judge(self, head: bytes, state: str) -> tuple[str, str, str]:
        """Return the status and the text for a request; and its target, when it is the one that counts."""
        found, host = _HEAD.fullmatch(head), _HOST.search(head)
        target = found[1].decode("ascii") if found else ""
        if not target or host is None or host[1].decode("ascii") != self._authority:
            return "400 Bad Request", "This is not the answer that skillwire waits for.", ""
        if target.partition("?")[0] != PATH:
            return "404 Not Found", "There is nothing here.", ""
        if not _has_state(target, state):
            return "400 Bad Request", "This is not the answer of this login.", ""
        return "200 OK", "skillwire has the answer; the terminal shows the result.", target


def _cut(sock: socket.socket) -> None:
    """Close a socket, and end the call of another thread that waits for it."""
    with contextlib.suppress(OSError):  # it is not connected any more
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


def _has_state(target: str, state: str) -> bool:
    """Whether exactly one ``state`` in the query of ``target`` is this login's. Trust: ``target`` is hostile."""
    try:
        values = parse_qs(target.partition("?")[2], max_num_fields=_MOST_FIELDS).get("state", [])
    except ValueError:  # too many fields
        return False
    return any(hmac.compare_digest(value.encode("utf-8", "surrogatepass"), state.encode()) for value in values)


def _answer(connection: socket.socket, status: str, message: str) -> None:
    body = _PAGE.format(message).encode()
    fields = [
        f"HTTP/1.1 {status}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'",
        "Referrer-Policy: no-referrer",
        "Connection: close",
    ]
    connection.sendall("\r\n".join([*fields, "", ""]).encode() + body)
