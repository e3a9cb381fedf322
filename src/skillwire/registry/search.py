"""Searches over published skills: words, cursors and facets.

The facet ``kind`` is one of the values of :func:`skill_kind`, ``license`` the license field, and ``tag`` the author's
tags, capabilities and scenes. Thousands of skills share few combinations of these values, so each combination is one
:class:`Profile`, and hits are counted by profile first.

A cursor contains the last skill's name of the previous page and a fingerprint of the search. Results sorted by name can
continue in any revision. Ranked results can only continue among the same skills, so after a change the cursor is
refused: the next page would skip or repeat skills. Trust: texts and cursors are hostile.
"""

from __future__ import annotations

import functools
import hashlib
import re
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain, compress
from operator import itemgetter, or_
from typing import Final, NamedTuple

from skillwire import limits
from skillwire.errors import UsageError
from skillwire.model.catalog import FacetValue, SearchQuery, SkillSummary, decode_cursor, encode_cursor
from skillwire.model.package import read_package_name
from skillwire.model.skill import Skill, is_callable, is_skill_name

#: Keys of a skill's metadata whose values are tags.
_TAGGED: Final = ("tags", "tag", "category", "categories", "keywords")
_BETWEEN_TAGS: Final = re.compile(r"[,;\n\[\]\"']+")
_VALUE_LENGTH: Final = 64


class Profile(NamedTuple):
    """The values of a skill for each facet, in the order of :data:`FACETS`."""

    kind: tuple[str, ...]
    license: tuple[str, ...]
    tag: tuple[str, ...]


FACETS: Final = Profile._fields


def skill_kind(skill: Skill | SkillSummary) -> str:
    """Return ``callable``, ``scripts`` for instructions with scripts, or ``instructions``."""
    if is_callable(skill.kind, skill.sharing.capability_type if skill.sharing else None):
        return "callable"
    return "scripts" if _has_scripts(skill) else "instructions"


def _has_scripts(skill: Skill | SkillSummary) -> bool:
    return any(file.path.startswith("scripts/") for file in skill.files)


def profile_of(skill: Skill | SkillSummary) -> Profile:
    """Return the facet values of ``skill``."""
    kind = skill_kind(skill)
    named = " ".join((skill.license or "").split())
    tags = dict.fromkeys(tag for tag in _tags(skill) if tag)
    return Profile(
        kind=(kind, "scripts") if kind == "callable" and _has_scripts(skill) else (kind,),
        license=(named[:_VALUE_LENGTH],) if named else (),
        tag=tuple(tags)[: limits.SEARCH_TAGS],
    )


def count_facets(profiles: Sequence[Profile]) -> dict[str, tuple[FacetValue, ...]]:
    """Return facet → its most frequent values, given the profile of each hit."""
    counts = {
        facet: Counter(chain.from_iterable(map(itemgetter(place), profiles))) for place, facet in enumerate(FACETS)
    }
    return {facet: _most_frequent(counted) for facet, counted in counts.items()}


def _most_frequent(counted: Mapping[str, int]) -> tuple[FacetValue, ...]:
    items = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[: limits.SEARCH_FACET_VALUES]
    return tuple(FacetValue(*item) for item in items)


#: Values of a facet that are counted by bit sets; each takes one bit per skill, so 6 KB for 50,000.
_COUNTED_BY_BITS: Final = 512
_DIGITS: Final = bytes.maketrans(b"01", b"\0\1")
#: For each facet: value → bit set of its slots, and an upper bound of the hits of any other value.
_Tables = list[tuple[dict[str, int], int]]
#: Number of revisions after which the most frequent values are determined again.
_FOLLOWED: Final = 1_000


class FacetCounts:
    """Counts the most frequent values of hits; a hit is a slot, the index of its profile in ``profiles``.

    An integer represents a set of slots as bits, so counting a value in 20,000 hits takes a few microseconds.
    """

    def __init__(self, profiles: Sequence[Profile | None], tables: _Tables | None = None, followed: int = 0) -> None:
        self._profiles = profiles
        self._followed = followed
        self._tables: _Tables = tables or []
        for place in range(len(FACETS)) if tables is None else ():
            having: defaultdict[str, list[int]] = defaultdict(list)
            for slot, profile in enumerate(profiles):
                for value in profile[place] if profile else ():
                    having[value].append(slot)
            values = sorted(having, key=lambda value: -len(having[value]))
            bits = {value: self._bits(having[value]) for value in values[:_COUNTED_BY_BITS]}
            self._tables.append((bits, len(having[values[len(bits)]]) if len(values) > len(bits) else 0))

    def followed_by(self, profiles: Sequence[Profile | None], slots: Iterable[int]) -> FacetCounts:
        """Return the counts for the ``profiles`` of the next revision, which differ at ``slots``."""
        if self._followed == _FOLLOWED:
            return FacetCounts(profiles)
        tables: _Tables = []
        for place, (bits, rest) in enumerate(self._tables):
            changed, most = dict(bits), rest
            for slot in slots:
                old = self._profiles[slot] if slot < len(self._profiles) else None
                new = profiles[slot]
                before, after = set(old[place] if old else ()), set(new[place] if new else ())
                for value in before ^ after:
                    if value in changed or (not rest and len(changed) < _COUNTED_BY_BITS):
                        changed[value] = changed.get(value, 0) ^ 1 << slot
                    else:
                        most += value in after
            tables.append((changed, most))
        return FacetCounts(profiles, tables, self._followed + 1)

    def of(self, slots: Sequence[int]) -> dict[str, tuple[FacetValue, ...]]:
        """Return what :func:`count_facets` returns for the profiles of ``slots``."""
        hits = self._bits(slots)
        counted = {}
        for facet, (bits, rest) in zip(FACETS, self._tables, strict=True):
            values = {value: number for value, one in bits.items() if (number := (one & hits).bit_count())}
            counted[facet] = _most_frequent(values)
            least = counted[facet][-1].skills if len(counted[facet]) == limits.SEARCH_FACET_VALUES else 0
            if rest and least <= rest:  # a value without bits may be among the most frequent
                return count_facets([profile for slot in slots if (profile := self._profiles[slot])])
        return counted

    def narrow(self, facet: str, values: Iterable[str], slots: Sequence[int]) -> Sequence[int] | None:
        """Return the ``slots`` that have one of the values, or None if a value has no bit set."""
        bits, rest = self._tables[FACETS.index(facet)]
        if rest and not bits.keys() >= set(values):
            return None
        having = reduce(or_, (bits.get(value, 0) for value in values))
        marks = f"{having:0{len(self._profiles)}b}"[::-1].encode().translate(_DIGITS)
        return list(compress(slots, map(marks.__getitem__, slots)))

    def _bits(self, slots: Sequence[int]) -> int:
        marks = bytearray(b"0") * max(len(self._profiles), 1)
        for slot in slots:
            marks[slot] = 49  # the digit 1
        return int(marks[::-1], 2)  # the first slot is the last digit


