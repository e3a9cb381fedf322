"""The terminals of a page of the documentation, and the server that runs in one of them."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import urllib.request
from pathlib import Path

from tests.support.eventually import PATIENCE, eventually, readable
from tests.support.free_port import free_port
from tests.support.pages import boxes, examples
from tests.support.sandbox_world import sandbox_missing

WRITTEN_ORIGIN = "127.0.0.1:8000"
ROWS, COLUMNS = 40, 120


def shown(text):
    """Return each command with its output; without the calls where no sandbox can be made."""
    return [one for one in examples(text) if not one[0].startswith("skillwire call") or not sandbox_missing()]


class Sides:
    """Two terminals and the server that runs in one of them; a context manager that ends it.

    ``programs`` is a folder of programs beside the system's; ``folders`` are where the sides are before they go
    elsewhere, the home by default.
    """

    def __init__(self, home, *, programs=None, **folders):
        self.home = home
        self._programs = [*filter(None, [programs]), Path(sys.executable).parent, "/usr/bin", "/bin"]
        self.origin = f"127.0.0.1:{free_port()}"
        self._folders = folders
        self._server = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._server is not None:
            self._server.terminate()
            self._server.wait(PATIENCE)

    def run(self, side, command):
        """Run one command as the reader types it; return what the terminal shows."""
        folder = self._folders.get(side, self.home)
        if command.startswith("cd "):
            self._folders[side] = Path(command.removeprefix("cd ").replace("~", str(self.home)))
            assert self._folders[side].is_dir()
            return ""
        if command.startswith("skillwire serve"):
            return self._serve(command, folder)
        shown = self._at_a_terminal(command.replace(WRITTEN_ORIGIN, self.origin), folder)
        return shown.replace(self.origin, WRITTEN_ORIGIN)

    def play(self, page):
        """Do what the boxes of ``page`` say; return each command, what is shown there, and what happened."""
        acts = []
        for kind, title, text in boxes(page):
            if kind == "console":
                acts += [(command, output, self.run(title, command)) for command, output in shown(text)]
            else:
                self.save(title, text)
        return acts

    def save(self, path, text):
        """Save a file of the publisher, and wait for the server to have seen it."""
        before = self.index()
        (self._folders["publisher"] / path).write_text(text)
        if self._server is not None:
            self._wait_for_other(before)

    def get(self, path):
        """Return what the server answers, as a browser asks."""
        request = urllib.request.Request(f"http://{self.origin}{path}", headers={"Accept": "text/html"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310  # http, to ourselves
            return answer.read()

    def index(self):
        """Return the index; nothing while there is no server."""
        try:
            return self.get("/.well-known/agent-skills/index.json")
        except OSError:
            return b""

    def _environment(self):
        home = {"HOME": str(self.home), "SKILLWIRE_HOME": str(self.home / "skillwire")}
        return {"PATH": ":".join(map(str, self._programs)), "TERM": "xterm", "NO_COLOR": "1", **home}

    def _at_a_terminal(self, command, folder):
        """Run a command at a terminal; a question is answered with yes."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        process = subprocess.Popen(
            ["sh", "-c", command],
            cwd=folder,
            env=self._environment(),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        shown = b""
        answered = False
        while readable(ours):
            try:
                part = os.read(ours, 65536)
            except OSError:  # nobody has the other end open any more
                break
            shown += part
            if not answered and shown.endswith(b"[y/N]: "):
                os.write(ours, b"y\n")
                answered = True
        process.wait(PATIENCE)
        os.close(ours)
        lines = shown.decode().replace("\r\n", "\n").split("\n")
        return "\n".join(line.rpartition("\x1b[K")[2].lstrip("\r") for line in lines)  # a slow machine shows progress

    def _serve(self, command, folder):
        log = self.home / "log"
        port = self.origin.partition(":")[2]
        with log.open("wb") as file:
            self._server = subprocess.Popen(
                [sys.executable, "-m", *command.split(), "--port", port],
                cwd=folder,
                env=self._environment(),
                stdout=file,
                stderr=subprocess.DEVNULL,
            )
        self._wait_for_other(b"")
        # The server answers a moment before it says so.
        return eventually(log.read_text, lambda text: text.endswith("\n")).replace(self.origin, WRITTEN_ORIGIN)

    def _wait_for_other(self, before):
        eventually(self.index, lambda now: now not in {before, b""})
