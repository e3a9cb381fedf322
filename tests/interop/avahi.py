"""Avahi on a host of a test's network: a daemon with a message bus of its own, and what browses and publishes by it."""

import contextlib
import queue
import re
import shlex
import subprocess
import time
from typing import Final, NamedTuple

from tests.interop.peers import PATIENCE, find_peer
from tests.support.processes import follow

_BUS: Final = """<busconfig>
  <listen>unix:path={folder}/bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/><allow own="*"/><allow send_type="*"/><allow receive_type="*"/>
  </policy>
</busconfig>
"""
_DAEMON: Final = """[server]
host-name={name}
allow-interfaces=eth0
[wide-area]
enable-wide-area=no
[publish]
publish-hinfo=no
publish-workstation=no
[rlimits]
"""
_ESCAPED: Final = re.compile(r"\\(\d{3})")
_STRING: Final = re.compile(r'"([^"]*)"')


class Row(NamedTuple):
    """A line of ``avahi-browse -p``: ``what`` is ``+``, ``-`` or, resolved, ``=``."""

    what: str
    family: str
    name: str
    service_type: str
    address: str = ""
    port: int = 0
    text: frozenset[str] = frozenset()


class Lines:
    """What a process prints, line by line."""

    def __init__(self, process):
        self.process = process
        self.seen: list[str] = []
        self._lines: queue.Queue = queue.Queue()
        follow(process, lambda line: self._lines.put(line.rstrip("\n")))

    def wait_for(self, is_it):
        """Return the first line, of those that come and those that were read, for which ``is_it`` holds."""
        for line in self.seen:
            if is_it(line):
                return line
        ends = time.monotonic() + PATIENCE
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, ends - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"nothing of the kind came: {self.seen}") from None
            self.seen.append(line)
            if is_it(line):
                return line

    def forget(self):
        """Wait only for what comes from now on."""
        self.seen.clear()

    def end(self):
        """End the process."""
        self.process.terminate()
        self.process.wait(PATIENCE)


class Avahi:
    """Avahi on one host.

    Args:
        network: that the host is on.
        host: its number.
        folder: for its files; short, since a socket's path is.
    """

    def __init__(self, network, host, folder):
        self._network = network
        self._host = host
        self._environment = [f"DBUS_SYSTEM_BUS_ADDRESS=unix:path={folder}/bus"]
        (folder / "bus.conf").write_text(_BUS.format(folder=folder))
        (folder / "avahi.conf").write_text(_DAEMON.format(name=f"host-{host}"))
        bus = [
            *find_peer("dbus-daemon"),
            f"--config-file={folder}/bus.conf",
            "--nofork",
            "--nopidfile",
            "--print-address=1",
        ]
        self._bus = Lines(network.start(host, *bus, stderr=subprocess.DEVNULL))
        self._bus.wait_for(lambda line: line.startswith("unix:"))
        options = ["-f", f"{folder}/avahi.conf", "--no-drop-root", "--no-chroot", "--no-rlimits", "--debug"]
        daemon = shlex.join([*find_peer("avahi-daemon"), *options])
        # Its file of process numbers has a fixed place, which several daemons on one machine cannot share.
        script = f"mount -t tmpfs none /run && mkdir /run/avahi-daemon && exec {daemon} 2>&1"
        command = ["env", *self._environment, "unshare", "--mount", "sh", "-c", script]
        self.daemon = Lines(network.start(host, *command))
        self.daemon.wait_for(lambda line: line.startswith("Server startup complete"))

    def browse(self, service_type):
        """Begin to browse and resolve; the lines are for :func:`row`."""
        return self._start("avahi-browse", "--parsable", "--resolve", service_type)

    def publish(self, name, service_type, port, *text):
        """Publish a service until :meth:`Lines.end`; return once it is established, under whatever name."""
        lines = self._start("avahi-publish", "--service", name, service_type, str(port), *text)
        lines.wait_for(lambda line: line.startswith("Established under name"))
        return lines

    def _start(self, program, *arguments):
        command = ["env", *self._environment, *find_peer(program), *arguments]
        return Lines(self._network.start(self._host, *command, stderr=subprocess.STDOUT))


def row(line):
    """Return what a line of ``avahi-browse`` says; None for a line of another kind."""
    cells = line.split(";")
    if len(cells) < 6:
        return None
    what, _, family, name, service_type, _ = cells[:6]
    found = Row(what, family, _ESCAPED.sub(lambda code: chr(int(code[1])), name), service_type)
    if what != "=":
        return found
    with contextlib.suppress(ValueError):
        return found._replace(
            address=cells[7], port=int(cells[8]), text=frozenset(_STRING.findall(";".join(cells[9:])))
        )
    return found


def wait_for_row(lines, is_it):
    """Return the first row for which ``is_it`` holds."""
    return row(lines.wait_for(lambda line: (found := row(line)) is not None and is_it(found)))
