"""Who holds the places of a registry: how many each agent and each host has, and who makes room when all are taken.

Anybody can make up agents, each with a key of its own, so what nobody certified is bounded for each host as well, and
gives way to what is certified: first of the host that holds the most, and there what came last. Spec: specs §3.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from skillwire import limits

if TYPE_CHECKING:
    from skillwire.protocols.skill_discovery.listing import Key, Listed


class Places:
    """The places of one registry; hints take none."""

    def __init__(self) -> None:
        self._per_agent: Counter[str] = Counter()
        self._per_host: Counter[str] = Counter()
        self._unverified: dict[str, dict[Key, None]] = {}
        self._taken = 0

    def take(self, listed: Listed) -> None:
        """Count a skill that is listed."""
        self._taken += 1
        self._per_agent[listed.registration.agent_id] += 1
        self._per_host[listed.host] += 1
        if not listed.is_verified:
            self._unverified.setdefault(listed.host, {})[listed.key] = None

    def leave(self, listed: Listed) -> None:
        """Count it no more."""
        self._taken -= 1
        for counts, name in ((self._per_agent, listed.registration.agent_id), (self._per_host, listed.host)):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]
        if not listed.is_verified:
            of_host = self._unverified[listed.host]
            del of_host[listed.key]
            if not of_host:
                del self._unverified[listed.host]

    def of_agent(self, agent_id: str) -> int:
        """Return how many places an agent has."""
        return self._per_agent[agent_id]

    def of_host(self, host: str) -> int:
        """Return how many places were taken from a host."""
        return self._per_host.get(host, 0)

    def is_full(self) -> bool:
        """Whether all places are taken."""
        return self._taken >= limits.LAN_SKILLS

    def is_full_for(self, agent_id: str) -> bool:
        """Whether there is none for one more skill of this agent, unless another gives way."""
        return self.is_full() or self._per_agent[agent_id] >= limits.LAN_SKILLS_PER_AGENT

    def is_full_from(self, host: str) -> bool:
        """Whether there is none for one more unverified skill from this host."""
        return len(self._unverified.get(host, ())) >= limits.LAN_SKILLS_PER_HOST

    def has_one(self, agent_id: str, host: str, *, is_verified: bool) -> bool:
        """Whether one more skill of this agent, from this host, may be listed."""
        is_within = self._per_agent.get(agent_id, 0) < limits.LAN_SKILLS_PER_AGENT
        if not is_verified:
            return is_within and not self.is_full() and not self.is_full_from(host)
        return is_within and (not self.is_full() or bool(self._unverified))

    def gives_way(self) -> Key | None:
        """Return which unverified skill makes room for a certified one; None when there is room, or none of them."""
        if not self.is_full() or not self._unverified:
            return None
        most = max(self._unverified, key=lambda host: len(self._unverified[host]))
        return next(reversed(self._unverified[most]))
