"""The search index of a server: full text in SQLite, facets in Python.

A :class:`SearchIndex` is a private database, unlinked while open, so it vanishes with the process. Each version of a
skill has a row, found by its *slot*; a :class:`RevisionSearch` knows the slots of its revision, so one table serves
several. A change adds rows; replaced ones are removed when no revision needs them. One thread changes the index.

A search is a cascade: skills with all the words, the last one perhaps unfinished; then words that occur nowhere are
replaced by prefixes or by words one edit away; in the end any of the words. Edits are generated, stemmed and looked up
in the vocabulary, so the cost depends on the word and not on the number of skills. Where thousands have all the words,
only those that have them in name or tags are ranked; the others follow in the order of the index.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain, compress
from pathlib import Path
from string import ascii_lowercase, digits
from sys import intern
from typing import Any, Final, cast
from weakref import WeakSet, finalize

import msgspec

from skillwire import limits
from skillwire.adapters.files.atomic import make_folder, storage_errors
from skillwire.errors import SourceLocation, StorageError, UsageError
from skillwire.model.catalog import Explanation, FacetValue, SearchPage, SearchQuery, summarize
from skillwire.model.skill import SKILL_MD, Skill
from skillwire.registry.search import (
    FACETS,
    FacetCounts,
    Profile,
    Words,
    check_query,
    count_facets,
    make_cursor,
    mark_search,
    process_token,
    profile_of,
    read_cursor,
    read_words,
    tag_text,
    telling_words,
)

#: Shorter words have too many neighbours; longer ones are seldom misspelt by one letter only. Of those with three
#: letters, only swapped letters count.
_LENGTHS: Final = range(3, 25)
_SHORT: Final = 3
_MOST: Final = 3
_STEMS: Final = """
CREATE VIRTUAL TABLE stems USING fts5(word, content = '', tokenize = "porter unicode61 remove_diacritics 2");
CREATE VIRTUAL TABLE stem USING fts5vocab(stems, row);
"""
_KNOWN: Final = "SELECT term FROM json_each(?) JOIN vocabulary ON term = value ORDER BY doc DESC, term LIMIT ?"


def _similar_words(connection: sqlite3.Connection, word: str) -> list[str]:
    """Return the most frequent words of the index that are one edit away from ``word``, at most three."""
    if len(word) not in _LENGTHS or not word.isascii():
        return []
    letters = ascii_lowercase + (digits if any(letter in digits for letter in word) else "")
    edits: set[str] = set()
    for place in range(len(word) + 1):
        before, after = word[:place], word[place:]
        if after[1:]:
            edits.add(before + after[1] + after[0] + after[2:])
        if len(word) == _SHORT:
            continue
        edits.update(before + letter + after for letter in letters)
        if after:
            edits.add(before + after[1:])
            edits.update(before + letter + after[1:] for letter in letters)
    stemmer = sqlite3.connect(":memory:")
    try:
        stemmer.executescript(_STEMS)
        stemmer.execute("INSERT INTO stems(rowid, word) VALUES (1, ?)", (" ".join(edits),))
        stems = json.dumps([term for (term,) in stemmer.execute("SELECT term FROM stem")])
    finally:
        stemmer.close()
    return [term for (term,) in connection.execute(_KNOWN, (stems, _MOST))]


#: Rows come in one value: for each single one Python's threads would take turns.
_SEARCH: Final = """
SELECT json_group_array(rowid) FROM (
  SELECT rowid FROM (SELECT rank, rowid FROM skills WHERE skills MATCH ? LIMIT ?) ORDER BY rank, rowid
)
"""
_COUNT: Final = "SELECT count(*) FROM skills WHERE skills MATCH ?"
_ROWS: Final = "SELECT json_group_array(rowid) FROM skills WHERE skills MATCH ?"
_read_rows: Final = msgspec.json.Decoder(list[int]).decode
_OCCURS: Final = "SELECT 1 FROM skills WHERE skills MATCH ? LIMIT 1"
_MARKS: Final = ("\x02", "\x03")
_COLUMNS: Final = ("name", "tags", "description", "files")
#: Of a description about as much as a list shows; a name is short, and of tags and files the best part is enough.
_PIECES: Final = """
SELECT highlight(skills, 0, :a, :b), snippet(skills, 1, :a, :b, '…', 8), snippet(skills, 2, :a, :b, '…', 40),
snippet(skills, 3, :a, :b, '…', 8) FROM skills WHERE skills MATCH :terms AND rowid = :row
"""
_LIKE: Final = "SELECT term FROM vocabulary WHERE term BETWEEN ? AND ? AND length(term) BETWEEN ? AND ? LIMIT ?"
#: How many words, or names, are compared; how similar a proposed one is, and one that replaced a word in a search.
_COMPARED: Final = 10_000
_SIMILAR: Final = 0.7
_CORRECTED: Final = 4  # words of a query; each takes some 50 ms with 10,000 skills
_REPLACED: Final = 0.6
_LOOKS: Final = 500  # instructions of SQLite's machine between two looks at the clock: some 20 µs
#: Of so many hits, putting them in order and counting takes less than a millisecond.
_FEW: Final = 500
_ALL: Final = -1
#: Ranking costs 1 µs a hit, listing a tenth of it: so many hits take 5 ms.
_MANY: Final = 5_000
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
        finalize(self, connection.close)
        self._lock = threading.Lock()
        self._most = _ALL

    def find(self, words: Words) -> list[int]:
        """Return the rows of the hits, best first."""
        with self._lock:
            self._most = _ALL
            if found := self._with_all(words):
                return found
            terms = _terms(words)
            known = self._known_terms(words, terms)
            if known and known != terms and (found := self._match(" AND ".join(known))):
                return found
            return self._match(" OR ".join(known)) if known else []

    def find_briefly(self, words: Words, seconds: float) -> list[int] | None:
        """Return hits with all the words, found in these seconds of CPU time; None for none, many or no time."""
        if not self._lock.acquire(blocking=False):
            return None
        end = time.thread_time() + seconds
        try:
            self._connection.set_progress_handler(lambda: time.thread_time() > end, _LOOKS)
            self._most = _FEW + 1
            found = self._with_all(words)
            return found if 0 < len(found) <= _FEW else None
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            return None
        finally:
            self._connection.set_progress_handler(None, _LOOKS)
            self._lock.release()

    def explain(self, words: Words, rows: Iterable[int]) -> tuple[dict[int, list[list[tuple[str, bool]]]], list[str]]:
        """Return row → the pieces of each column and whether they match, and the words that occur nowhere."""
        with self._lock:
            terms = _terms(words)
            known, found = self._known_terms(words, terms), {}
            for row in rows if known else ():
                values = {"a": _MARKS[0], "b": _MARKS[1], "terms": " OR ".join(known), "row": row}
                if (texts := self._connection.execute(_PIECES, values).fetchone()) is not None:
                    found[row] = [_split_marks(text) for text in texts]
            unknown = [word for word, term in zip(words.words, terms, strict=True) if not self._occurs(term)]
            return found, unknown

    def similar(self, word: str) -> list[str]:
        """Return words of the index that are like ``word`` and begin with its letter, the most similar first."""
        with self._lock:
            bounds = (word[:1], word[:1] + chr(0x10FFFF), len(word) - 2, len(word) + 2, _COMPARED)
            terms = [term for (term,) in self._connection.execute(_LIKE, bounds)]
        return get_close_matches(word, terms, _MOST, _SIMILAR)

    def _match(self, expression: str) -> list[int]:
        return _read_rows(self._value(_SEARCH, expression, self._most))

    def _with_all(self, words: Words) -> list[int]:
        """Return what has all the words; the last one may be a beginning when few have it as it stands."""
        whole = [_quoted(word) for word in words.words]
        found = self._match_all(whole)
        terms = _terms(words)
        if len(found) >= _ENOUGH or terms == whole:
            return found
        return self._match_all(terms)

    def _match_all(self, terms: Sequence[str]) -> list[int]:
        expression = " AND ".join(terms)
        if self._most != _ALL or self._value(_COUNT, expression) <= _MANY:
            return self._match(expression)
        best = self._match(f"{{name tags}} : ({expression})")
        return list(dict.fromkeys([*best, *_read_rows(self._value(_ROWS, expression))]))

    def _value(self, query: str, *values: str | int) -> Any:
        return self._connection.execute(query, values).fetchone()[0]

    def _known_terms(self, words: Words, terms: Sequence[str]) -> list[str]:
        """Return ``terms`` with those that occur nowhere replaced or left out."""
        known = []
        for position, (word, term) in enumerate(zip(words.words, terms, strict=True)):
            if self._occurs(term):
                known.append(term)
                continue
            near = [_quoted(other) for other in _similar_words(self._connection, word)]
            if not near and words.is_open and position == len(terms) - 1:
                lengths = range(len(word) - 1, max(_SHORTEST, len(word) // 2) - 1, -1)
                beginnings = (f"{_quoted(word[:length])}*" for length in lengths)
                beginning = next(filter(self._occurs, beginnings), None)
                near = [beginning] if beginning else []
            if near:
                known.append(f"({' OR '.join(near)})")
        return known

    def _occurs(self, term: str) -> bool:
        return self._connection.execute(_OCCURS, (term,)).fetchone() is not None


def _terms(words: Words) -> list[str]:
    """Return one expression for each word; quoted, a word is nothing but a word to FTS5."""
    terms = [_quoted(word) for word in words.words]
    if words.is_open and len(terms) <= _TYPED:
        terms[-1] = f"({terms[-1]} OR {terms[-1]}*)"
    return terms


def _split_marks(text: str) -> list[tuple[str, bool]]:
    """Return the pieces of a text that FTS5 marked, and whether each is a match."""
    pieces = re.split("[\x02\x03]", text)
    return [(piece, bool(place % 2)) for place, piece in enumerate(pieces) if piece]


def _quoted(word: str) -> str:
    return f'"{word}"'


#: How long the event loop may search itself: a thread costs a tenth of it, and others wait no longer for their turn.
_BRIEF_SECONDS: Final = 0.001


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class RevisionSearch:
    """Fills :class:`~skillwire.ports.SkillSearch`.

    ``names`` and ``profiles`` are by slot, empty where the revision has none; ``has_row`` is 1 for its rows, whose
    numbers begin with 1; ``listing`` is the slots by name. The second of the ``readers`` serves :meth:`search_briefly`.
    """

    revision: int
    names: Sequence[str]
    profiles: Sequence[Profile | None]
    has_row: bytes
    listing: Sequence[int]
    readers: tuple[Reader, Reader]
    _all: list[Mapping[str, tuple[FacetValue, ...]]] = field(default_factory=list)
    _counts: list[FacetCounts] = field(default_factory=list)

    def search(self, query: SearchQuery, values: Mapping[str, float] = {}) -> SearchPage:
        check_query(query)
        words = read_words(query.text)
        if not words.words and (query.text.strip() or not query.order):
            return self._list(query)
        found = self.listing
        if words.words:
            found = self._ranked(words, self.readers[0].find(telling_words(words)))
        if query.order:
            found = sorted(found, key=lambda slot: (-values.get(self.names[slot], 0.0), self.names[slot]))
        return self._page(query, found)

    def explain(self, text: str, names: Sequence[str]) -> Explanation:
        check_query(SearchQuery(text))
        words = read_words(text)
        if not words.words:
            return Explanation()
        slots = {slot + 1: name for name in names if (slot := self._slot(name)) is not None}
        found, unknown = self.readers[0].explain(telling_words(words), slots)
        marked = {piece.lower() for one in found.values() for column in one for piece, is_hit in column if is_hit}
        corrections = {word: near[0] for word in unknown if (near := get_close_matches(word, marked, 1, _REPLACED))}
        return Explanation(
            {slots[row]: dict(zip(_COLUMNS, columns, strict=True)) for row, columns in found.items()}, corrections
        )

    def suggest(self, text: str) -> Sequence[str]:
        check_query(SearchQuery(text))
        words = telling_words(read_words(text))
        similar: dict[str, None] = {}
        for word in words.words[:_CORRECTED]:
            for term in self.readers[0].similar(word):
                first = self.search(SearchQuery(term, limit=1, counted=False)).names  # the index may hold others' words
                pieces = chain(*chain(*(one.values() for one in self.explain(term, first).matches.values())))
                marked = [piece.lower() for piece, is_hit in pieces if is_hit]
                for near in get_close_matches(word, marked, 1, _SIMILAR):
                    similar[" ".join(near if one == word else one for one in words.words)] = None
        names = [self.names[slot] for slot in self.listing[:_COMPARED]]
        similar |= dict.fromkeys(get_close_matches(words.name, names, _MOST, _SIMILAR))
        return [one for one in similar if one != text.strip().lower()][:_MOST]

    def _slot(self, name: str) -> int | None:
        place = bisect_left(self.listing, name, key=self.names.__getitem__)
        found = self.listing[place] if place < len(self.listing) else None
        return found if found is not None and self.names[found] == name else None

    def rank(self, text: str) -> Sequence[str]:
        check_query(SearchQuery(text))
        words = read_words(text)
        found = self.readers[0].find(telling_words(words)) if words.words else []
        return [self.names[slot] for slot in self._ranked(words, found)]

    def search_briefly(self, query: SearchQuery) -> SearchPage | None:
        check_query(query)
        words = read_words(query.text)
        if query.order:
            return None
        if not words.words:
            # Listing looks at the skills of one page alone; at all of 10,000, it would be felt.
            is_brief = not query.facets and (bool(self._all) or not query.counted)
            return self._list(query) if is_brief else None
        found = self.readers[1].find_briefly(telling_words(words), _BRIEF_SECONDS)
        return None if found is None else self._page(query, self._ranked(words, found))

    def _list(self, query: SearchQuery) -> SearchPage:
        """Return a part of all skills, or, for a text without a word, of none."""
        slots = [] if query.text.strip() else self._narrow(query, self.listing)
        mark = mark_search(query, ("by name",))
        start = 0
        if query.after is not None:
            start = bisect_right(slots, read_cursor(query.after, mark), key=self.names.__getitem__)
        return self._cut(query, slots, start, mark)

    def _page(self, query: SearchQuery, ranked: Sequence[int]) -> SearchPage:
        slots = self._narrow(query, ranked)
        mark = mark_search(query, (process_token(), str(self.revision), query.text, query.order))
        start = 0
        if query.after is not None:
            last = read_cursor(query.after, mark)
            start = next((place for place, slot in enumerate(slots, 1) if self.names[slot] == last), 0)
            if not start:
                raise UsageError("CURSOR", "the skill to go on behind is not among the hits")
        return self._cut(query, slots, start, mark)

    def _ranked(self, words: Words, found: Sequence[int]) -> list[int]:
        """Return the slots of the rows ``found`` that this revision has: what is called exactly so, then the best."""
        if found and max(found) >= len(self.has_row):  # of a later revision
            found = [row for row in found if row < len(self.has_row)]
        slots = [row - 1 for row in compress(found, map(self.has_row.__getitem__, found))]
        called = self._slot(words.name)
        if called is not None and called in slots:
            slots.remove(called)
            slots.insert(0, called)
        return slots

    def _narrow(self, query: SearchQuery, slots: Sequence[int]) -> Sequence[int]:
        """Return those that have one of the chosen values of each facet; no skill has an unknown facet."""
        profiles = cast("Sequence[Profile]", self.profiles)  # a slot of this revision has one
        for facet, values in query.facets.items():
            if facet not in FACETS:
                return []
            place = FACETS.index(facet)
            narrowed = self.facet_counts().narrow(facet, values, slots) if len(slots) > _FEW else None
            if narrowed is None:
                narrowed = [slot for slot in slots if not values.isdisjoint(profiles[slot][place])]
            slots = narrowed
        return slots

    def _cut(self, query: SearchQuery, slots: Sequence[int], start: int, mark: bytes) -> SearchPage:
        names = tuple(self.names[slot] for slot in slots[start : start + query.limit])
        more = start + query.limit < len(slots)
        following = make_cursor(names[-1], mark) if more else None
        return SearchPage(names, len(slots), self._count(slots) if query.counted else {}, following)

    def _count(self, slots: Sequence[int]) -> Mapping[str, tuple[FacetValue, ...]]:
        is_everything = slots is self.listing
        if is_everything and self._all:  # each visit of the page asks for it
            return self._all[0]
        if len(slots) > _FEW:
            counted = self.facet_counts().of(slots)
        else:
            counted = count_facets([profile for slot in slots if (profile := self.profiles[slot])])
        if is_everything:
            self._all.append(counted)
        return counted

    def follow_counts(self, before: RevisionSearch, slots: Iterable[int]) -> None:
        """Count facets from the start if the revision ``before`` did; the ``slots`` are those that differ."""
        self._counts.extend(one.followed_by(self.profiles, slots) for one in before._counts)

    def facet_counts(self) -> FacetCounts:
        """Return the counts of this revision's facets, made on first use: 0.1 s for 50,000 skills."""
        if not self._counts:
            self._counts.append(FacetCounts(self.profiles))
        return self._counts[0]


