"""A search over the skills of one revision: hits put in order, narrowed, counted, and cut to a page."""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from skillwire.errors import UsageError
from skillwire.model.search import SearchPage
from skillwire.registry.facets import count_facets
from skillwire.registry.query import check_query, make_cursor, mark_search, read_cursor, read_words, telling_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skillwire.adapters.sqlite.reader import Hit, Reader
    from skillwire.model.search import FacetValue, SearchQuery
    from skillwire.registry.facets import Profile
    from skillwire.registry.query import Words

#: Tells this process's revisions from those of another one with the same numbers.
_PROCESS: Final = secrets.token_hex(8)
#: How long the event loop may search itself: a thread costs a tenth of it, and others wait no longer for their turn.
_BRIEF_SECONDS: Final = 0.001


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class RevisionSearch:
    """A :class:`~skillwire.ports.SkillSearch`.

    Args:
        revision: a number that rises.
        names: slot → name, empty where the revision has none.
        profiles: slot → values of facets.
        listing: the slots, by name.
        readers: one that may be waited for, and one for :meth:`search_briefly`.
    """

    revision: int
    names: Sequence[str]
    profiles: Sequence[Profile | None]
    listing: Sequence[int]
    readers: tuple[Reader, Reader]
    _all: list[Mapping[str, tuple[FacetValue, ...]]] = field(default_factory=list)

    def search(self, query: SearchQuery) -> SearchPage:
        """Return the part of the hits that ``query`` asks for. It may take 20 ms: not for the event loop.

        Trust: everything in ``query`` may be a stranger's.

        Raises:
            UsageError: ``QUERY`` when it is beyond the bounds, ``CURSOR`` when ``query.after`` is none of ours.
        """
        check_query(query)
        words = read_words(query.text)
        if not words.words:
            return self._list(query)
        return self._page(query, self._ranked(words, self.readers[0].find(telling_words(words))))

    def search_briefly(self, query: SearchQuery) -> SearchPage | None:
        """Return the same as :meth:`search`, within two milliseconds, or None.

        Raises:
            UsageError: as :meth:`search`.
        """
        check_query(query)
        words = read_words(query.text)
        if not words.words:
            return self._list(query) if self._lists_briefly(query) else None
        found = self.readers[1].find_briefly(telling_words(words), _BRIEF_SECONDS)
        return None if found is None else self._page(query, self._ranked(words, found))

    def _lists_briefly(self, query: SearchQuery) -> bool:
        """Whether listing looks at the skills of one page alone; at all of 10,000, it would be felt."""
        return not query.facets and (bool(self._all) or not query.counted)

    def _list(self, query: SearchQuery) -> SearchPage:
        """Return a part of all skills, or, for a text without a word, of none."""
        slots = [] if query.text.strip() else self._narrow(query, self.listing)
        mark = mark_search(query, ("by name",))
        start = 0
        if query.after is not None:
            start = bisect_right(slots, read_cursor(query.after, mark), key=self.names.__getitem__)
        return self._cut(query, slots, start, mark)

    def _page(self, query: SearchQuery, ranked: Sequence[int]) -> SearchPage:
        slots = self._narrow(query, ranked)
        mark = mark_search(query, (_PROCESS, str(self.revision), query.text))
        start = 0
        if query.after is not None:
            last = read_cursor(query.after, mark)
            start = next((place for place, slot in enumerate(slots, 1) if self.names[slot] == last), 0)
            if not start:
                raise UsageError("CURSOR", "the skill to go on behind is not among the hits")
        return self._cut(query, slots, start, mark)

    def _ranked(self, words: Words, found: Sequence[Hit]) -> list[int]:
        """Return the slots of ``found`` that this revision has: what is called exactly so, then the best."""
        end, names, wanted = len(self.names), self.names, words.name
        slots = [row - 1 for _, row in sorted(found) if row <= end and names[row - 1]]
        called = next((slot for slot in slots if names[slot] == wanted), None)
        if called is not None:
            slots.remove(called)
            slots.insert(0, called)
        return slots

    def _narrow(self, query: SearchQuery, slots: Sequence[int]) -> Sequence[int]:
        if not query.facets:
            return slots
        known: dict[int, bool] = {}
        kept = []
        for slot in slots:
            profile = cast("Profile", self.profiles[slot])  # a slot of this revision has one
            if (wanted := known.get(id(profile))) is None:
                wanted = known[id(profile)] = profile.has(query.facets)
            if wanted:
                kept.append(slot)
        return kept

    def _cut(self, query: SearchQuery, slots: Sequence[int], start: int, mark: bytes) -> SearchPage:
        names = tuple(self.names[slot] for slot in slots[start : start + query.limit])
        more = start + query.limit < len(slots)
        following = make_cursor(names[-1], mark) if more else None
        return SearchPage(names, len(slots), self._count(slots) if query.counted else {}, following)

    def _count(self, slots: Sequence[int]) -> Mapping[str, tuple[FacetValue, ...]]:
        if slots is not self.listing:
            return self._count_now(slots)
        if not self._all:  # asked for by everyone who opens the page
            self._all.append(self._count_now(slots))
        return self._all[0]

    def _count_now(self, slots: Sequence[int]) -> Mapping[str, tuple[FacetValue, ...]]:
        profiles = self.profiles
        return count_facets(Counter([profile for slot in slots if (profile := profiles[slot])]))
