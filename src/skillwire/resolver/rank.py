"""Search in a list of skills that is at hand: exact names first, then by how well the words match.

A small BM25F over names and descriptions, enough for the indexes of a few origins; a registry searches with
an engine of its own. A word of the query is found in three ways, each only as far as the one before left room:
itself, with its ending cut off; words that begin with it or that it begins with, which count less ("test" finds
"testing" and "testcase"); and, only when neither is in any text, words that one edit makes of it, so that a typo costs
nothing while the words match.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_WORD: Final = re.compile(r"[^\W_]+")
_SATURATION: Final = 1.2  # BM25's k1
_LENGTH: Final = 0.6  # BM25's b, for each of the two fields
_BEGINNING: Final = 0.5  # what a word counts that only begins as the wanted one does
_TYPO: Final = 0.5  # what a word counts that is one edit away from it
_SIGNIFICANT: Final = 4  # letters: shorter words begin too many others, and are one edit away from too many
_EXACT: Final = 1000.0  # above every score by words
#: Words that say nothing of what is wanted, in a query or in a description ("use when you need to ...").
_EMPTY: Final = frozenset(
    "a all an and any are as at be by can do for from help how i if in into is it its make me my need no not of on or "  # noqa: SIM905  # prose is easier to read than a list
    "our should so that the this to use used user using want we what when which with you your".split()
)

T = TypeVar("T")


class _Form(NamedTuple):
    """A word of the texts that stands for a word of the query, and what it counts."""

    wanted: int
    weight: float


def words(text: str) -> list[str]:
    """Return the words of ``text`` that say something, in lower case, plural and verb endings cut off."""
    return [_stem(word) for word in _WORD.findall(text.lower()) if word not in _EMPTY]


def rank(
    query: str, items: Sequence[T], text: Callable[[T], tuple[str, str]], *, needs_all: bool = False
) -> list[tuple[T, float]]:
    """Return the items that match ``query`` with their scores, best first; all of them for an empty query.

    Args:
        query: words, in any order; a hit has at least one of them, or one that looks like it.
        items: what is searched.
        text: gives an item's name and description.
        needs_all: whether a hit has every word, or one that looks like it, so that more words find less.
    """
    plain = _WORD.findall(query.lower())
    wanted = list(dict.fromkeys(words(query) or map(_stem, plain)))
    if not wanted:
        return [(item, 0.0) for item in items]
    texts = [text(item) for item in items]
    fields = [(words(name), words(description)) for name, description in texts]
    forms = _forms(wanted, Counter(word for name, description in fields for word in {*name, *description}), len(items))
    lengths = [max(sum(map(len, column)) / len(column), 1.0) for column in zip(*fields, strict=True)]
    least = len(wanted) if needs_all else 1
    exact = "-".join(plain)
    scored = [
        (item, _score(both, forms, lengths, least) + (_EXACT if name == exact else 0.0))
        for item, (name, _), both in zip(items, texts, fields, strict=True)
    ]
    return sorted(((item, score) for item, score in scored if score > 0), key=lambda hit: -hit[1])


def _forms(wanted: Sequence[str], having: Counter[str], total: int) -> dict[str, list[_Form]]:
    """Return the words of the texts that stand for words of the query. ``having`` counts the texts with each word."""
    forms: dict[str, list[_Form]] = {}
    for index, word in enumerate(wanted):
        factors = {word: 1.0} if word in having else {}
        if len(word) >= _SIGNIFICANT:
            factors = {**{other: _BEGINNING for other in having if _begins_alike(word, other)}, **factors}
            factors = factors or {other: _TYPO for other in having if is_one_edit(word, other)}
        for other, factor in factors.items():
            weight = factor * math.log(1 + (total - having[other] + 0.5) / (having[other] + 0.5))
            forms.setdefault(other, []).append(_Form(index, weight))
    return forms


def _score(
    fields: tuple[list[str], list[str]], forms: dict[str, list[_Form]], lengths: Sequence[float], least: int
) -> float:
    """Return how well a text matches: for each word of the query what its best form gives, if there are enough."""
    found: dict[int, float] = {}
    for word in forms.keys() & {*fields[0], *fields[1]}:
        count = sum(
            field.count(word) / (1 - _LENGTH + _LENGTH * len(field) / length)
            for field, length in zip(fields, lengths, strict=True)
        )
        for form in forms[word]:
            score = form.weight * count * (_SATURATION + 1) / (count + _SATURATION)
            found[form.wanted] = max(score, found.get(form.wanted, 0.0))
    return sum(found.values()) if len(found) >= least else 0.0


def _begins_alike(word: str, other: str) -> bool:
    return len(other) >= _SIGNIFICANT and (other.startswith(word) or word.startswith(other))


def is_one_edit(word: str, other: str) -> bool:
    """Whether one letter more, less or other, or two neighbours exchanged, makes ``other`` of ``word``."""
    longest = max(len(word), len(other))
    if abs(len(word) - len(other)) > 1:
        return False
    before = _common(word, other)
    rest, other_rest = word[before:], other[before:]
    if rest[:2] == other_rest[1::-1] and rest[2:] == other_rest[2:]:
        return True
    return before + _common(rest[::-1], other_rest[::-1]) >= longest - 1


def _common(one: Iterable[str], other: Iterable[str]) -> int:
    """Return how many letters both begin with."""
    count = 0
    for letter, other_letter in zip(one, other, strict=False):
        if letter != other_letter:
            break
        count += 1
    return count


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    for ending in ("ies", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            word = word.removesuffix(ending) + ("y" if ending == "ies" else "")
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word  # noqa: PLR2004  # "code" meets "coding"
