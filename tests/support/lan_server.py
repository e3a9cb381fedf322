"""A real ``skillwire serve --lan``, on loopback or on a host of a network, and what it says."""

import json
import os
import queue
import signal
import subprocess
import sys
import urllib.request
from functools import partial
from urllib.parse import urlsplit

from tests.support.command import run_command
from tests.support.eventually import PATIENCE
from tests.support.forked import ForkedPython, run_forked
from tests.support.processes import follow

#: Faster than by default, so that nobody waits half a minute for an eviction.
FIGURES = {"heartbeatInterval": 1000, "timeout": 8000}
OPERATOR = """
from tests.support.opened import open_tokens
print(open_tokens().issue("operator", scopes=["operator"]).secret)
"""


class LanServer:
    """One server.

    Args:
        folder: of skills.
        home: its state, settings and cache.
        arguments: more of ``serve``'s.
        start: starts a process, as ``subprocess.Popen`` does; a network's, for one of its hosts.
        lan: group and port that it speaks at, in place of the usual ones.
        program: arguments of Python that run the command.
        discovery: tables beside ``udp``.
    """

    def __init__(
        self, folder, home, *arguments, start=ForkedPython, lan=None, program=("-m", "skillwire"), **discovery
    ):
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        udp = {"multicastGroup": lan.group, "port": lan.port} if lan else {}
        tables = {"udp": udp, "mdns": {"enabled": False}, "healthCheck": FIGURES}
        for table, values in discovery.items():
            tables[table] = tables.get(table, {}) | values
        configuration = home / "lan.yaml"
        configuration.write_text(yaml_of({"discovery": tables}))
        self.environment = {**os.environ, "SKILLWIRE_HOME": str(home)}
        self._errors = (home / "errors.log").open("a")
        command = ["serve", folder, "--lan", "--discovery", configuration, "--port", "0", "--json", *arguments]
        self.process = start(
            [sys.executable, *program, *map(str, command)],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._events: queue.Queue = queue.Queue()
        take, end = self._events.put, partial(self._events.put, None)
        self._reading = follow(self.process, lambda line: take(json.loads(line)), end)

    def event(self, name):
        while True:
            event = self._events.get(timeout=PATIENCE)
            assert event is not None, (self.home / "errors.log").read_text()
            if event["event"] == name:
                return event

    def started(self):
        """Wait until it is on the network; return it."""
        self.port = urlsplit(self.event("listening")["address"]).port
        self.agent = self.event("lan")["agent"]
        assert self.agent, (self.home / "errors.log").read_text()
        return self

    def get(self, path, fields=None, host="127.0.0.1"):
        """Ask it, on loopback; return the body."""
        request = urllib.request.Request(f"http://{host}:{self.port}{path}", headers=fields or {})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310  # a server of ours
            return answer.read()

    def run(self, *arguments):
        assert run_command(*arguments, env=self.environment).code == 0

    def operator(self):
        """Return the fields that show a new key of the scope ``operator``."""
        made = run_forked([sys.executable, "-c", OPERATOR], env=self.environment)
        return {"X-API-Key": made.stdout.strip()}

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def end(self):
        """Tell it to end; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait(PATIENCE)
            self._reading.join(PATIENCE)
            self._errors.close()

    def log(self):
        return (self.home / "errors.log").read_text()


def yaml_of(tables, depth=0):
    lines = []
    for key, value in tables.items():
        if isinstance(value, dict):
            lines += [f"{'  ' * depth}{key}:\n", yaml_of(value, depth + 1)]
        else:
            lines.append(f"{'  ' * depth}{key}: {json.dumps(value)}\n")
    return "".join(lines)
