"""Requests under way: matching answers, timeouts from measured round trips, and one retransmission.

An answer counts when it comes from the address that was asked, within the time, with the transaction, the type and the
sender's id that belong to it. The timeout follows RFC 6298: the smoothed round trip and four times its variation. After
it the request is sent once more, and the caller may ask another node meanwhile. A node without a measured round trip
has twice the usual time. A late answer still measures the round trip, and its proof still counts, so later requests
give a slow node the time that it needs. Spec: SDP §6.2; specs §3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from skillwire import limits
from skillwire.model.execution import Moment
from skillwire.protocols.skill_discovery.dht.messages import (
    ANSWERS,
    TRANSACTION,
    TRANSACTION_BYTES,
    Answer,
    Hello,
    Request,
    encode,
)
from skillwire.protocols.skill_discovery.limits import BoundedDict
from skillwire.protocols.skill_discovery.scheduling import TimerQueue
from skillwire.wire.node import Datagram, Peer

#: Seconds until a request is sent again: to a node without a measured round trip at most, the least and the most.
_UNMEASURED_SECONDS: Final = 0.4
_LEAST_SECONDS: Final = 0.08
_MOST_SECONDS: Final = 2.0
#: Seconds after a request in which a late answer counts.
_LATE_SECONDS: Final = 5.0

#: Takes the answer, or None without one; and, after the first timeout, the moment at which the request is repeated.
AnswerCallback = Callable[[Any, "Moment"], None]
TimeoutCallback = Callable[["Moment"], None]


@dataclass(slots=True, eq=False)
class Pending:
    """A request that waits for its answer; ``node_id`` is whom it is for, if that is known."""

    peer: Peer
    node_id: bytes | None
    kind: type[Request]
    data: bytes
    sent: float
    timeout: float
    on_answer: AnswerCallback
    on_timeout: TimeoutCallback | None
    is_last: bool


class Requests:
    """The requests of one node; ``settled`` is called with each that was answered (True) or not."""

    def __init__(
        self, node_id: bytes, flags: int, random: Random, settled: Callable[[Pending, bool, Moment], None]
    ) -> None:
        self.outbox: list[Datagram] = []
        self._head = node_id, flags
        self._random = random
        self._settled = settled
        self._pending: dict[bytes, Pending] = {}
        self._due: TimerQueue[bytes] = TimerQueue()
        self._late: BoundedDict[bytes, Pending] = BoundedDict(limits.DHT_HELLOS)  # that were given up
        self._usual = 0.0  # seconds of a timeout, of the nodes that answered
        self._round_trips: BoundedDict[Peer, tuple[float, float]] = BoundedDict(limits.DHT_PROVEN)
        self.timer = self._due.timer

    def ask(  # noqa: PLR0917 - what a request consists of
        self,
        peer: Peer,
        node_id: bytes | None,
        kind: type[Request],
        fields: tuple[Any, ...],
        now: Moment,
        on_answer: AnswerCallback,
        on_timeout: TimeoutCallback | None = None,
        *,
        is_once: bool = False,
    ) -> None:
        """Send a request, twice unless ``is_once``; ``on_answer`` gets its answer, and ``on_timeout`` a repetition."""
        transaction = self._random.randbytes(TRANSACTION_BYTES)
        data = encode(kind(transaction, *self._head, *fields))
        timeout = self._timeout(peer)
        self._pending[transaction] = Pending(
            peer, node_id, kind, data, now.steady, timeout, on_answer, on_timeout, is_once
        )
        self._due.set(transaction, now.steady + timeout)
        self.outbox.append(Datagram(data, peer))

    def _timeout(self, peer: Peer) -> float:
        known = self._round_trips.get(peer)
        if known is None:
            return max(self._usual, min(_UNMEASURED_SECONDS, 2 * self._usual or _UNMEASURED_SECONDS))
        timeout = min(_MOST_SECONDS, max(_LEAST_SECONDS, known[0] + 4 * known[1]))
        self._usual += (timeout - self._usual) / (8 if self._usual else 1)
        return timeout

    def awaits(self, data: bytes) -> bool:
        """Return whether a datagram has the transaction of a request under way."""
        return data[TRANSACTION] in self._pending or data[TRANSACTION] in self._late

    def take(self, answer: Answer, source: Peer, now: Moment) -> bool:
        """Pass an answer to its callback; return False for one that was not requested."""
        late = self._late.get(answer.transaction)
        asked = late or self._pending.get(answer.transaction)
        if asked is None or asked.peer != source or type(answer) is not ANSWERS[asked.kind]:
            return False
        (self._late if late else self._pending).pop(answer.transaction)
        self._due.cancel(answer.transaction)
        trip = now.steady - asked.sent
        if trip > _LATE_SECONDS:
            return False
        if not asked.is_last or late:
            mean, spread = self._round_trips.get(source) or (trip, trip / 2)
            spread += (abs(trip - mean) - spread) / 4
            share = 8 if trip > mean else 2  # the first trips, of many nodes that start at once, are forgotten soon
            self._round_trips.put(source, (mean + (trip - mean) / share, spread if trip > mean else spread / 2))
        is_right = asked.node_id is None or answer.sender == asked.node_id
        self._settled(asked, is_right, now)
        if not late or asked.kind is Hello:
            asked.on_answer(answer if is_right else None, now)
        return True

    def on_timer(self, now: Moment) -> None:
        """Send again what was not answered in time; give up on what was sent twice."""
        while (transaction := self._due.pop(now.steady)) is not None:
            asked = self._pending[transaction]
            if asked.is_last:
                self._late.put(transaction, self._pending.pop(transaction))
                self._settled(asked, False, now)
                asked.on_answer(None, now)
                continue
            asked.is_last = True
            self._due.set(transaction, now.steady + max(asked.timeout, _UNMEASURED_SECONDS))
            self.outbox.append(Datagram(asked.data, asked.peer))
            if asked.on_timeout is not None:
                asked.on_timeout(now)
