"""A listener on loopback for the browser's redirect after a login: one path, one answer, a few minutes.

It listens on 127.0.0.1 only, on a free port. Any program on this machine and any web page can send it a request, so
:mod:`skillwire.protocols.oauth.client` judges what arrives. Here a request is bounded in size and time; it must be a
``GET`` of the one path, with this very address as its ``Host``, which a page under another name cannot send, and must
repeat the ``state`` of this login. Other requests are answered, and the wait continues. Browsers open connections in
advance, so all open connections are read; beyond a limit the oldest is closed. Spec: RFC 8252 §7.3, §8.3.
"""

from __future__ import annotations

import contextlib
import hmac
import re
import selectors
import socket
import time
from typing import Final, Self
from urllib.parse import parse_qs

from skillwire import limits
from skillwire.errors import FetchError, SourceLocation

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def wait(self, state: str, seconds: float = limits.LOGIN_BROWSER_SECONDS) -> str:
        """Return path and query of the first request with this login's ``state``.

        Raises FetchError (``LOGIN_TIMEOUT``).
        """
        end = time.monotonic() + seconds
        callers: dict[socket.socket, _BrowserConnection] = {}
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._listener, selectors.EVENT_READ)
                while (now := time.monotonic()) < end:
                    for caller in [caller for caller in callers.values() if caller.end <= now]:
                        _drop(caller, callers, selector)
                    next_end = min([end, *(caller.end for caller in callers.values())])
                    for key, _ in selector.select(next_end - now):
                        if key.fileobj is self._listener:
                            self._accept(callers, selector)
                        elif (caller := callers.get(key.fileobj)) and caller.receive():  # type: ignore[call-overload]  # sockets alone are registered
                            _drop(caller, callers, selector, close=False)
                            with caller.connection:
                                if (target := self._judge(caller, state)) is not None:
                                    return target
        finally:
            for caller in callers.values():
                caller.connection.close()
        raise FetchError("LOGIN_TIMEOUT", f"no browser came back within {seconds:g} s", place=SourceLocation(self.url))

    def _accept(self, callers: dict[socket.socket, _BrowserConnection], selector: selectors.BaseSelector) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # the client has gone already
            return
        connection.setblocking(False)
        if len(callers) >= limits.LOGIN_CONNECTIONS:
            _drop(next(iter(callers.values())), callers, selector)
        callers[connection] = _BrowserConnection(connection)
        selector.register(connection, selectors.EVENT_READ)

    def _judge(self, caller: _BrowserConnection, state: str) -> str | None:
        """Answer a whole request; return its target when it is the one that counts."""
        found = _HEAD.fullmatch(caller.head)
        host = _HOST.search(caller.head)
        target = found[1].decode("ascii") if found else ""
        counts = False
        if not target or host is None or host[1].decode("ascii") != self._authority:
            answer = "400 Bad Request", "This is not the answer that skillwire waits for."
        elif target.partition("?")[0] != PATH:
            answer = "404 Not Found", "There is nothing here."
        elif not _has_state(target, state):
            answer = "400 Bad Request", "This is not the answer of this login."
        else:
            answer, counts = ("200 OK", "skillwire has the answer; the terminal shows the result."), True
        caller.connection.settimeout(_ONE_REQUEST_SECONDS)
        with contextlib.suppress(OSError):  # whether the browser hears of it does not matter
            _answer(caller.connection, *answer)
        return target if counts else None


class _BrowserConnection:
    """One open connection, and what came on it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.end = time.monotonic() + _IDLE_SECONDS
        self._received = b""

    @property
    def head(self) -> bytes:
        """The request line and the header fields."""
        return self._received.partition(b"\r\n\r\n")[0] + b"\r\n"

    def receive(self) -> bool:
        """Take what has come; whether no more is to come, or all of the head is here."""
        try:
            data = self.connection.recv(4096)
        except BlockingIOError:
            return False
        except OSError:  # it was broken off
            data = b""
        if not self._received:
            self.end = time.monotonic() + _ONE_REQUEST_SECONDS
        self._received += data
        return not data or b"\r\n\r\n" in self._received or len(self._received) > limits.LOGIN_REDIRECT_BYTES


def _drop(
    caller: _BrowserConnection,
    callers: dict[socket.socket, _BrowserConnection],
    selector: selectors.BaseSelector,
    *,
    close: bool = True,
) -> None:
    selector.unregister(caller.connection)
    del callers[caller.connection]
    if close:
        caller.connection.close()


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