def facet_value(facet: str, value: str) -> str:
    """Return a value of a facet as it is counted and filtered by: a tag in its normalized form, all others as given."""
    return _normalize_tag(value) if facet == "tag" else value


def _normalize_tag(tag: str) -> str:
    return " ".join(tag.lower().split())[:_VALUE_LENGTH]


def _tags(skill: Skill | SkillSummary) -> Iterator[str]:
    for key, value in (skill.metadata or {}).items():
        for tag in _BETWEEN_TAGS.split(value) if key in _TAGGED else ():
            yield _normalize_tag(tag)
    yield from map(_normalize_tag, _named(skill))


def _named(skill: Skill | SkillSummary) -> Sequence[str]:
    return *(skill.sharing.tags if skill.sharing else ()), *skill.capabilities, *skill.scenes


def tag_text(skill: Skill | SkillSummary) -> str:
    """Return what a search takes for tags: metadata of SKILL.md but its version, tags, capabilities and scenes."""
    return " ".join((*(value for key, value in (skill.metadata or {}).items() if key != "version"), *_named(skill)))


_WORD: Final = re.compile(r"[^\W_]+")
#: Words that carry no meaning for a search; each occurs in a third of all skills.
_STOP_WORDS: Final = frozenset(
    """
    a about an and any are as at be by can do does for from get has have how i if in into is it its let like me
    my no not of on or our please should skill skills so some that the their them then there these they this to
    up us use used using want was we what when where which who will with would you your
    """.split()  # noqa: SIM905  # a list would take seventy lines
)
_MARK_BYTES: Final = 9  # fills base64 without padding
_CURSOR_LENGTH: Final = 100


class Words(NamedTuple):
    """The words of a query, in lower case, each once; ``is_open`` if the last one may be incomplete."""

    words: tuple[str, ...]
    is_open: bool

    @property
    def name(self) -> str:
        """The words as a skill's name, joined by hyphens."""
        return "-".join(self.words)


def check_query(query: SearchQuery) -> None:
    """Check the bounds of a query. Raises UsageError (``QUERY``)."""
    if not 1 <= query.limit <= limits.SEARCH_HITS:
        raise UsageError("QUERY", f"limit is a whole number from 1 to {limits.SEARCH_HITS}")
    if len(query.text) > limits.SEARCH_TEXT_LENGTH:
        raise UsageError("QUERY", f"the text is longer than {limits.SEARCH_TEXT_LENGTH} characters")


def read_words(text: str) -> Words:
    """Return all words of ``text``. Trust: hostile; only letters and digits remain, so no query syntax."""
    words = tuple(dict.fromkeys(_WORD.findall(text.lower())))
    return Words(words, is_open=bool(words) and _WORD.fullmatch(text[-1]) is not None)


def telling_words(words: Words) -> Words:
    """Return ``words`` without stop words, unless there are no others. Raises UsageError (``QUERY``) for too many."""
    searched = tuple(word for word in words.words if word not in _STOP_WORDS) or words.words
    if len(searched) > limits.SEARCH_WORDS:
        raise UsageError("QUERY", f"the text has more than {limits.SEARCH_WORDS} words")
    return Words(searched, is_open=words.is_open and searched[-1:] == words.words[-1:])


def make_cursor(name: str, mark: bytes) -> str:
    """Return the cursor after the skill ``name`` in the search with this ``mark``, see :func:`mark_search`."""
    return encode_cursor(mark + name.encode("ascii"))


def read_cursor(cursor: str, mark: bytes) -> str:
    """Return the name after which ``cursor`` continues. Raises UsageError (``CURSOR``). Trust: hostile."""
    raw = decode_cursor(cursor, _CURSOR_LENGTH)
    name = raw[_MARK_BYTES:].decode("latin-1")
    if not is_skill_name(name) and read_package_name(name) is None:
        raise UsageError("CURSOR", "this is no cursor of a search here")
    if raw[:_MARK_BYTES] != mark:
        raise UsageError("CURSOR", "the cursor belongs to another search, or the skills have changed since")
    return name


@functools.cache
def process_token() -> str:
    """Return a random token of this process, which distinguishes its revisions from those of other processes."""
    return secrets.token_hex(8)


def mark_search(query: SearchQuery, order: Iterable[str]) -> bytes:
    """Return a fingerprint of ``query``; ``order`` identifies the state that its order depends on."""
    chosen = sorted((facet, *sorted(values)) for facet, values in query.facets.items())
    return hashlib.blake2b(repr((tuple(order), chosen)).encode(), digest_size=_MARK_BYTES).digest()
