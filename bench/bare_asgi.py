"""A server asked over one kept connection, its CPU time, and the bare ASGI application that others stand beside."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_BARE: Final = """
import socket, sys, uvicorn
body = open(sys.argv[1], "rb").read()
head = {"type": "http.response.start", "status": 200, "headers": [
    (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]}
async def app(scope, receive, send):
    await send(head)
    await send({"type": "http.response.body", "body": body})
listener = socket.create_server(("127.0.0.1", 0))
print('{"address": "http://127.0.0.1:%d"}' % listener.getsockname()[1], flush=True)
config = uvicorn.Config(app, http="httptools", loop="uvloop", lifespan="off", log_level="warning", access_log=False)
uvicorn.Server(config).run([listener])
"""


class Server(NamedTuple):
    """A process, and a connection to it."""

    process: subprocess.Popen[bytes]
    connection: HTTPConnection

    def cpu(self) -> float:
        """Return the seconds of processor time that all its threads have taken, user and system."""
        # In nanoseconds; what /proc/PID/stat counts in would be a few ticks a round.
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


@contextlib.contextmanager
def started(command: list[str], variables: dict[str, str]) -> Iterator[Server]:
    """Start a server that says its ``address`` in a JSON document; end it with the context."""
    process = subprocess.Popen(
        command, env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout
    try:
        document = b""
        while not document.rstrip().endswith(b"}"):
            document += process.stdout.readline()
        address = json.loads(document)["address"]
        yield Server(process, HTTPConnection(address.removeprefix("http://")))
    finally:
        process.terminate()
        process.wait()


def bare(answer: Path) -> contextlib.AbstractContextManager[Server]:
    """Start one function under uvicorn, httptools and uvloop, which sends ``answer`` for every request."""
    return started([sys.executable, "-c", _BARE, str(answer)], {})
