"""The packages of a registry as a server publishes them, by number.

A package changes seldom, and there may be 50,000 of them. So what has changed since a server last chose from them is
known, and so are the packages that share an identifier with those: nothing else is looked at.

Of the skills of a site, one has a name, or an identifier in another protocol. So a change of one package concerns those
that share one with it, and those that share one with these: mostly none of 50,000.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillwire.errors import NotFoundError, StorageError
from skillwire.folder.load import IdentifiedSkill
from skillwire.folder.publish import packed_files
from skillwire.model.access import ANONYMOUS, Access
from skillwire.model.catalog import pack_skill, read_summary, unpack_skill
from skillwire.model.digest import Digest
from skillwire.model.package import ChangeCursor, ChangedPackages, state_in_index
from skillwire.model.skill import Identifiers
from skillwire.trust.archive import read_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

    from skillwire.adapters.files.blobs import FileBlobs
    from skillwire.model.catalog import SkillSummary
    from skillwire.model.package import ChangedPackage
    from skillwire.model.skill import Skill
    from skillwire.ports import BlobStore
    from skillwire.registry.packages import Registry

_PACKAGES_AT_ONCE: Final = 1_000
#: Stands before the number of a package where a folder has its path.
_PATH: Final = "~package "
#: The number of all folders among those of packages, which begin with 1.
_FOLDERS: Final = 0
#: When more have changed, all are chosen from anew.
_MANY: Final = 1_000
#: Of the hash of an identifier.
_BITS: Final = 32
_MASK: Final = (1 << _BITS) - 1


def hash_identifiers(skill: IdentifiedSkill) -> set[int]:
    """Return the hashes of a skill's name and of its other identifiers."""
    return {hash_name(skill.name), *(_hash(place, one) for place, one in enumerate(skill.identifiers[:3], 1))}


def hash_name(name: str) -> int:
    """Return the hash of a skill's name."""
    return _hash(0, name)


def _hash(place: int, identifier: str) -> int:
    return hash((place, identifier)) & _MASK


class IdentifierIndex:
    """The numbers of packages by the hashes of their identifiers, in 32 bytes for each package.

    An entry is 32 bits of the hash of an identifier and the number of the package that has it; the entries are sorted.
    Two identifiers with one hash make packages related that are not, which are then compared in vain.
    """

    def __init__(self, skills: Iterable[tuple[int, IdentifiedSkill]] = ()) -> None:
        entries = sorted(one << _BITS | number for number, skill in skills for one in hash_identifiers(skill))
        self._entries = array("Q", entries)

    def add(self, number: int, hashes: Iterable[int]) -> None:
        """Add the hashes of a package."""
        for one in hashes:
            insort(self._entries, one << _BITS | number)

    def remove(self, number: int, hashes: Iterable[int]) -> None:
        """Remove the hashes of a package, which it has."""
        for one in hashes:
            del self._entries[bisect_left(self._entries, one << _BITS | number)]

    def related(self, hashes: set[int], hashes_of: Callable[[int], set[int]]) -> set[int]:
        """Return the numbers with one of the hashes, and with one of the hashes of these, and so on."""
        found, waiting, seen = set[int](), set(hashes), set(hashes)
        while waiting:
            for number in self._with(waiting.pop()):
                if number not in found:
                    found.add(number)
                    more = hashes_of(number) - seen
                    seen |= more
                    waiting |= more
        return found

    def _with(self, one: int) -> Iterator[int]:
        place = bisect_left(self._entries, one << _BITS)
        while place < len(self._entries) and self._entries[place] >> _BITS == one:
            yield self._entries[place] & _MASK
            place += 1


