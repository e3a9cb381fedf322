"""The time until another agent sees a new skill: ``python bench/lan_visible.py [ROUNDS]``.

On loopback: from the moment an agent begins to announce (its process runs, its key exists) to the moment another
process lists its skill. Between two hosts, which are network namespaces and need root: from the moment ``skillwire
serve FOLDER --lan`` reports that it listens, and separately from the start of its process, to the moment an agent on
the other host lists the skill. Each is measured by multicast, with the challenge that proves the agent's identity,
signed and verified; and by mDNS alone, which has to probe for a free name. The goals are 150 ms and 2 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from comparison import Goal, compare
from lan_agents import agent_process, free_port, loopback
from skillwire.adapters.lan.agent import LanAgent
from skillwire.protocols.skill_discovery.settings import LanSettings
from two_hosts import ADDRESSES, obstacle, two_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS: Final = 10
_PATIENCE: Final = 30.0
_SKILL: Final = "---\nname: NAME\ndescription: Says who works here. Use for questions about people.\n---\nLook it up.\n"
#: How, the settings of both agents, and the goal in seconds.
WAYS: Final[list[tuple[str, dict[str, Any], float]]] = [
    ("multicast", {}, 0.15),
    ("mDNS", {"multicast": False, "mdns": True}, 2.0),
]


class Seen(NamedTuple):
    """Seconds until a skill was seen: since its server said that it listens, and since its process was started."""

    listening: float
    started: float


def main(rounds: int = ROUNDS) -> None:
    """Measure and print."""
    _on_loopback(rounds)
    if reason := obstacle():
        print(f"not measured between two hosts: {reason}")
        return
    with two_hosts() as (serving, looking):
        for way, settings, goal in WAYS:
            seen = list(_between_hosts(serving, looking, settings, rounds))
            what = f"LAN: on another host by {way}, since the server listens"
            ours = [one.listening * 1000 for one in seen]
            compare(what, ours, [goal * 1000] * rounds, Goal("at most", 1.0), peer="the goal")
            starts = sorted(one.started * 1000 for one in seen)
            middle = starts[len(starts) // 2]
            print(f"since its process starts: min {starts[0]:.0f}, median {middle:.0f}, max {starts[-1]:.0f} ms")


def _on_loopback(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        environ["SKILLWIRE_HOME"] = home
        for way, settings, goal in WAYS:
            seen = [asyncio.run(_seen_after(number, settings)) for number in range(rounds)]
            what = f"LAN: from announcing to visible by {way}"
            compare(what, [one * 1000 for one in seen], [goal * 1000] * rounds, Goal("at most", 1.0), peer="the goal")


async def _seen_after(number: int, settings: dict[str, Any]) -> float:
    """Return the seconds from an agent's beginning to its skill in our list."""
    port = free_port()
    ours = loopback("looking", port=port, **settings)
    async with LanAgent(LanSettings(**ours | {"interfaces": ("127.0.0.1",)})) as agent:
        changes = agent.listen()
        await asyncio.sleep(0.5)  # until our own mDNS is up
        name = f"new-{number}-{port}"
        running = agent_process(name, 1, port=port, **settings)
        entering = asyncio.create_task(asyncio.to_thread(running.__enter__))
        try:
            async with asyncio.timeout(_PATIENCE):
                async for change in changes:
                    if change.skill is not None and change.skill.agent_id == name:
                        break
            at = time.time()
            return at - (await entering).began
        finally:
            await entering
            await asyncio.to_thread(running.__exit__, None, None, None)


def _between_hosts(serving: list[str], looking: list[str], settings: dict[str, Any], rounds: int) -> Iterator[Seen]:
    """Give what each of some new servers took; each has a home, a key and a new skill."""
    with (
        tempfile.TemporaryDirectory() as work,
        _ended([*looking, sys.executable, __file__, "look", json.dumps(settings)], Path(work, "looking")) as looker,
    ):
        assert json.loads(_line(looker)) == "looking"
        for number in range(rounds):
            yield _served(serving, looker, settings, Path(work), f"skill-{number}")


def _served(serving: list[str], looker: subprocess.Popen[str], settings: dict[str, Any], work: Path, name: str) -> Seen:
    """Return how long the skill of a new server took."""
    folder, home = work / f"skills-of-{name}", work / f"home-of-{name}"
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(_SKILL.replace("NAME", name), "utf-8")
    ways = {"udp": {"enabled": settings.get("multicast", True)}, "mdns": {"enabled": settings.get("mdns", False)}}
    configuration = work / "lan.yaml"  # JSON is YAML
    configuration.write_text(json.dumps({"discovery": ways}), "utf-8")
    serve = ["serve", folder, "--lan", "--discovery", configuration, "--host", ADDRESSES[0], "--port", "0", "--json"]
    began = time.time()
    with _ended([*serving, sys.executable, "-m", "skillwire", *map(str, serve)], home) as server:
        while json.loads(_line(server))["event"] != "listening":
            pass
        listens = time.time()
        while (seen := json.loads(_line(looker)))[0] != name:
            pass
        return Seen(seen[1] - listens, seen[1] - began)


@contextlib.contextmanager
def _ended(command: list[str], home: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a process with a home of its own; end it as people do."""
    environment = {**os.environ, "SKILLWIRE_HOME": str(home)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, bufsize=1
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=_PATIENCE)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    line = process.stdout.readline()
    assert line, f"ended: {process.args!r}"
    return line


async def _look(settings: dict[str, Any]) -> None:
    """Print which skills come, and when."""
    async with LanAgent(LanSettings(**{"mdns": False} | settings), keeps_state=False) as agent:
        changes = agent.listen()
        await asyncio.sleep(2)  # until our own mDNS is up, and has asked what there is
        print(json.dumps("looking"), flush=True)
        async for change in changes:
            if change.kind == "registered" and change.skill is not None:
                print(json.dumps([change.skill.skill_id, time.time()]), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["look"]:
        asyncio.run(_look(json.loads(sys.argv[2])))
    else:
        main(*map(int, sys.argv[1:]))
