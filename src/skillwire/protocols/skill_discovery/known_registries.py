"""The agents that keep a registry, as one that offers skills knows them: from what they answered. Spec: SDP §2.2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer

#: In which a registry that has started anew is given everything once.
_START_SECONDS: Final = 10.0
#: Registries of one host: its agents, and the commands that run there.
_PER_HOST: Final = 8


class KnownRegistries:
    """Who keeps a registry, and when each was last heard.

    Nobody signs an acknowledgment in the profile *open*, so whoever likes can look like very many registries. Places
    are bounded, for each host as well, and who has proven to be where it says takes the place of who has not.

    Args:
        settings: figures; ``registry_seen`` is how many seconds one that is silent counts.
        is_proven: whether somebody has proven to be at an address, at a time of the steady clock.
    """

    def __init__(self, settings: DiscoverySettings, is_proven: Callable[[Peer, float], bool]) -> None:
        self._settings = settings
        self._is_proven = is_proven
        self._seen: dict[Peer, float] = {}
        self._started: dict[Peer, float] = {}
        self.hosts: set[str] = set()

    def __contains__(self, source: Peer) -> bool:
        return source in self._seen

    def hear(self, source: Peer, now: Moment) -> bool:
        """Know that one is there; return whether it is remembered."""
        if source not in self._seen and not self._makes_room(source, now.steady):
            return False
        self._seen[source] = now.steady
        self.hosts.add(source.host)
        return True

    def hear_anew(self, source: Peer, now: Moment, *, had_it: bool) -> bool:
        """Know that one asks for a registration; return whether it is new, or has started anew: it lacks everything.

        ``had_it`` says that it has acknowledged what it asks for. It is said to be new once in a while, and of one that
        is not remembered never.
        """
        is_new = (had_it or source not in self._seen) and not self.is_starting(source, now)
        if not self.hear(source, now):
            return False
        if is_new:
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
        self._forget([peer for peer, seen in self._seen.items() if seen <= edge])

    def _makes_room(self, source: Peer, now: float) -> bool:
        """Whether there is a place for one more, once another has made room: who proved nothing, then who is silent."""
        crowd = [peer for peer in self._seen if peer.host == source.host]
        if len(crowd) < _PER_HOST:
            crowd = list(self._seen)
            if len(crowd) < limits.LAN_REGISTRIES:
                return True
        if not self._is_proven(source, now):
            return False
        self._forget([min(crowd, key=lambda peer: (self._is_proven(peer, now), self._seen[peer]))])
        return True

    def _forget(self, peers: Iterable[Peer]) -> None:
        for peer in peers:
            del self._seen[peer]
            self._started.pop(peer, None)
        self.hosts = {one.host for one in self._seen}
