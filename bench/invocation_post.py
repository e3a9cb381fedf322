"""The POST of an execution beside other durable APIs: ``python bench/invocation_post.py [ROUNDS]``.

Ours checks the inputs, stores the execution on the disk and answers 202; another server would run it. The peers are
``durable_api.py``: FastAPI with DBOS, on SQLite as ours and on PostgreSQL, and FastAPI with procrastinate, which needs
PostgreSQL. They validate the same call and store it before they answer. All answer on loopback from one process under
uvicorn, httptools and uvloop, without an access log; PostgreSQL has its defaults, its own processes, and the same disk.
``wrk`` sends requests over 64 connections with one thread, in a separate process, for two seconds, in turns, five
times. In the end every call that was answered with a 202 must be stored. The processor time is that of the API and of
PostgreSQL.

Needs wrk and PostgreSQL. ``SKILLWIRE_BENCH_PEERS`` names the Python that has the peers, if it is not our own.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from comparison import Goal, compare
from processes import our_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS: Final = 5
CONNECTIONS: Final = 64
SECONDS: Final = 2
GOAL: Final = 8.0
PYTHON: Final = os.environ.get("SKILLWIRE_BENCH_PEERS", sys.executable)
VERSIONS: Final = "from importlib.metadata import version; print(*map(version, ('fastapi', 'dbos', 'procrastinate')))"
PATH: Final = "/skills/book-table/executions"
REQUEST: Final = {
    "caller": {"id": "ifay-instance-042", "type": "ifay"},
    "skill_id": "acme/book-table",
    "inputs": {
        "restaurant": "Chez Louise",
        "date": "2026-11-21",
        "time": "19:30",
        "guests": 4,
        "contact": {"name": "Anna Muster", "phone": "+41 44 668 18 00"},
    },
    "context": {"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "priority": "normal", "timeout_ms": 60_000},
}
SKILL_TOML: Final = """\
kind = "action"
idempotent = true
[runtime]
language = "python"
entrypoint = "main.py"
export = "main"
"""
INPUTS: Final = {"restaurant": "string", "date": "string", "time": "string", "guests": "number", "contact": "object"}
SKILL_MD: Final = (
    "---\nname: book-table\ndescription: Books a table.\nmetadata:\n  version: 1.2.0\n---\n# Book a table\n"
)
SERVER_TOML: Final = "[executions]\nwaiting = 1000000\n"
WRK: Final = """\
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = [==[{body}]==]
"""


class Server(NamedTuple):
    """Processes that answer together, and what tells how many calls they have stored."""

    processes: tuple[int, ...]
    address: str
    stored: Callable[[], int]


class Measured(NamedTuple):
    """Requests a second, how many there were, and microseconds of processor time for one."""

    rate: float
    number: int
    cpu: float


def main(rounds: int = ROUNDS) -> None:
    """Measure and print."""
    if shutil.which("wrk") is None or _postgres_programs() is None:
        sys.exit("wrk or PostgreSQL is missing (as root: apt-get install wrk postgresql)")
    found = subprocess.run([PYTHON, "-c", VERSIONS], capture_output=True, text=True, check=False)
    if found.returncode:
        sys.exit("peers are missing (pip install fastapi dbos procrastinate 'psycopg[binary,pool]' uvicorn[standard])")
    fastapi, dbos, procrastinate = found.stdout.split()
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as folder, contextlib.ExitStack() as stack:
        work = Path(folder)
        work.chmod(0o755)  # PostgreSQL does not run as root
        script = work / "post.lua"
        script.write_text(WRK.format(body=json.dumps(REQUEST)))
        database = stack.enter_context(_postgres(work / "postgres"))
        ours = stack.enter_context(_ours(work))
        peers = {
            f"FastAPI {fastapi}, DBOS {dbos}, SQLite": _peer("dbos", f"sqlite:///{work}/dbos.db"),
            f"FastAPI {fastapi}, DBOS {dbos}, PostgreSQL": _peer("dbos", *database),
            f"FastAPI {fastapi}, procrastinate {procrastinate}, PostgreSQL": _peer("procrastinate", *database),
        }
        sides = [ours, *(stack.enter_context(peer) for peer in peers.values())]
        for side in sides:
            _measure(side, script)  # what is made once is made
        before = [side.stored() for side in sides]
        measured = [[_measure(side, script) for side in sides] for _ in range(rounds)]
        for position, (side, start) in enumerate(zip(sides, before, strict=True)):
            answered, stored = sum(row[position].number for row in measured), side.stored() - start
            # When it ends, wrk hangs up on what is on its way to the disk; the first time that may be after counting.
            assert answered <= stored <= answered + (rounds + 1) * CONNECTIONS, (position, answered, stored)
    for position, peer in enumerate(peers, 1):
        mine, others = [row[0].rate for row in measured], [row[position].rate for row in measured]
        compare("POST of an execution", mine, others, Goal("at least", GOAL), peer=peer, unit="requests/s")
        mine, others = [row[0].cpu for row in measured], [row[position].cpu for row in measured]
        compare("POST of an execution, CPU", mine, others, Goal("at most", 1 / GOAL), peer=peer, unit="us")


def _measure(server: Server, script: Path) -> Measured:
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "-s", str(script), f"http://{server.address}{PATH}"]
    before = sum(map(_cpu_seconds, server.processes))
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    used = sum(map(_cpu_seconds, server.processes)) - before
    assert "Non-2xx or 3xx" not in output, output
    assert "Socket errors" not in output, output
    rate, number = re.search(r"Requests/sec:\s+([\d.]+)", output), re.search(r"(\d+) requests in", output)
    assert rate
    assert number
    return Measured(float(rate[1]), int(number[1]), used / int(number[1]) * 1e6)


def _cpu_seconds(process: int) -> float:
    """Return the processor time of a process and of its children."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    ticks = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:15] for one in (process, *children)]
    return sum(int(one) for row in ticks for one in row) / os.sysconf("SC_CLK_TCK")


