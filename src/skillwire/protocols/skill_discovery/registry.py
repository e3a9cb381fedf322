"""The registry of one agent: the skills that it knows on the local network, and how to find them.

A registration is named by its agent and its skill, and the newest timestamp wins in whatever order registrations
arrive, so agents that hear the same list the same. A goodbye leaves a *tombstone* for as long as an older registration
could still arrive. Health annotates what is listed and never hides it.

A *hint* comes from mDNS, which is unsigned. It stands until a registration replaces it, is kept only by answered
probes, and is shared with no other agent. What untrusted peers can make large is bounded (:class:`RegistryQuota`).

Each skill has one timer, at which its silence would change something. A sign of life does not move it: the timer is
checked when it expires and set anew, so a thousand heartbeating skills cost next to nothing. Spec: SDP §2, §3.1, §4,
§8, §9; specs §3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final, Literal

from skillwire import limits
from skillwire.model.lan import GoneReason
from skillwire.protocols.skill_discovery import health as states
from skillwire.protocols.skill_discovery.health import Change, ChangeKind, Health, Key, ListedSkill, Overdue, Trust
from skillwire.protocols.skill_discovery.index import Index
from skillwire.protocols.skill_discovery.limits import BoundedDict, KeysByHost
from skillwire.protocols.skill_discovery.messages import Discover, HealthStatus, Outcome, Register
from skillwire.protocols.skill_discovery.scheduling import TimerQueue, earliest
from skillwire.protocols.skill_discovery.settings import DiscoverySettings


class RegistryQuota:
    """How many skills each agent and each host has registered, and which one is replaced when the registry is full.

    A peer can make up agents, each with a key of its own. So uncertified skills are bounded for each host as well, and
    give way to certified ones: the newest of the host that has the most. Hints are not counted. Spec: specs §3.
    """

    def __init__(self) -> None:
        self.per_agent: Counter[str] = Counter()
        self.per_host: Counter[str] = Counter()
        self._unverified: KeysByHost[Key] = KeysByHost()
        self._taken = 0

    def add(self, listed: ListedSkill) -> None:
        """Count a listed skill."""
        self._taken += 1
        self.per_agent[listed.registration.agent_id] += 1
        self.per_host[listed.host] += 1
        if not listed.is_verified:
            self._unverified.add(listed.host, listed.key)

    def remove(self, listed: ListedSkill) -> None:
        """Count a skill no more."""
        self._taken -= 1
        for counts, name in ((self.per_agent, listed.registration.agent_id), (self.per_host, listed.host)):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]
        if not listed.is_verified:
            self._unverified.discard(listed.host, listed.key)

    def accepts(self, agent_id: str, host: str, *, is_verified: bool) -> bool:
        """Return whether one more skill of an agent, from a host, may be listed."""
        if self.per_agent.get(agent_id, 0) >= limits.LAN_SKILLS_PER_AGENT:
            return False
        if is_verified:
            return not self.is_full or bool(self._unverified)
        return not self.is_full and not self.is_full_from(host)

    @property
    def is_full(self) -> bool:
        """Whether the registry lists as many skills as it may."""
        return self._taken >= limits.LAN_SKILLS

    def is_full_from(self, host: str) -> bool:
        """Return whether a host has as many uncertified skills as it may."""
        return len(self._unverified.get(host, ())) >= limits.LAN_SKILLS_PER_HOST

    def replaced(self) -> Key | None:
        """Return the uncertified skill that a certified one replaces; None while there is room."""
        return next(reversed(self._unverified.of_largest()), None) if self.is_full else None


class Tombstones:
    """The newest goodbye of each skill in the last ``seconds``. Spec: SDP §9.2."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: dict[Key, tuple[int, float]] = {}  # in the order in which they end

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def add(self, key: Key, timestamp: int, now: float) -> None:
        """Remember a goodbye, unless there are too many."""
        self._kept.pop(key, None)
        if len(self._kept) < limits.LAN_SKILLS:
            self._kept[key] = timestamp, now + self._seconds

    def of(self, key: Key) -> int:
        """Return the timestamp of a skill's goodbye; -1 when there is none."""
        return self._kept.get(key, (-1, 0.0))[0]

    def timer(self) -> float | None:
        """Return when the oldest one ends."""
        return next(iter(self._kept.values()))[1] if self._kept else None

    def on_timer(self, now: float) -> None:
        """Forget those that have ended."""
        while (until := self.timer()) is not None and until <= now:
            del self._kept[next(iter(self._kept))]


