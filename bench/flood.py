"""A flood of hostile datagrams, which the benches of the local network and the DHT run in a process of its own."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_HOST: Final = "127.0.0.1"
_STEP: Final = 0.002


def flood(datagrams: Sequence[bytes], to: tuple[str, int], sources: int, seconds: float, rate: float) -> None:
    """Send datagrams again and again, ``rate`` a second from some addresses of loopback; print how many that were."""
    sockets = [_sender(number) for number in range(sources)]
    sent, began = 0, time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        if sent < passed * rate:
            sockets[sent % sources].sendto(datagrams[sent % len(datagrams)], to)
            sent += 1
        else:
            time.sleep(_STEP)
    print(sent)


def _sender(number: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((f"127.1.{number // 250}.{number % 250 + 1}", 0))
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(_HOST))
    return sock
