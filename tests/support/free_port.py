"""A port for a server that is told its number before it begins to listen."""

import random
import socket
from contextlib import suppress

#: Below those that the system gives to connections, one of which would take the port before the server does.
_PORTS = range(10_000, 32_000)
_given: set[int] = set()
_RANDOM = random.SystemRandom()  # the common one repeats its numbers in each test, and in each process of a run


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return a port of loopback that is free now, of TCP or of another ``kind``, and another one each time."""
    while True:
        port = _RANDOM.choice(_PORTS)
        with socket.socket(socket.AF_INET, kind) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port
