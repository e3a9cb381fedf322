"""The index from the fast path, beside nginx serving the same bytes as files: ``python bench/index_vs_nginx.py``.

Both answer on loopback from one process, without an access log. ``wrk`` asks over 64 connections with one thread,
in a process of its own, for two seconds, in turns, five times. Asked for are the identity, gzip and br codings of an
index of 1,000 skills and of 10,000, and a request whose tag is current (304). Compared are requests a second (goals:
at least 0.95 for 1,000 skills, 1.0 for 10,000, 0.9 for 10,000 without a coding, 0.6 for a 304) and the processor time
of a request, which other work on the machine disturbs less. Without a coding the goal for that is a quarter:
``sendfile`` copies no bytes, and ours are in memory. Needs nginx and wrk.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from comparison import Goal, compare
from workload import make_skills

if TYPE_CHECKING:
    from collections.abc import Iterator


class Asked(NamedTuple):
    """A request and the process that answers it."""

    process: int
    url: str
    fields: dict[str, str]


class Measured(NamedTuple):
    """What came of it: requests a second, and microseconds of processor time for one."""

    rate: float
    cpu: float


ROUNDS: Final = 5
INDEX: Final = "/.well-known/agent-skills/index.json"
NGINX: Final = """
daemon off; master_process off; worker_processes 1; pid {work}/nginx.pid; error_log {work}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off; sendfile on; tcp_nopush on; open_file_cache max=10; keepalive_requests 1000000;
  client_body_temp_path {work}/a; proxy_temp_path {work}/b; fastcgi_temp_path {work}/c;
  uwsgi_temp_path {work}/d; scgi_temp_path {work}/e;
  types {{ application/json identity gzip br; }}
  server {{
    listen 127.0.0.1:{port}; root {work}/files; etag on;
    add_header Cache-Control "public, max-age=60"; add_header Vary Accept-Encoding;
    add_header Access-Control-Allow-Origin "*"; add_header X-Content-Type-Options nosniff;
  }}
}}
"""


def main() -> None:
    """Measure and print."""
    for program in ("nginx", "wrk"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is missing (as root: apt-get install nginx-light wrk)")
    for skills, goal, whole in ((1_000, 0.95, 0.95), (10_000, 1.0, 0.9)):
        with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as work:
            make_skills(Path(work, "skills"), skills)
            with _ours(Path(work)) as (our_process, ours):
                bodies = {coding: _get(ours, {"Accept-Encoding": coding}) for coding in ("identity", "gzip", "br")}
                files = {coding: body for coding, (body, _) in bodies.items()}
                with _nginx(Path(work), files) as (their_process, theirs):
                    for coding, body in files.items():
                        accept = {"Accept-Encoding": coding}
                        what = f"index of {skills:,} skills, {coding}, {len(body) / 1024:.0f} KiB"
                        our_side = Asked(our_process, f"http://{ours}{INDEX}", accept)
                        their_side = Asked(their_process, f"http://{theirs}/index.{coding}", accept)
                        rate, cpu = (whole, 0.25) if coding == "identity" else (goal, goal)
                        _compare(what, our_side, their_side, rate, cpu)
                    _, their_tag = _get(theirs, {}, "/index.gzip")
                    held = {"Accept-Encoding": "gzip", "If-None-Match": bodies["gzip"][1]}
                    our_side = Asked(our_process, f"http://{ours}{INDEX}", held)
                    their_side = Asked(their_process, f"http://{theirs}/index.gzip", {"If-None-Match": their_tag})
                    _compare(f"index of {skills:,} skills, 304", our_side, their_side, 0.6, 0.6)


def _compare(what: str, ours: Asked, theirs: Asked, rate: float, cpu: float) -> None:
    rounds = [(_measure(ours), _measure(theirs)) for _ in range(ROUNDS)]
    our_rates, their_rates = [mine.rate for mine, _ in rounds], [other.rate for _, other in rounds]
    compare(what, our_rates, their_rates, Goal("at least", rate), peer="nginx", unit="requests/s")
    our_cpu, their_cpu = [mine.cpu for mine, _ in rounds], [other.cpu for _, other in rounds]
    # Turned round: half of the requests is twice the time of each.
    compare(f"{what}, CPU", our_cpu, their_cpu, Goal("at most", 1 / cpu), peer="nginx", unit="us")


def _measure(asked: Asked) -> Measured:
    headers = [word for name, value in asked.fields.items() for word in ("-H", f"{name}: {value}")]
    command = ["wrk", "-t1", "-c64", "-d2s", *headers, asked.url]
    before = _cpu_seconds(asked.process)
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    used = _cpu_seconds(asked.process) - before
    assert "Non-2xx or 3xx" not in output, output
    rate, number = re.search(r"Requests/sec:\s+([\d.]+)", output), re.search(r"(\d+) requests in", output)
    assert rate
    assert number
    return Measured(float(rate[1]), used / int(number[1]) * 1e6)


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def _ours(work: Path) -> Iterator[tuple[int, str]]:
    command = [
        sys.executable,
        "-m",
        "skillwire",
        "serve",
        str(work / "skills"),
        "--port",
        "0",
        "--json",
        "--no-access-log",
    ]
    environment = {**os.environ, "SKILLWIRE_HOME": str(work / "home")}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout
    try:
        address: str = json.loads(process.stdout.readline())["address"]
        time.sleep(3)  # until the look right after the first one is over
        yield process.pid, address.removeprefix("http://")
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def _nginx(work: Path, files: dict[str, bytes]) -> Iterator[tuple[int, str]]:
    (work / "files").mkdir()
    for coding, content in files.items():
        (work / "files" / f"index.{coding}").write_bytes(content)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (work / "nginx.conf").write_text(NGINX.format(work=work, port=port))
    process = subprocess.Popen(["nginx", "-c", str(work / "nginx.conf")], stderr=subprocess.DEVNULL)
    try:
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                _get(f"127.0.0.1:{port}", {}, "/index.gzip")
                break
            time.sleep(0.05)
        yield process.pid, f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _get(address: str, fields: dict[str, str], path: str = INDEX) -> tuple[bytes, str]:
    """Return body and tag."""
    connection = HTTPConnection(address)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=fields)
        response = connection.getresponse()
        body = response.read()
        assert response.status == 200, path
        return body, response.headers["ETag"]


if __name__ == "__main__":
    main()
