"""Resident memory of ``skillwire serve``, beside a bare ASGI server: ``python bench/server_memory.py [SKILLS]``.

Bare is a Starlette application with one route under the same uvicorn, httptools and uvloop. Ours publishes 10,000
skills (or as many as are said); it is measured at rest after the first start, which loads everything, after a
second one, which finds everything in its record, and after requests for indexes, files, artifacts and pages. The
goal at 10,000 skills is at most 1.8 of bare.
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
BARE: Final = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
async def answer(request): return JSONResponse({"ok": True})
uvicorn.run(Starlette(routes=[Route("/healthz", answer)]), port=int(sys.argv[1]), log_level="warning", http="httptools")
"""
#: Development tools bring rich, which structlog imports where it is; a server has neither need nor use for it.
OURS: Final = "import sys; sys.modules['rich'] = None\nfrom skillwire.cli.main import main; main()"
INDEX: Final = "/.well-known/agent-skills/index.json"


def main() -> None:
    """Measure and print."""
    skills = int(sys.argv[1]) if len(sys.argv) > 1 else SKILLS
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-") as work:
        folder = Path(work, "skills")
        make_skills(folder, skills)
        os.environ["SKILLWIRE_HOME"] = str(Path(work, "home"))
        with _bare() as (process, _):
            bare = _resident(process)
        for start in ("first", "second"):
            began = time.perf_counter()
            with _ours(folder) as (process, connection):
                print(f"{start} start of {skills} skills: {time.perf_counter() - began:.1f} s")
                _compare(f"memory with {skills:,} skills, {start} start", process, bare)
                _ask(connection, skills)
                _compare(f"memory with {skills:,} skills, {start} start, after requests", process, bare)


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


def _compare(what: str, process: subprocess.Popen[bytes], bare: float) -> None:
    compare(what, [_resident(process)], [bare], Goal("at most", 1.8), peer="bare uvicorn", unit="MiB")


if __name__ == "__main__":
    main()
