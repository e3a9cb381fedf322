"""Two hosts on one cable, as network namespaces: only the other host receives a host's multicast."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Of each host on its interface ``eth0``.
ADDRESSES: Final = ("10.98.0.1", "10.98.0.2")


def obstacle() -> str:
    """Return why there can be no namespaces here; nothing when there may be."""
    if sys.platform != "linux" or os.geteuid():
        return "network namespaces need root on Linux"
    return "" if shutil.which("ip") else "ip (iproute2) is not installed"


@contextlib.contextmanager
def two_hosts() -> Iterator[tuple[list[str], list[str]]]:
    """Give for each host what stands before a command that is to run there; the hosts are removed at the end."""
    first, second = names = [f"swb{os.getpid():x}h{number}" for number in (1, 2)]
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("link", "add", "eth0", "netns", first, "type", "veth", "peer", "name", "eth0", "netns", second)
        for name, address in zip(names, ADDRESSES, strict=True):
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", "eth0", "addrgenmode", "none")  # one family is enough to be found
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up", "multicast", "on")
            _ip("-n", name, "route", "add", "default", "dev", "eth0")
        yield ["ip", "netns", "exec", first], ["ip", "netns", "exec", second]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
