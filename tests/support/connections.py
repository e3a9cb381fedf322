"""Connections to an application without sockets: chunks come as a test says, and what is written is kept."""

import asyncio

import uvicorn
from uvicorn.server import ServerState

from skillwire.server.fastpath import Connection


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self, address):
        super().__init__()
        self._address = address
        self.written = b""
        self.closed = False
        self.is_reading_paused = False

    def write(self, data):
        self.written += data

    def writelines(self, parts):
        self.written += b"".join(parts)

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    def get_extra_info(self, name, default=None):
        return {"peername": (self._address, 1234), "sockname": ("192.0.2.1", 80)}.get(name, default)

    def pause_reading(self):
        self.is_reading_paused = True

    def resume_reading(self):
        self.is_reading_paused = False


class Connections:
    """Makes connections to ``application``."""

    def __init__(self, application, **options):
        self._config = uvicorn.Config(
            application, http=Connection, ws="none", lifespan="off", log_config=None, **options
        )
        self._config.load()
        self._state = ServerState()
        self._state.default_headers = [(b"date", b"now")]
        self._opened = []

    def __call__(self, address="192.0.2.7"):
        connection = Connection(self._config, self._state, {}, asyncio.get_running_loop())
        transport = Transport(address)
        connection.connection_made(transport)
        self._opened.append(connection)
        return connection, transport

    def close(self):
        while self._opened:
            self._opened.pop().connection_lost(None)