class PackageFeed:
    """The packages of a registry, as the thread that follows folders reads them; ``wait`` runs a coroutine to its end.

    ``cursor`` is how far it has read. The bytes that are served are derived: an artifact in the package store has them
    all. So those of a package are written when they are read for the first time; a worker, which is another process,
    reads those of an action, which are written before it is published here.
    """

    def __init__(self, registry: Registry, blobs: BlobStore, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._registry = registry
        self._store = registry.store
        self._blobs = blobs
        self._wait = wait
        self.cursor = ChangeCursor()
        #: What names a successor, as it was read, and names of that one without the namespace, which may change.
        self._succeeded: dict[int, tuple[ChangedPackage, set[str]]] = {}

    def changes(self) -> ChangedPackages:
        """Return each package that changed since the last call. Raises StorageError."""
        changed: ChangedPackages = self._wait(self._changes())
        self.cursor = changed.cursor
        return changed

    async def has_changes(self) -> bool:
        """Whether the next call of :meth:`changes` returns anything. Raises StorageError."""
        page = await self._store.changed(self.cursor, 1)
        return page.is_anew or bool(page.packages)

    async def _changes(self) -> ChangedPackages:
        found: dict[int, ChangedPackage] = {}
        cursor, is_anew, is_last = self.cursor, False, False
        while not is_last:
            page = await self._store.changed(cursor, _PACKAGES_AT_ONCE)
            is_last = len(page.packages) < _PACKAGES_AT_ONCE
            if page.is_anew:
                is_anew = True
                found.clear()
            found |= {one.number: one for one in page.packages}
            cursor = page.cursor
        if is_anew:
            self._succeeded.clear()
        changed = {one.package.name.name for one in found.values()}
        again = [one for one, names in self._succeeded.values() if not names.isdisjoint(changed)]
        found = {one.number: one for one in again} | found
        return ChangedPackages(cursor, tuple([await self._as_listed(one) for one in found.values()]), is_anew)

    async def _as_listed(self, one: ChangedPackage) -> ChangedPackage:
        """Return a package with its state in the skill, without a successor that not every caller may know of."""
        packed, access, state = one.served, one.package.access, state_in_index(one.package.state, one.state)
        if packed is None or not state or not state[2]:
            self._succeeded.pop(one.number, None)
        else:
            successor = await self._registry.successor(ANONYMOUS, state[2])
            names = {state[2].partition("/")[2], *([successor.name.name] if successor else [])}
            self._succeeded[one.number] = one, names
            state = state if successor else (*state[:2], "")
        if packed is not None and (state or read_summary(packed).access != access):
            packed = pack_skill(unpack_skill(packed)._replace(access=access, state=state))
        return one if packed is one.served else one._replace(served=packed)

    def write_blobs(self, skills: Iterable[Skill]) -> None:
        """Put the files and the artifact of each skill into the blob store. Raises NotFoundError, StorageError."""
        self._wait(self._write_blobs(skills))

    def make_blob(self, digest: Digest, artifact: Digest) -> bytes | None:
        """Return a file of an artifact, or the artifact itself, and store it where a disk takes it; None without it."""
        content: bytes | None = self._wait(self._store.artifact(artifact))
        if content is not None and artifact != digest:
            files = (bytes(file.content) for file in read_archive(content).files)
            content = next((one for one in files if Digest.of(one) == digest), None)
        if content is not None:
            with suppress(StorageError):
                self._blobs.put(content)
        return content

    async def _write_blobs(self, skills: Iterable[Skill]) -> None:
        for skill in skills:
            content = await self._store.artifact(skill.artifact.digest)
            if content is None:
                raise NotFoundError("FILE_NOT_FOUND", f"the artifact of {skill.publisher}/{skill.name} is lost")
            for one in (*packed_files(skill, content), content):
                self._blobs.put(one)


class PublishedPackage(NamedTuple):
    """The skill of a package that is served, packed, and whether the package owns its name at the root."""

    packed: bytes
    name: str
    access: Access
    owns_name: bool

    @property
    def namespaced(self) -> str:
        """Its name with the namespace."""
        return f"{read_summary(self.packed).publisher}/{self.name}"

    def identified(self, number: int) -> IdentifiedSkill:
        """Return what it is compared by."""
        identifiers = Identifiers(*(read_summary(self.packed).identifiers or ()))  # those of the registry have them
        return IdentifiedSkill(f"{_PATH}{number}", self.name, identifiers)


class PublishedPackages:
    """The packages that are served, and those that changed since :meth:`settle`; none without a ``feed``."""

    def __init__(self, feed: PackageFeed | None, blobs: FileBlobs) -> None:
        self._feed = feed
        self._blobs = blobs
        self._served: dict[int, PublishedPackage] = {}
        self._owned: dict[int, str] = {}  # names of packages that own them and are not served, by number
        self._before: dict[int, PublishedPackage | None] = {}  # those that changed, as they were
        self._names: set[str] = set()  # of those
        self._is_anew = feed is not None  # all have to be chosen from
        self._unwritten: set[int] = set()  # actions whose bytes are not in the blob store
        self.unwritten: StorageError | None = None  # why they cannot be written
        self._index = IdentifierIndex()

    def __bool__(self) -> bool:
        return bool(self._served)

    def get(self, number: int) -> PublishedPackage:
        """Return the package with this number."""
        return self._served[number]

    @property
    def has_changed(self) -> bool:
        """Whether anything has changed since :meth:`settle`."""
        return self._is_anew or bool(self._before)

    def follow(self) -> None:
        """Take what changed in the registry, and write the bytes of actions that are not in the blob store."""
        if self._feed is None:
            return
        changed = self._feed.changes()
        if changed.is_anew:
            self._is_anew = True
            self._served.clear()
            self._owned.clear()
            self._unwritten.clear()
        for one in changed.packages:
            self._take(one)
        try:
            self._feed.write_blobs(unpack_skill(self._served[number].packed) for number in self._unwritten)
        except StorageError as error:  # what was hidden must not wait for a disk
            self.unwritten = error
        else:
            self._unwritten.clear()
            self.unwritten = None

    def _take(self, changed: ChangedPackage) -> None:
        number, name, packed = changed.number, changed.package.name.name, changed.served
        before, owned = self._served.pop(number, None), self._owned.pop(number, None)
        self._unwritten.discard(number)
        if packed is not None:
            summary = read_summary(packed)
            packed = before.packed if before and before.packed == packed else packed
            self._served[number] = PublishedPackage(packed, summary.name, Access(summary.access), changed.owns_name)
            if not self._has_blobs(summary):
                self._unwritten.add(number)
        elif changed.owns_name:
            self._owned[number] = name
        if not self._is_anew and (self._served.get(number), self._owned.get(number)) != (before, owned):
            self._before.setdefault(number, before)
            self._names.add(name)

    def check_blobs(self) -> None:
        """Have the bytes of actions that are no longer in the blob store written by the next :meth:`follow`."""
        for number, package in self._served.items():
            if not self._has_blobs(read_summary(package.packed)):
                self._unwritten.add(number)

    def _has_blobs(self, summary: SkillSummary) -> bool:
        """Whether the bytes of a package are there, or are made when they are read."""
        return summary.kind != "action" or all(self._blobs.has(digest, size) for digest, size in summary.blobs())

    def blobs(self) -> Iterator[Digest]:
        """Yield the digests of all bytes that are needed to serve the packages."""
        for package in self._served.values():
            yield from (digest for digest, _ in read_summary(package.packed).blobs())

    def make_blob(self, digest: Digest) -> bytes | None:
        """Return bytes that a package is served with, and put them into the blob store; None for other bytes."""
        if self._feed is None:
            return None
        content = self._feed.make_blob(digest, digest)
        if content is None:  # a file in an artifact
            raw, served = bytes.fromhex(digest.hex), list(self._served.values())  # another thread changes them
            packed = next((one.packed for one in served if raw in one.packed), None)  # 20 ms for 50,000, once a file
            content = self._feed.make_blob(digest, read_summary(packed).artifact.digest) if packed else None
        return content

    def find_affected(self) -> set[int] | None:
        """Return the numbers of those that changed, and of all that share an identifier with them; None for all."""
        is_whole, self._is_anew = self._is_anew or len(self._before) > _MANY, True  # until they are chosen from
        if is_whole:
            return None
        hashes = set(map(hash_name, self._names))
        for number, old in self._before.items():
            if old is not None:
                hashes |= (own := hash_identifiers(old.identified(number)))
                self._index.remove(number, own)
            if number in self._served:
                hashes |= (own := self._hashes(number))
                self._index.add(number, own)
        found = self._index.related(hashes, self._hashes) | self._before.keys()
        return None if _FOLDERS in found else found

    def _hashes(self, number: int) -> set[int]:
        return set() if number == _FOLDERS else hash_identifiers(self._served[number].identified(number))

    def in_order(self, numbers: set[int] | None) -> list[int]:
        """Return the numbers of those that are served, of all by default, in the order in which they get names."""

        def order(number: int) -> tuple[bool, bool, int]:
            package = self._served[number]
            is_behind = package.access is Access.PRIVATE and not package.owns_name
            return is_behind, not package.owns_name, number

        return sorted(self._served.keys() if numbers is None else self._served.keys() & numbers, key=order)

    def owned_names(self) -> set[str]:
        """Return the names that packages own which are not served."""
        return set(self._owned.values())

    def as_chosen(self, numbers: Iterable[int]) -> Iterator[PublishedPackage]:
        """Yield these packages as they were at the last :meth:`settle`, without those that were not served then."""
        for number in numbers:
            package = self._before[number] if number in self._before else self._served.get(number)
            if package is not None:
                yield package

    def settle(self, identified: Iterable[IdentifiedSkill] | None) -> None:
        """Forget what has changed. ``identified`` are all packages and folders where all were chosen from."""
        self._before.clear()
        self._names.clear()
        self._is_anew = False
        if identified is not None:
            self._index = IdentifierIndex((number_in(one.path) or _FOLDERS, one) for one in identified)


def number_in(path: str) -> int | None:
    """Return the number of a package that stands for a path; None for the path of a folder."""
    return int(path.removeprefix(_PATH)) if path.startswith(_PATH) else None
