"""The skills in folders, kept up to date: what can be published of them now, and what is wrong with the rest.

A folder that can no longer be published keeps its last good version, and says why; but that version is open no
further than the folder now says, and private when the folder can no longer tell. Of two skills that would
share a name, the one that is published already stays; between two new ones, the order of the folders decides.

Skills are held in packed form: 10,000 of them take 7 MB, and 37 MB as values.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from skillwire.adapters.files.loading import (
    BlobWriter,
    BuildRecord,
    FolderRecord,
    LoadJob,
    LoadResult,
    load_folders,
    sign_folder,
)
from skillwire.adapters.files.skill_store import PackedSkills, pack_skill, read_summary, unpack_skill
from skillwire.folder.files import find_folder_names
from skillwire.folder.load import IdentifiedSkill, find_collisions
from skillwire.folder.publish import narrowest_access
from skillwire.model.access import ANONYMOUS, Access
from skillwire.model.catalog import Catalog

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from skillwire.adapters.files.blobs import FileBlobs
    from skillwire.folder.publish import PreparedSkill
    from skillwire.model.digest import Digest
    from skillwire.model.skill import Finding, Identifiers, Skill

#: Stands where the path of a folder would, before the name of a skill that has none; sorted before all paths.
_IN_NO_FOLDER: Final = "(no folder) "


class InvalidFolder(NamedTuple):
    """A folder that cannot be published as it is; ``serving`` when its last good version still is.

    ``is_public`` when that version is for everyone; of any other folder not even the name is for anonymous clients.
    ``access`` is who may see the skill, as far as that can be told; ``closed`` when its last good version was for more.
    """

    folder: str
    serving: bool
    findings: tuple[Finding, ...]
    is_public: bool = False
    access: Access = Access.PRIVATE
    closed: bool = False

    @property
    def name(self) -> str:
        """The folder's own name."""
        return Path(self.folder).name


class _State(NamedTuple):
    """A folder's signature, its last good skill (packed), that skill's name and access, and the errors since.

    ``now`` is the access while there are errors: the narrower of the last good skill's and what the folder says.
    """

    signature: str
    packed: bytes | None
    name: str = ""
    access: Access = Access.PUBLIC
    errors: tuple[Finding, ...] = ()
    now: Access = Access.PUBLIC


class _Choice(NamedTuple):
    """A folder's skill, packed, and whether everyone may know of it, and use it."""

    name: str
    packed: bytes
    is_known: bool
    is_public: bool


