"""Asking a silent skill whether it is there: with a third of all datagrams lost, two missed beats are nothing rare.

**[ours]**: a suspect's agent is sent ``SKILL_REGISTER_ACK`` with ``DUPLICATE``, which is true, and the text
:data:`SILENT_SKILL`; it beats at once. An agent of another make reads that it is registered. Each suspect is asked a
few times until silence would make it UNHEALTHY, and nobody when it is the network. Spec: SDP §8.2 "retryCount".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.protocols.skill_discovery.agenda import Agenda, Timer
from skillwire.protocols.skill_discovery.health import FALLEN
from skillwire.protocols.skill_discovery.listing import What
from skillwire.protocols.skill_discovery.messages import Outcome, RegisterAck

if TYPE_CHECKING:
    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.listing import Change, Key
    from skillwire.protocols.skill_discovery.outbox import Outbox
    from skillwire.protocols.skill_discovery.registry import Registry
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer

#: **[ours]**: how the message of an acknowledgment goes on that asks for a beat.
SILENT_SKILL: Final = "silent, are you there"

_OF_INTEREST: Final = frozenset({What.SUSPECTED, What.LEFT, What.EVICTED})


class Doubts:
    """The suspects that one agent asks, and where their agents are.

    Args:
        registry: what is listed.
        outbox: takes what is sent.
        settings: figures.
    """

    def __init__(self, registry: Registry, outbox: Outbox, settings: DiscoverySettings) -> None:
        self._registry = registry
        self._outbox = outbox
        self._settings = settings
        self._places: dict[str, Peer] = {}
        self._asked: dict[Key, int] = {}
        self._agenda: Agenda[Key] = Agenda()
        self.timer: Timer = self._agenda.timer
        self._second = (0, 0)
        span = (settings.unhealthy_missed - settings.suspect_missed) * settings.heartbeat_interval
        self._pause = span / (settings.retry_count + 1)

    def heard(self, agent_id: str, peer: Peer) -> None:
        """Take note of where an agent that has skills listed was heard from."""
        if self._places.get(agent_id) != peer and self._registry.owed_by(agent_id):
            self._places[agent_id] = peer

    def changed(self, change: Change, now: Moment) -> None:
        """Take a change of the registry, after it happened."""
        if change.what not in _OF_INTEREST:
            return
        agent_id, _ = key = change.listed.key
        if change.after is None and not self._registry.owed_by(agent_id):
            self._places.pop(agent_id, None)
        if change.what is What.SUSPECTED and agent_id in self._places and self._settings.retry_count:
            self._asked[key] = 0
            self._agenda.set(key, now.steady)

    def on_timer(self, now: Moment) -> None:
        """Ask who is still silent."""
        while (key := self._agenda.pop(now.steady)) is not None:
            asked = self._asked.pop(key)
            if self._is_in_doubt(key, now):
                self._ask(key, now)
                if asked + 1 < self._settings.retry_count:
                    self._asked[key] = asked + 1
                    self._agenda.set(key, now.steady + self._pause)

    def _is_in_doubt(self, key: Key, now: Moment) -> bool:
        listed = self._registry.get(key)
        if listed is None or not listed.health.is_suspect or listed.health.status in FALLEN:
            return False
        return not self._registry.network_is_suspected(now.steady, listed)

    def _ask(self, key: Key, now: Moment) -> None:
        second, count = self._second
        self._second = int(now.steady), (count + 1 if second == int(now.steady) else 1)
        peer = self._places.get(key[0])
        if peer is None or self._second[1] > limits.LAN_DOUBTS:
            return
        message = RegisterAck(key[0], Outcome.DUPLICATE, f"{key[1]} {SILENT_SKILL}", self._outbox.stamp(now))
        self._outbox.send(self._outbox.write(message), now, peer)