def _kept(work: Path) -> int:
    """Return how many executions the ledger has."""
    with contextlib.closing(sqlite3.connect(work / "home" / "state" / "skillwire.db")) as connection:
        return int(connection.execute("SELECT count(*) FROM executions").fetchone()[0])


@contextlib.contextmanager
def _ours(work: Path) -> Iterator[Server]:
    skill = work / "skills" / "book-table"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL_MD)
    (skill / "main.py").write_text("def main(args):\n    return args\n")
    inputs = [
        f'[inputs.{name}]\ntype = "{kind}"\ndescription = "{name}"\nrequired = true\n' for name, kind in INPUTS.items()
    ]
    (skill / "skill.toml").write_text(SKILL_TOML + "".join(inputs))
    (work / "server.toml").write_text(SERVER_TOML)
    options = ("--port", "0", "--json", "--no-access-log", "--publisher", "acme", "--grant-all", "--workers", "0")
    command = our_program("serve", str(work / "skills"), *options, "--config", str(work / "server.toml"))
    environment = {**os.environ, "SKILLWIRE_HOME": str(work / "home")}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout
    try:
        address: str = json.loads(process.stdout.readline())["address"]
        time.sleep(3)  # until the look right after the first one is over
        yield Server((process.pid,), address.removeprefix("http://"), lambda: _kept(work))
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def _peer(library: str, address: str, *databases: int) -> Iterator[Server]:
    port = _free_port()
    command = [PYTHON, str(Path(__file__).with_name("durable_api.py")), library, address, str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    host = f"127.0.0.1:{port}"
    try:
        for _ in range(300):
            with contextlib.suppress(ConnectionRefusedError):
                _post(host)
                break
            time.sleep(0.1)
        yield Server((process.pid, *databases), host, lambda: int(_ask(host, "GET", "/count")["count"]))
    finally:
        process.terminate()
        process.wait()


def _postgres_programs() -> Path | None:
    """Return the folder of PostgreSQL's programs."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return places[-1] if places else None


@contextlib.contextmanager
def _postgres(folder: Path) -> Iterator[tuple[str, int]]:
    """Run a PostgreSQL of its own; give its address and its process."""
    programs, user = _postgres_programs(), None
    assert programs
    folder.mkdir()
    if os.geteuid() == 0:  # as which it refuses to run
        user = next(one.pw_name for one in pwd.getpwall() if one.pw_name in {"postgres", "nobody"})
        shutil.chown(folder, user)
    port = _free_port()
    setup = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", "bench", "--auth=trust"]
    subprocess.run(setup, check=True, stdout=subprocess.DEVNULL, user=user)
    command = [str(programs / "postgres"), "-D", str(folder / "data"), "-p", str(port), "-k", str(folder)]
    process = subprocess.Popen([*command, "-c", "listen_addresses=127.0.0.1"], stderr=subprocess.DEVNULL, user=user)
    try:
        for _ in range(100):
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            time.sleep(0.1)
        yield f"postgresql://bench@127.0.0.1:{port}/postgres", process.pid
    finally:
        process.send_signal(signal.SIGINT)  # ends connections at once, in order
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _post(address: str) -> dict[str, Any]:
    return _ask(address, "POST", PATH, json.dumps(REQUEST))


def _ask(address: str, method: str, path: str, body: str | None = None) -> dict[str, Any]:
    """Return the answer, as JSON."""
    connection = HTTPConnection(address)
    with contextlib.closing(connection):
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read()
        assert response.status == (202 if body else 200), content
        document: dict[str, Any] = json.loads(content)
        return document


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
