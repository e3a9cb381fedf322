"""The agents that keep a registry, as one that offers skills knows them: from what they answered. Spec: SDP §2.2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire import limits

if TYPE_CHECKING:
    from collections.abc import Container

    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer

#: In which a registry that has started anew is given everything once.
_START_SECONDS: Final = 10.0


class KnownRegistries:
    """Who keeps a registry, and when each was last heard.

    Args:
        settings: figures; ``registry_seen`` is how many seconds one that is silent counts.
    """

    def __init__(self, settings: DiscoverySettings) -> None:
        self._settings = settings
        self._seen: dict[Peer, float] = {}
        self._started: dict[Peer, float] = {}
        self.hosts: set[str] = set()

    def hear(self, source: Peer, now: Moment) -> None:
        """Know that one is there; of very many no more are remembered."""
        if source in self._seen or len(self._seen) < limits.LAN_REGISTRIES:
            self._seen[source] = now.steady
            self.hosts.add(source.host)

    def hear_anew(self, source: Peer, now: Moment, *, had_it: bool) -> bool:
        """Know that one asks for a registration; return whether it is new, or has started anew: it lacks everything.

        ``had_it`` says that it has acknowledged what it asks for. It is said to be new once in a while.
        """
        is_new = (had_it or source not in self._seen) and not self.is_starting(source, now)
        self.hear(source, now)
        if is_new and source in self._seen:
            self._started[source] = now.steady + _START_SECONDS
        return is_new

    def is_starting(self, source: Peer, now: Moment) -> bool:
        """Whether one is just being given everything."""
        return self._started.get(source, 0.0) > now.steady

    def are_within(self, peers: Container[Peer], now: Moment) -> bool:
        """Whether there are some, and all that still count are among ``peers``."""
        edge = now.steady - self._settings.registry_seen
        return bool(self._seen) and all(peer in peers for peer, seen in self._seen.items() if seen > edge)

    def forget_silent(self, now: Moment) -> None:
        """Forget those that count no more."""
        edge = now.steady - self._settings.registry_seen
        for peer in [peer for peer, seen in self._seen.items() if seen <= edge]:
            del self._seen[peer]
            self._started.pop(peer, None)
            self.hosts = {one.host for one in self._seen}
