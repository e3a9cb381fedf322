"""Five hosts on one network, in network namespaces: multicast between real processes that leaves no machine.

A namespace of its own is the switch, with two bridges: ``cut`` takes a host's cable out without the host noticing,
``split`` puts some hosts on the second bridge, ``linkdown`` is what the host does notice. There is no IGMP snooping on
the bridges: without a querier it ends multicast after minutes. Loss is nftables' doing: not every kernel has netem.

``machines.py`` of the example for the local network makes a smaller network by itself, so that it is read and run
without this: what both do is five commands of ``ip``. What tests need beside them (IPv6, a second bridge, loss, what a
killed process left) would stand in the way there.

Names hold the process that made them, so that several test processes do not meet, and so that what a killed one left
behind is found and removed by the next.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from tests.support.eventually import PATIENCE, eventually

HOSTS = 5
_numbers = count(1)
_NAME = re.compile(r"swt([0-9a-f]+)n\d+(?:s|h\d+)")
_LOSS = """table inet loss
delete table inet loss
table inet loss {{
  chain heard {{ type filter hook input priority 0; iifname != "lo" numgen random mod 100 < {percent} drop; }}
}}
"""
_CUT = "table inet cut\ndelete table inet cut\n"
_DROPPED = """table inet cut {{
  chain sent {{ type filter hook output priority 0; tcp dport {{ {ports} }} drop; }}
  chain heard {{ type filter hook input priority 0; tcp sport {{ {ports} }} drop; }}
}}
"""


class Network:
    """The hosts 1, 2, 3 and so on, each with an IPv4 and an IPv6 address on ``eth0``.

    With ``is_link_local`` they have what the kernel gives them, ``fe80::…``, and nothing else.
    """

    def __init__(self, hosts=HOSTS, *, is_link_local=False):
        self.is_link_local = is_link_local
        self.prefix = f"swt{os.getpid():x}n{next(_numbers)}"
        self.hosts = range(1, hosts + 1)
        self.processes: list[subprocess.Popen[str]] = []

    def up(self):
        """Make the hosts.

        Raises:
            OSError: this machine does not let us, with its reason.
        """
        _run("ip", "netns", "add", self._switch)
        lines = ["link set lo up"]
        for bridge in ("br0", "br1"):
            lines.append(f"link add {bridge} type bridge stp_state 0 forward_delay 0 mcast_snooping 0")
            lines.append(f"link set {bridge} up")
        self._batch(self._switch, lines)
        for host in self.hosts:
            _run("ip", "netns", "add", self.namespace(host))
            port = ["link", "add", self._port(host), "netns", self._switch, "type", "veth", "peer", "name", "eth0"]
            _run("ip", *port, "netns", self.namespace(host))
            self._batch(self._switch, [f"link set {self._port(host)} master br0 up"])
            self._batch(self.namespace(host), ["link set lo up", *self._addresses(host), *self._routes()])
        for host in self.hosts if self.is_link_local else ():
            self.link_local(host)

    def down(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=PATIENCE)
        for name in (*map(self.namespace, self.hosts), self._switch):
            _remove(name)

    def namespace(self, host):
        return f"{self.prefix}h{host}"

    def address(self, host, family=4):
        return f"10.99.0.{host}" if family == 4 else f"fd99::{host}"

    def link_local(self, host):
        """Return the address ``fe80::…`` of a host, once the kernel lets it be used."""

        def look():
            shown = self.run(host, "ip", "-6", "addr", "show", "dev", "eth0", "scope", "link")
            return None if "tentative" in shown else re.search(r"inet6 (fe80\S+)/", shown)

        return eventually(look, every=0.1)[1]

    def command(self, host, *command):
        return ["ip", "netns", "exec", self.namespace(host), *map(str, command)]

    def start(self, host, *command, **options):
        """Start a process on a host, with pipes for text; it is ended with the network at the latest."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True} | options
        process = subprocess.Popen(self.command(host, *command), **pipes)
        self.processes.append(process)
        return process

    def run(self, host, *command, **options):
        """Run a command on a host; return what it printed."""
        return _run(*self.command(host, *command), **options)

    def cut(self, host):
        """Take a host's cable out; the host does not notice."""
        self._batch(self._switch, [f"link set {self._port(host)} nomaster"])

    def heal(self, host):
        self._batch(self._switch, [f"link set {self._port(host)} master br0"])

    def split(self, *hosts):
        """Put hosts on a network of their own."""
        self._batch(self._switch, [f"link set {self._port(host)} master br1" for host in hosts])

    def join(self):
        self._batch(self._switch, [f"link set {self._port(host)} master br0" for host in self.hosts])

    def crash(self, host):
        for pid in _run("ip", "netns", "pids", self.namespace(host)).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def linkdown(self, host):
        """Take the host's own interface down, which the host notices."""
        self._batch(self.namespace(host), ["link set eth0 down"])

    def linkup(self, host):
        """Bring it up again, with what the kernel forgot of it."""
        lines = [line.replace("addr add", "addr replace") for line in self._addresses(host)]
        self._batch(self.namespace(host), [*lines, *self._routes()])

    def loss(self, host, percent):
        if shutil.which("nft") is None:
            pytest.skip("nft is not installed, which loses datagrams")
        rules = _LOSS.format(percent=percent) if percent else "table inet loss\ndelete table inet loss\n"
        self.run(host, "nft", "-f", "-", input=rules)

    @property
    def _switch(self):
        return f"{self.prefix}s"

    def _port(self, host):
        return f"{self.prefix}p{host}"

    def _addresses(self, host):
        if self.is_link_local:
            yield "link set eth0 up multicast on"
            return
        yield f"addr add {self.address(host)}/24 dev eth0"
        yield "link set eth0 up multicast on"
        yield f"addr add {self.address(host, 6)}/64 dev eth0 nodad"

    def _routes(self):
        # What real hosts have; without a route multicast of IPv4 cannot be sent at all.
        if not self.is_link_local:
            yield "route replace default via 10.99.0.254 dev eth0 onlink"

    def _batch(self, namespace, lines):
        _run("ip", "-n", namespace, "-batch", "-", input="".join(f"{line}\n" for line in lines))


