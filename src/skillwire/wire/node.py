"""Node: a talk by datagrams, as a state machine without any input or output.

A node receives datagrams and the time, and returns what to send, what has happened, and when it
needs the time again. It opens no socket and reads no clock, so that a hundred of them run through ten minutes in a
test of a second, and asyncio, threads or a simulation drive the same code. A driver does, after each call::

    for datagram in node.datagrams_to_send(now): send it
    for event in node.events(now): hand it on
    arm a timer for node.timer(), and call node.on_timer(now) then

``now`` is a :class:`~skillwire.model.execution.Moment`: timers run by its steady clock, and timestamps in messages are
of the other one, which people set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.model.execution import Moment

E_co = TypeVar("E_co", covariant=True)


class Peer(NamedTuple):
    """An address that datagrams come from and go to: an IP address and a port."""

    host: str
    port: int


class Datagram(NamedTuple):
    """What is to be sent: to one peer, or to the group when ``to`` is None."""

    data: bytes
    to: Peer | None = None


class Node(Protocol[E_co]):
    """What a driver drives."""

    def receive(self, data: bytes, source: Peer, now: Moment) -> None:
        """Take a datagram. Trust: the data is untrusted, and ``source`` may be forged; it never raises."""

    def datagrams_to_send(self, now: Moment) -> Sequence[Datagram]:
        """Return what is to be sent by now, each once."""

    def events(self, now: Moment) -> Sequence[E_co]:
        """Return what has happened, each once."""

    def timer(self) -> float | None:
        """Return when the node needs the time next, by the steady clock; None for never."""

    def on_timer(self, now: Moment) -> None:
        """Do what is due."""
