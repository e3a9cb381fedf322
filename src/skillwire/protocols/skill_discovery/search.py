"""Searches: the discoveries of one agent, repeated after short pauses and collected until there is enough.

Each search has an identifier **[ours]**, which its answers name. An answer of any agent proves nothing: what is
verified follows from the signed registration of a skill. So an unknown responder is challenged for its name, and asked
to register with us. A search ends before its patience **[ours]** when nothing new came for longer than the longest
answer delay. It stays open while nothing useful came, and while an answer names a skill whose agent did not register.

**Bounds** **[ours]**: an attacker hears a request, too, and can answer before others, who wait up to 120 ms. So each
host has a number of places, whatever its ports. When all are in use, the host with the most gives one to a host with
fewer. A host's own answer about its skill replaces those of others. Few sources are challenged at once, since forged
ones have no end. Trust: sources, and all that they send, are untrusted. Spec: SDP §3; specs §3.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from skillwire import limits
from skillwire.model.execution import Moment
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery.health import Key, ListedSkill
from skillwire.protocols.skill_discovery.ingress import Challenges, VerifiedMessage
from skillwire.protocols.skill_discovery.limits import KeysByHost
from skillwire.protocols.skill_discovery.messages import (
    Discover,
    DiscoverResponse,
    Endpoint,
    HealthStatus,
    SkillRecord,
    SkillType,
)
from skillwire.protocols.skill_discovery.registry import Registry
from skillwire.protocols.skill_discovery.scheduling import Outbox, Timer, TimerQueue
from skillwire.protocols.skill_discovery.settings import DiscoverySettings
from skillwire.wire.node import Peer

#: A skill and its endpoint.
_RecordKey = tuple[str, "Endpoint"]

#: Seconds in which a proof has to come, before others are challenged instead.
PROOF_TAKES: Final = 0.25
#: Seconds after which a search checks again whether the responders have registered.
_LOOK: Final = 0.05
#: Seconds in which an agent registers after a request; later the request was lost.
_REQUEST_TAKES: Final = 0.15


class Found(NamedTuple):
    """One skill in the answers to a discovery."""

    record: SkillRecord
    source: Peer  # the responder's address
    agent_id: str = ""  # the agent there, when it answered from the skill's own host, and proved its name
    skill_type: str = ""  # the requested type, when it was one; answers name none


class Discovered(NamedTuple):
    """The collected answers to a discovery: each skill at each endpoint once."""

    request: str
    skills: tuple[Found, ...]


class StopCondition(NamedTuple):
    """What ends a search before its patience."""

    quiet: float
    least: float = 0.0
    is_one: bool = False
    use_unverified: bool = False
    named: Collection[Key] = ()

    def is_met(self, found: Collection[Found], listed: Sequence[ListedSkill] | None) -> bool:
        """Return whether a useful answer came; ``listed`` are the registered matches, None without a registry."""
        if not self.is_one:
            return bool(found)
        if listed is None:
            return any(not one.record.is_stale for one in found)
        keys = {(one.record.skill_id, one.record.endpoint) for one in found}
        return any(
            (one.key in self.named if self.named else one.health.status is HealthStatus.HEALTHY)
            and (one.is_verified or self.use_unverified)
            and (one.registration.skill_id, one.registration.endpoint) in keys
            for one in listed
        )


def one_provider(settings: DiscoverySettings, *, use_unverified: bool, named: Collection[Key] = ()) -> StopCondition:
    """Return the condition of a search for one provider to call, one of ``named`` where there are any."""
    return StopCondition(settings.quiet, is_one=True, use_unverified=use_unverified, named=named)


def every_provider(settings: DiscoverySettings) -> StopCondition:
    """Return the condition of a search for all providers: quiet for so long that a lost request was repeated."""
    return StopCondition(settings.quiet_all)


def not_yet_heard(found: Collection[Found], listed: Sequence[ListedSkill] | None) -> list[Found]:
    """Return the found skills, but stale ones, whose agents have not registered; none without a registry."""
    heard = {(one.registration.skill_id, one.registration.endpoint) for one in listed or ()}
    fresh = [one for one in found if not one.record.is_stale] if listed is not None else []
    return [one for one in fresh if (one.record.skill_id, one.record.endpoint) not in heard]


class HeardRecords:
    """The skills in the answers to one search: each at each endpoint once."""

    def __init__(self) -> None:
        self._found: dict[_RecordKey, Found] = {}
        self._by_host: KeysByHost[_RecordKey] = KeysByHost()
        self.skills: Collection[Found] = self._found.values()

    def add(self, found: Found) -> bool:
        """Take a record, in place of what another host said of it; False when it is known, or has no place."""
        key, host = (found.record.skill_id, found.record.endpoint), found.source.host
        old = self._found.get(key)
        if old is not None and (_is_own(old) or not _is_own(found)):
            return False
        if len(self._by_host.get(host, ())) >= limits.LAN_FOUND_PER_HOST:
            return False
        if old is not None:
            self._drop(key)
        elif len(self._found) >= limits.LAN_FOUND:
            most = self._by_host.of_largest()
            if len(self._by_host.get(host, ())) + 1 >= len(most):
                return False
            self._drop(next(reversed(most)))
        self._found[key] = found
        self._by_host.add(host, key)
        return old is None

    def _drop(self, key: _RecordKey) -> None:
        self._by_host.discard(self._found.pop(key).source.host, key)


def _is_own(found: Found) -> bool:
    return found.record.endpoint.host == without_zone(found.source.host)


@dataclass(slots=True)
class _Search:
    message: Discover
    data: bytes
    began: float
    ends: float
    enough: StopCondition | None
    changed: float  # when the last new record came
    is_elsewhere: bool = False
    sends: int = 0
    heard: HeardRecords = field(default_factory=HeardRecords)
    asked: dict[Peer, float] = field(default_factory=dict)  # when each source was challenged, the first first
    agents: dict[Peer, str] = field(default_factory=dict)  # that proved to be at a source
    requested: dict[Peer, float] = field(default_factory=dict)

    @property
    def skill_type(self) -> str:
        """The type of all found skills, when one was requested: answers name none."""
        return str(self.message.skill_types[0]) if len(self.message.skill_types) == 1 else ""

    def named(self, found: Found) -> Found:
        """Return a found skill with its agent, when that answered from the skill's own host."""
        return found._replace(agent_id=self.agents.get(found.source, "")) if _is_own(found) else found

    def may_ask(self, source: Peer, now: float) -> bool:
        """Return whether a source is to be challenged now; when all places are in use, one without a proof leaves."""
        if now < self.asked.get(source, float("-inf")) + PROOF_TAKES:
            return False
        self.asked.pop(source, None)
        crowd: Sequence[Peer] = [one for one in self.asked if one.host == source.host]
        if len(crowd) < limits.LAN_ANSWERERS_PER_HOST:
            crowd = list(self.asked) if len(self.asked) >= limits.LAN_ANSWERERS else ()
        if crowd:
            if now < self.asked[crowd[0]] + PROOF_TAKES:
                return False
            del self.asked[crowd[0]]
        self.asked[source] = now
        return True


