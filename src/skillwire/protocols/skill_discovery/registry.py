"""What is registered on a local network, and how it is: the state behind an MCPAgent.

A registration is named by its agent and its skill, and the newest timestamp wins, whatever the order in which they
come; so agents that heard the same list the same. A goodbye leaves a *tombstone* for as long as an older registration
could still arrive. Health annotates what is listed and never hides it.

When more than a share of all skills is silent at once, it is not them: the network is suspected, and what would be
forgotten is kept and marked *stale*. It is forgotten when it stays silent long after the others came back.

A *hint* is what an unsigned source, mDNS, says of a skill: it stands until a registration takes its place, is kept by
answered probes alone, and is told to nobody else. Bounds stand for what strangers can make large: skills in all and of
one agent, unverified ones of one host, and hints. Spec: SDP §2, §8, §9; specs §3.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from skillwire import limits
from skillwire.protocols.skill_discovery import health as states
from skillwire.protocols.skill_discovery.health import Health, Silence
from skillwire.protocols.skill_discovery.listing import Change, Index, Listed, What, has_facts_of, passes
from skillwire.protocols.skill_discovery.mass_silence import MassSilence
from skillwire.protocols.skill_discovery.messages import HealthStatus, Outcome
from skillwire.protocols.skill_discovery.places import Places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from skillwire.protocols.skill_discovery.held_beats import HeldBeats
    from skillwire.protocols.skill_discovery.listing import Key
    from skillwire.protocols.skill_discovery.messages import Discover, Register
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings


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
        self._due: dict[Key, float] = {}
        self._timers: list[tuple[float, Key]] = []
        self._heard: dict[Key, int] = {}  # the newest timestamp of each skill, of any kind of message
        self._tombstones: dict[Key, tuple[int, float]] = {}
        self._places = Places()
        self._index = Index()
        self._hints: set[Key] = set()
        self.held_beats: HeldBeats | None = None
        self._silent = {False: MassSilence(settings), True: MassSilence(settings)}  # of registrations, and of hints

    def __len__(self) -> int:
        return len(self._skills)

    def __iter__(self) -> Iterator[Listed]:
        return iter(self._skills.values())

    def get(self, key: Key) -> Listed | None:
        """Return the skill of this name."""
        return self._skills.get(key)

    def owed_by(self, agent_id: str) -> int:
        """Return how many skills an agent has registered, and owes heartbeats for."""
        return self._places.of_agent(agent_id)

    def owed_from(self, host: str) -> int:
        """Return how many skills were registered from a host."""
        return self._places.of_host(host)

    def network_is_suspected(self, now: float) -> bool:
        """Whether so many skills fell silent that it is the network."""
        return self._silent[False].is_suspected(now)

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
            self._put(changed)
            return Outcome.DUPLICATE, "already registered"
        self._places.leave(known)
        self._places.take(changed)
        self._index.remove(known)
        self._index.add(changed)
        self._put(changed)
        self._on_change(Change(What.UPDATED, known, changed))
        return Outcome.SUCCESS, "registered anew"

    def _refusal(
        self, message: Register, known: Listed | None, host: str, *, is_verified: bool
    ) -> tuple[Outcome, str] | None:
        if message.timestamp <= self._buried(message.agent_id, message.skill_id):
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

    def _buried(self, agent_id: str, skill_id: str) -> int:
        return self._tombstones.get((agent_id, skill_id), (-1, 0.0))[0]

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
        self._put(hint)
        self._on_change(Change(What.UPDATED if known else What.REGISTERED, known, hint))
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

    def is_well(self, key: Key) -> bool:
        """Whether a skill is registered, HEALTHY, and not suspected."""
        known = self._skills.get(key)
        if known is None or known.is_hint:
            return False
        return known.health.status is HealthStatus.HEALTHY and not known.health.is_suspect

    def told(self, key: Key, status: HealthStatus, timestamp: int, now: float) -> bool:
        """Take a beat, or news, of a skill; False when there is no such registration. Older ones are passed over."""
        known = self._skills.get(key)
        if known is None or known.is_hint:
            return timestamp <= self._buried(*key)
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
            self._on_change(Change(What.UPDATED, known, changed))

    def unregister(self, key: Key, timestamp: int, now: float, reason: str = "") -> Outcome:
        """Take a goodbye: it acts at once, and stands against registrations that are older. Spec: SDP §9."""
        known = self._skills.get(key)
        if known is not None and not known.is_hint and timestamp < known.registration.timestamp:
            return Outcome.INVALID
        if len(self._tombstones) < limits.LAN_SKILLS or key in self._tombstones:
            self._tombstones[key] = timestamp, now + 2 * self._settings.window
            heappush(self._timers, (self._tombstones[key][1], key))
        if known is None:
            return Outcome.DUPLICATE
        self._remove(known, What.LEFT, reason)
        return Outcome.SUCCESS

    def evict(self, agent_id: str) -> None:
        """Forget what an agent has registered, because its certificate was taken back."""
        for known in [one for key, one in self._skills.items() if key[0] == agent_id]:
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

        A skill has all the capabilities, one of the scenes, and one of the types that are asked for. The search ends
        when there are enough that may be called: anybody may ask, and as often as datagrams are read. Hints are not
        among them: who is told of a skill by us shall be able to rely on that it was registered.
        """
        found: list[Listed] = []
        others: list[Listed] = []
        for listed in self._candidates(wanted):
            if not listed.is_hint and passes(listed.registration, wanted):
                (found if listed.health.is_usable else others).append(listed)
                if len(found) >= most:
                    break
        found += others[: most - len(found)]
        found.sort(key=lambda listed: (not listed.health.is_usable, not listed.is_verified, listed.key))
        return found

    def in_scene(self, scene: str) -> list[Listed]:
        """Return the skills of a scene."""
        return [self._skills[key] for key in self._index.in_scene(scene)]

    def scenes(self) -> list[str]:
        """Return the scenes that skills are in, by name."""
        return self._index.scenes()

    def _candidates(self, wanted: Discover) -> Iterable[Listed]:
        keys = self._index.narrow(wanted)
        return self._skills.values() if keys is None else [self._skills[key] for key in keys]

    def timer(self) -> float | None:
        """Return when silence comes to something next, or a little earlier."""
        return self._timers[0][0] if self._timers else None

    def on_timer(self, now: float) -> None:
        """Do what silence has come to by now."""
        while self._timers and self._timers[0][0] <= now:
            due, key = heappop(self._timers)
            if self._tombstones.get(key, (0, now + 1))[1] <= now:
                del self._tombstones[key]
            known = self._skills.get(key)
            if known is None or self._due[key] != due:
                continue
            health, silence = states.silent(known.health, now - self._leave(known), self._settings)
            held = self.held_beats
            if silence is not Silence.NOTHING and held is not None and held.holds(key):
                self._look_at_beats(known, held, now)
            elif silence is Silence.EXPIRED:
                self._expire(known, now)
            else:
                self._is_silent(known, health, silence)

    def _look_at_beats(self, known: Listed, held: HeldBeats, now: float) -> None:
        """Have beats verified that are held, unless they would not even be a suspicion, were they good.

        Nobody is listed as HEALTHY by what is not verified for longer than by what is.
        """
        key, beat = known.key, self._settings.heartbeat_interval
        suspect = held.newest(key) + self._settings.suspect_missed * beat
        missed = known.health.heard + self._settings.unhealthy_missed * beat
        if now < min(suspect, missed):
            self._schedule(key, min(suspect, missed))
            return
        held.settle(key)
        self._schedule(key, self._next_step(self._skills[key]))

    def _is_silent(self, known: Listed, health: Health, silence: Silence) -> None:
        key = known.key
        self._skills[key] = changed = known._replace(health=health)
        self._schedule(key, self._next_step(changed))
        if silence is Silence.MISSED:
            self._silent[known.is_hint].add(key)
            self._on_change(Change(What.STATUS, known, changed))
        if silence is not Silence.NOTHING:
            self._on_change(Change(What.SUSPECTED, known, changed))

    def _expire(self, known: Listed, now: float) -> None:
        """Forget a skill, unless so many of its kind are silent that it is the network."""
        crowd = self._silent[known.is_hint]
        crowd.add(known.key)
        crowd.judge(len(self._hints) if known.is_hint else len(self._skills) - len(self._hints), now)
        is_network = crowd.is_suspected(now) or self.network_is_suspected(now)
        if is_network and now - known.health.heard < self._settings.stale:
            stale = known._replace(health=known.health._replace(is_stale=True))
            self._skills[known.key] = stale
            self._schedule(known.key, now + self._settings.eviction)
            if not known.health.is_stale:
                self._on_change(Change(What.STALE, known, stale))
        else:
            self._remove(known, What.EVICTED, "silent")

    def _leave(self, known: Listed) -> float:
        """Return the seconds that a skill may be silent beyond what beats are owed: a hint owes none."""
        if not known.is_hint:
            return 0.0
        return self._settings.hint_interval - self._settings.suspect_missed * self._settings.heartbeat_interval

    def _next_step(self, listed: Listed) -> float:
        due = states.next_step(listed.health, self._settings)
        return due + self._leave(listed) if listed.is_hint else due

    def _add(self, listed: Listed) -> None:
        key = listed.key
        hint = self._skills.get(key)
        if hint is not None:
            self._hints.discard(key)
            self._silent[True].discard(key)
        self._heard[key] = listed.registration.timestamp
        self._places.take(listed)
        self._index.add(listed)
        self._put(listed)
        self._on_change(Change(What.REGISTERED, hint, listed))

    def _put(self, listed: Listed) -> None:
        """Hold a skill that gave a sign of life."""
        key = listed.key
        self._skills[key] = listed
        self._silent[listed.is_hint].discard(key)
        due = self._next_step(listed) if listed.is_hint else states.next_step(listed.health, self._settings)
        if due < self._due.get(key, due + 1):  # otherwise the timer that runs looks when it is time
            self._schedule(key, due)

    def _schedule(self, key: Key, due: float) -> None:
        self._due[key] = due
        heappush(self._timers, (due, key))

    def _is_alive(self, known: Listed, health: Health) -> None:
        changed = known._replace(health=health)
        self._put(changed)
        if health.status is not known.health.status:
            self._on_change(Change(What.STATUS, known, changed))

    def _remove(self, known: Listed, what: What, reason: str = "") -> None:
        key = known.key
        if self.held_beats is not None:
            self.held_beats.forget(key)
        del self._skills[key], self._due[key], self._heard[key]
        self._silent[known.is_hint].discard(key)
        if known.is_hint:
            self._hints.discard(key)
        else:
            self._places.leave(known)
            self._index.remove(known)
        self._on_change(Change(what, known, None, reason))
