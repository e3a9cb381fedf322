"""One connection that searches: a cascade from what was said to what may have been meant.

First skills with all the words, the last one perhaps unfinished. If there is none, words that occur nowhere are
replaced by words that do: an unfinished last one by its longest beginning that occurs, others by those an edit away
(:mod:`~skillwire.adapters.sqlite.spelling`). Then again all the words, and in the end any of them.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Final
from weakref import finalize

from skillwire.adapters.sqlite.spelling import Spelling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.registry.query import Words

#: Its rank, where less is better, and its row.
Hit = tuple[float, int]

_SEARCH: Final = "SELECT rank, rowid FROM skills WHERE skills MATCH ? LIMIT ?"
_OCCURS: Final = "SELECT 1 FROM skills WHERE skills MATCH ? LIMIT 1"
_LOOKS: Final = 500  # instructions of SQLite's machine between two looks at the clock: some 20 µs
#: Of so many hits, putting them in order and counting takes less than a millisecond.
_FEW: Final = 500
_ALL: Final = -1
_SHORTEST: Final = 3
#: With so many hits a word is taken for whole; what it may be the beginning of can have thousands.
_ENOUGH: Final = 20
#: Longer texts are sentences, and their last word is whole; a beginning in their place finds worse.
_TYPED: Final = 2


class Reader:
    """Searches with ``connection``, for one thread at a time; others wait."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._connection.execute("SELECT 1 FROM skills LIMIT 1").fetchall()  # opens all of the files
        self._deadline = _Deadline()
        self._connection.set_progress_handler(self._deadline.is_over, _LOOKS)
        finalize(self, connection.close)
        self._lock = threading.Lock()
        self._most = _ALL
        self._spelling: Spelling | None = None

    def find(self, words: Words) -> list[Hit]:
        """Return the hits, in no order."""
        with self._lock:
            self._deadline.at = float("inf")
            self._most = _ALL
            return self._cascade(words)

    def find_briefly(self, words: Words, seconds: float) -> list[Hit] | None:
        """Return the hits that have all the words; None when there is none, or many, or finding them takes too long.

        ``seconds`` are of this thread's processor: while it waits for one, nobody else would be answered either.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            self._deadline.at = time.thread_time() + seconds
            self._most = _FEW + 1
            found = self._with_all(words)
            return found if 0 < len(found) <= _FEW else None
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            return None
        finally:
            self._lock.release()

    def _match(self, expression: str) -> list[Hit]:
        return self._connection.execute(_SEARCH, (expression, self._most)).fetchall()

    def _with_all(self, words: Words) -> list[Hit]:
        """Return what has all the words; the last one may be a beginning when few have it as it stands."""
        whole = [_quoted(word) for word in words.words]
        found = self._match(" AND ".join(whole))
        terms = _terms(words)
        if len(found) >= _ENOUGH or terms == whole:
            return found
        return self._match(" AND ".join(terms))

    def _cascade(self, words: Words) -> list[Hit]:
        if found := self._with_all(words):
            return found
        terms = _terms(words)
        known = self._known_terms(words, terms)
        if not known:
            return []
        if known != terms and (found := self._match(" AND ".join(known))):
            return found
        return self._match(" OR ".join(known))

    def _known_terms(self, words: Words, terms: Sequence[str]) -> list[str]:
        """Return ``terms`` with those that occur nowhere replaced or left out."""
        known = []
        for position, (word, term) in enumerate(zip(words.words, terms, strict=True)):
            if self._occurs(term):
                known.append(term)
                continue
            if self._spelling is None:
                self._spelling = Spelling(self._connection)
            near = [_quoted(other) for other in self._spelling.near(word)]
            is_open = words.is_open and position == len(terms) - 1
            if not near and is_open and (beginning := self._beginning(word)):
                near = [beginning]
            if near:
                known.append(f"({' OR '.join(near)})")
        return known

    def _beginning(self, word: str) -> str | None:
        for length in range(len(word) - 1, max(_SHORTEST, len(word) // 2) - 1, -1):
            if self._occurs(term := f"{_quoted(word[:length])}*"):
                return term
        return None

    def _occurs(self, term: str) -> bool:
        return self._connection.execute(_OCCURS, (term,)).fetchone() is not None


class _Deadline:
    """When a search has to end, as :func:`time.thread_time` counts."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = float("inf")

    def is_over(self) -> bool:
        return time.thread_time() > self.at


def _terms(words: Words) -> list[str]:
    """Return one expression for each word; quoted, a word is nothing but a word to FTS5."""
    terms = [_quoted(word) for word in words.words]
    if words.is_open and len(terms) <= _TYPED:
        terms[-1] = f"({terms[-1]} OR {terms[-1]}*)"
    return terms


def _quoted(word: str) -> str:
    return f'"{word}"'
