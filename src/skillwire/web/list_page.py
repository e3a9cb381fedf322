"""The list of skills, and the part of it that changes while the reader types."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from skillwire.errors import UsageError
from skillwire.model.search import SearchPage, SearchQuery
from skillwire.registry.search import FACETS, profile_of
from skillwire.web.address import query_url, short_address
from skillwire.web.environment import render

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skillwire.model.skill import Skill
    from skillwire.ports import SkillSearch
    from skillwire.web.environment import Frame

#: What is shown of a description; the skill's page has all of it.
_DESCRIPTION: Final = 260
#: Values of a facet that are shown.
_VALUES: Final = 8
_LABELS: Final = {"kind": "Kind", "license": "Licence", "tag": "Tag"}
_KINDS: Final = {
    "callable": "Callable",
    "scripts": "With scripts",
    "instructions": "Instructions",
}


def list_page(
    skills: Mapping[str, Skill], search: SkillSearch, query: SearchQuery, frame: Frame, *, part: bool = False
) -> tuple[str, bool]:
    """Return the list, with ``part`` only what depends on the query, and whether the query is valid."""
    problem = ""
    try:
        page = search.search(query)
    except UsageError as error:
        page, problem = SearchPage((), 0), error.message
    values: dict[str, Any] = {
        "query": query,
        "chosen": [
            (facet, value, _label(facet, value)) for facet in FACETS for value in sorted(query.facets.get(facet, ()))
        ],
        "facets": [] if problem else list(_facets(search, page, query)),
        "hits": [_hit(skills[name]) for name in page.names],
        "total": page.total,
        "all": len(skills),
        "problem": problem,
        "next": query_url(query.text, query.facets, page.next) if page.next else None,
        "first": query_url(query.text, query.facets),
        "host": short_address(frame.address).removeprefix("http://"),
    }
    return render("hits.html" if part else "list.html", frame, values), not problem


def kind_label(skill: Skill) -> str:
    """Return what ``skill`` is made of, as pages call it."""
    return _KINDS[profile_of(skill).kind[0]]


def _facets(search: SkillSearch, page: SearchPage, query: SearchQuery) -> Iterator[dict[str, Any]]:
    """Yield each facet in which the skills differ, whether there are hits or not: so the list keeps its place."""
    everything = search.search(SearchQuery(limit=1)).facets
    for name in FACETS:
        chosen = query.facets.get(name, frozenset())
        if len(everything.get(name, ())) <= 1 and not chosen:
            continue
        choosable = page
        if chosen:  # what would be found without a choice in this facet can be chosen instead
            others = {facet: values for facet, values in query.facets.items() if facet != name}
            choosable = search.search(replace(query, facets=others, limit=1, after=None))
        found = dict(page.facets.get(name, ()))
        counts = dict(choosable.facets.get(name, ())[:_VALUES])
        rare = {value: found.get(value, 0) for value in sorted(chosen) if value not in counts}
        choices = [
            {
                "label": _label(name, value),
                "skills": skills,
                "url": query_url(
                    query.text,
                    {**query.facets, name: chosen - {value} if value in chosen else frozenset({value})},
                ),
                "is_chosen": value in chosen,
            }
            for value, skills in (rare | counts).items()
        ]
        yield {"name": name, "label": _LABELS.get(name, name), "choices": choices}


def _label(facet: str, value: str) -> str:
    return _KINDS.get(value, value) if facet == "kind" else value


def _hit(skill: Skill) -> dict[str, Any]:
    text = " ".join(skill.description.split())
    if len(text) > _DESCRIPTION:
        text = text[:_DESCRIPTION].rsplit(" ", 1)[0] + " …"
    return {
        "name": skill.name,
        "version": skill.version,
        "description": text,
        "kind": kind_label(skill),
        "license": skill.license,
    }