_SCHEMA: Final = """
CREATE VIRTUAL TABLE skills USING fts5(
  name, tags, description, files, tokenize = "porter unicode61 remove_diacritics 2", prefix = '2 3'
);
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(skills, row);
INSERT INTO skills(skills, rank) VALUES ('rank', 'bm25(1.0, 1.0, 1.0, 0.5)');
INSERT INTO skills(skills, rank) VALUES ('hashsize', 67108864);  -- bytes between two merges: 50,000 skills need none
"""
_INSERT: Final = "INSERT INTO skills(rowid, name, tags, description, files) VALUES (?, ?, ?, ?, ?)"
_CACHE: Final = "PRAGMA cache_size = -256"  # KiB; the system holds the file, and more made no search quicker


class SearchIndex:
    """Fills :class:`~skillwire.ports.SkillIndex` in ``directory``, which is made when it is missing.

    Raises StorageError; an index that has raised it cannot be used any more.
    """

    def __init__(self, directory: Path) -> None:
        with _errors(directory):
            self._open(directory)
        self._directory = directory
        self._names: list[str] = []  # by slot; empty where none is
        self._profiles: list[Profile | None] = []
        self._has_row = bytearray(1)
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._dead: list[tuple[int, int]] = []  # the first revision without it, the slot
        self._revision = 0
        self._searches: WeakSet[RevisionSearch] = WeakSet()
        self._last: RevisionSearch | None = None

    def _open(self, directory: Path) -> None:
        make_folder(directory, mode=0o700)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".search-") as folder:
            path = Path(folder, "index")
            self._writer = _connect(path)
            finalize(self, self._writer.close)
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._writer.execute("PRAGMA synchronous = OFF")
            self._writer.executescript(_SCHEMA)
            self._patient = Reader(_connect(path))
            self._brief = Reader(_connect(path))

    def update(self, skills: Mapping[str, Skill], changed: Collection[str], removed: Collection[str]) -> RevisionSearch:
        with _errors(self._directory):
            return self._update(skills, changed, removed)

    def _update(
        self, skills: Mapping[str, Skill], changed: Collection[str], removed: Collection[str]
    ) -> RevisionSearch:
        self._revision += 1
        with self._writer:
            self._writer.execute("BEGIN")
            oldest = min((search.revision for search in self._searches), default=self._revision)
            gone = [slot for since, slot in self._dead if since <= oldest]
            self._dead = [(since, slot) for since, slot in self._dead if since > oldest]
            self._writer.executemany("DELETE FROM skills WHERE rowid = ?", ((slot + 1,) for slot in gone))
            self._free.extend(gone)
            without = [slot for name in (*removed, *changed) if (slot := self._slots.pop(name, None)) is not None]
            for slot in without:
                self._names[slot], self._profiles[slot], self._has_row[slot + 1] = "", None, 0
                self._dead.append((self._revision, slot))
            self._writer.executemany(_INSERT, self._rows(skills, changed))
        if len(changed) > len(skills) // 2:
            self._writer.execute("INSERT INTO skills(skills) VALUES ('optimize')")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._writer.execute("PRAGMA shrink_memory")
        search = RevisionSearch(
            self._revision,
            tuple(self._names),
            tuple(self._profiles),
            bytes(self._has_row),
            tuple(map(self._slots.__getitem__, skills)),
            (self._patient, self._brief),
        )
        if self._last is not None:
            search.follow_counts(self._last, [*without, *map(self._slots.__getitem__, changed)])
        self._searches.add(search)
        self._last = search
        return search

    def _rows(self, skills: Mapping[str, Skill], changed: Collection[str]) -> Iterator[tuple[int, str, str, str, str]]:
        known: dict[Profile, Profile] = {}  # equal ones are kept once, and their values, which are then counted faster
        for name in changed:
            skill = summarize(skills, name)
            profile = Profile(*(tuple(map(intern, one)) for one in profile_of(skill)))
            if not self._free:
                self._free.append(len(self._names))
                self._names.append("")
                self._profiles.append(None)
                self._has_row.append(0)
            slot = self._slots[name] = self._free.pop()
            self._names[slot], self._has_row[slot + 1] = name, 1
            self._profiles[slot] = known.setdefault(profile, profile)
            files = " ".join(file.path for file in skill.files if file.path != SKILL_MD)
            yield slot + 1, skill.name, tag_text(skill), skill.description, files[: limits.SEARCH_FILES_LENGTH]


@contextmanager
def _errors(directory: Path) -> Iterator[None]:
    try:
        with storage_errors(directory):
            yield
    except sqlite3.DatabaseError as error:
        raise StorageError("STORAGE", f"the search index: {error}", place=SourceLocation(str(directory))) from error


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute(_CACHE)
    return connection
