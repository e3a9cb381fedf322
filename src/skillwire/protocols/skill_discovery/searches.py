"""The discoveries of one agent that are under way: asked again after short pauses, collected until there is enough.

Each has a requester's identifier of its own **[ours]**, by which answers find it. Who answers is asked to prove that
the answer is theirs, so that what is found says who offers it and whether that is certified
(:mod:`~skillwire.protocols.skill_discovery.witnesses`): of each source first one answer, and then those in which it
speaks of what it can vouch for. What is kept of answers is in :mod:`~skillwire.protocols.skill_discovery.answers`. When
it has heard enough, a search ends before its patience does
(:mod:`~skillwire.protocols.skill_discovery.enough`). Spec: SDP §3; specs §3.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.protocols.skill_discovery.agenda import Agenda, Timer
from skillwire.protocols.skill_discovery.answers import PROOF_TAKES, Answerers, Told
from skillwire.protocols.skill_discovery.enough import is_of_use, unheard_of
from skillwire.protocols.skill_discovery.events import Discovered, Found
from skillwire.protocols.skill_discovery.messages import Discover
from skillwire.protocols.skill_discovery.witnesses import Author

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillwire.model.ledger import Moment
    from skillwire.protocols.skill_discovery.admitted import Admitted
    from skillwire.protocols.skill_discovery.answers import Answerer, Records
    from skillwire.protocols.skill_discovery.enough import Enough
    from skillwire.protocols.skill_discovery.listing import Listed
    from skillwire.protocols.skill_discovery.messages import DiscoverResponse, SkillRecord, SkillType
    from skillwire.protocols.skill_discovery.outbox import Outbox
    from skillwire.protocols.skill_discovery.settings import DiscoverySettings
    from skillwire.wire.node import Peer

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

    def __init__(self, message: Discover, data: bytes, began: float, ends: float, enough: Enough | None) -> None:
        self.message = message
        self.data = data
        self.began = self.news = began
        self.ends = ends
        self.enough = enough
        self.is_elsewhere = False
        self.sends = 0
        self.told = Told()
        self.answerers = Answerers()
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
        self._agenda: Agenda[tuple[str, str]] = Agenda()
        self.timer: Timer = self._agenda.timer

    def begin(
        self,
        filters: tuple[tuple[str, ...], tuple[str, ...], tuple[SkillType, ...]],
        now: Moment,
        patience: float | None,
        enough: Enough | None = None,
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

    def found(self, admitted: Admitted, message: DiscoverResponse, now: Moment) -> bool:
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
            author = Author(admitted.source, admitted.signer, admitted.judgement)
            search.answerers.know(admitted.source, author)
            has_news = _believe(search, taken.answerer, author, message.skills) or has_news
        else:
            self._doubt(taken.answerer, admitted.source, admitted.data, message.skills, now)
        if has_news:
            self._has_news(message.requester_id, search, now)
        return True

    def proven(self, author: Author, digest: bytes, now: Moment) -> str | None:
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

    def _go_on(self, answerer: Answerer, source: Peer, now: Moment) -> None:
        """Look at what waits."""
        waiting, answerer.waiting = answerer.waiting, []
        for data, records in waiting:
            self._doubt(answerer, source, data, records, now)

    def _doubt(self, answerer: Answerer, source: Peer, data: bytes, records: Records, now: Moment) -> None:
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
            unheard = unheard_of(found, listed)
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


def _matters(author: Author, record: SkillRecord) -> bool:
    host = record.endpoint.host
    return author.is_own(host) or author.vouches(record.skill_id, host)


def _believe(search: _Search, answerer: Answerer, author: Author, records: Sequence[SkillRecord]) -> bool:
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
