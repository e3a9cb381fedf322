"""Runs skillwire, or a Python program that uses it, and shows every datagram that it sends and receives.

    python traced.py DESCRIPTOR NAME serve skills --lan
    python traced.py DESCRIPTOR NAME consumer.py

Each is a line of JSON on the file descriptor, with the name: ``{"who", "what": "sent" or "heard", "peer", "text"}``;
``peer`` is empty for messages to the group. In your own program the logger ``skillwire.lan.datagrams`` writes the
same.
"""

from __future__ import annotations

import json
import logging
import os
import runpy
import sys


class Show(logging.Handler):
    """Writes what the logger tells, whole lines at once, so that those of several processes do not mix."""

    def __init__(self, descriptor: int, who: str) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._who = who

    def emit(self, record: logging.LogRecord) -> None:
        """Write one datagram."""
        what, peer, data = record.args
        event = {
            "who": self._who,
            "what": what,
            "peer": peer and f"{peer[0]} {peer[1]}",
            "text": data.decode("latin-1"),
        }
        os.write(self._descriptor, f"{json.dumps(event)}\n".encode())


def main() -> None:
    """Show the datagrams of what the arguments say."""
    descriptor, who, *words = sys.argv[1:]
    logger = logging.getLogger("skillwire.lan.datagrams")
    logger.addHandler(Show(int(descriptor), who))
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    if words[0].endswith(".py"):
        sys.argv[:] = words
        runpy.run_path(words[0], run_name="__main__")
        return
    from skillwire.cli.main import main as skillwire

    sys.argv[:] = ["skillwire", *words]
    skillwire()


if __name__ == "__main__":
    main()
