"""A search in memory that looks at each skill: the model that the index is compared with."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import count

from skillwire.errors import UsageError
from skillwire.model.catalog import Explanation, SearchPage, SearchQuery
from skillwire.model.skill import Skill
from skillwire.registry.search import (
    FACETS,
    check_query,
    count_facets,
    make_cursor,
    mark_search,
    profile_of,
    read_cursor,
    read_words,
    telling_words,
)


def _columns(skill: Skill) -> dict[str, str]:
    tags = " ".join(profile_of(skill).tag)
    return {"name": skill.name, "tags": tags, "description": skill.description} | {
        "files": " ".join(file.path for file in skill.files)
    }


class MemorySkillIndex:
    """Fills :class:`skillwire.ports.SkillIndex`."""

    def __init__(self) -> None:
        self._revisions = count()

    def update(self, skills: Mapping[str, Skill], changed: Collection[str], removed: Collection[str]) -> MemorySearch:  # noqa: ARG002  # all are copied
        return MemorySearch(next(self._revisions), {name: skills[name] for name in skills})


class MemorySearch:
    """Fills :class:`skillwire.ports.SkillSearch`."""

    def __init__(self, revision: int, skills: Mapping[str, Skill]) -> None:
        self._revision = revision
        self._skills = skills

    def search(self, query: SearchQuery, values: Mapping[str, float] = {}) -> SearchPage:
        check_query(query)
        words = read_words(query.text)
        by_name = not words.words and not query.order
        found = list(self._matching(query.text)) if words.words or query.text.strip() else list(self._skills)
        if query.order:
            found.sort(key=lambda name: (-values.get(name, 0.0), name))
        for facet, chosen in query.facets.items():
            found = [
                name for name in found if facet in FACETS and chosen & {*getattr(profile_of(self._skills[name]), facet)}
            ]
        mark = mark_search(query, ("by name",) if by_name else (str(id(self)), query.text, query.order))
        start = 0
        if query.after is not None:
            last = read_cursor(query.after, mark)
            if not by_name and last not in found:
                raise UsageError("CURSOR", "the skill to go on behind is not among the hits")
            start = sum(name <= last for name in found) if by_name else found.index(last) + 1
        page = tuple(found[start : start + query.limit])
        facets = count_facets([profile_of(self._skills[name]) for name in found]) if query.counted else {}
        more = start + query.limit < len(found)
        return SearchPage(page, len(found), facets, make_cursor(page[-1], mark) if more else None)

    def search_briefly(self, query: SearchQuery) -> SearchPage | None:
        return None if query.order else self.search(query)

    def rank(self, text: str) -> Sequence[str]:
        check_query(SearchQuery(text))
        return list(self._matching(text))

    def explain(self, text: str, names: Sequence[str]) -> Explanation:
        check_query(SearchQuery(text))
        wanted = telling_words(read_words(text)).words
        matches = {}
        for name in names if wanted else ():
            if name in self._skills:
                columns = _columns(self._skills[name]).items()
                matches[name] = {column: list(_split(value, wanted)) for column, value in columns if value}
        return Explanation(matches, {})

    def suggest(self, text: str) -> Sequence[str]:
        check_query(SearchQuery(text))
        return get_close_matches(telling_words(read_words(text)).name, list(self._skills), 3)

    def _matching(self, text: str) -> Iterator[str]:
        """Yield the hits: what is called so, then what has all of the words, or any where no skill has all."""
        words = telling_words(read_words(text))
        for most in (len(words.words), 1):
            found = [name for name in self._skills if self._count(name, words.words, is_open=words.is_open) >= most]
            if found and words.words:
                yield from sorted(found, key=lambda name: (name != read_words(text).name, name))
                return

    def _count(self, name: str, words: Sequence[str], *, is_open: bool) -> int:
        there = read_words(" ".join(_columns(self._skills[name]).values())).words
        opened = is_open and any(word.startswith(words[-1]) for word in there)
        return len({*words} & {*there}) + (opened and words[-1] not in there)


def _split(value: str, words: Collection[str]) -> Iterator[tuple[str, bool]]:
    for piece in re.split(r"([^\W_]+)", value):
        if piece:
            yield piece, piece.lower() in words
