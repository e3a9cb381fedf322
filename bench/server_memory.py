"""Resident memory of ``skillwire serve``, beside a bare ASGI server: ``python bench/server_memory.py [SKILLS]``.

Bare is one function under uvicorn, httptools and uvloop, in the same interpreter and environment. Ours publishes
10,000 skills (or as many as are said); it is measured at rest after the first start, which loads everything, after a
second one, which finds everything in its record, and after requests for indexes, files, artifacts and pages. The
goal at 10,000 skills is at most 2.6 of bare, resident and at rest, and 3.1 after requests, which add the index without
a coding (5 MiB), pages and caches.

Beside that it says the proportional size, in which pages that several processes share count in parts, and what is
the process's own. A server is measured with 10 skills, too: the rest is what skills take.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Final

from comparison import Goal, compare
from workload import make_skills

if TYPE_CHECKING:
    from collections.abc import Iterator

SKILLS: Final = 10_000
AT_REST, AFTER_REQUESTS = 2.6, 3.1
BARE: Final = """
import sys, uvicorn
head = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
async def app(scope, receive, send):
    await send(head)
    await send({"type": "http.response.body", "body": b"ok"})
port = int(sys.argv[1])
uvicorn.run(app, port=port, http="httptools", loop="uvloop", lifespan="off", log_level="warning", access_log=False)
"""
#: Development tools bring rich and greenlet, which structlog imports where they are; a server has no use for them.
OURS: Final = (
    "import sys; sys.modules['rich'] = sys.modules['greenlet'] = None\nfrom skillwire.cli.main import main; main()"
)
INDEX: Final = "/.well-known/agent-skills/index.json"


def main() -> None:
    """Measure and print."""
    skills = int(sys.argv[1]) if len(sys.argv) > 1 else SKILLS
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as work:
        folder = Path(work, "skills")
        make_skills(folder, skills)
        os.environ["SKILLWIRE_HOME"] = str(Path(work, "home"))
        with _bare() as (process, connection):
            for _ in range(1_000):
                _get(connection, "/")
            bare = _resident(process)
            print(f"bare: {_report(process)}")
        few = Path(work, "few")
        make_skills(few, 10)
        with _ours(few) as (process, _):
            _compare("memory with 10 skills", process, bare)
        for start in ("first", "second"):
            began = time.perf_counter()
            with _ours(folder) as (process, connection):
                print(f"{start} start of {skills} skills: {time.perf_counter() - began:.1f} s")
                _compare(f"memory with {skills:,} skills, {start} start", process, bare)
                _ask(connection, skills)
                _compare(f"memory with {skills:,} skills, {start} start, after requests", process, bare, AFTER_REQUESTS)


@contextlib.contextmanager
def _bare() -> Iterator[tuple[subprocess.Popen[bytes], HTTPConnection]]:
    port = 18_473
    process = subprocess.Popen([sys.executable, "-c", BARE, str(port)])
    try:
        while True:
            connection = HTTPConnection("127.0.0.1", port)
            with contextlib.suppress(ConnectionRefusedError):
                _get(connection, "/healthz")
                break
            time.sleep(0.05)
        yield process, connection
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def _ours(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], HTTPConnection]]:
    command = [sys.executable, "-c", OURS, "serve", str(folder), "--port", "0", "--json", "--no-access-log"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout
    try:
        address = json.loads(process.stdout.readline())["address"]
        time.sleep(3)  # until the look right after the first one is over
        yield process, HTTPConnection(address.removeprefix("http://"))
    finally:
        process.terminate()
        process.wait()


def _ask(connection: HTTPConnection, skills: int) -> None:
    entries = json.loads(_get(connection, INDEX))["skills"]
    assert len(entries) == skills
    for path in ("/", "/?q=notes", f"/skills/{entries[0]['name']}"):
        _get(connection, path)
    for entry in entries[::10]:
        _get(connection, f"/.well-known/agent-skills/{entry['url']}")
        _get(connection, f"/.well-known/skills/{entry['name']}/SKILL.md")
        _get(connection, f"/@{entry['name']}{INDEX}")


def _get(connection: HTTPConnection, path: str) -> bytes:
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, path
    return body


def _resident(process: subprocess.Popen[bytes]) -> float:
    """Return MiB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


def _report(process: subprocess.Popen[bytes]) -> str:
    text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    sizes = {name: int(size) / 1024 for name, size in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
    own = sizes["Private_Clean"] + sizes["Private_Dirty"]
    return f"resident {sizes['Rss']:.1f} MiB, proportional {sizes['Pss']:.1f} MiB, its own {own:.1f} MiB"


def _compare(what: str, process: subprocess.Popen[bytes], bare: float, goal: float = AT_REST) -> None:
    print(f"{what}: {_report(process)}")
    compare(what, [_resident(process)], [bare], Goal("at most", goal), peer="bare uvicorn", unit="MiB")


if __name__ == "__main__":
    main()
