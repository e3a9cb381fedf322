"""Agents in processes of their own, as tests talk with them: see :mod:`tests.support.lan_agent_process`."""

import json
import queue
import subprocess
import sys
from pathlib import Path

from tests.support import lan_agent_process
from tests.support.eventually import PATIENCE, eventually
from tests.support.forked import ForkedPython
from tests.support.free_port import free_port
from tests.support.processes import follow

#: Ten times faster than by default, so that nobody waits half a minute for an eviction.
FAST = {"heartbeat_interval": 0.5, "timeout": 4.0, "announce_interval": 3.0, "flap_limit": 100.0}


class Agent:
    """An agent in a process.

    Args:
        process: with pipes.
        name: of the agent.
        skills: that it offers.
        settings: of discovery, by name.
        figures: of it.
        port: of the endpoint of its skills.
    """

    def __init__(self, process, name, skills=(), *, settings=None, figures=None, keeps_state=False, port=8080):
        self.process = process
        self.name = name
        self.changes: list[dict] = []
        self._lines: queue.Queue = queue.Queue()
        follow(process, lambda line: self._lines.put(json.loads(line)))
        defaults = {"agent_id": name, "use_unverified": True, "mdns": False}
        offers = [{"skill": skill, "port": port} for skill in skills]
        self._write(
            settings=defaults | (settings or {}),
            figures=figures or FAST,
            offers=offers,
            keeps_state=keeps_state,
            port=port,
        )

    def started(self):
        """Wait until it is there; return it."""
        assert self._answer() == "started"
        return self

    def ask(self, do, **order):
        """Give an order; return what it came to."""
        self._write(do=do, **order)
        return self._answer()

    def stop(self):
        """Have it say goodbye and end."""
        assert self.ask("stop") == "stopped"
        assert self.process.wait(PATIENCE) == 0

    def skills(self):
        return {skill["skill_id"]: skill["status"] for skill in self.ask("snapshot")["skills"]}

    def wait_for(self, condition, what):
        """Wait until a condition holds of what it lists."""
        eventually(self.skills, condition, f"{self.name}: {what}: that", every=0.05)

    def wait_for_change(self, kind, skill):
        """Wait until it has told a change of a skill; return it."""

        def told():
            while not self._lines.empty():
                self.changes.append(self._lines.get()["change"])
            fitting = (one for one in self.changes if one["kind"] == kind and one["skill"])
            return next((one for one in fitting if one["skill"]["skill_id"] == skill), None)

        return eventually(told, what=lambda: f"{self.name}: {kind} of {skill} in {self.changes}")

    def was_heard_first(self, first, second):
        """Assert that one change of a skill, (kind, skill), came before another."""
        order = [(one["kind"], one["skill"]["skill_id"]) for one in self.changes if one["skill"]]
        assert order.index(first) < order.index(second)

    def _answer(self):
        while "answer" not in (line := self._lines.get(timeout=PATIENCE)):
            self.changes.append(line["change"])
        return line["answer"]

    def _write(self, **line):
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()


def on_host(network, host, skills=(), **options):
    """Start an agent on a host of a network; ``started()`` waits for it."""
    process = network.start(host, sys.executable, Path(lan_agent_process.__file__))
    return Agent(process, f"agent-{host}", skills, **options)


def on_loopback(name, skills=(), *, home, **options):
    process = ForkedPython(
        [sys.executable, lan_agent_process.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", "SKILLWIRE_HOME": str(home), "HOME": str(home)},
    )
    options["settings"] = {"interfaces": ["127.0.0.1"]} | options.get("settings", {})
    return Agent(process, name, skills, port=free_port(), **options)