#: Skills that register within the same interval of this length are ordered by name.
_BATCH_MS: Final = 1000


class Registry:
    """The skills that one agent knows; :meth:`changes` returns what happened to them."""

    def __init__(self, settings: DiscoverySettings, *, knows_newcomers: bool = True) -> None:
        self._settings = settings
        self._changes: list[Change] = []
        self._skills: dict[Key, ListedSkill] = {}
        self._newest: dict[Key, int] = {}  # timestamp of each skill, of any type of message
        self._tombstones = Tombstones(2 * settings.window)
        self._quota = RegistryQuota()
        self._index = Index()
        self._hints: set[Key] = set()
        self._timers: TimerQueue[Key] = TimerQueue()
        self._outages = states.OutageDetector(settings)
        self._knows_newcomers = knows_newcomers
        self._former: BoundedDict[Key, int] = BoundedDict(limits.LAN_SKILLS)  # since when, of skills not listed now
        self._earlier: BoundedDict[str, None] = BoundedDict(limits.LAN_SKILLS)  # agents that were there before us
        self._complete = 0.0  # when all of them have been heard
        # A hint owes no heartbeats, so it may be silent for this much longer.
        self._hint_extra = settings.hint_interval - settings.suspect_missed * settings.heartbeat_interval

    def __len__(self) -> int:
        return len(self._skills)

    def __iter__(self) -> Iterator[ListedSkill]:
        return iter(self._skills.values())

    def get(self, key: Key) -> ListedSkill | None:
        """Return the skill of this name."""
        return self._skills.get(key)

    def changes(self) -> list[Change]:
        """Return what changed since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def set_own_host(self, host: str) -> None:
        """Set our own address, whose heartbeats are no sign that the network works."""
        self._outages.own_host = host

    def count_of_agent(self, agent_id: str) -> int:
        """Return how many skills an agent has registered, and owes heartbeats for."""
        return self._quota.per_agent.get(agent_id, 0)

    def count_of_host(self, host: str) -> int:
        """Return how many skills were registered from a host."""
        return self._quota.per_host.get(host, 0)

    def network_is_suspected(self, now: float, listed: ListedSkill | None = None) -> bool:
        """Return whether so many skills fell silent that it is the network; as far as it concerns ``listed``."""
        return self._outages.is_suspected(now, Trust.UNVERIFIED if listed is None else states.trust_in(listed))

    def register(self, message: Register, now: float, *, is_verified: bool, host: str) -> tuple[Outcome, str]:
        """Take a registration with a good signature; return the outcome and its explanation. Spec: SDP §2.3."""
        key = message.agent_id, message.skill_id
        known = self._skills.get(key)
        if refused := self._refusal(message, known, host, is_verified=is_verified):
            return refused
        if known is None or known.is_hint:
            if (replaced := self._quota.replaced()) is not None:
                self._remove(self._skills[replaced], ChangeKind.EVICTED, "crowded")
            self._add(ListedSkill(message, Health(HealthStatus.HEALTHY, now), is_verified, host))
            return Outcome.SUCCESS, "registered"
        self._newest[key] = max(message.timestamp, self._newest[key])
        changed = ListedSkill(message, states.alive(known.health, now), is_verified, host)
        self._heard(host, now)
        self._put(changed)
        if (is_verified, host) == (known.is_verified, known.host) and states.has_facts_of(message, known.registration):
            return Outcome.DUPLICATE, "already registered"
        self._quota.remove(known)
        self._quota.add(changed)
        self._report(Change(ChangeKind.UPDATED, known, changed))
        return Outcome.SUCCESS, "registered anew"

    def _refusal(
        self, message: Register, known: ListedSkill | None, host: str, *, is_verified: bool
    ) -> tuple[Outcome, str] | None:
        if message.timestamp <= self._tombstones.of((message.agent_id, message.skill_id)):
            return Outcome.INVALID, "older than the goodbye"
        if known is None or known.is_hint:
            is_accepted = self._quota.accepts(message.agent_id, host, is_verified=is_verified)
            return None if is_accepted else (Outcome.INVALID, "no room")
        if known.is_verified and not is_verified:
            return Outcome.UNAUTHORIZED, "another key is certified"
        if message.timestamp < known.registration.timestamp:
            return Outcome.INVALID, "older than the last one"
        is_crowded = not is_verified and host != known.host and self._quota.is_full_from(host)
        return (Outcome.INVALID, "no room") if is_crowded else None

    def hint(self, message: Register, now: float, *, host: str) -> bool:
        """Take a skill from mDNS; False when it is known better. Spec: specs §3 "mDNS"."""
        key = message.agent_id, message.skill_id
        known = self._skills.get(key)
        if key in self._tombstones or (known is not None and not known.is_hint):
            return False
        if known is not None and known.host == host and states.has_facts_of(message, known.registration):
            return False
        if known is None and len(self._hints) >= limits.LAN_HINTS:
            return False
        hint = ListedSkill(message, Health(HealthStatus.UNKNOWN, now), is_verified=False, host=host, is_hint=True)
        self._hints.add(key)
        self._newest[key] = -1
        self._put(hint)
        self._report(Change(ChangeKind.UPDATED if known else ChangeKind.REGISTERED, known, hint))
        return True

    def unhint(self, key: Key) -> bool:
        """Remove a hint; False when there is none."""
        if key not in self._hints:
            return False
        self._remove(self._skills[key], ChangeKind.LEFT)
        return True

    def restore(self, message: Register, now: float, *, host: str = "", since: int = 0) -> None:
        """List a skill that was stored before a restart: UNKNOWN and unverified until a sign of life comes."""
        key = message.agent_id, message.skill_id
        is_within = self._quota.per_agent.get(message.agent_id, 0) < limits.LAN_SKILLS_PER_AGENT
        if key not in self._skills and is_within and not self._quota.is_full:
            self.restore_rank(key, since)
            self._add(ListedSkill(message, Health(HealthStatus.UNKNOWN, now), is_verified=False, host=host))

    def restore_rank(self, key: Key, since: int) -> None:
        """Give a skill the rank that it had before a restart, once it registers; ``since`` is 0 when it is unknown."""
        if since and self._knows_newcomers:
            self._former.put(key, since)

    def since(self, key: Key) -> int:
        """Return when a skill registered first, s since the epoch; 0 when that is unknown."""
        return self._index.since.get(key, 0)

    def on_heartbeat(self, key: Key, status: HealthStatus, timestamp: int, now: float) -> bool:
        """Take a heartbeat or a status; False when the skill is not registered. Older ones change nothing."""
        known = self._skills.get(key)
        if known is None or known.is_hint:
            self._begin(now)
            if now < self._complete and not self.count_of_agent(key[0]):
                self._earlier.put(key[0], None)
            return timestamp <= self._tombstones.of(key)
        if timestamp <= self._newest[key]:
            return True
        self._newest[key] = timestamp
        self._heard(known.host, now)
        self._set_health(known, states.after_heartbeat(known.health, status, now, self._settings))
        return True

    def distrust(self, key: Key) -> None:
        """List a skill as unverified, because its key is no longer certified."""
        known = self._skills.get(key)
        if known is not None and known.is_verified:
            changed = self._skills[key] = known._replace(is_verified=False)
            self._quota.remove(known)
            self._quota.add(changed)
            self._report(Change(ChangeKind.UPDATED, known, changed))

    def unregister(self, key: Key, timestamp: int, now: float, reason: Literal["", GoneReason] = "") -> Outcome:
        """Take a goodbye, which acts at once and refuses older registrations. Spec: SDP §9."""
        known = self._skills.get(key)
        if known is not None and not known.is_hint and timestamp < known.registration.timestamp:
            return Outcome.INVALID
        self._tombstones.add(key, timestamp, now)
        if known is None:
            return Outcome.DUPLICATE
        self._remove(known, ChangeKind.LEFT, reason)
        self._former.pop(key, None)
        return Outcome.SUCCESS

    def evict(self, agents: Collection[str]) -> None:
        """Remove the skills of agents whose certificates were revoked."""
        for known in [one for (agent_id, _), one in self._skills.items() if agent_id in agents]:
            self._remove(known, ChangeKind.EVICTED, "revoked")

    def answered_probe(self, key: Key, now: float) -> None:
        """Count an answer of a skill's endpoint as a sign of life."""
        known = self._skills.get(key)
        if known is None:
            return
        if known.is_hint:
            self._set_health(known, Health(HealthStatus.UNKNOWN, now))
        elif (health := states.answered_probe(known.health, now)) is not known.health:
            self._set_health(known, health)
            if known.health.is_refused:
                self._report(Change(ChangeKind.UPDATED, known, self._skills[key]))

    def refused_probe(self, key: Key) -> None:
        """Count the refusal of a skill's endpoint: the last in its scenes, and judged alone when it falls silent."""
        known = self._skills.get(key)
        if known is not None and not known.health.is_refused:
            changed = self._skills[key] = known._replace(health=known.health._replace(is_refused=True))
            self._report(Change(ChangeKind.UPDATED, known, changed))

    def find(self, query: Discover, most: int = limits.LAN_SKILLS) -> list[ListedSkill]:
        """Return at most ``most`` registered skills that pass the filters: usable ones first, stale ones last."""

        def order(listed: ListedSkill) -> tuple[bool, bool, bool, Key]:
            return not listed.health.is_usable, listed.health.is_stale, not listed.is_verified, listed.key

        return sorted((self._skills[key] for key in self._index.find(query, most)), key=order)

    def in_scene(self, scene: str) -> list[ListedSkill]:
        """Return the skills of a scene, in no order."""
        return [self._skills[key] for key in self._index.in_scene(scene)]

    def rank(self, key: Key) -> tuple[object, ...] | None:
        """Return the sort key of a skill among the providers of a scene; None where it is not registered."""
        listed = self._skills.get(key)
        return None if listed is None or listed.is_hint else self._index.rank(key)[:-1]

    def scenes(self) -> list[str]:
        """Return the scenes that skills take part in, by name."""
        return self._index.scenes()

    def provider(self, scene: str, capabilities: Collection[str] = ()) -> ListedSkill | None:
        """Return the first usable provider with these capabilities; without any, the PRIMARY of the scene."""
        key = self._index.provider(scene, capabilities)
        return None if key is None else self._skills[key]

    def providers(self, scene: str, most: int) -> list[ListedSkill]:
        """Return the first usable providers of a scene, in the order of its group."""
        return [self._skills[key] for key in self._index.providers(scene, most)]

    def timer(self) -> float | None:
        """Return when something is due next, or a little earlier."""
        return earliest(self._timers.timer, self._tombstones.timer)

    def on_timer(self, now: float) -> None:
        """Do what the silence of skills has reached by now."""
        self._tombstones.on_timer(now)
        while (key := self._timers.pop(now)) is not None:
            known = self._skills[key]
            if now < (due := self._next_step(known)):  # a sign of life came since
                self._timers.set(key, due)
                continue
            at = max(now - (self._hint_extra if known.is_hint else 0.0), states.next_step(known.health, self._settings))
            health, step = states.silent(known.health, at, self._settings)
            if step is Overdue.TIMEOUT:
                self._expire(known, now)
                continue
            self._skills[key] = changed = known._replace(health=health)
            self._timers.set(key, self._next_step(changed))
            if step is Overdue.MISSED:
                if not known.health.is_refused:
                    self._outages.add(known)
                self._report(Change(ChangeKind.STATUS, known, changed))
            if step is not Overdue.NOTHING:
                self._report(Change(ChangeKind.SUSPECTED, known, changed))

    def _expire(self, known: ListedSkill, now: float) -> None:
        """Remove a skill, unless so many with its trust are silent that it is the network."""
        if known.health.is_refused:
            self._remove(known, ChangeKind.EVICTED, "silent")
            return
        certified, trust = self._index.certified(), states.trust_in(known)
        unverified = len(self._skills) - len(self._hints) - certified
        self._outages.add(known)
        self._outages.judge(known, (certified, unverified, len(self._hints))[trust], now)
        if not self._outages.is_suspected(now, trust) or now - known.health.heard >= self._settings.stale_timeout:
            self._remove(known, ChangeKind.EVICTED, "silent")
            return
        self._skills[known.key] = stale = known._replace(health=known.health._replace(is_stale=True))
        self._timers.set(known.key, now + self._settings.timeout)
        if not known.health.is_stale:
            self._report(Change(ChangeKind.STALE, known, stale))

    def _heard(self, host: str, now: float) -> None:
        """Take a sign of life, which ends an outage when it comes from another host."""
        outages = self._outages
        if host == outages.own_host:
            return
        outages.elsewhere = now
        for key in outages.end() if outages.is_active else ():
            if self._skills[key].health.is_stale:
                self._timers.set_earlier(key, now + outages.grace)

    def _next_step(self, listed: ListedSkill) -> float:
        return states.next_step(listed.health, self._settings) + (self._hint_extra if listed.is_hint else 0.0)

    def _add(self, listed: ListedSkill) -> None:
        key = listed.key
        hint = self._skills.get(key)
        self._hints.discard(key)
        self._newest[key] = listed.registration.timestamp
        self._begin(listed.health.heard)
        is_new = self._knows_newcomers and key[0] not in self._earlier
        came = listed.registration.timestamp // _BATCH_MS if is_new else 0
        self._index.since[key] = self._former.pop(key, came)
        self._quota.add(listed)
        self._put(listed)
        self._report(Change(ChangeKind.REGISTERED, hint, listed))

    def _begin(self, now: float) -> None:
        self._complete = self._complete or now + 1.5 * self._settings.heartbeat_interval

    def _put(self, listed: ListedSkill) -> None:
        """List a skill that is new or gave a sign of life."""
        key = listed.key
        self._skills[key] = listed
        self._outages.discard(key)
        self._timers.set_earlier(key, self._next_step(listed))

    def _set_health(self, known: ListedSkill, health: Health) -> None:
        changed = ListedSkill(known.registration, health, known.is_verified, known.host, known.is_hint)
        self._put(changed)
        if health.status is not known.health.status:
            self._report(Change(ChangeKind.STATUS, known, changed))

    def _remove(self, known: ListedSkill, kind: ChangeKind, reason: Literal["", GoneReason] = "") -> None:
        key = known.key
        del self._skills[key], self._newest[key]
        self._outages.discard(key)
        self._timers.cancel(key)
        if known.is_hint:
            self._hints.discard(key)
        else:
            self._quota.remove(known)
        self._report(Change(kind, known, None, reason))
        if key in self._index.since:
            self._former.put(key, self._index.since.pop(key))

    def _report(self, change: Change) -> None:
        if change.after is None:
            self._index.remove(change.listed.key)
        elif not change.after.is_hint:
            self._index.put(change.after)
        self._changes.append(change)
