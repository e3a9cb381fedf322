"""The skills in folders, kept up to date: what can be published of them now, and what is wrong with the rest.

A folder that becomes invalid keeps its last good version, with the narrower of that version's access and the access
that the folder states now; an unreadable access counts as private. Of two skills with one name, the published one
stays; between two new ones, the order of the folders decides.

A folder that cannot be read is not empty: its skills stay as they were, and :attr:`PublishedFolders.unreadable` has the
reason. The same holds for a root that is missing, and for one that is suddenly another folder without any skill, as the
mount point of a volume is once the volume is gone.

The packages of a registry are published beside the folders: what a folder publishes goes before them, and of two
packages with one name, the one that owns it, whether or not it is still served. The other ones are namespaced: lists of
packages have them as ``namespace/name``, with the skillId ``namespace.name``. A private package owns no name and goes
behind all others, so that it neither hides one of another namespace nor is revealed by its absence; its members have it
by a name that nothing owns, since the Skills Protocol and MCP know no namespaces.

Skills are held in packed form: 10,000 of them take 7 MB, and 37 MB as values.
"""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from skillwire.adapters.files.loading import (
    BuildRecord,
    FolderRecord,
    LoadJob,
    LoadResult,
    blob_writer,
    load_folders,
    sign_folder,
)
from skillwire.errors import NotFoundError
from skillwire.folder.files import find_folder_names, is_machine_error
from skillwire.folder.load import IdentifiedSkill, find_collisions
from skillwire.folder.publish import InvalidFolder, packed_files
from skillwire.model.access import ANONYMOUS, Access, narrowest_access
from skillwire.model.catalog import Catalog
from skillwire.model.digest import Digest
from skillwire.model.package import ChangeCursor, ChangedPackages, state_in_index
from skillwire.model.packed_skills import PackedSkills, pack_skill, read_summary, unpack_skill
from skillwire.model.skill import Identifiers
from skillwire.trust.archive import read_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence

    from skillwire.adapters.files.blobs import FileBlobs
    from skillwire.folder.publish import PreparedSkill
    from skillwire.model.package import ChangedPackage
    from skillwire.model.skill import Finding, Skill
    from skillwire.ports import BlobStore, PackageStore

#: Stands where the path of a folder would, before the name of a skill that has none; sorted before all paths.
_IN_NO_FOLDER: Final = "(no folder) "
#: Stands there before the number of a package; sorted after all paths.
_PACKAGE: Final = "~package "
_PACKAGES_AT_ONCE: Final = 1_000


