"""Search in a list of skills that is at hand: exact names first, then by how well the words match.

A small BM25 over names and descriptions, enough for the indexes of a few origins; a registry searches with
an engine of its own.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WORD: Final = re.compile(r"[^\W_]+")
_NAME_WEIGHT: Final = 3  # a word of the name counts as often as this many of the description
_SATURATION: Final = 1.2  # BM25's k1
_LENGTH: Final = 0.75  # BM25's b

T = TypeVar("T")


def words(text: str) -> list[str]:
    """Return the words of ``text``, in lower case, plural and verb endings cut off."""
    return [_stem(word) for word in _WORD.findall(text.lower())]


def rank(query: str, items: Sequence[T], text: Callable[[T], tuple[str, str]]) -> list[tuple[T, float]]:
    """Return the items that match ``query`` with their scores, best first; all of them for an empty query.

    Args:
        query: words, in any order; a hit has at least one of them.
        items: what is searched.
        text: gives an item's name and description.
    """
    wanted = list(dict.fromkeys(words(query)))
    if not wanted:
        return [(item, 0.0) for item in items]
    documents = [Counter(words(description) + words(name) * _NAME_WEIGHT) for name, description in map(text, items)]
    average = sum(sum(document.values()) for document in documents) / len(documents) if documents else 1.0
    weights = {word: _rarity(sum(word in document for document in documents), len(documents)) for word in wanted}
    exact = "-".join(_WORD.findall(query.lower()))
    scored = [
        (item, _score(document, weights, average) + (1000.0 if text(item)[0] == exact else 0.0))
        for item, document in zip(items, documents, strict=True)
    ]
    return sorted(((item, score) for item, score in scored if score > 0), key=lambda hit: -hit[1])


def _rarity(having: int, total: int) -> float:
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


def _score(document: Counter[str], weights: dict[str, float], average: float) -> float:
    length = _SATURATION * (1 - _LENGTH + _LENGTH * sum(document.values()) / average)
    return sum(
        weight * document[word] * (_SATURATION + 1) / (document[word] + length)
        for word, weight in weights.items()
        if word in document
    )


def _stem(word: str) -> str:
    for ending in ("ies", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            word = word.removesuffix(ending) + ("y" if ending == "ies" else "")
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word  # noqa: PLR2004  # "code" meets "coding"
