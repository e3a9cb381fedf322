"""What drives a node on an event loop: datagrams in and out, its timer, its events.

The sockets are read as soon as something is there, a bounded number at once, so that a flood leaves the loop time for
everything else; what the node wants to send is sent after each batch. An error of a node, or of who is told what has
happened, goes to the loop's handler, and neither reading nor the timer stops for it. A node outlives its sockets: when
an interface is gone its timer goes on, skills there fall silent, and it takes new sockets when the interface is back.

Who wants to see what goes over the network sets the logger ``skillwire.lan.datagrams`` to DEBUG: each record has the
arguments ``sent`` or ``heard``, the peer (None for the group), and the datagram.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final

from skillwire.adapters.clock import moment
from skillwire.adapters.lan.multicast import BATCH

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable, Sequence

    from skillwire.adapters.lan.multicast import LinkSockets
    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.events import NodeEvent
    from skillwire.protocols.skill_discovery.node import DiscoveryNode
    from skillwire.wire.node import Datagram

#: Seconds in which what comes is one wake of the loop: a thousand skills have hundreds of beats and timers a second.
#: Whatever comes after a quiet moment is taken at once, and so is every answer. What is due is done with what comes.
_GRAIN: Final = 0.05
#: The same as long as nothing happens: beats, and most registrations, say what is known. A skill is to be listed 0.15 s
#: after it is there.
_LULL: Final = 0.1
_DATAGRAMS: Final = logging.getLogger("skillwire.lan.datagrams")


class Driver:
    """Drives one node.

    Args:
        node: that is driven.
        loop: that it is driven on.
        on_events: is told what has happened.
    """

    def __init__(
        self,
        node: DiscoveryNode,
        loop: asyncio.AbstractEventLoop,
        on_events: Callable[[Sequence[NodeEvent]], object],
    ) -> None:
        self.node = node
        self.received = 0
        self.sockets: LinkSockets | None = None
        self._loop = loop
        self._on_events = on_events
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf  # for the node
        self._wakes = 0.0  # which is when the timer fires
        self._fired = 0.0
        self._pause: asyncio.TimerHandle | None = None
        self._is_lull = False
        self._has_ended = False

    def open(self, sockets: LinkSockets) -> None:
        """Take sockets, in place of those that there are."""
        self.close()
        self.sockets = sockets
        for sock in sockets.sockets:
            self._loop.add_reader(sock, self._hear if sock is sockets.group else self._read, sock)
        self.tend()

    def close(self) -> None:
        """Give the sockets up; the node goes on without."""
        if self.sockets is not None:
            for sock in self.sockets.sockets:
                self._loop.remove_reader(sock)
            self.sockets.close()
            self.sockets = None
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
            self._arm(moment())

    def end(self) -> None:
        """Stop for good, whatever the node is told yet."""
        self._has_ended = True
        self.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def tend(self, now: Moment | None = None) -> None:
        """Take up what the node wants, after something was done with it."""
        now = now or moment()
        self._is_lull = False
        try:
            self._send(self.node.datagrams_to_send(now))
            events = self.node.events(now)
            if events:
                self._on_events(events)
            self._is_lull = not events
        finally:
            self._arm(now)

    def _send(self, sends: Sequence[Datagram]) -> None:
        if self.sockets is None:
            return
        is_told = bool(sends) and _DATAGRAMS.isEnabledFor(logging.DEBUG)
        for datagram in sends:
            if is_told:
                _DATAGRAMS.debug("%s %s %s", "sent", datagram.to, datagram.data)
            self.sockets.send(datagram.data, datagram.to)

    def _hear(self, sock: socket.socket) -> None:
        """Read what the group says, and then not before a pause is over, unless there is more than is read at once."""
        if self._read(sock) < BATCH:
            self._loop.remove_reader(sock)
            self._pause = self._loop.call_later(_GRAIN, self._hear_more, sock)

    def _hear_more(self, sock: socket.socket) -> None:
        """Read what came in the pause; another one follows while anything comes."""
        count = 0
        try:
            count = self._read(sock)
        finally:  # an error is reported by the loop, and the next datagram is read all the same
            self._pause = None
            if self.sockets is not None and sock is self.sockets.group:
                if 0 < count < BATCH:
                    pause = _LULL if self._is_lull else _GRAIN
                    self._pause = self._loop.call_later(pause, self._hear_more, sock)
                else:
                    self._loop.add_reader(sock, self._hear, sock)
                    self._arm(moment())

    def _read(self, sock: socket.socket) -> int:
        """Have the node take what is there; return how many datagrams that were."""
        if self.sockets is None:
            return 0
        now = moment()
        receive = self.node.receive
        is_told = _DATAGRAMS.isEnabledFor(logging.DEBUG)
        count = 0
        try:
            for data, source in self.sockets.read(sock):
                count += 1
                if is_told:
                    _DATAGRAMS.debug("%s %s %s", "heard", source, data)
                receive(data, source, now)
        finally:
            self.received += count
            if count:
                self._take_up(now)
        return count

    def _take_up(self, now: Moment) -> None:
        """Do what is due after something came."""
        try:
            if self._due <= now.steady:
                self.node.on_timer(now)
        finally:
            self.tend(now)

    def _arm(self, now: Moment) -> None:
        """Have the node told the time: when the pause is over that there is, else by a timer.

        A timer that fires too early looks when it is time.
        """
        due = self.node.timer()
        self._due = math.inf if due is None else due
        if due is None or self._has_ended or self._pause is not None:
            return
        wakes = max(due, self._fired + _GRAIN)
        if self._timer is not None:
            if self._wakes <= wakes:
                return
            self._timer.cancel()
        self._wakes = wakes
        self._timer = self._loop.call_later(wakes - now.steady, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = moment()
        self._fired = now.steady
        try:
            self.node.on_timer(now)
        finally:
            self.tend(now)
