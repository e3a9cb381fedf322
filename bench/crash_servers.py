"""Killed servers and workers lose no call: ``python bench/crash_servers.py [KILLS]``.

Two ``skillwire serve`` that only accept and two ``skillwire worker`` share a state folder. Callers call a skill that
may run twice and one that may not, and repeat each call with its Idempotency-Key until a server answers. A random one
of the four is killed (SIGKILL) again and again and replaced. In the end every execution that was answered with a 202
must have ended once, those that may run twice with their output, unless three workers were killed under one; a key must
have made one execution; the database must be intact; and no program of a worker may still run. Needs bubblewrap.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ledgers import flaws_of, found_in, has_lost_too_many
from processes import our_program
from skillwire.model.execution import Execution, ExecutionStatus

if TYPE_CHECKING:
    from collections.abc import Callable

KILLS: Final = 100
CALLERS: Final = 3
PATIENCE: Final = 90.0
MARK: Final = "swcrash" + secrets.token_hex(4)
SKILL_MD: Final = "---\nname: {name}\ndescription: Adds one.\nmetadata:\n  version: 1.0.0\n---\n# {name}\n"
SKILL_TOML: Final = """\
kind = "action"
idempotent = {idempotent}
[runtime]
language = "python"
entrypoint = "main.py"
export = "main"
[inputs.number]
type = "number"
description = "A number"
required = true
"""
MAIN: Final = f"""\
import ctypes, time
def main(args):
    ctypes.CDLL(None).prctl(15, b"{MARK}")  # PR_SET_NAME, so that the process is found
    time.sleep(0.2)
    return {{"number": args["number"] + 1}}
"""
SERVER_TOML: Final = """\
[executions]
lease_seconds = 2
per_caller = 100
per_skill = 100
"""
SKILLS: Final = {"twice": "true", "once": "false"}


class Program:
    """A program of ours that is killed and begun anew, with its port where it has one."""

    def __init__(self, work: Path, *arguments: str) -> None:
        self.command = our_program(*arguments)
        self.environment = {**os.environ, "SKILLWIRE_HOME": str(work / "home")}
        self.log = (work / "log").open("ab")
        self.begin()

    def begin(self) -> None:
        """Start it."""
        self.process = subprocess.Popen(
            self.command, env=self.environment, stdout=self.log, stderr=self.log, start_new_session=True
        )

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()


class Callers:
    """Threads that call, and what they were answered: key → ID."""

    def __init__(self, ports: list[int]) -> None:
        self.ports = ports
        self.answered: dict[str, str] = {}
        self.flaws: Counter[str] = Counter()
        self._stop, self._finishing = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=self._call, args=(number,)) for number in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Let every call be answered, and call no more."""
        self._finishing.set()
        for thread in self._threads:
            thread.join()

    def stop(self) -> None:
        """Call no more, answered or not."""
        self._stop.set()
        self.finish()

    def _call(self, caller: int) -> None:
        number = 0
        while not self._finishing.is_set():
            number += 1
            key = f"{caller}-{number}"
            while not self._is_answered(key, number) and not self._stop.is_set():
                time.sleep(0.05)
            time.sleep(0.05)

    def _is_answered(self, key: str, number: int) -> bool:
        skill = list(SKILLS)[number % 2]
        request = {"caller": {"id": "a", "type": "agent"}, "skill_id": f"acme/{skill}", "inputs": {"number": number}}
        connection = http.client.HTTPConnection("127.0.0.1", random.choice(self.ports), timeout=20)  # noqa: S311  # nothing secret
        try:
            fields = {"Content-Type": "application/json", "Idempotency-Key": key}
            connection.request("POST", f"/skills/{skill}/executions", json.dumps(request), fields)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        if answer.status not in {200, 202}:
            self.flaws[f"a call was answered with {answer.status}: {body[:200]!r}"] += 1
            return True
        name = json.loads(body)["execution_id"]
        if random.random() < 0.2:  # noqa: S311  # same: as a caller does that did not get the answer
            self.answered[key] = name
            return False
        if self.answered.setdefault(key, name) != name:
            self.flaws["a key made two executions"] += 1
        return True


