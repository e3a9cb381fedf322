"""Searches: the discoveries of one agent, repeated after short pauses and collected until there is enough.

Each search has an identifier **[ours]**, which its answers name. Responders are asked to prove that an answer is
theirs, so that a found skill names the agent that offers it: one answer of each source first, then those with skills
that the responder vouches for. A search ends before its patience **[ours]** when nothing new came for longer than the
longest answer delay. It stays open while nothing useful came, while an answer names a skill whose agent did not answer
itself (its answer was probably lost), and while that agent is about to register with us.

**Bounds** **[ours]**: an attacker hears a request, too, and can answer before others, who wait up to 120 ms. So each
host has a number of places, whatever its ports. When all are in use, the host with the most gives one to a host with
fewer. A proven skill replaces an unproven one, and a certified skill replaces both. A responder without a proof
displaces neither one with a proof nor one that still has time to send one: otherwise we would challenge forged
sources without end. Trust: sources, and all that they send, are untrusted. Spec: SDP §3; specs §3.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery.challenges import Responder
from skillwire.protocols.skill_discovery.events import Discovered, Found
from skillwire.protocols.skill_discovery.limits import KeysByHost
from skillwire.protocols.skill_discovery.messages import Discover, HealthStatus
from skillwire.protocols.skill_discovery.scheduling import Timer, TimerQueue

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.challenges import ResponderProofs
    from skillwire.protocols.skill_discovery.events import VerifiedMessage
    from skillwire.protocols.skill_discovery.health import ListedSkill
    from skillwire.protocols.skill_discovery.messages import DiscoverResponse, Endpoint, SkillRecord, SkillType
    from skillwire.protocols.skill_discovery.registry import Registry
    from skillwire.protocols.skill_discovery.scheduling import Outbox
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer

Records = tuple["SkillRecord", ...]
#: A skill and its endpoint.
_RecordKey = tuple[str, "Endpoint"]

#: Seconds in which a proof has to come, before others are challenged instead.
PROOF_TAKES: Final = 0.25
#: Answers of an unknown source that are challenged at once: some of them may be forged.
_AT_ONCE: Final = 2
#: Seconds after which a search checks again whether the responders have registered.
_LOOK: Final = 0.05
#: Seconds in which an agent registers after a request; later the request was lost.
_REQUEST_TAKES: Final = 0.15
_UNPROVEN, _PROVEN, _VERIFIED = range(3)


class StopCondition(NamedTuple):
    """What ends a search before its patience."""

    quiet: float
    least: float = 0.0
    is_one: bool = False
    use_unverified: bool = False

    def is_met(self, found: Collection[Found], listed: Sequence[ListedSkill] | None) -> bool:
        """Return whether a useful answer came; ``listed`` are the registered matches, None without a registry."""
        if not self.is_one:
            return bool(found)
        if listed is None:
            fresh = (one for one in found if one.agent_id and not one.record.is_stale)
            return any(one.is_verified or self.use_unverified for one in fresh)
        keys = {(one.record.skill_id, one.record.endpoint) for one in found}
        return any(
            one.health.status is HealthStatus.HEALTHY
            and (one.is_verified or self.use_unverified)
            and (one.registration.skill_id, one.registration.endpoint) in keys
            for one in listed
        )


def one_provider(settings: DiscoverySettings, *, use_unverified: bool, least: float = 0.0) -> StopCondition:
    """Return the condition of a search for one provider to call."""
    return StopCondition(settings.quiet, least, is_one=True, use_unverified=use_unverified)


def every_provider(settings: DiscoverySettings, *, least: float = 0.0) -> StopCondition:
    """Return the condition of a search for all providers: quiet for so long that a lost request was repeated."""
    return StopCondition(settings.quiet_all, least)


def not_yet_heard(found: Collection[Found], listed: Sequence[ListedSkill] | None) -> list[Found]:
    """Return the found skills, but stale ones, whose agents have not registered; without a registry, not proven."""
    fresh = [one for one in found if not one.record.is_stale]
    if listed is None:
        return [one for one in fresh if not one.agent_id]
    heard = {(one.registration.skill_id, one.registration.endpoint) for one in listed}
    return [one for one in fresh if (one.record.skill_id, one.record.endpoint) not in heard]


@dataclass(slots=True)
class ResponderAnswers:
    """The answers of one source: its agent once known, the challenges under way, and what waits for them."""

    since: float
    responder: Responder | None = None
    asked: dict[bytes, tuple[Records, float]] = field(default_factory=dict)
    waiting: list[tuple[bytes, Records]] = field(default_factory=list)
    judged: set[_RecordKey] = field(default_factory=set)
    proofs: int = 0


class Responders:
    """The sources of the answers to one search."""

    def __init__(self) -> None:
        self._sources: dict[Peer, ResponderAnswers] = {}
        self._per_host: Counter[str] = Counter()
        self._unproven: KeysByHost[Peer] = KeysByHost()

    def get(self, source: Peer) -> ResponderAnswers | None:
        """Return the answers of a source that has a place."""
        return self._sources.get(source)

    def take(self, source: Peer, now: float) -> tuple[ResponderAnswers, str] | None:
        """Return the answers of a source, and a host that lost its last place; None when all are in use."""
        known = self._sources.get(source)
        if known is not None:
            return known, ""
        gone = ""
        if self._per_host[source.host] >= limits.LAN_ANSWERERS_PER_HOST:
            if not self._has_overdue(source.host, now):
                return None
            self._drop_oldest(source.host)
        elif len(self._sources) >= limits.LAN_ANSWERERS:
            most = max(self._unproven, key=lambda host: len(self._unproven[host]), default=None)
            has_less = most is not None and self._per_host[source.host] + 1 < len(self._unproven[most])
            if most is None or not (has_less or self._has_overdue(most := next(iter(self._unproven)), now)):
                return None
            gone = self._drop_oldest(most)
        made = self._sources[source] = ResponderAnswers(now)
        self._per_host[source.host] += 1
        self._unproven.add(source.host, source)
        return made, gone

    def identify(self, source: Peer, responder: Responder) -> None:
        """Record the agent that a source proved to be."""
        self._sources[source].responder = responder
        self._unproven.discard(source.host, source)

    def _has_overdue(self, host: str, now: float) -> bool:
        oldest = next(iter(self._unproven.get(host, ())), None)
        return oldest is not None and self._sources[oldest].since <= now - PROOF_TAKES

    def _drop_oldest(self, host: str) -> str:
        """Drop the oldest source without a proof on a host; return the host when it was the last one there."""
        oldest = next(iter(self._unproven[host]))
        self._unproven.discard(host, oldest)
        del self._sources[oldest]
        self._per_host[host] -= 1
        if self._per_host[host]:
            return ""
        del self._per_host[host]
        return host


class HeardRecords:
    """The skills in the answers to one search: each at each endpoint once."""

    def __init__(self) -> None:
        self._found: dict[_RecordKey, Found] = {}
        self._by_host: tuple[KeysByHost[_RecordKey], ...] = (KeysByHost(), KeysByHost())  # unproven, and proven
        self.skills: Collection[Found] = self._found.values()

    def get(self, key: _RecordKey) -> Found | None:
        """Return what is known of a skill at an endpoint."""
        return self._found.get(key)

    def add(self, found: Found) -> bool:
        """Take an unproven record, which its own host may replace; False when it is known, or the table is full."""
        old = self._found.get(_key(found))
        if old is None:
            return self._take(found)
        if not old.agent_id and _is_own(found) and not _is_own(old):
            self.replace(found)
        return False

    def replace(self, found: Found) -> bool:
        """Take a record in place of the known one; False when there is no room."""
        old = self._found.get(_key(found))
        if old is not None:
            self._drop(old)
        if self._take(found):
            return True
        if old is not None:
            self._put(old)
        return False

    def forget(self, host: str) -> None:
        """Drop the unproven records from a host."""
        for key in tuple(self._by_host[_UNPROVEN].get(host, ())):
            self._drop(self._found[key])

    def _take(self, found: Found) -> bool:
        is_accepted = self._displace(_rank(found), found.source.host)
        if is_accepted:
            self._put(found)
        return is_accepted

    def _displace(self, rank: int, host: str) -> bool:
        """Return whether a record of this rank from a host is accepted, after dropping a lesser one."""
        unproven = self._by_host[_UNPROVEN]
        of_host = sum(len(by_host.get(host, ())) for by_host in self._by_host)
        if rank is not _VERIFIED and of_host >= limits.LAN_FOUND_PER_HOST:
            if rank is _UNPROVEN or host not in unproven:
                return False
            self._drop_last(unproven[host])
        if len(self._found) < limits.LAN_FOUND:
            return True
        for lower, by_host in enumerate(self._by_host[: rank + 1]):
            most: dict[_RecordKey, None] = max(by_host.values(), key=len, default={})
            if most and (lower < rank or len(by_host.get(host, ())) + 1 < len(most)):
                self._drop_last(most)
                return True
        return False

    def _drop_last(self, keys: dict[_RecordKey, None]) -> None:
        self._drop(self._found[next(reversed(keys))])

    def _put(self, found: Found) -> None:
        key, rank = _key(found), _rank(found)
        self._found[key] = found
        if rank is not _VERIFIED:
            self._by_host[rank].add(found.source.host, key)

    def _drop(self, found: Found) -> None:
        key, rank = _key(found), _rank(found)
        del self._found[key]
        if rank is not _VERIFIED:
            self._by_host[rank].discard(found.source.host, key)


def _key(found: Found) -> _RecordKey:
    return found.record.skill_id, found.record.endpoint


def _rank(found: Found) -> int:
    if found.is_verified:
        return _VERIFIED
    return _PROVEN if found.agent_id else _UNPROVEN


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
    responders: Responders = field(default_factory=Responders)
    requested: dict[Peer, float] = field(default_factory=dict)

    @property
    def skill_type(self) -> str:
        """The type of all found skills, when one was requested: answers name none."""
        return str(self.message.skill_types[0]) if len(self.message.skill_types) == 1 else ""


class Searches:
    """The searches of one agent; ``registry`` is its own, when it keeps one."""

    def __init__(
        self, outbox: Outbox, settings: DiscoverySettings, proofs: ResponderProofs, registry: Registry | None
    ) -> None:
        self._outbox = outbox
        self._settings = settings
        self._proofs = proofs
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
        """Take an answer; None when it was not requested."""
        search = self._searches.get(message.requester_id)
        if search is None:
            return None
        place = search.responders.take(received.source, now.steady)
        if place is None:
            return ()
        answers, gone = place
        if gone:
            search.heard.forget(gone)
        found = [Found(record, received.source, skill_type=search.skill_type) for record in message.skills]
        has_new = sum(map(search.heard.add, found)) > 0
        self._continue(answers, received.source, now)
        if received.judgement is not None:
            responder = Responder(received.source, received.signer, received.judgement)
            search.responders.identify(received.source, responder)
            has_new = _believe(search, answers, responder, message.skills) or has_new
        else:
            self._challenge(answers, received.source, received.data, message.skills, now)
        if has_new:
            self._look_later(message.requester_id, search, now)
        return ()

    def on_proof(self, responder: Responder, digest: bytes, now: Moment) -> str | None:
        """Take a proof; return a skill that the responder offers, empty for none, None without such an answer."""
        for request, search in self._searches.items():
            answers = search.responders.get(responder.source)
            if answers is None or digest not in answers.asked:
                continue
            search.responders.identify(responder.source, responder)
            records, _ = answers.asked.pop(digest)
            if _believe(search, answers, responder, records):
                self._look_later(request, search, now)
            self._continue(answers, responder.source, now)
            return next((one.skill_id for one in records if responder.is_own(one.endpoint.host)), "")
        return None

    def _continue(self, answers: ResponderAnswers, source: Peer, now: Moment) -> None:
        waiting, answers.waiting = answers.waiting, []
        for data, records in waiting:
            self._challenge(answers, source, data, records, now)

    def _challenge(self, answers: ResponderAnswers, source: Peer, data: bytes, records: Records, now: Moment) -> None:
        """Challenge an answer whose sender is unknown, or matters for a skill in it."""
        fresh = [record for record in records if (record.skill_id, record.endpoint) not in answers.judged]
        if not fresh or answers.proofs >= limits.LAN_ANSWER_PROOFS:
            return
        under_way = sum(now.steady - at < PROOF_TAKES for _, at in answers.asked.values())
        if answers.responder is None and under_way >= _AT_ONCE:
            if len(answers.waiting) < limits.LAN_ANSWER_PROOFS:
                answers.waiting.append((data, records))
        elif answers.responder is None or any(_matters(answers.responder, record) for record in fresh):
            digest = hashlib.sha256(data).digest()
            if digest not in answers.asked:
                answers.asked[digest] = records, now.steady
                answers.proofs += 1
                self._proofs.ask(source, data, now)

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
                ended.append(Discovered(request, tuple(search.heard.skills)))
            elif kind == "send":
                due_next, pauses = search.ends, self._settings.searches
                if search.sends < len(pauses):
                    self._outbox.send(search.data, now)
                    due_next = min(due_next, now.steady + pauses[search.sends])
                search.sends += 1
                self._schedule.set(("send", request), due_next)
        return ended

    def _look_later(self, request: str, search: _Search, now: Moment) -> None:
        search.changed = now.steady
        self._schedule.set(("look", request), now.steady + self._quiet(search))

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
            for one in missing if self._registry is not None else ():  # the registration was probably lost
                if one.agent_id and search.requested.get(one.source, 0.0) <= now.steady - _REQUEST_TAKES:
                    search.requested[one.source] = now.steady
                    self._outbox.request_registration(one.agent_id, one.record.skill_id, one.source, now)
            due = now.steady + _LOOK
        self._schedule.set(("look", request), due)
        return False


def _matters(responder: Responder, record: SkillRecord) -> bool:
    host = record.endpoint.host
    return responder.is_own(host) or responder.vouches(record.skill_id, host)


def _believe(search: _Search, answers: ResponderAnswers, responder: Responder, records: Sequence[SkillRecord]) -> bool:
    """Take the records that a known responder vouches for; return whether one of them is new."""
    has_new = False
    for record in records:
        key = record.skill_id, record.endpoint
        answers.judged.add(key)
        old = search.heard.get(key)
        if (old is not None and old.is_verified) or not _matters(responder, record):
            continue
        is_verified = responder.vouches(record.skill_id, record.endpoint.host)
        if is_verified or old is None or not old.agent_id:
            found = Found(record, responder.source, responder.agent_id, is_verified, search.skill_type)
            is_accepted = search.heard.replace(found)
            has_new = has_new or (is_accepted and old is None)
    return has_new
