"""An HTTP server on 127.0.0.1 for as long as a context lasts: what the peers of tests are made of."""

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
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


class LoopbackServer:
    """Serves while the context lasts; ``host`` is where, address and port.

    Args:
        handler: answers requests.
        tls: with which to speak HTTPS.
        known: what a handler finds as attributes of its own.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler], tls: SSLContext | None = None, **known: Any) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler,), known))
        self._server.daemon_threads = True  # a kept connection may outlast the test
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
