"""What is searched for in a list of published skills, and what a search gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class FacetValue(NamedTuple):
    """One value of a facet, and how many of the skills that match have it."""

    value: str
    skills: int


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search: words in any order, chosen values of facets, and which part of the hits.

    ``facets`` is facet → values; a skill has to have one of the values of each facet that is named. ``after`` is
    the ``next`` of the page before, and opaque. Empty ``text`` means all, sorted by name. Values of facets are counted
    when ``counted``.
    """

    text: str = ""
    facets: Mapping[str, frozenset[str]] = field(default_factory=dict)
    limit: int = 20
    after: str | None = None
    counted: bool = True


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Names of the skills that were found, best first; ``total`` counts the hits of all pages.

    ``facets`` is facet → its values, most frequent first, over the hits of all pages. ``next`` leads to the next
    page and is None on the last one.
    """

    names: tuple[str, ...]
    total: int
    facets: Mapping[str, tuple[FacetValue, ...]] = field(default_factory=dict)
    next: str | None = None
