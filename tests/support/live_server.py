"""A real ``skillwire serve`` in a process of its own, ended with the context."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request

from tests.support.eventually import eventually

PATIENCE = 30.0


def free_port():
    """Return a port of loopback that the system has free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def serving(folder, home, *arguments):
    """Serve ``folder``, with state and cache under ``home``; give host and port. ``arguments`` are more of serve's."""
    port = free_port()
    environment = {**os.environ, "SKILLWIRE_HOME": str(home)}
    server = subprocess.Popen(
        [sys.executable, "-m", "skillwire", "serve", str(folder), *map(str, arguments), "--port", str(port)],
        env=environment,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )

    def is_ready():
        assert server.poll() is None, "the server ended"
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE).close()
            return True
        return False

    try:
        eventually(is_ready)
        yield f"127.0.0.1:{port}"
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(PATIENCE)
