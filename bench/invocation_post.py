"""The POST of an invocation beside nginx ``return 202``: ``python bench/invocation_post.py [ROUNDS]``.

Ours checks the inputs, stores the execution on the disk and answers; another server would run it. nginx answers the
same request with a 202 and a body of the same length. Both answer on loopback from one process, without an access log.
``wrk`` sends requests over 64 connections with one thread, in a separate process, for two seconds, in turns, five
times. In the end every execution that was answered with a 202 must be in the ledger. Needs nginx and wrk.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from comparison import Goal, compare
from processes import our_program

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS: Final = 5
CONNECTIONS: Final = 64
SECONDS: Final = 2
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
NGINX: Final = """
daemon off; master_process off; worker_processes 1; pid {work}/nginx.pid; error_log {work}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off; keepalive_requests 1000000; default_type application/json;
  client_body_temp_path {work}/a; proxy_temp_path {work}/b; fastcgi_temp_path {work}/c;
  uwsgi_temp_path {work}/d; scgi_temp_path {work}/e;
  server {{ listen 127.0.0.1:{port}; location / {{ return 202 '{body}'; }} }}
}}
"""


class Server(NamedTuple):
    """A process that answers."""

    process: int
    address: str


class Measured(NamedTuple):
    """Requests a second, how many there were, and microseconds of processor time for one."""

    rate: float
    number: int
    cpu: float


def main(rounds: int = ROUNDS) -> None:
    """Measure and print."""
    for program in ("nginx", "wrk"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is missing (as root: apt-get install nginx-light wrk)")
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as folder:
        work = Path(folder)
        script = work / "post.lua"
        script.write_text(WRK.format(body=json.dumps(REQUEST)))
        with _ours(work) as ours:
            body = _post(ours.address)
            with _nginx(work, body) as theirs:
                assert len(_post(theirs.address)) == len(body)
                _measure(ours, script)  # what is made once is made
                before = _kept(work)
                measured = [(_measure(ours, script), _measure(theirs, script)) for _ in range(rounds)]
        answered = sum(mine.number for mine, _ in measured)
        kept = _kept(work) - before
    # When it ends, wrk hangs up on what is on its way to the disk; the first time that may be kept after counting.
    assert answered <= kept <= answered + (rounds + 1) * CONNECTIONS, (answered, kept)
    mine, others = [one.rate for one, _ in measured], [other.rate for _, other in measured]
    compare("POST of an invocation", mine, others, Goal("at least", 0.25), peer="nginx return 202", unit="requests/s")
    mine, others = [one.cpu for one, _ in measured], [other.cpu for _, other in measured]
    compare("POST of an invocation, CPU", mine, others, Goal("at most", 4.0), peer="nginx return 202", unit="us")


def _measure(server: Server, script: Path) -> Measured:
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "-s", str(script), f"http://{server.address}{PATH}"]
    before = _cpu_seconds(server.process)
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    used = _cpu_seconds(server.process) - before
    assert "Non-2xx or 3xx" not in output, output
    assert "Socket errors" not in output, output
    rate, number = re.search(r"Requests/sec:\s+([\d.]+)", output), re.search(r"(\d+) requests in", output)
    assert rate
    assert number
    return Measured(float(rate[1]), int(number[1]), used / int(number[1]) * 1e6)


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
        yield Server(process.pid, address.removeprefix("http://"))
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def _nginx(work: Path, body: bytes) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (work / "nginx.conf").write_text(NGINX.format(work=work, port=port, body=body.decode()))
    process = subprocess.Popen(["nginx", "-c", str(work / "nginx.conf")], stderr=subprocess.DEVNULL)
    try:
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                _post(f"127.0.0.1:{port}")
                break
            time.sleep(0.05)
        yield Server(process.pid, f"127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait()


def _post(address: str) -> bytes:
    """Return the body of the answer."""
    connection = HTTPConnection(address)
    with contextlib.closing(connection):
        connection.request("POST", PATH, json.dumps(REQUEST), {"Content-Type": "application/json"})
        response = connection.getresponse()
        body = response.read()
        assert response.status == 202, body
        return body


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
