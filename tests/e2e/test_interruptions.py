"""Real processes, ended by signals at many moments: what stands afterwards is the old or the new, and the lock says so.

The moments are exact: a request that the publisher holds back, or a rename of the process itself. Nothing sleeps.
"""

import hashlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from queue import SimpleQueue

import pytest
from tests.support.eventually import PATIENCE, eventually
from tests.support.forked import ForkedPython
from tests.support.raw_server import RawServer, answer, index_of

NAMES = [f"skill-{number}" for number in range(12)]
LARGE = NAMES[5]
CHILD = Path(__file__).parents[1] / "support" / "signalled_child.py"
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
_NOISE = random.Random(3).randbytes(600_000).hex().encode()[:900_000]  # noqa: S311 - filler


def skill_md(name, version):
    more = b"\n" + _NOISE if name == LARGE else b""
    return f"---\nname: {name}\ndescription: Does {name}.\n---\n{version}\n".encode() + more


class Publisher:
    """Publishes ``NAMES`` in a version; at request number ``at`` calls ``then``, in the middle of the answer."""

    def __init__(self):
        self.version, self.at, self.then, self.count = "old", 0, None, 0

    def __call__(self, peer):
        while head := peer.request():
            message = self.answer(head.split(b" ")[1].decode())
            self.count += 1
            if self.count == self.at and self.then is not None:
                peer.send(message[: len(message) // 2])
                self.then()
                return
            peer.send(message)

    def answer(self, path):
        if path.endswith("agent-skills/index.json"):
            return answer(index_of(*(self.row(name) for name in NAMES)), "Content-Type: application/json")
        name = path.removeprefix("/").partition("/")[0]
        if name not in NAMES:
            return answer(b"", status="404 Not Found")
        return answer(skill_md(name, self.version), "Content-Type: text/markdown")

    def row(self, name):
        digest = f"sha256:{hashlib.sha256(skill_md(name, self.version)).hexdigest()}"
        about = {"name": name, "type": "skill-md", "description": f"Does {name}."}
        return {**about, "url": f"/{name}/SKILL.md", "digest": digest}


class Project:
    def __init__(self, folder, server, publisher):
        self.root, self.server, self.publisher = folder / "project", server, publisher
        self.home = folder / "home"
        self.root.mkdir(parents=True)
        self.environment = {**os.environ, "HOME": str(folder), "SKILLWIRE_HOME": str(self.home)}

    def start(self, *arguments, at=0, number=0, when="before"):
        self.publisher.count = 0
        command = [sys.executable, str(CHILD), str(int(number)), str(at), when, *arguments]
        return ForkedPython(
            command, cwd=self.root, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def run(self, *arguments, **moment):
        process = self.start(*arguments, **moment)
        output = process.communicate(timeout=PATIENCE)[0].decode()
        return process.returncode, output

    def add(self):
        return ("add", self.server.url(), "--all", "--yes", "-a", "universal", "-a", "claude-code")

    def standing(self):
        """Return the version of each skill that stands, checked to be whole, in each folder."""
        folder = self.root / ".agents/skills"
        found = {}
        for path in sorted(folder.iterdir()) if folder.exists() else []:
            if not path.name.startswith("."):
                content = (path / "SKILL.md").read_bytes()
                found[path.name] = next(v for v in ("old", "new") if content == skill_md(path.name, v))
        links = self.root / ".claude/skills"
        linked = {path.name for path in links.iterdir() if path.name[0] != "."} if links.exists() else set()
        assert linked == set(found)
        return found

    def locked(self):
        path = self.root / "skills.lock"
        if not path.exists():
            return {}
        by_hash = {
            hashlib.sha256(skill_md(name, version)).hexdigest(): (name, version)
            for name in NAMES
            for version in ("old", "new")
        }
        text = path.read_text()
        return dict(found for digest, found in by_hash.items() if f'"{digest}"' in text)

    def left_over(self):
        return list(self.root.rglob(".skillwire-*")) + list(self.home.glob("state/locks/*"))


@pytest.fixture
def project(tmp_path):
    publisher = Publisher()
    with RawServer(publisher) as server:
        yield Project(tmp_path, server, publisher)


def check(project, before, after, number):
    """Check what a process left that was ended: nothing but the old or the new state."""
    if number == signal.SIGKILL:
        status, output = project.run("list")  # the next command cleans up
        assert status == 0, output
    standing = project.standing()
    assert standing in (before, after)
    assert project.locked() == standing
    if number != signal.SIGKILL:
        assert project.left_over() == []


def finish(project, arguments, after):
    status, output = project.run(*arguments)
    assert status == 0, output
    assert project.standing() == project.locked() == after
    assert project.left_over() == []
    assert project.run("verify")[0] == 0


OLD, NEW = dict.fromkeys(NAMES, "old"), dict.fromkeys(NAMES, "new")


@pytest.mark.parametrize("number", _STOPS)
@pytest.mark.parametrize("update", [False, True])
def test_a_signal_while_it_downloads(project, number, update):
    before, after = (OLD, NEW) if update else ({}, NEW)
    if update:
        finish(project, project.add(), OLD)
    project.publisher.version = "new"
    arguments = ("update", "--yes") if update else project.add()
    for at in (1, 4, 7, 13):
        started: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()

        def end(started=started):
            process = started.get(timeout=PATIENCE)  # it may ask before its start has returned
            process.send_signal(number)
            process.wait(PATIENCE)

        project.publisher.at, project.publisher.then = at, end
        process = project.start(*arguments)
        started.put(process)
        output = process.communicate(timeout=PATIENCE)[0].decode()
        project.publisher.at = 0
        assert process.returncode == {signal.SIGINT: 130, signal.SIGKILL: -9}.get(number, 128 + number), output
        check(project, before, after, number)
    finish(project, arguments, after)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("command", ["add", "update", "remove"])
def test_a_signal_while_it_renames(project, number, command):
    if command != "add":
        finish(project, project.add(), OLD)
    project.publisher.version = "new" if command == "update" else "old"
    before = {} if command == "add" else OLD
    after = {"add": OLD, "update": NEW, "remove": {}}[command]
    arguments = {"add": project.add(), "update": ("update", "--yes"), "remove": ("remove", *NAMES)}[command]
    ended = 0
    for at, when in ((14, "before"), (27, "after"), (50, "before"), (61, "after")):
        status, output = project.run(*arguments, at=at, number=number, when=when)
        if status == 0:
            break
        ended += 1
        assert status == (-9 if number == signal.SIGKILL else 128 + number), output
        check(project, before, after, number)
        if project.standing() == after:
            break
    assert ended > 0
    if command == "remove" and project.standing() == after:
        return
    finish(project, arguments, after)


def test_two_state_folders_exclude_each_other(project):
    finish(project, project.add(), OLD)
    project.publisher.version = "new"
    process = project.start("update", "--yes", at=27, number=signal.SIGSTOP, when="after")
    status = Path(f"/proc/{process.pid}/status")
    eventually(status.read_text, lambda text: "State:\tT" in text)
    project.environment["SKILLWIRE_HOME"] = str(project.home) + "-2"
    status, output = project.run("remove", NAMES[-1])
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=PATIENCE)
    assert (status, process.returncode) == (6, 0), output
    assert "FOLDER_BUSY" in output