class Searches:
    """The searches of one agent; ``registry`` is its own, when it keeps one."""

    def __init__(
        self, outbox: Outbox, settings: DiscoverySettings, challenges: Challenges, registry: Registry | None
    ) -> None:
        self._outbox = outbox
        self._settings = settings
        self._challenges = challenges
        self._registry = registry
        self._number = 0
        self._searches: dict[str, _Search] = {}
        self._schedule: TimerQueue[tuple[str, str]] = TimerQueue()  # ("send" or "look", request)
        self.timer: Timer = self._schedule.timer

    def discover(
        self,
        now: Moment,
        *,
        capabilities: tuple[str, ...] = (),
        scenes: tuple[str, ...] = (),
        skill_types: tuple[SkillType, ...] = (),
        patience: float | None = None,
        enough: StopCondition | None = None,
    ) -> str:
        """Search for skills; return the name of the request, which the event ``Discovered`` repeats.

        Answers are collected for ``patience`` seconds (those of the settings by default), or until ``enough`` is met.
        Raises: ValidationError: no datagram can hold the request.
        """
        self._number += 1
        request = f"{self._outbox.agent_id}.{self._number}"
        message = Discover(request, capabilities, scenes, skill_types, self._outbox.stamp(now))
        data = self._outbox.write(message)
        ends = now.steady + (self._settings.patience if patience is None else patience)
        self._searches[request] = _Search(message, data, now.steady, ends, enough, now.steady)
        self._schedule.set(("send", request), now.steady)
        return request

    def suffice(self, request: str, now: Moment) -> None:
        """End a search as soon as nothing new comes: another network has what is searched for."""
        if (search := self._searches.get(request)) is not None:
            search.is_elsewhere = True
            self._schedule.set(("look", request), now.steady)

    def on_answer(
        self, received: VerifiedMessage, message: DiscoverResponse, now: Moment
    ) -> Sequence[Discovered] | None:
        """Take an answer; None when it was not requested. An unknown responder is asked who it is."""
        search = self._searches.get(message.requester_id)
        if search is None:
            return None
        source = received.source
        if sum(search.heard.add(Found(one, source, skill_type=search.skill_type)) for one in message.skills):
            search.changed = now.steady
            self._schedule.set(("look", message.requester_id), now.steady + self._quiet(search))
        if received.signer:
            search.agents[source] = received.signer
            is_unknown = self._registry is not None and not self._registry.count_of_agent(received.signer)
            if is_unknown and message.skills:
                self._request_registration(search, source, message.skills[0].skill_id, now)
        elif search.may_ask(source, now.steady):
            self._challenges.hold(received, now)
        return ()

    def _request_registration(self, search: _Search, source: Peer, skill_id: str, now: Moment) -> None:
        """Ask a known responder to register, unless it was asked a moment ago."""
        if search.requested.get(source, 0.0) <= now.steady - _REQUEST_TAKES:
            search.requested[source] = now.steady
            self._outbox.request_registration(search.agents[source], skill_id, source, now)

    def on_timer(self, now: Moment) -> list[Discovered]:
        """Repeat requests; return the searches that are over."""
        ended = []
        while (due := self._schedule.pop(now.steady)) is not None:
            kind, request = due
            search = self._searches[request]
            if now.steady >= search.ends or (kind == "look" and self._is_over(request, search, now)):
                del self._searches[request]
                self._schedule.cancel(("send", request))
                self._schedule.cancel(("look", request))
                ended.append(Discovered(request, tuple(map(search.named, search.heard.skills))))
            elif kind == "send":
                due_next, pauses = search.ends, self._settings.searches
                if search.sends < len(pauses):
                    self._outbox.send(search.data, now)
                    due_next = min(due_next, now.steady + pauses[search.sends])
                search.sends += 1
                self._schedule.set(("send", request), due_next)
        return ended

    def _quiet(self, search: _Search) -> float:
        return self._settings.quiet if search.enough is None else search.enough.quiet

    def _is_over(self, request: str, search: _Search, now: Moment) -> bool:
        """Return whether a search may end; if not, request missing registrations, and look again in a moment."""
        enough = search.enough
        due = max(search.changed + self._quiet(search), search.began + (enough.least if enough else 0.0))
        if due <= now.steady:
            found = search.heard.skills
            listed = None if self._registry is None else self._registry.find(search.message)
            missing = not_yet_heard(found, listed)
            is_heard = not missing or now.steady - search.began >= self._settings.unheard
            if enough and is_heard and (search.is_elsewhere or enough.is_met(found, listed)):
                return True
            for one in map(search.named, missing):  # the registration was probably lost
                if one.agent_id:
                    self._request_registration(search, one.source, one.record.skill_id, now)
            due = now.steady + _LOOK
        self._schedule.set(("look", request), due)
        return False
