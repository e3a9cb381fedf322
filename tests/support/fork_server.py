"""Forks Python programs from a process that has imported what servers need.

Its argument is the descriptor of a socket. A message is a JSON object, with the three standard descriptors and one that
gets the process id, and later the status that ``waitpid`` returns. The end of the socket ends it.
"""

import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import termios
import time
import types
from pathlib import Path
from typing import Any

#: What servers, agents and commands import, and much of what these import when they start.
MODULES = (
    "encodings.idna",
    "skillwire.adapters.lan.mdns_zeroconf",
    "skillwire.cli.add",
    "skillwire.cli.call",
    "skillwire.cli.main",
    "skillwire.cli.serve",
    "skillwire.server.app",
    "skillwire.server.lan.compose",
    "skillwire.server.run",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
)
STATUS = struct.Struct("i")


def next_request(control: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; return that in the process that was forked for it, or None at the end."""
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not control:
                    pid, status = key.data
                    selector.unregister(key.fileobj)
                    os.close(key.fd)
                    with contextlib.suppress(BrokenPipeError):  # nobody waits for it
                        os.write(status, STATUS.pack(os.waitpid(pid, 0)[1]))
                    os.close(status)
                    continue
                message, descriptors, *_ = socket.recv_fds(control, 1 << 20, 4)
                if not message:
                    return None
                *streams, status = descriptors
                if (pid := os.fork()) == 0:
                    for number, descriptor in enumerate(streams):
                        os.dup2(descriptor, number)
                    control.detach()
                    selector.close()
                    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
                    return json.loads(message)
                for descriptor in streams:
                    os.close(descriptor)
                os.write(status, STATUS.pack(pid))
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status))


def become(request: dict[str, Any]) -> None:
    """Run a program in this process as a new interpreter would."""
    if request["is_session"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())  # type: ignore[union-attr]  # a TextIOWrapper
    option, name, *arguments = request["arguments"]
    sys.argv = ["-c" if option == "-c" else name, *arguments]
    if option == "-m":
        sys.path[0] = request["cwd"]
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    elif option == "-c":
        sys.path[0] = ""
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        exec(name, module.__dict__)  # noqa: S102  # as Python does with -c
    else:
        sys.path[0] = str(Path(name).parent)
        runpy.run_path(name, run_name="__main__")


if __name__ == "__main__":
    for module in MODULES:
        importlib.import_module(module)
    gc.freeze()  # so that a search for cycles copies none of these pages
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with socket.socket(fileno=int(sys.argv[1])) as socket_of_tests:
        asked = next_request(socket_of_tests)
    if asked is not None:
        become(asked)
