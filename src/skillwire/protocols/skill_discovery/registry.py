"""What is registered on a local network, and how it is: the state behind an MCPAgent.

A registration is named by its agent and its skill, and the newest timestamp wins, whatever the order in which they
come; so agents that heard the same list the same. A goodbye leaves a *tombstone* for as long as an older registration
could still arrive. Health annotates what is listed and never hides it; what silence comes to is said in
:mod:`~skillwire.protocols.skill_discovery.liveness`.

A *hint* is what an unsigned source, mDNS, says of a skill: it stands until a registration takes its place, is kept by
answered probes alone, and is told to nobody else. Bounds stand for what strangers can make large: skills in all and of
one agent, unverified ones of one host, and hints. Spec: SDP §2, §8, §9; specs §3.

Who holds the places of a registry: how many each agent and each host has, and who makes room when all are taken.

Anybody can make up agents, each with a key of its own, so what nobody certified is bounded for each host as well, and
gives way to what is certified: first of the host that holds the most, and there what came last. Spec: specs §3.

Tombstones: who has said goodbye, as long as an older registration could still arrive. Spec: SDP §9.2.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from skillwire import limits
from skillwire.protocols.skill_discovery import health as states
from skillwire.protocols.skill_discovery.health import Change, Health, Listed, What, has_facts_of
from skillwire.protocols.skill_discovery.index import Index
from skillwire.protocols.skill_discovery.liveness import LivenessTimeouts
from skillwire.protocols.skill_discovery.messages import HealthStatus, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from skillwire.protocols.skill_discovery.health import Key
    from skillwire.protocols.skill_discovery.messages import Discover, Register
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings


class RegistryQuota:
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


class Tombstones:
    """The newest goodbye of each skill that said one lately.

    Args:
        seconds: that each is remembered.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: dict[Key, tuple[int, float]] = {}  # those first that end first

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def add(self, key: Key, timestamp: int, now: float) -> None:
        """Remember one, unless there are too many."""
        self._kept.pop(key, None)
        if len(self._kept) < limits.LAN_SKILLS:
            self._kept[key] = timestamp, now + self._seconds

    def of(self, key: Key) -> int:
        """Return the timestamp of a skill's goodbye; -1 when there is none."""
        return self._kept.get(key, (-1, 0.0))[0]

    def timer(self) -> float | None:
        """Return when one is to be forgotten next."""
        return next(iter(self._kept.values()))[1] if self._kept else None

    def forget(self, now: float) -> None:
        """Forget what is over."""
        while (until := self.timer()) is not None and until <= now:
            del self._kept[next(iter(self._kept))]