def main(kills: int = KILLS) -> int:
    """Run; return the exit code."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="skillwire-crash-", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        ports = [_free_port(), _free_port()]
        programs = _begin(work, ports)
        callers = Callers(ports)
        try:
            _kill(work, programs, callers, kills)
        finally:
            callers.stop()
            for program in programs:
                program.kill()
        _wait_while(_left_running)  # what was begun by those that were killed ends a little later
        state = work / "home/state"
        flaws = (
            callers.flaws + asyncio.run(flaws_of(state, ended=True)) + _compare(asyncio.run(found_in(state)), callers)
        )
        flaws["a process was left running"] += _left_running()
        counts = Counter(execution.status for execution in asyncio.run(found_in(state)))
        losses = "; ".join(f"{number}x {flaw}" for flaw, number in flaws.items() if number)
        if losses:
            lines = (work / "log").read_text(errors="replace").splitlines()
            print("\n".join([line for line in lines if " info " not in line][-40:]))
    print(
        f"servers and workers: {kills} kills, {len(callers.answered):,} accepted, "
        f"{', '.join(f'{number:,} {status}' for status, number in counts.items())}; "
        f"{losses or '0 lost, each ended once, intact'} ({time.monotonic() - began:.0f} s)"
    )
    return 1 if losses else 0


def _kill(work: Path, programs: list[Program], callers: Callers, kills: int) -> None:
    """Kill one after the other; return when everything in it has ended, or should have."""
    began = time.monotonic()
    time.sleep(3)
    for number in range(1, kills + 1):
        time.sleep(random.uniform(0.1, 1.0))  # noqa: S311  # nothing secret
        program = random.choice(programs)  # noqa: S311  # same
        program.kill()
        program.begin()
        if number % 10 == 0:
            seconds = time.monotonic() - began
            print(f"  {number} kills, {len(callers.answered)} accepted ({seconds:.0f} s)", flush=True)
    callers.finish()
    _wait_while(lambda: any(not one.status.is_final for one in asyncio.run(found_in(work / "home/state"))))


def _wait_while(condition: Callable[[], object]) -> None:
    """Return once ``condition`` no longer holds, or has held for too long."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and condition():
        time.sleep(0.5)


def _begin(work: Path, ports: list[int]) -> list[Program]:
    for name, idempotent in SKILLS.items():
        skill = work / "skills" / name
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text(SKILL_MD.format(name=name))
        (skill / "skill.toml").write_text(SKILL_TOML.format(idempotent=idempotent))
        (skill / "main.py").write_text(MAIN)
    (work / "server.toml").write_text(SERVER_TOML)
    both = ("--config", str(work / "server.toml"), "--grant-all")
    serve = ("serve", str(work / "skills"), "--publisher", "acme", "--workers", "0", "--no-access-log", *both)
    servers = [Program(work, *serve, "--port", str(port)) for port in ports]
    return [*servers, *[Program(work, "worker", "--workers", "4", *both) for _ in range(2)]]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _compare(executions: list[Execution], callers: Callers) -> Counter[str]:
    """Return what is wrong with what callers were answered, and with how it ended."""
    flaws: Counter[str] = Counter()
    found = {execution.execution_id: execution for execution in executions}
    flaws["an execution is lost"] += len(set(callers.answered.values()) - set(found))
    flaws["there are executions without an acknowledgment"] += len(set(found) - set(callers.answered.values()))
    for execution in found.values():
        reason = execution.failure.reason if execution.failure else ""
        if execution.status is ExecutionStatus.COMPLETED:
            wanted = json.loads(execution.inputs)["number"] + 1
            flaws["an output is wrong"] += json.loads(execution.output or b"{}").get("number") != wanted
        elif reason != "worker_lost" or (execution.is_repeatable and not has_lost_too_many(execution)):
            flaws[f"one ended as {execution.status}, {reason}"] += 1
    return flaws


def _left_running() -> int:
    """Return how many processes of skills there still are."""
    number = 0
    for process in Path("/proc").glob("[0-9]*/comm"):
        try:
            number += MARK.encode() in process.read_bytes()
        except OSError:
            continue
    return number


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
