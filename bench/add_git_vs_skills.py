"""``skillwire add`` from Git beside the ``skills`` CLI of npm: ``python bench/add_git_vs_skills.py [ROUNDS]``.

Both install one skill of a repository that ``git http-backend`` serves on loopback, into an empty project of a user
with an empty home and no cache: one of three skills, and one of a hundred in a repository with 10 MB of other files.
The server filters objects, as GitHub's does; once it does not, as git's default is. The two take turns. The goal for
time is at most 0.7.

Needs git, and npm, which installs the peer and its node at the first run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Final

from add_vs_skills import PEERS, PROJECT, add_once
from comparison import Goal, compare
from processes import our_program
from workload import make_skills

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDS: Final = 11
GOAL: Final = Goal("at most", 0.7)
_LARGE: Final = 100
_IDENTITY: Final = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")


class Backend(BaseHTTPRequestHandler):
    """Runs ``git http-backend`` for each request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # as servers do; else each answer waits for an acknowledgement of 40 ms
    root = ""

    def do_GET(self) -> None:  # the name that the server looks for
        """Answer what a repository has."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, _, query = self.path.partition("?")
        variables = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": self.root, "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query, "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }  # fmt: skip
        done = subprocess.run(["git", "http-backend"], env=variables, input=body, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in {**fields, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Stay silent."""


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    subprocess.run(["sh", str(PROJECT / "tools" / "npm_peers.sh")], check=True)
    version = json.loads((PEERS / "skills" / "package.json").read_bytes())["version"]
    memory = Path("/dev/shm")  # noqa: S108  # so that the mood of a disk is not measured
    with tempfile.TemporaryDirectory(prefix="skillwire-bench-", dir=memory if memory.is_dir() else None) as base:
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Server", (Backend,), {"root": base}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for number, filters in ((3, True), (3, False), (_LARGE, True)):
            name = f"r{number}{'-filters' if filters else ''}"
            _make_repository(Path(base, name), number, filters=filters)
            url = f"http://127.0.0.1:{server.server_port}/{name}/.git"
            what = f"add 1 of {number} skills of a repository{'' if filters else ', no filters'}"
            _compare(what, url, f"skills {version}", Path(base, "work"), rounds)
        server.shutdown()


def _make_repository(folder: Path, number: int, *, filters: bool) -> None:
    make_skills(folder / "skills", number)
    for file in range(100 if number == _LARGE else 0):
        Path(folder, f"data-{file}.bin").write_bytes(os.urandom(100_000))
    settings = ("config", "uploadpack.allowFilter", str(filters).lower())
    for arguments in (("init", "-q"), settings, ("add", "-A"), (*_IDENTITY, "commit", "-qm", "skills"), ("gc", "-q")):
        subprocess.run(["git", *arguments], cwd=folder, check=True)


def _compare(what: str, url: str, peer: str, folder: Path, rounds: int) -> None:
    name = "skill-00001"
    ours = our_program("add", f"{url}/skills/{name}", "--yes", "--agent", "codex")
    theirs = [str(PEERS / ".bin" / "node"), str(PEERS / "skills" / "bin" / "cli.mjs"), "add", url]
    theirs += ["--agent", "codex", "--yes", "--copy", "--skill", name]
    commands: Sequence[Sequence[str]] = (ours, theirs)
    for command in commands:
        add_once(command, 1, folder)  # compiles, and brings the files into memory
    mine, other = zip(*([add_once(command, 1, folder) for command in commands] for _ in range(rounds)), strict=True)
    compare(what, [cost.wall for cost in mine], [cost.wall for cost in other], GOAL, peer=peer)
    compare(f"{what}, CPU", [cost.cpu for cost in mine], [cost.cpu for cost in other], GOAL, peer=peer)


if __name__ == "__main__":
    main()
