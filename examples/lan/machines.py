"""The machines of the example's processes: network namespaces, or all on 127.0.0.1.

On Linux, as root, a *machine* is a network namespace with its own address. All of them are on one bridge, which is a
namespace, too: multicast reaches the others as on a switch, and does not reach the computer's network. Elsewhere every
process is on loopback.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NETWORK = "10.98.0"


class Machine(NamedTuple):
    """One machine: its address, its interface, the port of the group, and what to put before a command of it."""

    host: str
    interface: str
    port: int = 54321
    prefix: tuple[str, ...] = ()

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the words that run a command on this machine."""
        return [*self.prefix, *words]


@contextmanager
def machines(count: int, *, is_alone: bool = False) -> Iterator[tuple[str, list[Machine]]]:
    """Give a sentence that says where they are, and ``count`` machines, which are taken away afterwards."""
    why = "as was asked" if is_alone else obstacle()
    if why:
        # Another port than others have: whoever else is on this computer's loopback is to hear nothing of it.
        yield f"all on 127.0.0.1, {why}", [Machine("127.0.0.1", "lo", _free_port())] * count
        return
    with ExitStack() as undo:
        prefix = f"swlan{os.getpid()}-"
        switch = _namespace(f"{prefix}0", undo)
        # Without a querier a bridge that snoops would lose multicast after some minutes.
        _ip("-n", switch, "link", "add", "br0", "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
        _ip("-n", switch, "link", "set", "br0", "up")
        made = [_machine(f"{prefix}{number}", switch, number, undo) for number in range(1, count + 1)]
        yield f"{count} network namespaces on one bridge, {NETWORK}.1 and so on", made


def obstacle() -> str:
    """Return why there can be no namespaces here; nothing where there can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "since only root may make network namespaces"
    if shutil.which("ip") is None:
        return "since there is no command ip (Debian: iproute2)"
    name = f"swlan{os.getpid()}-probe"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"since this computer makes no network namespaces: {tried.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    return ""


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _machine(name: str, switch: str, number: int, undo: ExitStack) -> Machine:
    _namespace(name, undo)
    _ip("link", "add", f"port{number}", "netns", switch, "type", "veth", "peer", "name", "eth0", "netns", name)
    _ip("-n", switch, "link", "set", f"port{number}", "master", "br0", "up")
    _ip("-n", name, "address", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
    _ip("-n", name, "link", "set", "eth0", "up")
    _ip("-n", name, "route", "add", "default", "dev", "eth0")
    return Machine(f"{NETWORK}.{number}", "eth0", prefix=("ip", "netns", "exec", name))


def _namespace(name: str, undo: ExitStack) -> str:
    _ip("netns", "add", name)
    undo.callback(subprocess.run, ["ip", "netns", "delete", name], check=False)
    _ip("-n", name, "link", "set", "lo", "up")
    return name


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
