"""Whoever listens to a network on loopback: it hears every datagram of a group, and says nothing."""

import contextlib
import socket
import struct
import threading

from tests.support.eventually import PATIENCE, eventually

_GOODBYE = b"SKILL_UNREGISTER:"


class Eavesdropper:
    """Hears every datagram of a group on loopback."""

    def __init__(self, lan):
        self.datagrams = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind((lan.group, lan.port))
        joined = struct.pack("4s4s", socket.inet_aton(lan.group), socket.inet_aton("127.0.0.1"))
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
        self._socket.settimeout(0.1)
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._hear, daemon=True)

    def _hear(self):
        while not self._is_done.is_set():
            with contextlib.suppress(TimeoutError):
                self.datagrams.append(self._socket.recv(65536))

    def wait_for_goodbyes(self, expected):
        """Wait until each of these skills, and no other, has said why it leaves: skill → reason. Spec: SDP §9.1."""
        eventually(self._goodbyes, lambda said: said == expected)

    def _goodbyes(self):
        said = [
            data.decode().split(":", 1)[1].split(";") for data in tuple(self.datagrams) if data.startswith(_GOODBYE)
        ]
        return {skill: reason for _, skill, reason, *_ in said}

    def wait_for(self, kind):
        eventually(lambda: any(data.startswith(kind) for data in tuple(self.datagrams)), what=kind.decode())

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_done.set()
        self._thread.join(PATIENCE)
        self._socket.close()
