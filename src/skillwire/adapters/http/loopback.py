"""Waits on loopback for the browser to come back from a login: one path, one answer, a few minutes.

It listens on 127.0.0.1 alone, on a port that the system has free. Any program of this machine and any page in the
browser can send it a request, so what it gets is judged by :mod:`skillwire.protocols.oauth.authorization`; here a
request is bounded in size and time, must be a ``GET`` of the one path, and must have been meant for this very address,
which a page under a name that leads here cannot pretend. Everything else is answered and the waiting goes on.
Spec: RFC 8252 §7.3, §8.3.
"""

from __future__ import annotations

import contextlib
import re
import socket
import time
from typing import TYPE_CHECKING, Final, Self

from skillwire import limits
from skillwire.errors import FetchError, Place

if TYPE_CHECKING:
    from types import TracebackType

PATH: Final = "/callback"

_HEAD: Final = re.compile(rb"GET ([!-~]+) HTTP/1\.[01]\r\n(.*)", re.DOTALL)
_HOST: Final = re.compile(rb"^host:[\t ]*([!-~]*)[\t ]*\r?$", re.IGNORECASE | re.MULTILINE)
_ONE_REQUEST_SECONDS: Final = 5.0
_PAGE: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>skillwire</title>"
    "<p>{}</p><p>You may close this page and go back to the terminal.</p></html>"
)


class RedirectListener:
    """Listens while the context lasts. ``url`` is what the authorization server has to redirect to."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._authority = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = f"http://{self._authority}{PATH}"

    def __enter__(self) -> Self:
        """Return the listener."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        self._listener.close()

    def wait(self, seconds: float = limits.LOGIN_BROWSER_SECONDS) -> str:
        """Return path and query of the one request that counts.

        Raises:
            FetchError: ``LOGIN_TIMEOUT`` when none comes within ``seconds``.
        """
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._listener.settimeout(left)
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                break
            with connection, contextlib.suppress(OSError):  # whoever it was has gone; the next one may be the browser
                target = self._serve(connection)
                if target is not None:
                    return target
        raise FetchError("LOGIN_TIMEOUT", f"no browser came back within {seconds:g} s", place=Place(self.url))

    def _serve(self, connection: socket.socket) -> str | None:
        head = _read_head(connection)
        found = _HEAD.fullmatch(head)
        host = _HOST.search(head)
        if found is None or host is None or host[1].decode("ascii") != self._authority:
            _answer(connection, "400 Bad Request", "This is not the answer that skillwire waits for.")
            return None
        target = found[1].decode("ascii")
        if target.partition("?")[0] != PATH:
            _answer(connection, "404 Not Found", "There is nothing here.")
            return None
        with contextlib.suppress(OSError):  # the answer came; whether the browser hears of it does not matter
            _answer(connection, "200 OK", "skillwire has the answer; the terminal says what came of it.")
        return target


def _read_head(connection: socket.socket) -> bytes:
    head = b""
    end = time.monotonic() + _ONE_REQUEST_SECONDS
    while b"\r\n\r\n" not in head and len(head) <= limits.LOGIN_REDIRECT_BYTES:
        connection.settimeout(max(end - time.monotonic(), 0.001))
        data = connection.recv(4096)
        if not data:
            break
        head += data
    return head.partition(b"\r\n\r\n")[0] + b"\r\n"


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