class PackageFeed:
    """The packages of a registry, as the thread that follows folders reads them; ``wait`` runs a coroutine to its end.

    ``cursor`` is how far it has read. The bytes that are served are derived: an artifact in the package store has them
    all. So those of a package are written when they are read for the first time; a worker, which is another process,
    reads those of an action, which are written before it is published here.
    """

    def __init__(self, store: PackageStore, blobs: BlobStore, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._store = store
        self._blobs = blobs
        self._wait = wait
        self.cursor = ChangeCursor()

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
            for one in page.packages:
                packed, access = one.served, one.package.access
                state = state_in_index(one.package.state, one.state)
                if packed is not None and (state or read_summary(packed).access != access):
                    packed = pack_skill(unpack_skill(packed)._replace(access=access, state=state))
                found[one.number] = one._replace(served=packed)
            cursor = page.cursor
        return ChangedPackages(cursor, tuple(found.values()), is_anew)

    def write_blobs(self, skills: Iterable[Skill]) -> None:
        """Put the files and the artifact of each skill into the blob store. Raises NotFoundError, StorageError."""
        self._wait(self._write_blobs(skills))

    def make_blob(self, digest: Digest, artifact: Digest) -> bytes | None:
        """Return a file of an artifact, or the artifact itself, and put it into the blob store; None without it."""
        content: bytes | None = self._wait(self._store.artifact(artifact))
        if content is not None and artifact != digest:
            files = (bytes(file.content) for file in read_archive(content).files)
            content = next((one for one in files if Digest.of(one) == digest), None)
        if content is not None:
            self._blobs.put(content)
        return content

    async def _write_blobs(self, skills: Iterable[Skill]) -> None:
        for skill in skills:
            content = await self._store.artifact(skill.artifact.digest)
            if content is None:
                raise NotFoundError("FILE_NOT_FOUND", f"the artifact of {skill.publisher}/{skill.name} is lost")
            for one in (*packed_files(skill, content), content):
                self._blobs.put(one)


class _State(NamedTuple):
    """A folder's signature, its last good skill (packed) with name and access, the errors since, and the access now."""

    signature: str
    packed: bytes | None
    name: str = ""
    access: Access = Access.PUBLIC
    errors: tuple[Finding, ...] = ()
    now: Access = Access.PUBLIC
    owns_name: bool = False


class PublishedFolders:
    """The skills below ``roots`` (absolute paths), and unchanging ``prepared`` ones; ``blobs`` hold their bytes."""

    def __init__(
        self,
        roots: Sequence[str],
        publisher: str,
        blobs: FileBlobs,
        prepared: Iterable[PreparedSkill] = (),
        packages: PackageFeed | None = None,
    ) -> None:
        self.roots = roots
        self.packages = packages
        #: Folders that could not be read by the last :meth:`refresh`, with the reason.
        self.unreadable: dict[str, str] = {}
        self._identities: dict[str, tuple[int, int]] = {}  # of the roots, when skills were last found there
        self._blobs = blobs
        self._prepared = {_IN_NO_FOLDER + one.skill.name: one for one in prepared}
        self._job = LoadJob(publisher, "blobs", (str(blobs.directory),))
        self._record = BuildRecord(blobs.directory, publisher, *roots)
        self._states: dict[str, _State] = {}
        self._changed = False  # something was taken that is not yet chosen from
        self._chosen: Collection[str] = ()  # the folders whose skills are published
        self._collisions: dict[str, Finding] = {}  # by folder
        self._published: dict[str, bytes] = {}  # packed, by name
        self._owned: dict[int, str] = {}  # names of packages that own them and are not served, by number
        self._namespaced: dict[str, bytes] = {}  # packed, by ``namespace/name``
        self._known: list[str] = []  # names that everyone may know
        self._public: list[str] = []  # names of those that everyone may use

    def restore(self) -> None:
        """Load the record of an earlier run, so that folders unchanged since then are not read."""
        for folder, record in self._record.read().items():
            if self._has_blobs(record.packed):
                self._states[folder] = self._good(record.signature, record.packed)

    def refresh(self, touched: Collection[str] | None = None) -> bool:
        """Load what changed below ``touched`` (absolute paths; None for all folders); return whether anything did.

        Raises StorageError (``STORAGE``, ``WORKER_LOST``).
        """
        self.unreadable, found, kept = {}, set[str](), set[str]()
        for root in self.roots:
            found |= self._search(root, kept)
        found -= kept
        gone = self._states.keys() - found - kept - self._prepared.keys()
        gone = {folder for folder in gone if not folder.startswith(_PACKAGE)}
        for folder in gone:
            del self._states[folder]
        looked_at = found
        if touched is not None:
            near = {folder for path in touched for folder in (path, *map(str, Path(path).parents))}
            looked_at = (found - self._states.keys()) | (near & self._states.keys() & found)
        stale = [folder for folder in sorted(looked_at) if self._is_stale(folder)]
        self._changed |= bool(gone)
        for loaded in chain(self._load_prepared(), load_folders(self._job, stale)):
            before = self._states.get(loaded.folder)
            if loaded.packed is None:
                after = self._broken(loaded, before or _State("", None))
            elif before and before.packed == loaded.packed:
                after = before._replace(signature=loaded.signature, errors=(), now=before.access)
            else:
                after = self._good(loaded.signature, loaded.packed)
            self._states[loaded.folder] = after
            # Set for each folder: should the next one raise, this one is not forgotten.
            self._changed |= before is None or after._replace(signature=before.signature) != before
        self._follow_packages()
        changed = self._changed
        if changed or not self._chosen:  # or this is the first time, and all is as an earlier run recorded it
            self._choose()
        self._changed = False
        return changed

    def _search(self, root: str, kept: set[str]) -> set[str]:
        """Return the skill folders below ``root``; add to ``kept`` those that are known where nothing can be read."""
        failed: dict[str, OSError] = {}
        before = _identity(root)
        found = set(find_folder_names(root, failed))
        identity = _identity(root)
        reasons = {folder: error.strerror or str(error) for folder, error in failed.items()}
        if identity != before:
            reasons.setdefault(root, "the folder is being replaced")
        elif identity is not None and not found and identity != self._identities.get(root, identity):
            reasons[root] = "another folder without any skill is in its place"
        known: dict[str, set[str]] = {folder: set() for folder in reasons}
        for one in self._states if reasons else ():
            for folder in known.keys() & {one, *map(str, Path(one).parents)}:
                known[folder].add(one)
        for folder, reason in reasons.items():
            # What is closed below a root matters where a skill was known; what is gone there, nowhere.
            is_gone = isinstance(failed.get(folder), FileNotFoundError | NotADirectoryError)
            if folder == root or is_machine_error(failed.get(folder)) or (known[folder] and not is_gone):
                self.unreadable[folder] = reason
                kept |= known[folder]
        if found and identity is not None:
            self._identities[root] = identity
        return found

    def check_blobs(self) -> None:
        """Have folders whose bytes are no longer in the store loaded by the next :meth:`refresh`."""
        for folder, state in self._states.items():
            if state.packed is not None and not self._has_blobs(state.packed, is_package=folder.startswith(_PACKAGE)):
                self._states[folder] = state._replace(signature="")

    def make_blob(self, digest: Digest) -> bytes | None:
        """Return bytes that a package is served with, and put them into the blob store; None for other bytes."""
        if self.packages is None:
            return None
        raw, states = bytes.fromhex(digest.hex), list(self._states.items())  # other threads change them
        of_packages = (state.packed for key, state in states if state.packed and key.startswith(_PACKAGE))
        packed = next((one for one in of_packages if raw in one), None)  # 20 ms for 50,000 packages, once for each file
        return self.packages.make_blob(digest, read_summary(packed).artifact.digest if packed else digest)

    def all_skills(self) -> PackedSkills:
        """Return every skill that is published, by name, sorted."""
        return PackedSkills(self._published)

    def known_skills(self) -> PackedSkills:
        """Return the skills that everyone may know of."""
        return self._of(self._known)

    def public_skills(self) -> PackedSkills:
        """Return the skills that everyone may use."""
        return self._of(self._public)

    def namespaced_skills(self) -> PackedSkills:
        """Return the packages that are not published by their name alone, by ``namespace/name``, sorted."""
        return PackedSkills(self._namespaced)

    def _of(self, names: Sequence[str]) -> PackedSkills:
        is_all = len(names) == len(self._published)  # one table takes half the memory of two
        return PackedSkills(self._published if is_all else {name: self._published[name] for name in names})

    def broken(self) -> Iterator[InvalidFolder]:
        """Yield the folders that cannot be published as they are."""
        public = frozenset(self._public)
        for folder, state in sorted(self._states.items()):
            if folder.startswith(_PACKAGE):
                continue  # it is whole, and listed under its namespace
            if folder in self._collisions:
                findings = (self._collisions[folder], *state.errors)
                yield InvalidFolder(folder, serving=False, findings=findings, access=state.now)
            elif state.errors:
                serving = state.packed is not None
                is_public = serving and state.name in public
                closed = serving and state.now is not state.access
                yield InvalidFolder(folder, serving, state.errors, is_public, state.now, closed)

    def used_blobs(self) -> set[Digest]:
        """Return the digests of all bytes that are needed to serve the skills."""
        packed = (state.packed for state in self._states.values() if state.packed is not None)
        return {digest for one in packed for digest, _ in read_summary(one).blobs()}

    def save(self) -> None:
        """Record the loaded skills for the next run. Raises StorageError (``STORAGE``)."""
        self._record.write(
            {
                folder: FolderRecord(state.signature, state.packed)
                for folder, state in self._states.items()
                if state.signature and state.packed is not None and not state.errors
                if folder not in self._prepared and not folder.startswith(_PACKAGE)
            }
        )

    def _load_prepared(self) -> Iterator[LoadResult]:
        """Yield the skills that are in no folder and are not held yet, or whose bytes are lost."""
        for key, one in self._prepared.items():
            if key not in self._states or not self._states[key].signature:
                blob_writer(str(self._blobs.directory))(one)
                yield LoadResult(key, one.skill.artifact.digest, pack_skill(one.skill), one.findings, one.skill.access)

    def _follow_packages(self) -> None:
        """Take what changed in the registry, and write the bytes of actions that are not in the blob store."""
        if self.packages is None:
            return
        changed = self.packages.changes()
        if changed.is_anew:
            self._changed = True
            self._owned.clear()
            for key in [key for key in self._states if key.startswith(_PACKAGE)]:
                del self._states[key]
        for one in changed.packages:
            key, packed, name = f"{_PACKAGE}{one.number:012}", one.served, one.package.name.name
            before = self._states.pop(key, None)
            owned = self._owned.pop(one.number, None)
            if packed is not None:
                good = self._good(_PACKAGE if self._has_blobs(packed, is_package=True) else "", packed)
                self._states[key] = good._replace(owns_name=one.owns_name)
            elif one.owns_name:
                self._owned[one.number] = name
            self._changed |= self._states.get(key) != before or self._owned.get(one.number) != owned
        lost = {
            key: unpack_skill(state.packed)
            for key, state in self._states.items()
            if not state.signature and key.startswith(_PACKAGE) and state.packed is not None
        }
        self.packages.write_blobs(lost.values())
        for key in lost:
            self._states[key] = self._states[key]._replace(signature=_PACKAGE)

    def _is_stale(self, folder: str) -> bool:
        state = self._states.get(folder)
        return state is None or not state.signature or sign_folder(folder).value != state.signature

    def _good(self, signature: str, packed: bytes) -> _State:
        summary = read_summary(packed)
        access = Access(summary.access)
        return _State(signature, packed, summary.name, access, (), access)

    def _broken(self, loaded: LoadResult, before: _State) -> _State:
        """Return ``before`` with the errors of now, and open no further than the folder now says."""
        errors = tuple(finding for finding in loaded.findings if finding.level == "error")
        now = narrowest_access(before.access, loaded.access)
        packed = before.packed
        if packed is not None and now is not before.now:
            packed = pack_skill(unpack_skill(packed)._replace(access=now))
        return before._replace(signature=loaded.signature, packed=packed, errors=errors, now=now)

    def _choose(self) -> None:
        """Decide which folder gives each name, which ones collide with those, and what everyone may see."""
        named: list[IdentifiedSkill] = []
        everyone: dict[str, tuple[bool, bool]] = {}  # the same for all skills of one access
        choices: dict[str, tuple[str, bytes, bool, bool]] = {}  # name, packed, whether everyone may know and use it

        def order(folder: str) -> tuple[bool, bool, bool, str]:
            state, is_package = self._states[folder], folder.startswith(_PACKAGE)
            is_behind = is_package and state.access is Access.PRIVATE and not state.owns_name
            is_first = state.owns_name if is_package else folder in self._chosen
            return is_package, is_behind, not is_first, folder

        owned = set(self._owned.values())
        for folder in sorted(self._states, key=order):
            state = self._states[folder]
            if (packed := state.packed) is not None:
                summary = read_summary(packed)
                identifiers = Identifiers(*cast("tuple[str, ...]", summary.identifiers))  # loaded skills have them
                if state.owns_name or not (folder.startswith(_PACKAGE) and state.name in owned):
                    named.append(IdentifiedSkill(folder, state.name, identifiers))
                if summary.access not in everyone:
                    one = Catalog.of([unpack_skill(packed)])
                    everyone[summary.access] = (
                        bool(one.visible_to(ANONYMOUS).skills),
                        bool(one.usable_by(ANONYMOUS).skills),
                    )
                choices[folder] = state.name, packed, *everyone[summary.access]
        self._collisions = {str(Path(finding.place.source).parent): finding for finding in find_collisions(named)}
        self._chosen = {one.path for one in named} - self._collisions.keys()
        others = choices.keys() - self._chosen
        self._namespaced = dict(sorted(_namespaced(choices[one][1]) for one in others if one.startswith(_PACKAGE)))
        chosen = sorted(choices[folder] for folder in choices.keys() & self._chosen)
        self._published = {name: packed for name, packed, _, _ in chosen}
        self._known = [name for name, _, is_known, _ in chosen if is_known]
        self._public = [name for name, _, _, is_public in chosen if is_public]

    def _has_blobs(self, packed: bytes, *, is_package: bool = False) -> bool:
        """Whether the bytes of a skill are there, or are made when they are read."""
        summary = read_summary(packed)
        is_lazy = is_package and summary.kind != "action"
        return is_lazy or all(self._blobs.has(digest, size) for digest, size in summary.blobs())


def _namespaced(packed: bytes) -> tuple[str, bytes]:
    """Return a package that does not have its name alone: its name with the namespace, and its skill."""
    skill = unpack_skill(packed)
    identifiers = cast("Identifiers", skill.identifiers)._replace(skill_discovery=f"{skill.publisher}.{skill.name}")
    return f"{skill.publisher}/{skill.name}", pack_skill(skill._replace(identifiers=identifiers))


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        state = os.stat(folder)  # noqa: PTH116  # text, for its number
    except OSError:
        return None
    return state.st_dev, state.st_ino
