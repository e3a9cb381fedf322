"""A real ``skillwire`` process with a home of its own, such as a node of the DHT on this machine."""

import os
import re
import signal
import sys
from contextlib import contextmanager

from tests.support.eventually import PATIENCE, eventually
from tests.support.forked import ForkedPython


@contextmanager
def running(home, *arguments):
    """Run a command with a home of its own; give what returns its output so far, and end it."""
    home.mkdir(exist_ok=True)
    log = home / "log"
    with log.open("w") as written:
        process = ForkedPython(
            [sys.executable, "-m", "skillwire", *map(str, arguments)],
            env={**os.environ, "SKILLWIRE_HOME": str(home)}, stdout=written, stderr=written,
        )  # fmt: skip
    try:
        yield log.read_text
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)
    assert code == 0, log.read_text()


def port_in(printed, before):
    """Wait until a process prints a port behind a pattern; return it."""
    return eventually(lambda: re.search(rf"{before}(\d+)", printed()), what=printed)[1]


@contextmanager
def dht_node(home):
    """Run a node alone; give its address on this machine."""
    with running(home, "dht", "serve", "--port", "0") as printed:
        yield f"127.0.0.1:{port_in(printed, NODE)}"


#: What ``dht serve`` prints before its port.
NODE = r"node \w+ at [\d.]+:"
