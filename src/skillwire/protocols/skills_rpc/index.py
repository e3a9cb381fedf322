"""The skills of an audience as ``list_skills`` tells them: sorted by dotted name, written once.

A page of a list is a part of a text that was written when the index was made, so that it costs what sending it costs.
The text lies in one piece for each level of detail, with the place at which each skill ends: 10,000 skills take 4 MiB,
and no value of any of them is kept. The index of a narrower audience shares the text of a wider one; it holds the
numbers of its skills.

A namespace is a prefix: ``salesforce`` holds ``salesforce.leads.sync``, and so does ``salesforce.leads``. In the order
of dotted names each namespace is one range, which is found by bisection.

Spec: SKP ``list_skills``, "deterministically sorted"; specs §0.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from skillwire.protocols.skills_rpc.cursor import decode_cursor, encode_cursor
from skillwire.protocols.skills_rpc.messages import ListedSkill
from skillwire.protocols.skills_rpc.results import encode_listed, encode_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from skillwire.model.skill import Skill
    from skillwire.protocols.skills_rpc.messages import ListSkills

#: The characters on both sides of the dot: what begins with ``a.`` lies between ``a.`` and ``a/``.
_DOT, _AFTER_DOT = ".", "/"


class _Text:
    """Fragments of JSON in one piece, joined by commas."""

    def __init__(self, fragments: Iterable[bytes]) -> None:
        ends, text = array("Q"), bytearray()
        for fragment in fragments:
            text += fragment
            ends.append(len(text))
            text += b","
        self._ends, self._text = ends, bytes(text)

    def part(self, first: int, after: int) -> bytes:
        """Return the fragments from number ``first`` up to, and without, ``after``."""
        start = self._ends[first - 1] + 1 if first else 0
        return self._text[start : self._ends[after - 1]] if after > first else b""


class Written(NamedTuple):
    """What indexes share: dotted names in order, the names in the catalog, and the text of each level of detail."""

    dotted: Sequence[str]
    catalog: Sequence[str]
    names: _Text
    summaries: _Text


class SkillIndex:
    """The skills of an audience, listed; immutable.

    Making one of a whole catalog takes 0.1 s for 10,000 skills, one ``within`` it 3 ms.

    Args:
        skills: name in the catalog → skill; a skill is looked up in it when it is asked for.
        within: an index that holds all of them, whose text is shared.

    Attributes:
        written: what it shares with others.
        numbers: its skills among those that are written, in order.
    """

    def __init__(self, skills: Mapping[str, Skill], within: SkillIndex | None = None) -> None:
        self.skills = skills
        self.written: Written = _write(skills) if within is None else within.written
        self.numbers: Sequence[int]
        if within is None or len(skills) == len(within):
            self.numbers = range(len(self.written.dotted)) if within is None else within.numbers
        else:
            self.numbers = array("I", [n for n in within.numbers if self.written.catalog[n] in skills])

    def __len__(self) -> int:
        return len(self.numbers)

    def find(self, dotted: str) -> Skill | None:
        """Return the skill of this dotted name, or None."""
        place = bisect_left(self.numbers, dotted, key=self.written.dotted.__getitem__)
        if place == len(self.numbers) or self.written.dotted[self.numbers[place]] != dotted:
            return None
        return self.skills.get(self.written.catalog[self.numbers[place]])

    def page(self, asked: ListSkills) -> bytes:
        """Return the page that is asked for, as JSON.

        Raises:
            UsageError: ``CURSOR``.
        """
        start, stop = self._range(asked.namespace)
        if asked.cursor is not None:
            start = max(start, self._after(decode_cursor(asked.cursor, asked.namespace)))
        end = min(start + asked.limit, stop)
        text = self.written.summaries if asked.detail == "summary" else self.written.names
        is_last = end >= stop
        cursor = None if is_last else encode_cursor(asked.namespace, self.written.dotted[self.numbers[end - 1]])
        return encode_page(self._join(text, start, end), cursor)

    def _range(self, namespace: str | None) -> tuple[int, int]:
        if not namespace:
            return 0, len(self.numbers)
        key = self.written.dotted.__getitem__
        start = bisect_left(self.numbers, namespace + _DOT, key=key)
        return start, bisect_left(self.numbers, namespace + _AFTER_DOT, lo=start, key=key)

    def _after(self, name: str) -> int:
        return bisect_right(self.numbers, name, key=self.written.dotted.__getitem__)

    def _join(self, text: _Text, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        first, last = self.numbers[start], self.numbers[end - 1]
        if last - first == end - 1 - start:  # neighbours in the text, too
            return text.part(first, last + 1)
        return b",".join([text.part(number, number + 1) for number in self.numbers[start:end]])


def listed(skill: Skill) -> ListedSkill:
    """Return what a list tells of a skill. Spec: SKP ``list_skills``."""
    return ListedSkill(dotted_name(skill), skill.version, skill.description, namespace_of(skill), skill.kind)


def dotted_name(skill: Skill) -> str:
    """Return the name of a skill in the Skills Protocol. Spec: specs §0."""
    if skill.identifiers is not None:
        return skill.identifiers.skills_rpc
    return f"{skill.publisher.lower()}.{skill.name}".replace("-", ".")


def namespace_of(skill: Skill) -> str:
    """Return the namespace that groups a skill: what it says, else the first part of its dotted name."""
    said = skill.identifiers.namespace if skill.identifiers is not None else ""
    return said or dotted_name(skill).partition(_DOT)[0]


def _write(skills: Mapping[str, Skill]) -> Written:
    rows = sorted((dotted_name(skill), name, *_fragments(skill)) for name, skill in skills.items())
    return Written(
        [row[0] for row in rows],
        [row[1] for row in rows],
        _Text(row[2] for row in rows),
        _Text(row[3] for row in rows),
    )


def _fragments(skill: Skill) -> tuple[bytes, bytes]:
    told = listed(skill)
    return encode_listed(ListedSkill(told.name, told.version)), encode_listed(told)
