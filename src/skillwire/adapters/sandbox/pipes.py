"""The descriptors between a sandbox and the thread that serves it: each is read or written when it is ready."""

from __future__ import annotations

import os
import selectors
import socket
import struct
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_PIECE: Final = 64 * 1024
_CREDENTIALS: Final = struct.Struct("3i")  # process, user, group


class Pipes:
    """All descriptors of one sandbox; :meth:`close` closes every one."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._ours: set[int] = set()
        self._theirs: set[int] = set()

    def reading(self, take: Callable[[bytes], object]) -> int:
        """Make a pipe; return the end to write. ``take`` is called with each piece that comes, empty at the end."""
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        self._theirs.add(theirs)
        self.follow(ours, take)
        return theirs

    def greeting(self, sender: Callable[[int], object]) -> int:
        """Make a socket; return the end to write. ``sender`` is told which process, as it is numbered here, writes."""
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        descriptor, given = ours.detach(), theirs.detach()
        self._theirs.add(given)
        self._ours.add(descriptor)

        def hear() -> None:
            process = _sender(descriptor)
            self._end(descriptor)
            if process is not None:
                sender(process)

        self._selector.register(descriptor, selectors.EVENT_READ, hear)
        return given

    def writing(self, data: bytes) -> tuple[int, Callable[[], None]]:
        """Make a pipe; return the end to read, and what begins to write ``data`` to it."""
        theirs, ours = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(ours, False)
        self._theirs.add(theirs)
        self._ours.add(ours)
        return theirs, partial(self._write, ours, memoryview(data))

    def follow(self, descriptor: int, take: Callable[[bytes], object]) -> None:
        """Read ``descriptor``, which now belongs here, as it is ready."""
        os.set_blocking(descriptor, False)
        self._ours.add(descriptor)
        self._selector.register(descriptor, selectors.EVENT_READ, partial(self._read, descriptor, take))

    def await_end(self, process: int, ended: Callable[[], object]) -> int:
        """Return a *pidfd* of ``process``; ``ended`` is called when it has ended."""
        descriptor = os.pidfd_open(process)
        self._ours.add(descriptor)

        def tell() -> None:
            self._selector.unregister(descriptor)
            ended()

        self._selector.register(descriptor, selectors.EVENT_READ, tell)
        return descriptor

    def hand_over(self) -> None:
        """Close the other side's ends here, so that its end is seen."""
        while self._theirs:
            os.close(self._theirs.pop())

    def turn(self, seconds: float) -> bool:
        """Do what is ready, waiting at most ``seconds``; return whether there was anything."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            if key.fd in self._selector.get_map():  # one that is ready may end another
                key.data()
        return bool(ready)

    def close(self) -> None:
        """Close everything."""
        self.hand_over()
        self._selector.close()
        while self._ours:
            os.close(self._ours.pop())

    def _read(self, descriptor: int, take: Callable[[bytes], object]) -> None:
        try:
            data = os.read(descriptor, _PIECE)
        except BlockingIOError:
            return
        if not data:
            self._end(descriptor)
        take(data)

    def _write(self, descriptor: int, rest: memoryview) -> None:
        """Write what fits; the rest when there is room."""
        if descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            pass  # full; it is gone on with when there is room
        except BrokenPipeError:
            rest = rest[:0]  # nobody reads it any more
        if rest:
            self._selector.register(descriptor, selectors.EVENT_WRITE, partial(self._write, descriptor, rest))
        else:
            self._ours.discard(descriptor)
            os.close(descriptor)

    def _end(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        self._ours.discard(descriptor)
        os.close(descriptor)


def _sender(descriptor: int) -> int | None:
    """Return the process that has sent what has come on a socket, as the kernel says; None at the end."""
    sock = socket.socket(fileno=descriptor)
    try:
        data, told, _, _ = sock.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
    finally:
        sock.detach()
    rows = [row for level, kind, row in told if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)]
    process: int = _CREDENTIALS.unpack(rows[0])[0] if data and rows else 0
    return process or None
