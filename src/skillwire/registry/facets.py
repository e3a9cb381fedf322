"""By what hits are narrowed: which facets a skill has, which values, and how often each occurs among hits.

``kind`` says what a skill is made of, ``license`` is its license field, ``tag`` is what its author files it under.
Thousands of skills share few combinations of these values, so each combination is one value, a :class:`Profile`,
and counting hits by profile first makes counting facets cheap.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire import limits
from skillwire.model.search import FacetValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from skillwire.model.skill import Skill

#: Keys of a skill's metadata whose values are tags.
_TAGGED: Final = ("tags", "tag", "category", "categories", "keywords")
_BETWEEN_TAGS: Final = re.compile(r"[,;\n\[\]\"']+")
_VALUE_LENGTH: Final = 64


class Profile(NamedTuple):
    """What a skill has of each facet, in the order of :data:`FACETS`."""

    kind: tuple[str, ...]
    license: tuple[str, ...]
    tag: tuple[str, ...]

    def has(self, chosen: Mapping[str, frozenset[str]]) -> bool:
        """Whether it has one of the ``chosen`` values of each facet; no skill has an unknown facet."""
        return all(not values.isdisjoint(getattr(self, facet, ())) for facet, values in chosen.items())


FACETS: Final = Profile._fields


def skill_kind(kind: str, paths: Iterable[str]) -> str:
    """Return ``callable``, ``scripts`` for instructions with scripts, or ``instructions``.

    Args:
        kind: of the skill, see :data:`skillwire.model.skill.Kind`.
        paths: of its files.
    """
    if kind == "action":
        return "callable"
    return "scripts" if any(path.startswith("scripts/") for path in paths) else "instructions"


def profile_of(skill: Skill) -> Profile:
    """Return the values that ``skill`` has."""
    named = " ".join((skill.license or "").split())
    tags = dict.fromkeys(tag for tag in _tags(skill) if tag)
    return Profile(
        kind=(skill_kind(skill.kind, (file.path for file in skill.files)),),
        license=(named[:_VALUE_LENGTH],) if named else (),
        tag=tuple(tags)[: limits.SEARCH_TAGS],
    )


def count_facets(profiles: Mapping[Profile, int]) -> dict[str, tuple[FacetValue, ...]]:
    """Return facet → its most frequent values, given how many hits have each profile."""
    counts: dict[str, Counter[str]] = {facet: Counter() for facet in FACETS}
    for profile, hits in profiles.items():
        for facet, values in zip(FACETS, profile, strict=True):
            for value in values:
                counts[facet][value] += hits
    return {facet: _most_frequent(counted) for facet, counted in counts.items()}


def _most_frequent(counted: Counter[str]) -> tuple[FacetValue, ...]:
    in_order = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    return tuple(FacetValue(value, skills) for value, skills in in_order[: limits.SEARCH_FACET_VALUES])


def _tags(skill: Skill) -> Iterator[str]:
    metadata = skill.metadata or {}
    for key in _TAGGED:
        for tag in _BETWEEN_TAGS.split(metadata.get(key, "")):
            yield " ".join(tag.lower().split())[:_VALUE_LENGTH]
    yield from skill.capabilities
    yield from skill.scenes
