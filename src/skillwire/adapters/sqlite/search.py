"""The search index of a server: full text in SQLite, facets in tables of Python's.

A :class:`SearchIndex` is a private database, unlinked as soon as it is open: it vanishes with the process, however
that ends, and is made again at the next start. Each version of a skill has a row of the full-text table, found by
its *slot*. A :class:`RevisionSearch` knows which slots its revision has, so one table serves several revisions:
a change adds rows for what changed and leaves the rest alone, and the rows that it replaces are removed when no
revision needs them any more. One thread changes the index while any number of others search it.
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakSet, finalize

from skillwire import limits
from skillwire.adapters.files.directories import make_folder
from skillwire.adapters.sqlite.reader import Reader
from skillwire.adapters.sqlite.revision_search import RevisionSearch
from skillwire.registry.facets import profile_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from skillwire.model.skill import Skill
    from skillwire.registry.facets import Profile

_SCHEMA: Final = """
CREATE VIRTUAL TABLE skills USING fts5(
  name, tags, description, files, tokenize = "porter unicode61 remove_diacritics 2", prefix = '2 3'
);
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(skills, row);
INSERT INTO skills(skills, rank) VALUES ('rank', 'bm25(1.0, 1.0, 1.0, 0.5)');
"""
_INSERT: Final = "INSERT INTO skills(rowid, name, tags, description, files) VALUES (?, ?, ?, ?, ?)"
_CACHE: Final = "PRAGMA cache_size = -256"  # KiB; the system holds the file, and more made no search quicker


class SearchIndex:
    """A full-text index in ``directory``, which is made when it is missing."""

    def __init__(self, directory: Path) -> None:
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
        self._names: list[str] = []  # by slot; empty where none is
        self._profiles: list[Profile | None] = []
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._dead: list[tuple[int, int]] = []  # the first revision without it, the slot
        self._revision = 0
        self._searches: WeakSet[RevisionSearch] = WeakSet()

    def update(self, skills: Mapping[str, Skill], changed: Collection[str], removed: Collection[str]) -> RevisionSearch:
        """Return a search over ``skills``, given what differs from those of the call before.

        Args:
            skills: all of them, by name, sorted.
            changed: names of those that are new or changed.
            removed: names of those that are gone.
        """
        self._revision += 1
        with self._writer:
            self._writer.execute("BEGIN")
            self._remove_dead()
            for name in (*removed, *changed):
                self._bury(name)
            self._writer.executemany(_INSERT, self._rows(skills, changed))
        if len(changed) > len(skills) // 2:
            self._writer.execute("INSERT INTO skills(skills) VALUES ('optimize')")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._writer.execute("PRAGMA shrink_memory")
        search = RevisionSearch(
            self._revision,
            tuple(self._names),
            tuple(self._profiles),
            tuple(self._slots[name] for name in skills),
            (self._patient, self._brief),
        )
        self._searches.add(search)
        return search

    def _remove_dead(self) -> None:
        """Remove the rows that no revision needs any more."""
        oldest = min((search.revision for search in self._searches), default=self._revision)
        gone = [slot for since, slot in self._dead if since <= oldest]
        self._dead = [(since, slot) for since, slot in self._dead if since > oldest]
        self._writer.executemany("DELETE FROM skills WHERE rowid = ?", ((slot + 1,) for slot in gone))
        self._free.extend(gone)

    def _bury(self, name: str) -> None:
        slot = self._slots.pop(name, None)
        if slot is not None:
            self._names[slot], self._profiles[slot] = "", None
            self._dead.append((self._revision, slot))

    def _rows(self, skills: Mapping[str, Skill], changed: Collection[str]) -> Iterator[tuple[int, str, str, str, str]]:
        known = {profile: profile for profile in self._profiles}  # equal ones are kept once
        for name in changed:
            skill = skills[name]
            profile = profile_of(skill)
            slot = self._take_slot()
            self._slots[name] = slot
            self._names[slot] = name
            self._profiles[slot] = known.setdefault(profile, profile)
            yield (slot + 1, *_texts(skill))

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._names.append("")
        self._profiles.append(None)
        return len(self._names) - 1


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute(_CACHE)
    return connection


def _texts(skill: Skill) -> tuple[str, str, str, str]:
    metadata = skill.metadata or {}
    told = [value for key, value in metadata.items() if key != "version"]
    tags = " ".join((*told, *skill.capabilities, *skill.scenes))
    files = " ".join(file.path for file in skill.files if file.path != "SKILL.md")
    return skill.name, tags, skill.description, files[: limits.SEARCH_FILES_LENGTH]