class RoutedNetwork(Network):
    """Hosts in a network each, with a router between them that passes no multicast; the first two share a link, too.

    ``eth0`` leads to the router: ``10.98.N.2``. ``eth1`` of the hosts 1 and 2 is on one bridge: ``10.97.0.N``.
    """

    neighbours = (1, 2)

    def up(self):
        _run("ip", "netns", "add", self._switch)
        self._batch(self._switch, ["link set lo up", "link add br0 type bridge mcast_snooping 0", "link set br0 up"])
        _run("ip", "netns", "exec", self._switch, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for host in self.hosts:
            name, gateway = self.namespace(host), f"10.98.{host}.1"
            _run("ip", "netns", "add", name)
            self._link(host, self._port(host), "eth0", self.address(host))
            self._batch(self._switch, [f"addr add {gateway}/24 dev {self._port(host)}"])
            self._batch(name, ["link set lo up", f"route add default via {gateway} dev eth0"])
        for host in self.neighbours:
            self._link(host, self._shared(host), "eth1", f"10.97.0.{host}")
            self._batch(self._switch, [f"link set {self._shared(host)} master br0"])

    def address(self, host, family=4):
        assert family == 4, "the router passes IPv4 alone"
        return f"10.98.{host}.2"

    def cut(self, host):
        """Have the router drop what comes from a host and goes to it; the host does not notice."""
        self._rules("add", host)

    def heal(self, host):
        self._rules("del", host)

    def part(self, host):
        """Take a host off the shared link, which it does not notice."""
        self._batch(self._switch, [f"link set {self._shared(host)} nomaster"])

    def _rules(self, verb, host):
        address = self.address(host)
        self._batch(self._switch, [f"rule {verb} {way} {address} blackhole" for way in ("from", "to")])

    def _link(self, host, port, name, address):
        ends = [port, "netns", self._switch, "type", "veth", "peer", "name", name, "netns", self.namespace(host)]
        _run("ip", "link", "add", *ends)
        self._batch(self._switch, [f"link set {port} up"])
        self._batch(self.namespace(host), [f"addr add {address}/24 dev {name}", f"link set {name} up multicast on"])

    def _shared(self, host):
        return f"{self.prefix}l{host}"


class Island(Network):
    """One host at the end of a cable from this machine, which has the address ``gateway`` there."""

    def __init__(self):
        super().__init__(1)
        self.gateway, self._host = (f"10.96.{os.getpid() % 250}.{number}" for number in (1, 2))

    @classmethod
    def made(cls):
        """Return one that is up; None where this machine lets us make none."""
        if _obstacle():
            return None
        _remove_abandoned()
        island = cls()
        island.up()
        return island

    def up(self):
        name, port = self.namespace(1), self._port(1)
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
        _run("ip", "address", "add", f"{self.gateway}/30", "dev", port)
        _run("ip", "link", "set", port, "up")
        self._batch(name, ["link set lo up", *self._addresses(1)])

    def address(self, host, family=4):  # noqa: ARG002  # there is one
        return self._host

    def cut_from(self, *ports):
        """Drop what the host sends to TCP ports and what comes from there; nobody is told. Without ports, nothing."""
        self.run(1, "nft", "-f", "-", input=_CUT + (_DROPPED.format(ports=", ".join(map(str, ports))) if ports else ""))

    def _addresses(self, host):
        yield f"addr add {self.address(host)}/30 dev eth0"
        yield "link set eth0 up"


@contextlib.contextmanager
def network(hosts=HOSTS, *, is_link_local=False, is_routed=False):
    """Give a network; skip the test where none can be made. Nothing of it is left, whatever happens."""
    if reason := _obstacle():
        pytest.skip(reason)
    _remove_abandoned()
    made = RoutedNetwork(hosts) if is_routed else Network(hosts, is_link_local=is_link_local)
    try:
        try:
            made.up()
        except OSError as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield made
    finally:
        made.down()


def _obstacle():
    """Return why there can be no namespaces; nothing when there may be."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid():
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "ip (iproute2) is not installed"
    return ""


def _remove_abandoned():
    """Remove what a test process left behind that is no more."""
    for line in _run("ip", "netns", "list").splitlines():
        name = line.partition(" ")[0]
        if (found := _NAME.fullmatch(name)) and not Path("/proc", str(int(found[1], 16))).exists():
            _remove(name)


def _remove(name):
    if not Path("/run/netns", name).exists():
        return
    with contextlib.suppress(OSError):  # another process removed it
        for pid in _run("ip", "netns", "pids", name).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _run("ip", "netns", "delete", name)


def _run(*command, **options):
    """Run a command; return what it printed.

    Raises:
        OSError: it failed, with what it said.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, **options)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise OSError(f"{' '.join(command)}: {said[0]}")
    return done.stdout
