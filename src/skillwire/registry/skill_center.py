"""Finding skills as a SkillCenter does: by capability, scene, type, version and keyword, all combined.

A :class:`CenterIndex` holds the names of the skills that a caller may use, by each of their values, so a search costs
the sets that it names. It is made once for each view of a revision; keywords are left to the full-text search. Spec:
SDP §7.2; specs §3. Trust: searches are hostile, and :class:`CenterSearch` bounds them.
"""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.errors import UsageError
from skillwire.model.packed_skills import summarize
from skillwire.model.requirement import parse_range
from skillwire.model.search import SearchQuery
from skillwire.protocols.skill_discovery.center import USUAL_TYPE
from skillwire.registry.search import make_cursor, mark_search, read_cursor, read_words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from skillwire.model.skill import Skill
    from skillwire.protocols.skill_discovery.center import CenterSearch

#: Tells the order of hits in this process from those of another one.
_PROCESS: Final = secrets.token_hex(8)


class CenterPage(NamedTuple):
    """The names of the skills on a page, of ``total`` on all of them; the next one begins behind ``next``."""

    names: Sequence[str]
    total: int
    next: str | None


class CenterIndex:
    """The skills ``usable`` of ``visible`` by their values; the others may be known of, and are found by their ID.

    Names are sorted. ``searched`` are those that the full-text search has.
    """

    def __init__(self, visible: Mapping[str, Skill], usable: Iterable[str], searched: Collection[str]) -> None:
        self._names = tuple(usable)
        self._by_id: dict[str, str] = {}  # of those whose ID is not their name
        self._texts: dict[str, str] = {}  # of those that the full-text search has not
        self._having: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._versions: set[str] = set()
        may_use = frozenset(self._names)
        for name in visible:
            facts = summarize(visible, name)
            skill_id = facts.identifiers[1] if facts.identifiers else name
            if skill_id != name:
                self._by_id[skill_id] = name
            if name not in may_use:
                continue
            values = [
                *(("capability", one) for one in facts.capabilities),
                *(("scene", one) for one in facts.scenes),
                ("type", facts.skill_type or USUAL_TYPE.value),
                ("version", facts.version),
            ]
            self._versions.add(facts.version)
            for value in values:
                self._having[value].add(name)
            if name not in searched:
                self._texts[name] = " ".join((name, facts.description, *facts.capabilities, *facts.scenes)).lower()

    def name_of(self, skill_id: str) -> str:
        """Return the name of the skill with this ID; an ID that is not known is returned as it is."""
        return self._by_id.get(skill_id, skill_id)

    def search(self, asked: CenterSearch, revision: int, rank: Callable[[str], Sequence[str]]) -> CenterPage:
        """Return a page of the skills that pass all criteria: by name, or with keywords as ``rank`` orders them.

        Raises UsageError (``QUERY``, ``CURSOR``), ValidationError (``VERSION_RANGE``).
        """
        text = " ".join(asked.keywords)
        wanted = [self._having.get(("capability", one), set()) for one in asked.capabilities]
        for kind, values in (("scene", asked.scenes), ("type", asked.types)):
            if values:
                wanted.append(set().union(*(self._having.get((kind, one), ()) for one in values)))
        if asked.version:
            versions = parse_range(asked.version)
            wanted.append(set().union(*(self._having["version", one] for one in self._versions if one in versions)))
        names = self._ranked(text, rank) if text else self._names
        found = [name for name in names if all(name in one for one in wanted)] if wanted else names
        order = (_PROCESS, str(revision), text) if text else ("by name",)
        criteria = repr((asked.capabilities, asked.scenes, asked.types, asked.version))
        mark = mark_search(SearchQuery(), ("skill center", criteria, *order))
        start = 0
        if asked.after is not None:
            last = read_cursor(asked.after, mark)
            if text and last not in found:
                raise UsageError("CURSOR", "the skill to go on behind is not among the hits")
            start = found.index(last) + 1 if text else bisect_right(found, last)
        page = found[start : start + asked.limit]
        return CenterPage(page, len(found), make_cursor(page[-1], mark) if start + len(page) < len(found) else None)

    def _ranked(self, text: str, rank: Callable[[str], Sequence[str]]) -> list[str]:
        """Return the skills with all the words of ``text``, first those that the full-text search has."""
        words, known = read_words(text).words, set(self._names)
        others = [name for name, own in self._texts.items() if words and all(word in own for word in words)]
        return [*(name for name in rank(text) if name in known and name not in self._texts), *others]
