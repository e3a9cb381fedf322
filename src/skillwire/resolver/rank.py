"""Search in a list of skills: exact names first, then by how well the words match.

A small BM25F over names and descriptions, enough for the indexes of a few origins; a registry has an engine of its own.
A word of the query matches itself without its ending; with less weight, words that begin with it or that it begins with
("test" finds "testing" and "testcase"); and, only if no text has either, words one edit away.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache
from os.path import commonprefix
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WORD: Final = re.compile(r"[^\W_]+")
_SATURATION: Final = 1.2  # BM25's k1
_LENGTH: Final = 0.6  # BM25's b, for each of the two fields
_BEGINNING: Final = 0.5  # weight of a word with the same beginning
_TYPO: Final = 0.5  # weight of a word one edit away
_SIGNIFICANT: Final = 4  # letters: shorter words begin too many others, and are one edit away from too many
_EXACT: Final = 1000.0  # above every score by words
#: Words without meaning for the search, in a query or in a description ("use when you need to ...").
_EMPTY: Final = frozenset(
    "a all an and any are as at be by can do for from help how i if in into is it its make me my need no not of on or "  # noqa: SIM905  # prose is easier to read than a list
    "our should so that the this to use used user using want we what when which with you your".split()
)

T = TypeVar("T")


def words(text: str) -> list[str]:
    """Return the meaningful words of ``text``, in lower case, plural and verb endings cut off."""
    return [_stem(word) for word in _WORD.findall(text.lower()) if word not in _EMPTY]


def rank(
    query: str, items: Sequence[T], text: Callable[[T], tuple[str, str]], *, needs_all: bool = False
) -> list[tuple[T, float]]:
    """Return the items that match ``query`` with their scores, best first; all of them for an empty query.

    Args:
        query: words, in any order; a hit has at least one of them, or a similar one.
        items: to search.
        text: gives an item's name and description.
        needs_all: whether a hit must have every word, or a similar one.
    """
    plain = _WORD.findall(query.lower())
    wanted = list(dict.fromkeys(words(query) or map(_stem, plain)))
    if not wanted:
        return [(item, 0.0) for item in items]
    texts = [text(item) for item in items]
    fields = [(words(name), words(description)) for name, description in texts]
    having = Counter(word for name, description in fields for word in {*name, *description})
    total = len(items)
    forms: dict[str, list[tuple[int, float]]] = {}
    typed = {_stem(word): word for word in plain}
    for index, word in enumerate(wanted):
        factors = {word: 1.0} if word in having else {}
        start = word if len(word) >= _SIGNIFICANT else typed[word]  # "sales" begins "salesforce", its stem too much
        if len(start) >= _SIGNIFICANT:
            alike = [other for other in having if len(other) >= _SIGNIFICANT]
            alike = [other for other in alike if other.startswith(start) or start.startswith(other)]
            factors = {**dict.fromkeys(alike, _BEGINNING), **factors}
        if len(word) >= _SIGNIFICANT:
            factors = factors or {other: _TYPO for other in having if is_one_edit(word, other)}
        for other, factor in factors.items():
            weight = factor * math.log(1 + (total - having[other] + 0.5) / (having[other] + 0.5))
            forms.setdefault(other, []).append((index, weight))
    lengths = [max(sum(map(len, column)) / len(column), 1.0) for column in zip(*fields, strict=True)]
    least = len(wanted) if needs_all else 1
    exact = "-".join(plain)
    scored = [
        (item, _score(both, forms, lengths, least) + (_EXACT if name == exact else 0.0))
        for item, (name, _), both in zip(items, texts, fields, strict=True)
    ]
    return sorted(((item, score) for item, score in scored if score > 0), key=lambda hit: -hit[1])


def _score(
    fields: tuple[list[str], list[str]],
    forms: dict[str, list[tuple[int, float]]],
    lengths: Sequence[float],
    least: int,
) -> float:
    """Return the sum of the best match of each query word; 0 if fewer than ``least`` words match."""
    found: dict[int, float] = {}
    for word in forms.keys() & {*fields[0], *fields[1]}:
        count = sum(
            field.count(word) / (1 - _LENGTH + _LENGTH * len(field) / length)
            for field, length in zip(fields, lengths, strict=True)
        )
        for wanted, weight in forms[word]:
            score = weight * count * (_SATURATION + 1) / (count + _SATURATION)
            found[wanted] = max(score, found.get(wanted, 0.0))
    return sum(found.values()) if len(found) >= least else 0.0


def is_one_edit(word: str, other: str) -> bool:
    """Whether inserting, removing or changing a letter, or swapping two, turns ``word`` into ``other``."""
    longest = max(len(word), len(other))
    if abs(len(word) - len(other)) > 1:
        return False
    before = len(commonprefix((word, other)))  # noqa: RUF071  # of letters, not of paths
    rest, other_rest = word[before:], other[before:]
    if rest[:2] == other_rest[1::-1] and rest[2:] == other_rest[2:]:
        return True
    return before + len(commonprefix((rest[::-1], other_rest[::-1]))) >= longest - 1  # noqa: RUF071  # same


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    for ending in ("ies", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            word = word.removesuffix(ending) + ("y" if ending == "ies" else "")
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word  # noqa: PLR2004  # "code" meets "coding"
