"""Repositories made for a test, and ``git http-backend`` behind a server on 127.0.0.1."""

import os
import shutil
import subprocess
from copy import copy
from pathlib import Path
from typing import Any

from tests.support.loopback_server import Handler, LoopbackServer

IDENTITY = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com", "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip


def skill_md(name: str, body: str = "Say hello.") -> str:
    return f"---\nname: {name}\ndescription: Says hello as {name}.\n---\n{body}\n"


class Repository:
    """A repository with a work tree at ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "-qb", "main")
        self.git("config", "uploadpack.allowFilter", "true")

    def git(self, *arguments: str, stdin: bytes | None = None) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **IDENTITY}
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env=environment, input=stdin, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def copy(self, folder: Path) -> "Repository":
        """Return the same repository at another folder, which costs less than another history."""
        shutil.copytree(self.folder, folder)
        copied = copy(self)
        copied.folder = folder
        return copied

    def write(self, files: dict[str, str | bytes]) -> "Repository":
        for path, content in files.items():
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self

    def skill(self, path: str, body: str = "Say hello.") -> "Repository":
        """Write a skill to a folder of its name, with a script."""
        name = path.rpartition("/")[2]
        self.write({f"{path}/SKILL.md": skill_md(name, body), f"{path}/scripts/run.sh": f"echo {name}\n"})
        (self.folder / path / "scripts/run.sh").chmod(0o755)
        return self

    def commit(self, *tags: str) -> str:
        """Commit everything, and tag it; return the commit."""
        self.git("add", "-A")
        self.git("commit", "-qm", "change", "--allow-empty")
        for tag in tags:
            self.git("tag", tag)
        return self.git("rev-parse", "HEAD")

    def archive(self, ref: str, prefix: str = "repo-1/") -> bytes:
        """Return the archive that a host would give."""
        return subprocess.run(
            ["git", "archive", "--format=tar.gz", f"--prefix={prefix}", ref],
            cwd=self.folder, env={"PATH": os.environ["PATH"], **IDENTITY}, capture_output=True, check=True,
        ).stdout  # fmt: skip


class _Backend(Handler):
    root: Path
    requests: list[str]
    answers: dict[str, Any]

    def do_GET(self) -> None:
        self._run(b"")

    def do_POST(self) -> None:
        self._run(self.body())

    def _run(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        self.requests.append(f"{self.command} {path}")
        if path in self.answers:
            self.send(*self.answers[path])
            return
        environment = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
            "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), **IDENTITY,
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }  # fmt: skip
        done = subprocess.run(["git", "http-backend"], env=environment, input=body, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        status = int(fields.pop("Status", "200").split()[0])
        self.send(status, content, fields.pop("Content-Type", "text/plain"), fields)


class GitServer(LoopbackServer):
    """Serves the repositories below ``root`` at ``/NAME/.git`` or ``/NAME.git``; ``answers`` go before these."""

    def __init__(self, root: Path) -> None:
        self.requests: list[str] = []
        self.answers: dict[str, Any] = {}
        super().__init__(_Backend, root=root, requests=self.requests, answers=self.answers)

    @property
    def url(self) -> str:
        return f"http://{self.host}"
