"""Words one edit away from a misspelt one, from the index's own vocabulary.

The vocabulary holds stems. So every word one edit away is made, a few hundred, stemmed by the same tokenizer in a
small index of its own, and looked up. What that costs depends on the word alone and not on the number of skills.
"""

from __future__ import annotations

import json
import sqlite3
from string import ascii_lowercase, digits
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Shorter words have too many neighbours, and nobody misspells what is longer than this by one letter only.
_LENGTHS: Final = range(4, 25)
_MOST: Final = 3
_STEMS: Final = """
CREATE VIRTUAL TABLE stems USING fts5(word, content = '', tokenize = "porter unicode61 remove_diacritics 2");
CREATE VIRTUAL TABLE stem USING fts5vocab(stems, row);
"""
_KNOWN: Final = "SELECT term FROM json_each(?) JOIN vocabulary ON term = value ORDER BY doc DESC, term LIMIT ?"


class Spelling:
    """Finds words in the vocabulary of the index that ``connection`` reads."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def near(self, word: str) -> list[str]:
        """Return the most frequent words that are one edit away from ``word``, at most three."""
        if len(word) not in _LENGTHS or not word.isascii():
            return []
        stems = json.dumps(_stems(" ".join(set(_edits(word)))))
        return [term for (term,) in self._connection.execute(_KNOWN, (stems, _MOST))]


def _stems(text: str) -> list[str]:
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(_STEMS)
        connection.execute("INSERT INTO stems(rowid, word) VALUES (1, ?)", (text,))
        return [term for (term,) in connection.execute("SELECT term FROM stem")]
    finally:
        connection.close()


def _edits(word: str) -> Iterator[str]:
    """Yield every word that one letter left out, put in, replaced or swapped with the next makes of ``word``."""
    letters = ascii_lowercase + (digits if any(letter in digits for letter in word) else "")
    for place in range(len(word) + 1):
        before, after = word[:place], word[place:]
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in letters)
        if after[1:]:
            yield before + after[1] + after[0] + after[2:]
        yield from (before + letter + after for letter in letters)
