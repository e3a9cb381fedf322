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

Skills are held in packed form: 10,000 of them take 7 MB, and 37 MB as values. A change of a package costs what the
packages cost that share an identifier with it, whereas a change of a folder has all skills compared.
"""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from skillwire.adapters.files.loading import (
    BuildRecord,
    FolderRecord,
    LoadJob,
    LoadResult,
    blob_writer,
    load_folders,
    sign_folder,
)
from skillwire.adapters.files.published_packages import PublishedPackages, number_in
from skillwire.folder.files import find_folder_names, is_machine_error
from skillwire.folder.load import IdentifiedSkill, find_collisions
from skillwire.folder.publish import InvalidFolder
from skillwire.model.access import ANONYMOUS, Access, narrowest_access
from skillwire.model.catalog import Catalog, SeenSkill, no_skills, pack_skill, read_summary, unpack_skill
from skillwire.model.digest import Digest
from skillwire.model.skill import Identifiers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from skillwire.adapters.files.blobs import FileBlobs
    from skillwire.adapters.files.published_packages import PackageFeed, PublishedPackage
    from skillwire.errors import StorageError
    from skillwire.folder.publish import PreparedSkill
    from skillwire.model.skill import Finding

#: Stands where the path of a folder would, before the name of a skill that has none; sorted before all paths.
_IN_NO_FOLDER: Final = "(no folder) "


class _State(NamedTuple):
    """A folder's signature, its last good skill (packed) with name and access, the errors since, and the access now."""

    signature: str
    packed: bytes | None
    name: str = ""
    access: Access = Access.PUBLIC
    errors: tuple[Finding, ...] = ()
    now: Access = Access.PUBLIC


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
        self._served = PublishedPackages(packages, blobs)
        self._changed = False  # something was taken that is not yet chosen from
        self._is_first = True
        self._chosen: Collection[str] = ()  # the folders whose skills are published
        self._collisions: dict[str, Finding] = {}  # by folder
        #: What is published, by name.
        self.skills = no_skills()
        #: The same, and the other packages by ``namespace/name``.
        self.listed = no_skills()
        self._namespaced: set[str] = set()  # the names of these
        self._everyone: dict[str, tuple[bool, bool]] = {}  # whether everyone may know of a skill and use it, by access

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
        self._served.follow()
        changed = self._changed or self._served.has_changed
        if changed or self._is_first:  # when all is as an earlier run recorded it
            self._choose()
        self._changed = self._is_first = False
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
            if state.packed is not None and not self._has_blobs(state.packed):
                self._states[folder] = state._replace(signature="")
        self._served.check_blobs()

    @property
    def unwritten(self) -> StorageError | None:
        """Why bytes of packages cannot be written; the packages are published nevertheless."""
        return self._served.unwritten

    def make_blob(self, digest: Digest) -> bytes | None:
        """Return bytes that a package is served with, and put them into the blob store; None for other bytes."""
        return self._served.make_blob(digest)

    def broken(self) -> Iterator[InvalidFolder]:
        """Yield the folders that cannot be published as they are."""
        for folder, state in sorted(self._states.items()):
            if folder in self._collisions:
                findings = (self._collisions[folder], *state.errors)
                yield InvalidFolder(folder, serving=False, findings=findings, access=state.now)
            elif state.errors:
                serving = state.packed is not None
                is_public = serving and state.name in self.skills.usable
                closed = serving and state.now is not state.access
                yield InvalidFolder(folder, serving, state.errors, is_public, state.now, closed)

    def used_blobs(self) -> set[Digest]:
        """Return the digests of all bytes that are needed to serve the skills."""
        packed = (state.packed for state in self._states.values() if state.packed is not None)
        return {*(digest for one in packed for digest, _ in read_summary(one).blobs()), *self._served.blobs()}

    def save(self) -> None:
        """Record the loaded skills for the next run. Raises StorageError (``STORAGE``)."""
        self._record.write(
            {
                folder: FolderRecord(state.signature, state.packed)
                for folder, state in self._states.items()
                if state.signature and state.packed is not None and not state.errors
                if folder not in self._prepared
            }
        )

    def _load_prepared(self) -> Iterator[LoadResult]:
        """Yield the skills that are in no folder and are not held yet, or whose bytes are lost."""
        for key, one in self._prepared.items():
            if key not in self._states or not self._states[key].signature:
                blob_writer(str(self._blobs.directory))(one)
                yield LoadResult(key, one.skill.artifact.digest, pack_skill(one.skill), one.findings, one.skill.access)

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
        """Decide which folder gives each name, which ones collide with those, and what everyone may see.

        Where packages alone have changed, that is decided among them and those with a common identifier.
        """
        numbers = None if self._changed or self._is_first else self._served.find_affected()
        owned, candidates = self._served.owned_names(), self._served.in_order(numbers)
        named, held_back, found = list[IdentifiedSkill](), list[IdentifiedSkill](), dict[str, SeenSkill]()
        if numbers is None:
            for folder in sorted(self._states, key=lambda folder: (folder not in self._chosen, folder)):
                state = self._states[folder]
                if state.packed is not None:
                    summary = read_summary(state.packed)
                    identifiers = Identifiers(*cast("tuple[str, ...]", summary.identifiers))  # loaded skills have them
                    named.append(IdentifiedSkill(folder, state.name, identifiers))
                    found[folder] = self._seen(state.packed, summary.access)
        for number in candidates:
            package = self._served.get(number)
            one = package.identified(number)
            (named if package.owns_name or package.name not in owned else held_back).append(one)
            found[one.path] = self._seen(package.packed, package.access)
        collisions = {str(Path(finding.place.source).parent): finding for finding in find_collisions(named)}
        chosen = {one.path for one in named} - collisions.keys()
        root, others = dict[str, SeenSkill](), dict[str, SeenSkill]()
        for one in chain(named, held_back):
            if one.path in chosen:
                root[one.name] = found[one.path]
            elif number_in(one.path) is not None:
                name, packed = _namespaced(found[one.path].packed)
                others[name] = found[one.path]._replace(packed=packed)
        if numbers is None:
            self._collisions, self._chosen = collisions, {path for path in chosen if number_in(path) is None}
            gone, gone_others = set[str](), self._namespaced
            self.skills = self.listed = no_skills()
        else:
            gone, gone_others = self._names_of(self._served.as_chosen(numbers))
        self._namespaced = (self._namespaced - gone_others) | others.keys()
        listed, self.skills = self.listed, self.skills.updated(root, gone)
        self.listed = listed.updated(root | others, gone | gone_others) if self._namespaced else self.skills
        self._served.settle([*named, *held_back] if numbers is None else None)

    def _names_of(self, packages: Iterable[PublishedPackage]) -> tuple[set[str], set[str]]:
        """Return the names at the root that packages have now, and the names with a namespace of the others."""
        root, others, everything = set[str](), set[str](), self.skills.everything
        for one in packages:
            if one.name in everything and everything.packed(one.name) is one.packed:
                root.add(one.name)
            else:
                others.add(one.namespaced)
        return root, others

    def _seen(self, packed: bytes, access: str) -> SeenSkill:
        """Return a skill, and whether everyone may know of it and use it, which is the same for all of one access."""
        if access not in self._everyone:
            one = Catalog.of([unpack_skill(packed)])
            self._everyone[access] = bool(one.visible_to(ANONYMOUS).skills), bool(one.usable_by(ANONYMOUS).skills)
        return SeenSkill(packed, *self._everyone[access])

    def _has_blobs(self, packed: bytes) -> bool:
        return all(self._blobs.has(digest, size) for digest, size in read_summary(packed).blobs())


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
