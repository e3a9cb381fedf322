"""An HTTP server on 127.0.0.1 for as long as a context lasts: what the peers of tests are made of."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class LoopbackServer:
    """Serves while the context lasts; ``host`` is where, address and port.

    Args:
        handler: answers requests.
        known: what a handler finds as attributes of its own.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler], **known: Any) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler,), known))
        self._server.daemon_threads = True  # a kept connection may outlast the test
        self.host = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
