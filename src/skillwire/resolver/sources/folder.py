"""Skills from folders of this machine: read leniently, since the user has them already."""

from __future__ import annotations

import os
from functools import partial
from itertools import chain
from pathlib import Path

from skillwire.errors import NotFoundError, SourceLocation
from skillwire.folder.files import find_folders
from skillwire.folder.load import load_folder
from skillwire.model.ref import LOCAL, LockedSkill, SkillRef
from skillwire.resolver.context import ResolveContext
from skillwire.resolver.git_references import SKILL_FOLDERS
from skillwire.resolver.sources import Lookup, Source
from skillwire.wire.exchange import Flow, work


class Folder(Source):
    """The source of folders: the skill that a path is, or the skills below it, in a repository those of agents too."""

    def __init__(self, context: ResolveContext) -> None:
        self._root = context.root

    def resolve(self, lookup: Lookup) -> Flow[list[SkillRef]]:
        """Return the skills of a folder.

        Raises:
            NotFoundError: ``SKILL_NOT_FOUND`` without a ``SKILL.md``.
            DecodeError, ValidationError, TrustError: a folder cannot be loaded.
        """
        return (yield from work(partial(_load_all, Path(lookup.url).expanduser(), self._root)))


def load_local(locked: LockedSkill, root: Path) -> SkillRef:
    """Read a skill that was installed from a folder of this machine anew, from that folder."""
    return _load(root / locked.url, root)


def _load_all(path: Path, root: Path) -> list[SkillRef]:
    folders = find_folders(path)
    if (path / ".git").exists() and folders != [path]:
        hidden = chain.from_iterable(find_folders(path / name) for name, _ in SKILL_FOLDERS if name.startswith("."))
        known = {one.name for one in folders}
        folders += {one.name: one for one in hidden if one.name not in known}.values()
    if not folders:
        # pathlib drops the ./ that marks a copied text as a folder
        place = SourceLocation(str(path) if path.is_absolute() or str(path).startswith(".") else f"./{path}")
        if not path.exists():
            fix = f"Check the spelling; a relative path begins at {Path.cwd()}."
            raise NotFoundError("SKILL_NOT_FOUND", "the folder does not exist", place=place, fix=fix)
        fix = "Name the folder of a skill, which has a SKILL.md, or a folder with such folders in it."
        raise NotFoundError("SKILL_NOT_FOUND", "there is no SKILL.md, here or below", place=place, fix=fix)
    return [_load(folder, root) for folder in folders]


def _load(folder: Path, root: Path) -> SkillRef:
    loaded = load_folder(folder, level="lenient")
    # Relative, so that a project keeps working when it is moved or cloned together with its folders.
    relative = os.path.relpath(folder.resolve(), root.resolve()).replace(os.sep, "/")
    parent = os.path.dirname(relative) or "."  # noqa: PTH120  # a POSIX text for the lock, not a path of this system
    return SkillRef(
        name=loaded.name,
        origin=f"{LOCAL}{parent}",
        description=loaded.description,
        version=loaded.version,
        digest=None,
        found_via="folder",
        fetched_at=0.0,
        capabilities=loaded.manifest.capabilities,
        scenes=loaded.manifest.scenes,
        tags=loaded.manifest.tags,
        requires=loaded.manifest.requires,
        artifact_type="files",
        url=relative,
        files=loaded.files,
    )
