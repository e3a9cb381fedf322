"""What stands around a sandbox in the escape tests: things to steal, sockets to reach, a process to kill.

Everything here watches from outside: whether a listener was reached, a file changed, a process died or survived.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from tests.support.eventually import eventually, readable

from skillwire.adapters.sandbox import Sandbox
from skillwire.errors import TrustError

PROJECT = Path(__file__).parents[2]
NOBODY = 65534
DRIVER = Path(__file__).with_name("sandbox_driver.py")
PROBES = Path(__file__).with_name("escape_probes.py")


def users():
    """Return whom the probes can be run as here."""
    return ["root", "user"] if os.geteuid() == 0 else ["user"]


def sandbox_missing():
    """Return why no sandbox can be made here, None where it can."""
    try:
        Sandbox().check()
    except TrustError as error:
        return f"{error.message}. {error.diagnostics().fix}"
    return None


def as_nobody(folder):
    """Return the start of a command that runs as an ordinary user, who is shown this project and this interpreter.

    Both may lie in a folder of root's: there an empty folder is put, for this command alone, with what is needed in it.
    """
    needed = [PROJECT, Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), Path(folder)]
    command = ["bwrap", "--dev-bind", "/", "/"]
    closed = {ancestor for path in needed for ancestor in path.parents if not ancestor.stat().st_mode & 1}
    outermost = [path for path in closed if not closed & set(path.parents)]
    for path in sorted(outermost):
        command += ["--perms", "0755", "--tmpfs", str(path)]
    for path in needed:
        above = [one for one in reversed(path.parents) if any(top in one.parents for top in outermost)]
        for one in above:
            command += ["--perms", "0755", "--dir", str(one)]
        if set(path.parents) & set(outermost):
            command += ["--bind", str(path), str(path)]
    who = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
    return [*command, "--die-with-parent", "--", "setpriv", *who, "--"]


class World:
    """Everything around the sandboxes of one server, which runs as ``user``."""

    def __init__(self, user):
        self.marker = f"canary-{uuid.uuid4().hex}"
        self.folder = Path(tempfile.mkdtemp(prefix="world-", dir="/tmp"))  # a short path, for sockets
        self.folder.chmod(0o755)
        (self.folder / f"{self.marker}.md").write_text("---\nname: hostile\n---\n")
        self.public = Path(tempfile.gettempdir()) / f"{self.marker}.txt"
        self.hits = []
        self.listeners: list[socket.socket] = []
        for folder in ("home", "state", "cache", "tmp"):
            (self.folder / folder).mkdir(mode=0o700)
        for path in (self.home_file, self.state_file, self.public):
            path.write_text(self.marker)
        self.public.chmod(0o644)
        self._listen()
        prefix = []
        if user == "user" and os.geteuid() == 0:
            for path in [self.folder, *self.folder.rglob("*")]:
                os.chown(path, NOBODY, NOBODY)
            prefix = as_nobody(self.folder)
        self.victim = subprocess.Popen([*prefix, "sleep", "600"])
        self.server = subprocess.Popen(
            [*prefix, sys.executable, str(DRIVER), str(self.folder)],
            env={
                "SKILLWIRE_HOME": str(self.folder),
                "HOME": str(self.folder / "home"),
                "TMPDIR": str(self.folder / "tmp"),
                "SERVER_TOKEN": self.marker,
                "GRANTED_KEY": "Zugang-äöü/42",
                "OTHER_KEY": self.marker,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[self.listeners[0].fileno()],
            cwd=self.folder,
        )
        assert self.server.stdin
        assert self.server.stdout
        self._orders, self._answers = self.server.stdin, self.server.stdout

    @property
    def home_file(self):
        return self.folder / "home" / "canary.txt"

    @property
    def state_file(self):
        return self.folder / "state" / "canary.txt"

    def _listen(self):
        abstract = f"\0{self.marker}"
        self.unix = str(self.folder / "canary.sock")
        for family, address in (
            (socket.AF_INET, ("0.0.0.0", 0)),  # noqa: S104  # wherever it is looked for
            (socket.AF_UNIX, abstract),
            (socket.AF_UNIX, self.unix),
        ):
            listener = socket.socket(family)
            listener.bind(address)
            listener.listen()
            self.listeners.append(listener)
        Path(self.unix).chmod(0o666)
        self.port = self.listeners[0].getsockname()[1]
        six = socket.socket(socket.AF_INET6)
        six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        six.bind(("::", self.port))
        six.listen()
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind(("0.0.0.0", 0))  # noqa: S104  # same
        self.udp_port = datagrams.getsockname()[1]
        self.listeners += [six, datagrams]

    def knows(self):
        return {
            "marker": self.marker,
            "home": str(self.folder / "home"),
            "home_file": str(self.home_file),
            "state": str(self.folder / "state"),
            "state_file": str(self.state_file),
            "public_file": str(self.public),
            "port": self.port,
            "udp_port": self.udp_port,
            "abstract": self.marker,
            "unix": self.unix,
            "hostname": socket.gethostname(),
            "addresses": sorted({row[4][0] for row in _own_addresses()}),
            "processes": [self.victim.pid, self.server.pid, os.getpid(), os.getppid()],
            "uid_map_shows_root": False,
        }

    def run(self, export, **order):
        """Have the server run one function of the hostile skill; return what came of it."""
        self.order(export, **order)
        answer = json.loads(self._answers.readline())
        assert self.marker not in json.dumps(answer)
        return answer

    def order(self, export, **order):
        """Have the server run one function of the hostile skill."""
        files = {"SKILL.md": str(self.folder / f"{self.marker}.md"), "main.py": str(PROBES)}
        order = {"export": export, "inputs": self.knows(), "files": files, **order}
        self._orders.write(json.dumps(order).encode() + b"\n")
        self._orders.flush()

    def sandboxes(self, at_least):
        """Return the processes in sandboxes, when there are so many."""
        return eventually(lambda: list(self._in_sandboxes()), lambda found: len(found) >= at_least)

    def kill_server(self):
        """Kill the server as the kernel does when memory runs out; return what of its processes is left.

        It is stopped first, so that what it has started can be listed.
        """
        servers = [process for process in (self.server.pid, *_children(self.server.pid)) if _is_driver(process)]
        for process in servers:
            os.kill(process, signal.SIGSTOP)
        started = {process for server in servers for process in _descendants(server)} - set(servers)
        for process in servers:
            os.kill(process, signal.SIGKILL)
        return eventually(lambda: [process for process in started if _is_there(process)], lambda left: not left)

    def check(self):
        """Fail when anything out here was reached, changed, ended, or goes on."""
        for listener in self.listeners:
            assert not readable(listener, seconds=0), f"{listener.getsockname()} was reached"
        for path in (self.home_file, self.state_file, self.public):
            assert path.read_text() == self.marker
        known = {"home", "state", "cache", "tmp", "canary.sock", f"{self.marker}.md"}
        assert {path.name for path in self.folder.iterdir()} == known
        assert {path.name for path in (self.folder / "home").iterdir()} == {"canary.txt"}
        for process in (self.victim, self.server):
            assert process.poll() is None
            state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
            assert state in "SR", state
        for unpacked in (self.folder / "cache" / "unpacked").glob("*/main.py"):
            assert unpacked.read_bytes() == PROBES.read_bytes()
        assert self.survivors() == []
        assert self.leftovers() == []

    def survivors(self):
        """Return the processes that still run in a sandbox of this server; what is being ended gets a moment."""
        return eventually(lambda: list(self._in_sandboxes()), lambda found: not found)

    def _in_sandboxes(self):
        for path in Path("/proc").iterdir():
            if path.name.isdigit():
                try:
                    if path.joinpath("root", "skill", "main.py").exists() and self._is_ours(path):
                        yield path.joinpath("cmdline").read_bytes()
                except OSError:
                    continue

    def _is_ours(self, process):
        return str(self.folder) in (process / "mountinfo").read_text()

    def leftovers(self):
        """Return the folders of proxies that were not removed."""
        return list((self.folder / "tmp").iterdir())

    def close(self):
        self._orders.close()
        self.victim.kill()
        try:
            self.server.wait(10)
        except subprocess.TimeoutExpired:
            self.server.kill()
        self.victim.wait()
        self.server.wait()
        self._answers.close()
        for listener in self.listeners:
            listener.close()
        self.public.unlink()
        shutil.rmtree(self.folder)


def _children(process):
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            found += [int(number) for number in (task / "children").read_text().split()]
    return found


def _descendants(process):
    found = []
    with contextlib.suppress(OSError):  # it ends while it is looked at
        for child in _children(process):
            found += [child, *_descendants(child)]
    return found


def _is_driver(process):
    line = Path(f"/proc/{process}/cmdline").read_bytes()
    return b"sandbox_driver" in line and b"bwrap" not in line


def _is_there(process):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def _own_addresses():
    try:
        return socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
    except OSError:
        return []