class Registry:
    """The registrations that one agent knows.

    Args:
        settings: its figures.
        on_change: is told every change, after it happened.
    """

    def __init__(self, settings: DiscoverySettings, on_change: Callable[[Change], object]) -> None:
        self._settings = settings
        self._on_change = on_change
        self._skills: dict[Key, Listed] = {}
        self._heard: dict[Key, int] = {}  # the newest timestamp of each skill, of any kind of message
        self._tombstones = Tombstones(2 * settings.window)
        self._places = RegistryQuota()
        self._index = Index()
        self._hints: set[Key] = set()
        self._silences = LivenessTimeouts(
            settings,
            self._skills,
            self._hints,
            certified=self._index.certified,
            on_change=self._changed,
            forget=self._forget,
        )

    def __len__(self) -> int:
        return len(self._skills)

    def __iter__(self) -> Iterator[Listed]:
        return iter(self._skills.values())

    def get(self, key: Key) -> Listed | None:
        """Return the skill of this name."""
        return self._skills.get(key)

    def count_of_agent(self, agent_id: str) -> int:
        """Return how many skills an agent has registered, and owes heartbeats for."""
        return self._places.of_agent(agent_id)

    def count_of_host(self, host: str) -> int:
        """Return how many skills were registered from a host."""
        return self._places.of_host(host)

    def network_is_suspected(self, now: float, known: Listed | None = None) -> bool:
        """Whether so many skills fell silent that it is the network; of ``known`` those that are trusted as much."""
        return self._silences.is_network(now, known)

    def register(self, message: Register, now: float, *, is_verified: bool, host: str) -> tuple[Outcome, str]:
        """Take a registration whose signature is good; return what became of it, and why. Spec: SDP §2.3."""
        key = message.agent_id, message.skill_id
        known = self._skills.get(key)
        if refused := self._refusal(message, known, host, is_verified=is_verified):
            return refused
        if known is None or known.is_hint:
            if (least := self._places.gives_way()) is not None:  # who was not refused is certified then
                self._remove(self._skills[least], What.EVICTED, "crowded")
            self._add(Listed(message, Health(HealthStatus.HEALTHY, now), is_verified, host))
            return Outcome.SUCCESS, "registered"
        self._heard[key] = max(message.timestamp, self._heard[key])
        changed = Listed(message, states.alive(known.health, now), is_verified, host)
        if (is_verified, host) == (known.is_verified, known.host) and has_facts_of(message, known.registration):
            self._silences.put(key, changed)
            return Outcome.DUPLICATE, "already registered"
        self._places.leave(known)
        self._places.take(changed)
        self._silences.put(key, changed)
        self._changed(Change(What.UPDATED, known, changed))
        return Outcome.SUCCESS, "registered anew"

    def _refusal(
        self, message: Register, known: Listed | None, host: str, *, is_verified: bool
    ) -> tuple[Outcome, str] | None:
        if message.timestamp <= self._tombstones.of((message.agent_id, message.skill_id)):
            return Outcome.INVALID, "older than the goodbye"
        if known is None or known.is_hint:
            has_room = self._places.has_one(message.agent_id, host, is_verified=is_verified)
            return None if has_room else (Outcome.INVALID, "no room")
        if known.is_verified and not is_verified:
            return Outcome.UNAUTHORIZED, "another key is certified"
        is_older = message.timestamp < known.registration.timestamp
        if is_older:
            return Outcome.INVALID, "older than the last one"
        is_crowded = not is_verified and host != known.host and self._places.is_full_from(host)
        return (Outcome.INVALID, "no room") if is_crowded else None

    def hint(self, message: Register, now: float, *, host: str) -> bool:
        """Take what an unsigned source says of a skill; False when it counts for nothing.

        It never stands against a registration, nor against a goodbye that was heard lately. Said again it is no sign
        of life; said otherwise it is a new hint.

        Args:
            message: as a registration; its timestamp and signature count for nothing.
            now: seconds of the steady clock.
            host: that it came from.

        Spec: specs §3 "mDNS".
        """
        key = message.agent_id, message.skill_id
        known = self._skills.get(key)
        if key in self._tombstones or (known is not None and not known.is_hint):
            return False
        if known is not None and known.host == host and has_facts_of(message, known.registration):
            return False
        if known is None and len(self._hints) >= limits.LAN_HINTS:
            return False
        hint = Listed(message, Health(HealthStatus.UNKNOWN, now), is_verified=False, host=host, is_hint=True)
        self._hints.add(key)
        self._heard[key] = -1
        self._silences.put(key, hint)
        self._changed(Change(What.UPDATED if known else What.REGISTERED, known, hint))
        return True

    def unhint(self, key: Key) -> bool:
        """Take back a hint; False when there is none, or a registration has taken its place."""
        if key not in self._hints:
            return False
        self._remove(self._skills[key], What.LEFT)
        return True

    def restore(self, messages: Iterable[Register], now: float, *, host: str = "") -> None:
        """Take what was kept from before a restart: it is UNKNOWN, and unverified, until a sign of life comes."""
        for message in messages:
            if (message.agent_id, message.skill_id) not in self._skills and not self._places.is_full_for(
                message.agent_id
            ):
                self._add(Listed(message, Health(HealthStatus.UNKNOWN, now), is_verified=False, host=host))

    def told(self, key: Key, status: HealthStatus, timestamp: int, now: float) -> bool:
        """Take a beat, or news, of a skill; False when there is no such registration. Older ones are passed over."""
        known = self._skills.get(key)
        if known is None or known.is_hint:
            return timestamp <= self._tombstones.of(key)
        if timestamp <= self._heard[key]:
            return True
        self._heard[key] = timestamp
        self._is_alive(known, states.told(known.health, status, now, self._settings))
        return True

    def distrust(self, key: Key) -> None:
        """List a skill as unverified, since its key is certified no more; it is silent from now on."""
        known = self._skills.get(key)
        if known is not None and known.is_verified:
            changed = self._skills[key] = known._replace(is_verified=False)
            self._places.leave(known)
            self._places.take(changed)
            self._changed(Change(What.UPDATED, known, changed))

    def unregister(self, key: Key, timestamp: int, now: float, reason: str = "") -> Outcome:
        """Take a goodbye: it acts at once, and stands against registrations that are older. Spec: SDP §9."""
        known = self._skills.get(key)
        if known is not None and not known.is_hint and timestamp < known.registration.timestamp:
            return Outcome.INVALID
        self._tombstones.add(key, timestamp, now)
        if known is None:
            return Outcome.DUPLICATE
        self._remove(known, What.LEFT, reason)
        return Outcome.SUCCESS

    def evict(self, agents: Collection[str]) -> None:
        """Forget what agents have registered, because their certificates were taken back."""
        for known in [one for (agent_id, _), one in self._skills.items() if agent_id in agents]:
            self._remove(known, What.EVICTED, "revoked")

    def answered_probe(self, key: Key, now: float) -> None:
        """Take note that the endpoint of a skill answered a probe."""
        known = self._skills.get(key)
        if known is None:
            return
        if known.is_hint:
            self._is_alive(known, Health(HealthStatus.UNKNOWN, now))
        elif (health := states.answered_probe(known.health, now)) is not known.health:
            self._is_alive(known, health)

    def find(self, wanted: Discover, most: int = limits.LAN_SKILLS) -> list[Listed]:
        """Return the skills that pass the filters, at most so many, those that may be called first. Spec: SDP §3.1.

        A skill has all the capabilities, one of the scenes, and one of the types that are asked for. Hints are not
        among them: who is told of a skill by us shall be able to rely on that it was registered.
        """
        found = [self._skills[key] for key in self._index.find(wanted, most)]
        found.sort(key=lambda listed: (not listed.health.is_usable, not listed.is_verified, listed.key))
        return found

    def in_scene(self, scene: str) -> list[Listed]:
        """Return the skills of a scene, in no order."""
        return [self._skills[key] for key in self._index.in_scene(scene)]

    def scenes(self) -> list[str]:
        """Return the scenes that skills are in, by name."""
        return self._index.scenes()

    def provides(self, scene: str, capabilities: Collection[str] = ()) -> bool:
        """Whether a provider of a scene that may be called has all these capabilities."""
        return self._index.provides(scene, capabilities)

    def provider(self, scene: str, capabilities: Collection[str] = ()) -> Listed | None:
        """Return the first of these, the PRIMARY of all when nothing is asked for; None when there is none."""
        key = self._index.provider(scene, capabilities)
        return None if key is None else self._skills[key]

    def providers(self, scene: str, most: int) -> list[Listed]:
        """Return the first providers of a scene that may be called, in the order of their group."""
        return [self._skills[key] for key in self._index.providers(scene, most)]

    def timer(self) -> float | None:
        """Return when something is due next, or a little earlier."""
        due = [due for due in (self._silences.timer(), self._tombstones.timer()) if due is not None]
        return min(due, default=None)

    def on_timer(self, now: float) -> None:
        """Do what silence has come to by now."""
        self._tombstones.forget(now)
        self._silences.on_timer(now)

    def _add(self, listed: Listed) -> None:
        key = listed.key
        hint = self._skills.get(key)
        self._hints.discard(key)
        self._heard[key] = listed.registration.timestamp
        self._places.take(listed)
        self._silences.put(key, listed)
        self._changed(Change(What.REGISTERED, hint, listed))

    def _is_alive(self, known: Listed, health: Health) -> None:
        changed = Listed(known.registration, health, known.is_verified, known.host, known.is_hint)
        self._silences.put(known.key, changed)
        if health.status is not known.health.status:
            self._changed(Change(What.STATUS, known, changed))

    def _changed(self, change: Change) -> None:
        """Find what has changed as it is now, and tell of it."""
        if change.after is None:
            self._index.drop(change.listed.key)
        elif not change.after.is_hint:
            self._index.put(change.after)
        self._on_change(change)

    def _forget(self, known: Listed) -> None:
        self._remove(known, What.EVICTED, "silent")

    def _remove(self, known: Listed, what: What, reason: str = "") -> None:
        key = known.key
        del self._skills[key], self._heard[key]
        self._silences.drop(key)
        if known.is_hint:
            self._hints.discard(key)
        else:
            self._places.leave(known)
        self._changed(Change(what, known, None, reason))
