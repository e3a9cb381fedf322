"""Finding skills as a SkillCenter does: by capability, scene, type, version and keyword, all combined.

A :class:`CenterIndex` holds the names of the skills that a caller may use, by each of their values, so a search costs
the sets that it names. It is made once for each view of a revision; keywords are left to the full-text search. Spec:
SDP §7.2; specs §3. Trust: searches are hostile, and :class:`CenterSearch` bounds them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from skillwire.errors import UsageError
from skillwire.model.catalog import SearchPage, SearchQuery, summarize
from skillwire.model.package import parse_range, parse_requirement
from skillwire.model.skill import Skill
from skillwire.protocols.skill_discovery.center import USUAL_TYPE, CenterSearch
from skillwire.registry.search import make_cursor, mark_search, process_token, read_cursor, read_words, tag_text


def unmet_capabilities(skills: Mapping[str, Skill], requires: Iterable[str]) -> list[str]:
    """Return the requirements of capabilities that none of ``skills`` meets; takes 0.2 s for 50,000 skills."""
    unmet = {text: one for text in requires if (one := parse_requirement(text)).capability}
    for name in skills if unmet else ():
        facts = summarize(skills, name)
        met = [
            text
            for text, (_, _, capability, versions) in unmet.items()
            if capability in facts.capabilities and facts.version in versions
        ]
        for text in met:
            del unmet[text]
    return list(unmet)


def list_names(names: Sequence[str], limit: int, after: str | None) -> SearchPage:
    """Return a page of ``names``, which are sorted; it is that of a search without criteria. Raises UsageError."""
    return _page(CenterSearch(limit=limit, after=after), names, 0)


def _page(asked: CenterSearch, found: Sequence[str], revision: int) -> SearchPage:
    """Return the page that is asked for of what was found. Raises UsageError (``CURSOR``)."""
    text = " ".join(asked.keywords)
    order = (process_token(), str(revision), text) if text else ("by name",)
    criteria = repr((asked.capabilities, asked.scenes, asked.types, asked.version))
    mark = mark_search(SearchQuery(), ("skill center", criteria, *order))
    start = 0
    if asked.after is not None:
        last = read_cursor(asked.after, mark)
        if text and last not in found:
            raise UsageError("CURSOR", "the skill to go on behind is not among the hits")
        start = found.index(last) + 1 if text else bisect_right(found, last)
    page = found[start : start + asked.limit]
    following = make_cursor(page[-1], mark) if start + len(page) < len(found) else None
    return SearchPage(tuple(page), len(found), next=following)


class CenterIndex:
    """The skills ``usable`` of ``visible`` by their values; the others may be known of, and are found by their ID.

    Names are sorted. ``below`` is the index of a part of them, that of everyone: its tables are reused, and the
    full-text search has what it holds.
    """

    def __init__(self, visible: Mapping[str, Skill], usable: Iterable[str], below: CenterIndex | None = None) -> None:
        self._names = tuple(usable)
        self._below = below
        self.usable = frozenset(self._names)
        self._by_id: dict[str, str] = {}  # of those whose ID is not their name
        self._texts: dict[str, str] = {}  # of those that the full-text search has not
        self._having: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self.versions: set[str] = set(below.versions) if below else set()
        for name in visible:
            if below is not None and name in below.usable:
                continue
            facts = summarize(visible, name)
            skill_id = facts.identifiers[1] if facts.identifiers else name
            if skill_id != name:
                self._by_id[skill_id] = name
            if name not in self.usable:
                continue
            self.versions.add(facts.version)
            self._having["version", facts.version].add(name)
            self._having["type", facts.skill_type or USUAL_TYPE.value].add(name)
            for kind, values in (("capability", facts.capabilities), ("scene", facts.scenes)):
                for one in values:
                    self._having[kind, one].add(name)
            if below is not None:
                self._texts[name] = f"{name} {facts.description} {tag_text(facts)}".lower()

    def name_of(self, skill_id: str) -> str:
        """Return the name of the skill with this ID; an ID that is not known is returned as it is."""
        found = self._by_id.get(skill_id)
        return found or (self._below.name_of(skill_id) if self._below else skill_id)

    def any_of(self, kind: str, values: Iterable[str]) -> set[str]:
        """Return the names of the skills that have one of the values."""
        own = set().union(*(self._having.get((kind, one), ()) for one in values))
        return own | self._below.any_of(kind, values) if self._below else own

    def search(self, asked: CenterSearch, revision: int, rank: Callable[[str], Sequence[str]]) -> SearchPage:
        """Return a page of the skills that pass all criteria: by name, or with keywords as ``rank`` orders them.

        Raises UsageError (``QUERY``, ``CURSOR``), ValidationError (``VERSION_RANGE``).
        """
        text = " ".join(asked.keywords)
        wanted = [self.any_of("capability", [one]) for one in asked.capabilities]
        wanted += [self.any_of(kind, some) for kind, some in (("scene", asked.scenes), ("type", asked.types)) if some]
        if asked.version:
            versions = parse_range(asked.version)
            wanted.append(self.any_of("version", [one for one in self.versions if one in versions]))
        chosen = set.intersection(*sorted(wanted, key=len)) if wanted else None
        found: Sequence[str] = self._ranked(text, rank) if text else self._names
        if chosen is not None:
            found = [name for name in found if name in chosen] if text else sorted(chosen)
        return _page(asked, found, revision)

    def _ranked(self, text: str, rank: Callable[[str], Sequence[str]]) -> list[str]:
        """Return the skills with all the words of ``text``, first those that the full-text search has."""
        words = read_words(text).words
        others = [name for name, own in self._texts.items() if words and all(word in own for word in words)]
        return [*rank(text), *others]
