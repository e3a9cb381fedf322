"""An agent of the local network in a separate process, for the benches of the LAN.

``python bench/lan_agents.py JSON`` runs an agent: ``settings`` and ``figures`` by name, ``roles``, and ``skills``, the
number that it offers. It prints ``ready`` with its start time, and for each input line a line with its listed skills,
its processor seconds and its counters.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire.adapters.lan.agent import LanAgent
from skillwire.protocols.skill_discovery.messages import Endpoint, SkillType
from skillwire.protocols.skill_discovery.node import Role
from skillwire.protocols.skill_discovery.route_agent import Offer
from skillwire.protocols.skill_discovery.settings import DiscoverySettings, LanSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: A group without other members on this machine; a bench's messages stay on loopback.
GROUP: Final = "239.255.83.68"
_PATIENCE: Final = 60.0


class AgentReport(NamedTuple):
    """The report of an agent.

    Args:
        healthy: how many skills it lists as HEALTHY.
        cpu: processor seconds of its process.
        memory: bytes that it has in memory.
        counters: what it dropped, by its reason.
    """

    healthy: int
    cpu: float
    memory: int
    counters: dict[str, int]


class AgentProcess:
    """An agent in a process.

    Attributes:
        began: when it began to announce, in seconds since the epoch.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        word, began = self._line().split()
        assert word == "ready"
        self.began = float(began)

    def ask(self) -> AgentReport:
        """Return how it is."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text("ascii").split()[1])
        return AgentReport(memory=pages * os.sysconf("SC_PAGE_SIZE"), **json.loads(self._line()))

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the agent has ended"
        return line.strip()


@contextlib.contextmanager
def agent_process(
    name: str,
    skills: int = 0,
    *,
    roles: Iterable[Role] = Role,
    figures: Mapping[str, float] = MappingProxyType({}),
    **settings: Any,
) -> Iterator[AgentProcess]:
    """Run an agent on loopback, with a home of its own.

    Args:
        name: of the agent.
        skills: that it offers.
        roles: what it does.
        figures: of the protocol that are not the default.
        settings: beside those of :func:`loopback`.
    """
    arguments = json.dumps(
        {
            "settings": loopback(name, **settings),
            "skills": skills,
            "roles": list(roles),
            "figures": dict(figures),
        }
    )
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.Popen(
            [sys.executable, __file__, arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SKILLWIRE_HOME": home},
        )
        try:
            yield AgentProcess(process)
        finally:
            process.terminate()
            process.communicate(timeout=_PATIENCE)


def loopback(name: str, **settings: Any) -> dict[str, Any]:
    """Return settings of an agent that only a bench's agents hear."""
    return {"agent_id": name, "interfaces": ["127.0.0.1"], "group": GROUP, "mdns": False} | settings


def free_port() -> int:
    """Return a free UDP port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def offers(count: int, prefix: str = "skill") -> list[Offer]:
    """Return so many offers."""
    both = ("org-data-read", "user-auth")
    return [
        Offer(f"{prefix}-{number}", "1.0.0", SkillType.TOOL, Endpoint("", 8080), both, (f"scene-{number % 10}",))
        for number in range(count)
    ]


async def _run(arguments: dict[str, Any]) -> None:
    settings = arguments["settings"] | {"interfaces": tuple(arguments["settings"]["interfaces"])}
    settings["discovery"] = DiscoverySettings(**arguments["figures"])
    roles = frozenset(Role(role) for role in arguments["roles"])
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    agent = LanAgent(LanSettings(**settings), roles=roles)
    agent.announce(offers(arguments["skills"], f"{agent.agent_id}-skill"))
    began = time.time()
    async with agent:
        print("ready", began, flush=True)
        telling = 0.0  # what it costs to tell is not the agent's
        while await reader.readline():
            cpu = time.process_time() - telling
            healthy = sum(skill.status == "HEALTHY" for skill in agent.snapshot().skills)
            print(json.dumps({"healthy": healthy, "cpu": cpu, "counters": dict(agent.counters)}), flush=True)
            telling = time.process_time() - cpu


if __name__ == "__main__":
    asyncio.run(_run(json.loads(sys.argv[1])))