class PublishedFolders:
    """The skills below ``roots``, with their bytes in ``blobs``.

    Args:
        roots: folders of skills, or skills; absolute.
        publisher: the provider's part of identifiers.
        blobs: where the bytes go.
        prepared: skills that are in no folder; they come before those that do, and do not change.
    """

    def __init__(
        self, roots: Sequence[str], publisher: str, blobs: FileBlobs, prepared: Iterable[PreparedSkill] = ()
    ) -> None:
        self.roots = roots
        self._blobs = blobs
        self._prepared = {_IN_NO_FOLDER + one.skill.name: one for one in prepared}
        self._job = LoadJob(publisher, "blobs", (str(blobs.directory),))
        self._record = BuildRecord(blobs.directory, publisher, *roots)
        self._states: dict[str, _State] = {}
        self._changed = False  # something was taken that is not yet chosen from
        self._chosen: Collection[str] = ()  # the folders whose skills are published
        self._collisions: dict[str, Finding] = {}  # by folder
        self._published: dict[str, bytes] = {}  # packed, by name
        self._known: list[str] = []  # names that everyone may know
        self._public: list[str] = []  # names of those that everyone may use

    def restore(self) -> None:
        """Take over what an earlier run recorded; folders that have not changed since need not be read."""
        for folder, record in self._record.read().items():
            if self._has_blobs(record.packed):
                self._states[folder] = self._good(record.signature, record.packed)

    def refresh(self, touched: Collection[str] | None = None) -> bool:
        """Load what changed; return whether anything did.

        Args:
            touched: absolute paths that may have changed; None when any may.

        Raises:
            StorageError: ``STORAGE`` when bytes cannot be kept, ``WORKER_LOST``.
        """
        found = {folder for root in self.roots for folder in find_folder_names(root)}
        gone = self._states.keys() - found - self._prepared.keys()
        for folder in gone:
            del self._states[folder]
        looked_at = found if touched is None else (found - self._states.keys()) | self._holding(touched)
        stale = [folder for folder in sorted(looked_at) if self._is_stale(folder)]
        self._changed |= bool(gone)
        for loaded in chain(self._load_prepared(), load_folders(self._job, stale)):
            self._changed |= self._take(loaded)  # held there: should the next folder raise, this one is not forgotten
        changed = self._changed
        if changed or not self._chosen:  # or this is the first time, and all is as an earlier run recorded it
            self._choose()
        self._changed = False
        return changed

    def check_blobs(self) -> None:
        """Have folders whose bytes are no longer in the store loaded by the next :meth:`refresh`."""
        for folder, state in self._states.items():
            if state.packed is not None and not self._has_blobs(state.packed):
                self._states[folder] = state._replace(signature="")

    def all_skills(self) -> PackedSkills:
        """Return every skill that is published, by name, sorted."""
        return PackedSkills(self._published)

    def known_skills(self) -> PackedSkills:
        """Return the skills that everyone may know of."""
        return self._some(self._known)

    def public_skills(self) -> PackedSkills:
        """Return the skills that everyone may use."""
        return self._some(self._public)

    def _some(self, names: Sequence[str]) -> PackedSkills:
        whole = len(names) == len(self._published)
        return PackedSkills(self._published if whole else {name: self._published[name] for name in names})

    def broken(self) -> Iterator[InvalidFolder]:
        """Yield the folders that cannot be published as they are."""
        public = frozenset(self._public)
        for folder, state in sorted(self._states.items()):
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
        return {digest for one in packed for digest in _digests(unpack_skill(one))}

    def save(self) -> None:
        """Record what is known, for the next run.

        Raises:
            StorageError: ``STORAGE``.
        """
        self._record.write(
            {
                folder: FolderRecord(state.signature, state.packed)
                for folder, state in self._states.items()
                if state.signature and state.packed is not None and not state.errors and folder not in self._prepared
            }
        )

    def _load_prepared(self) -> Iterator[LoadResult]:
        """Yield the skills that are in no folder and are not held yet, or whose bytes are lost."""
        for key, one in self._prepared.items():
            if key not in self._states or not self._states[key].signature:
                BlobWriter(str(self._blobs.directory))(one)
                yield LoadResult(key, one.skill.artifact.digest, pack_skill(one.skill), one.findings, one.skill.access)

    def _holding(self, touched: Iterable[str]) -> set[str]:
        """Return the known folders that hold any of ``touched``."""
        holding = set()
        for path in touched:
            for folder in (path, *map(str, Path(path).parents)):
                if folder in self._states:
                    holding.add(folder)
        return holding

    def _is_stale(self, folder: str) -> bool:
        state = self._states.get(folder)
        return state is None or not state.signature or sign_folder(folder).value != state.signature

    def _take(self, loaded: LoadResult) -> bool:
        """Note what loading gave; return whether it makes a difference."""
        before = self._states.get(loaded.folder)
        if loaded.packed is not None:
            if before and before.packed == loaded.packed:
                after = before._replace(signature=loaded.signature, errors=(), now=before.access)
            else:
                after = self._good(loaded.signature, loaded.packed)
        else:
            after = self._broken(loaded, before or _State("", None))
        self._states[loaded.folder] = after
        return before is None or after._replace(signature=before.signature) != before

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
        choices: dict[str, _Choice] = {}
        for folder in sorted(self._states, key=lambda folder: (folder not in self._chosen, folder)):
            state = self._states[folder]
            if (packed := state.packed) is not None:
                skill = unpack_skill(packed)
                identifiers = cast("Identifiers", skill.identifiers)  # what is loaded to be published has them
                named.append(IdentifiedSkill(Path(folder), skill.name, identifiers))
                one = Catalog.of([skill])
                known, usable = bool(one.visible_to(ANONYMOUS).skills), bool(one.usable_by(ANONYMOUS).skills)
                choices[folder] = _Choice(state.name, packed, known, usable)
        self._collisions = {str(Path(finding.place.source).parent): finding for finding in find_collisions(named)}
        self._chosen = {folder for folder in self._states if folder not in self._collisions}
        chosen = sorted(choices[folder] for folder in choices.keys() & self._chosen)
        self._published = {choice.name: choice.packed for choice in chosen}
        self._known = [choice.name for choice in chosen if choice.is_known]
        self._public = [choice.name for choice in chosen if choice.is_public]

    def _has_blobs(self, packed: bytes) -> bool:
        skill = unpack_skill(packed)
        sizes = [(skill.artifact.digest, skill.artifact.size), *((file.digest, file.size) for file in skill.files)]
        return all(self._blobs.has(digest, size) for digest, size in sizes)


def _digests(skill: Skill) -> Iterator[Digest]:
    yield skill.artifact.digest
    for file in skill.files:
        yield file.digest
