"""Whether so many are silent at once that it is not them but the network. Spec: specs §3 "health"."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillwire.protocols.skill_discovery.listing import Key
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings


class MassSilence:
    """The silent ones among those who owe a sign of life alike.

    Args:
        settings: figures; ``mass_share``, ``mass_least`` and ``eviction``.
    """

    def __init__(self, settings: DiscoverySettings) -> None:
        self._settings = settings
        self._silent: set[Key] = set()
        self._suspected_until = 0.0

    def add(self, key: Key) -> None:
        """Take note that one is silent."""
        self._silent.add(key)

    def discard(self, key: Key) -> None:
        """Take note that one has spoken, or is gone."""
        self._silent.discard(key)

    def is_suspected(self, now: float) -> bool:
        """Whether it is the network."""
        return now < self._suspected_until

    def judge(self, every: int, now: float) -> None:
        """Look whether it is the network now that one is to be forgotten, of so many in all."""
        silent = len(self._silent)
        if silent >= self._settings.mass_least and silent > self._settings.mass_share * every:
            self._suspected_until = now + self._settings.eviction
