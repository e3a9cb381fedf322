"""Node: a protocol of datagrams as a state machine without IO.

It opens no socket and reads no clock, so asyncio, threads or a simulation drive the same code, and a hundred nodes run
through ten minutes in a test of a second. A driver does, after each call::

    for datagram in node.datagrams_to_send(now): send it
    for event in node.events(now): hand it on
    arm a timer for node.timer(), and call node.on_timer(now) then

``now`` is a :class:`~skillwire.model.execution.Moment`: timers use its steady clock, timestamps in messages its wall
clock, which people set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from skillwire.model.execution import Moment

E_co = TypeVar("E_co", covariant=True)


class Peer(NamedTuple):
    """An address that datagrams come from and go to: an IP address and a port."""

    host: str
    port: int


class Datagram(NamedTuple):
    """Bytes to send: to one peer, or to the group if ``to`` is None."""

    data: bytes
    to: Peer | None = None


class Node(Protocol[E_co]):
    """A state machine, as a driver sees it."""

    def receive(self, data: bytes, source: Peer, now: Moment) -> None:
        """Take a datagram. Trust: the data is untrusted, and ``source`` may be forged; it never raises."""

    def datagrams_to_send(self, now: Moment) -> Sequence[Datagram]:
        """Return the datagrams due by now, each once."""

    def events(self, now: Moment) -> Sequence[E_co]:
        """Return the events since the last call."""

    def timer(self) -> float | None:
        """Return the next due time by the steady clock, or None."""

    def on_timer(self, now: Moment) -> None:
        """Do what is due."""
