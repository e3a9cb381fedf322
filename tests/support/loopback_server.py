"""An HTTP server on 127.0.0.1 for as long as a context lasts: what the peers of tests are made of."""

import json
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext, SSLError
from typing import Any, Self


class Handler(BaseHTTPRequestHandler):
    """Keeps connections, answers in whole, and logs nothing."""

    protocol_version = "HTTP/1.1"

    @property
    def fields(self) -> dict[str, str]:
        """The request's header fields by their names in lower case."""
        return {name.lower(): value for name, value in self.headers.items()}

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def send(
        self,
        status: int,
        body: Any = b"",
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Answer; a body that is not bytes is written as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": content_type, "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True  # a kept connection may outlast the test
    request_queue_size = 128  # a connection beyond it comes about a second later

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error unless the client closed the connection: standard error may be that of a command then."""
        if not isinstance(sys.exception(), ConnectionError | SSLError):
            super().handle_error(request, client_address)


class LoopbackServer:
    """Serves while the context lasts; ``host`` is where, address and port.

    Args:
        handler: answers requests.
        tls: with which to speak HTTPS.
        known: what a handler finds as attributes of its own.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler], tls: SSLContext | None = None, **known: Any) -> None:
        self._server = _Server(("127.0.0.1", 0), type("Handler", (handler,), known))
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self.host = f"127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
