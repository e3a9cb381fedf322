"""When a discovery has heard enough to end before its patience does **[ours]**.

Answers to a question come within the longest pause before an answer and a way forth and back. So what was asked is
answered when, after the last news, a quiet time has passed that is longer than that. Three things keep it open:

- nothing has come that is of use: whoever wants one provider waits for one that is well, and certified where it has to
  be;
- somebody has told of a skill that has not spoken for itself. Whoever answers tells of all that it lists, so the loss
  of one agent's own answer is seen by what the others tell, and the next question is waited for; though not for ever,
  since it may be gone;
- who offers it is about to register with us, and how it is, is not known before. Who has registered is well until a
  beat says otherwise, which follows at once; where that beat is lost, the search ends as if it were well.

Patience ends all of it. Spec: SDP §3.3; specs §3 "Answers to a multicast wait 20-120 ms at random".

The discoveries of one agent that are under way: asked again after short pauses, collected until there is enough.

Each has a requester's identifier of its own **[ours]**, by which answers find it. Who answers is asked to prove that
the answer is theirs, so that what is found says who offers it and whether that is certified
(:mod:`~skillwire.protocols.skill_discovery.challenges`): of each source first one answer, and then those in which it
speaks of what it can vouch for. What is kept of answers is in :mod:`~skillwire.protocols.skill_discovery.search`. When
it has heard enough, a search ends before its patience does
(:mod:`~skillwire.protocols.skill_discovery.search`). Spec: SDP §3; specs §3.

What was answered to one discovery, and by whom: tables in which nobody keeps others from a place **[ours]**.

The question goes to all, so whoever means ill knows its name, and answers before others do, who wait up to 120 ms.
Places are therefore not for who comes first. Each host has so many, whatever its ports are; when all are taken, the
host that has most makes room for one that has fewer; and what somebody has proven to offer takes the place of what was
merely told, as what is certified takes that of both. Who has proven itself is not pushed out by who has not, and who
has not had its time for that: else we would ask made-up sources without end.

Trust: sources, and all that they say, are a stranger's. Spec: SDP §3.3; specs §3.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.model.url import without_zone
from skillwire.protocols.skill_discovery.challenges import Responder
from skillwire.protocols.skill_discovery.events import Discovered, Found
from skillwire.protocols.skill_discovery.messages import Discover, HealthStatus
from skillwire.protocols.skill_discovery.scheduling import Timer, TimerQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from skillwire.model.execution import Moment
    from skillwire.protocols.skill_discovery.health import Listed
    from skillwire.protocols.skill_discovery.ingress import VerifiedMessage
    from skillwire.protocols.skill_discovery.messages import DiscoverResponse, Endpoint, SkillRecord, SkillType
    from skillwire.protocols.skill_discovery.outbox import Outbox
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer


class StopCondition(NamedTuple):
    """What is enough to end a discovery before its patience.

    Args:
        quiet: seconds without news that end it.
        least: seconds that it takes at least, such as for what comes otherwise than by multicast.
        is_one: whether one provider is wanted that may be called; any answer is of use otherwise.
        use_unverified: whether that one may be one whose key nobody certified.
    """

    quiet: float
    least: float = 0.0
    is_one: bool = False
    use_unverified: bool = False


def one_provider(settings: DiscoverySettings, *, use_unverified: bool, least: float = 0.0) -> StopCondition:
    """Return what is enough for who wants to call somebody."""
    return StopCondition(settings.quiet, least, is_one=True, use_unverified=use_unverified)


def every_provider(settings: DiscoverySettings, *, least: float = 0.0) -> StopCondition:
    """Return what is enough for who wants to see everybody: so long that a lost question was asked again."""
    return StopCondition(settings.quiet_all, least)


def is_of_use(enough: StopCondition, found: Collection[Found], listed: Sequence[Listed] | None) -> bool:
    """Whether an answer has come that is what was wanted.

    Args:
        enough: what is.
        found: what answers have told.
        listed: what is registered with us of what was asked for; None where no registry is kept.
    """
    if not enough.is_one:
        return bool(found)
    if listed is None:
        return any(one.agent_id and (one.is_verified or enough.use_unverified) for one in found)
    told = {(one.record.skill_id, one.record.endpoint) for one in found}
    return any(
        one.health.status is HealthStatus.HEALTHY
        and (one.is_verified or enough.use_unverified)
        and (one.registration.skill_id, one.registration.endpoint) in told
        for one in listed
    )


def not_yet_heard(found: Collection[Found], listed: Sequence[Listed] | None) -> list[Found]:
    """Return the skills that have not spoken for themselves.

    Who offers them has not registered; or, where ``listed`` is None, has not proven to.
    """
    if listed is None:
        return [one for one in found if not one.agent_id]
    heard = {(one.registration.skill_id, one.registration.endpoint) for one in listed}
    return [one for one in found if (one.record.skill_id, one.record.endpoint) not in heard]


Records = tuple["SkillRecord", ...]
ResponderAddress = tuple[str, "Endpoint"]

#: Seconds after which a proof has to have come, or others are asked for.
PROOF_TAKES: Final = 0.25
_HEARSAY, _PROVEN, _VERIFIED = range(3)


class ResponderAnswers:
    """What one source has answered: who it is, what it was asked to prove, and what waits until it is known."""

    __slots__ = ("asked", "author", "judged", "proofs", "since", "waiting")

    def __init__(self, since: float) -> None:
        self.since = since
        self.author: Responder | None = None
        self.asked: dict[bytes, tuple[Records, float]] = {}
        self.waiting: list[tuple[bytes, Records]] = []
        self.judged: set[ResponderAddress] = set()
        self.proofs = 0


class Taken(NamedTuple):
    """A place of a source; ``gone`` is a host that has none any more, since it made room; empty for none."""

    answerer: ResponderAnswers
    gone: str = ""


class Responders:
    """The sources of the answers to one discovery."""

    def __init__(self) -> None:
        self._sources: dict[Peer, ResponderAnswers] = {}
        self._per_host: Counter[str] = Counter()
        self._unproven: dict[str, dict[Peer, None]] = {}  # by host, the oldest first

    def get(self, source: Peer) -> ResponderAnswers | None:
        """Return what a source has answered; None where it has no place."""
        return self._sources.get(source)

    def take(self, source: Peer, now: float) -> Taken | None:
        """Return the place of a source, a new one when it has none; None when there is no room for it."""
        known = self._sources.get(source)
        if known is not None:
            return Taken(known)
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
        self._unproven.setdefault(source.host, {})[source] = None
        return Taken(made, gone)

    def know(self, source: Peer, author: Responder) -> None:
        """Take note of who a source has proven to be."""
        self._sources[source].author = author
        self._settle(source)

    def _has_overdue(self, host: str, now: float) -> bool:
        """Whether somebody of a host has had its time to prove itself, and did not."""
        oldest = next(iter(self._unproven.get(host, ())), None)
        return oldest is not None and self._sources[oldest].since <= now - PROOF_TAKES

    def _drop_oldest(self, host: str) -> str:
        """Forget who of a host has waited longest without a proof; return the host when that was its last place."""
        oldest = next(iter(self._unproven[host]))
        self._settle(oldest)
        del self._sources[oldest]
        self._per_host[host] -= 1
        if self._per_host[host]:
            return ""
        del self._per_host[host]
        return host

    def _settle(self, source: Peer) -> None:
        of_host = self._unproven.get(source.host, {})
        of_host.pop(source, None)
        if not of_host:
            self._unproven.pop(source.host, None)


class HeardRecords:
    """The skills that answers to one discovery have told of: each at each endpoint once."""

    def __init__(self) -> None:
        self._found: dict[ResponderAddress, Found] = {}
        self._by_host: tuple[dict[str, dict[ResponderAddress, None]], ...] = ({}, {})  # hearsay, and what is proven
        self.skills: Collection[Found] = self._found.values()

    def get(self, place: ResponderAddress) -> Found | None:
        """Return what was told of a skill at an endpoint."""
        return self._found.get(place)

    def hear(self, found: Found) -> bool:
        """Take what somebody says; False when that is nothing new, or there is no room for it.

        Who says it from the skill's own host stands before who says it from elsewhere.
        """
        old = self._found.get(_place(found))
        if old is None:
            return self._take(found)
        if not old.agent_id and _is_own(found) and not _is_own(old):
            self.believe(found)
        return False

    def believe(self, found: Found) -> bool:
        """Take what stands before what was told of the same; False when there is no room for it."""
        old = self._found.get(_place(found))
        if old is not None:
            self._drop(old)
        if self._take(found):
            return True
        if old is not None:
            self._put(old)
        return False

    def forget(self, host: str) -> None:
        """Forget what was merely told from a host."""
        for place in tuple(self._by_host[_HEARSAY].get(host, ())):
            self._drop(self._found[place])

    def _take(self, found: Found) -> bool:
        has_room = self._make_room(_rank(found), found.source.host)
        if has_room:
            self._put(found)
        return has_room

    def _make_room(self, rank: int, host: str) -> bool:
        """Whether there is room for something of this rank from a host, once what matters less has gone."""
        hearsay = self._by_host[_HEARSAY]
        of_host = sum(len(by_host.get(host, ())) for by_host in self._by_host)
        if rank is not _VERIFIED and of_host >= limits.LAN_FOUND_PER_HOST:
            if rank is _HEARSAY or host not in hearsay:
                return False
            self._drop_last(hearsay[host])
        if len(self._found) < limits.LAN_FOUND:
            return True
        for lower, by_host in enumerate(self._by_host[: rank + 1]):
            most: dict[ResponderAddress, None] = max(by_host.values(), key=len, default={})
            if most and (lower < rank or len(by_host.get(host, ())) + 1 < len(most)):
                self._drop_last(most)
                return True
        return False

    def _drop_last(self, places: dict[ResponderAddress, None]) -> None:
        self._drop(self._found[next(reversed(places))])

    def _put(self, found: Found) -> None:
        place, rank = _place(found), _rank(found)
        self._found[place] = found
        if rank is not _VERIFIED:
            self._by_host[rank].setdefault(found.source.host, {})[place] = None

    def _drop(self, found: Found) -> None:
        place, rank, host = _place(found), _rank(found), found.source.host
        del self._found[place]
        if rank is not _VERIFIED:
            of_host = self._by_host[rank][host]
            del of_host[place]
            if not of_host:
                del self._by_host[rank][host]


def _place(found: Found) -> ResponderAddress:
    return found.record.skill_id, found.record.endpoint


def _rank(found: Found) -> int:
    if found.is_verified:
        return _VERIFIED
    return _PROVEN if found.agent_id else _HEARSAY


def _is_own(found: Found) -> bool:
    return found.record.endpoint.host == without_zone(found.source.host)


#: Answers of a source that nobody knows yet that it is asked about at once: some of them may be another's.
_AT_ONCE: Final = 2
#: Seconds after which it is looked again whether who has answered has registered.
_LOOK: Final = 0.05
#: Seconds in which who was invited registers; after them the invitation was lost.
_INVITED: Final = 0.15


class _Search:
    """One discovery under way."""

    __slots__ = (
        "answerers",
        "began",
        "data",
        "ends",
        "enough",
        "invited",
        "is_elsewhere",
        "message",
        "news",
        "sends",
        "told",
    )

    def __init__(self, message: Discover, data: bytes, began: float, ends: float, enough: StopCondition | None) -> None:
        self.message = message
        self.data = data
        self.began = self.news = began
        self.ends = ends
        self.enough = enough
        self.is_elsewhere = False
        self.sends = 0
        self.told = HeardRecords()
        self.answerers = Responders()
        self.invited: dict[Peer, float] = {}

    @property
    def skill_type(self) -> str:
        """Of all that is found, when one was asked for: answers name none."""
        return str(self.message.skill_types[0]) if len(self.message.skill_types) == 1 else ""


class Searches:
    """The discoveries of one agent.

    Args:
        agent_id: who asks.
        outbox: takes what is sent.
        settings: figures.
        ask: asks a source whether a datagram is its own.
        on_event: is told what was found.
        listed: returns what is registered with us of what a question asks for; None where no registry is kept.
        invite: lets an agent register a skill with us.
    """

    def __init__(
        self,
        agent_id: str,
        outbox: Outbox,
        settings: DiscoverySettings,
        ask: Callable[[Peer, bytes, Moment], object],
        on_event: Callable[[Discovered], object],
        *,
        listed: Callable[[Discover], Sequence[Listed] | None] = lambda _: None,
        invite: Callable[[str, str, Peer, Moment], object] = lambda *_: None,
    ) -> None:
        self._agent_id = agent_id
        self._outbox = outbox
        self._settings = settings
        self._ask = ask
        self._on_event = on_event
        self._listed = listed
        self._invite = invite
        self._number = 0
        self._searches: dict[str, _Search] = {}
        self._agenda: TimerQueue[tuple[str, str]] = TimerQueue()
        self.timer: Timer = self._agenda.timer

    def begin(
        self,
        filters: tuple[tuple[str, ...], tuple[str, ...], tuple[SkillType, ...]],
        now: Moment,
        patience: float | None,
        enough: StopCondition | None = None,
    ) -> str:
        """Ask for skills by capabilities, scenes and types; return the name of the request.

        Args:
            filters: what is asked for.
            now: what time it is.
            patience: seconds that answers are collected at most; those of the settings unless given.
            enough: what ends it before; nothing unless given.

        Raises:
            ValidationError: ``DATAGRAM_FIELD`` or ``DATAGRAM_SIZE`` when it cannot be asked.
        """
        self._number += 1
        request = f"{self._agent_id}.{self._number}"
        message = Discover(request, *filters, self._outbox.stamp(now))
        data = self._outbox.write(message)
        seconds = self._settings.patience if patience is None else patience
        self._searches[request] = _Search(message, data, now.steady, now.steady + seconds, enough)
        self._agenda.set(("ask", request), now.steady)
        return request

    def suffice(self, request: str, now: Moment) -> None:
        """Let a search end when nothing more comes, whatever it has found: what is wanted was found elsewhere."""
        search = self._searches.get(request)
        if search is not None:
            search.is_elsewhere = True
            self._look_at(request, search, now)

    def found(self, admitted: VerifiedMessage, message: DiscoverResponse, now: Moment) -> bool:
        """Take an answer; False when it was not asked for."""
        search = self._searches.get(message.requester_id)
        if search is None:
            return False
        taken = search.answerers.take(admitted.source, now.steady)
        if taken is None:
            return True
        if taken.gone:
            search.told.forget(taken.gone)
        heard = [Found(record, admitted.source, skill_type=search.skill_type) for record in message.skills]
        has_news = sum(map(search.told.hear, heard)) > 0
        self._go_on(taken.answerer, admitted.source, now)
        if admitted.judgement is not None:
            author = Responder(admitted.source, admitted.signer, admitted.judgement)
            search.answerers.know(admitted.source, author)
            has_news = _believe(search, taken.answerer, author, message.skills) or has_news
        else:
            self._doubt(taken.answerer, admitted.source, admitted.data, message.skills, now)
        if has_news:
            self._has_news(message.requester_id, search, now)
        return True

    def proven(self, author: Responder, digest: bytes, now: Moment) -> str | None:
        """Take note that somebody has proven to have sent an answer; None when it is none to a discovery.

        Returns a skill that it has told of as its own, empty when there is none.
        """
        for request, search in self._searches.items():
            answerer = search.answerers.get(author.source)
            if answerer is None or digest not in answerer.asked:
                continue
            search.answerers.know(author.source, author)
            records, _ = answerer.asked.pop(digest)
            if _believe(search, answerer, author, records):
                self._has_news(request, search, now)
            self._go_on(answerer, author.source, now)
            return next((one.skill_id for one in records if author.is_own(one.endpoint.host)), "")
        return None

    def _go_on(self, answerer: ResponderAnswers, source: Peer, now: Moment) -> None:
        """Look at what waits."""
        waiting, answerer.waiting = answerer.waiting, []
        for data, records in waiting:
            self._doubt(answerer, source, data, records, now)

    def _doubt(self, answerer: ResponderAnswers, source: Peer, data: bytes, records: Records, now: Moment) -> None:
        """Ask who sent an answer, when that is not known yet, or when it matters for what is in it."""
        fresh = [record for record in records if (record.skill_id, record.endpoint) not in answerer.judged]
        if not fresh or answerer.proofs >= limits.LAN_ANSWER_PROOFS:
            return
        asked = sum(now.steady - at < PROOF_TAKES for _, at in answerer.asked.values())
        if answerer.author is None and asked >= _AT_ONCE:
            if len(answerer.waiting) < limits.LAN_ANSWER_PROOFS:
                answerer.waiting.append((data, records))
        elif answerer.author is None or any(_matters(answerer.author, record) for record in fresh):
            digest = hashlib.sha256(data).digest()
            if digest not in answerer.asked:
                answerer.asked[digest] = records, now.steady
                answerer.proofs += 1
                self._ask(source, data, now)

    def on_timer(self, now: Moment) -> None:
        """Ask again, or end what has taken long enough, or has heard enough."""
        while (due := self._agenda.pop(now.steady)) is not None:
            kind, request = due
            search = self._searches[request]
            if now.steady >= search.ends:
                self._end(request)
            elif kind == "ask":
                self._ask_again(request, search, now)
            else:
                self._look_at(request, search, now)

    def _ask_again(self, request: str, search: _Search, now: Moment) -> None:
        due, pauses = search.ends, self._settings.searches
        if search.sends < len(pauses):
            self._outbox.send(search.data, now)
            due = min(due, now.steady + pauses[search.sends])
        search.sends += 1
        self._agenda.set(("ask", request), due)

    def _has_news(self, request: str, search: _Search, now: Moment) -> None:
        search.news = now.steady
        self._agenda.set(("look", request), now.steady + self._quiet(search))

    def _quiet(self, search: _Search) -> float:
        return self._settings.quiet if search.enough is None else search.enough.quiet

    def _look_at(self, request: str, search: _Search, now: Moment) -> None:
        """End a search that has heard enough; otherwise see to what is missing, and look again in a moment."""
        enough = search.enough
        due = max(search.news + self._quiet(search), search.began + (enough.least if enough else 0.0))
        if due <= now.steady:
            found, listed = search.told.skills, self._listed(search.message)
            unheard = not_yet_heard(found, listed)
            is_heard = not unheard or now.steady - search.began >= self._settings.unheard
            if enough and is_heard and (search.is_elsewhere or is_of_use(enough, found, listed)):
                self._end(request)
                return
            self._invite_again(search, unheard, now)
            due = now.steady + _LOOK
        self._agenda.set(("look", request), due)

    def _invite_again(self, search: _Search, unheard: Sequence[Found], now: Moment) -> None:
        """Invite who has proven to offer a skill and has not registered it: that datagrams were lost is likely."""
        for one in unheard:
            if one.agent_id and search.invited.get(one.source, 0.0) <= now.steady - _INVITED:
                search.invited[one.source] = now.steady
                self._invite(one.agent_id, one.record.skill_id, one.source, now)

    def _end(self, request: str) -> None:
        search = self._searches.pop(request)
        self._agenda.cancel(("ask", request))
        self._agenda.cancel(("look", request))
        self._on_event(Discovered(request, tuple(search.told.skills)))


def _matters(author: Responder, record: SkillRecord) -> bool:
    host = record.endpoint.host
    return author.is_own(host) or author.vouches(record.skill_id, host)


def _believe(search: _Search, answerer: ResponderAnswers, author: Responder, records: Sequence[SkillRecord]) -> bool:
    """Take an answer for what it is worth from who has sent it: who is certified counts before who is not.

    Return whether it tells of something that was not known, or had made room for others.
    """
    has_news = False
    for record in records:
        key = record.skill_id, record.endpoint
        answerer.judged.add(key)
        old = search.told.get(key)
        if (old is not None and old.is_verified) or not _matters(author, record):
            continue
        is_verified = author.vouches(record.skill_id, record.endpoint.host)
        if is_verified or old is None or not old.agent_id:
            found = Found(record, author.source, author.agent_id, is_verified, search.skill_type)
            is_taken = search.told.believe(found)
            has_news = has_news or (is_taken and old is None)
    return has_news
