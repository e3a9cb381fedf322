"""Skills from folders of this machine: read leniently, since the user has them already."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.errors import NotFoundError, Place, ValidationError
from skillwire.folder.load import find_folders, load_folder
from skillwire.model.ref import SkillRef
from skillwire.protocols.agent_skills.messages import IndexEntry
from skillwire.resolver.flow import work
from skillwire.resolver.locate import LOCAL, LocatedSkill

if TYPE_CHECKING:
    from skillwire.model.install import LockedSkill
    from skillwire.resolver.flow import Flow


def locate_folders(path: Path, root: Path) -> Flow[list[LocatedSkill]]:
    """Return the skill that ``path`` is, or the skills below it.

    Raises:
        NotFoundError: ``SKILL_NOT_FOUND`` when there is no ``SKILL.md``.
        ValidationError: what is wrong with a folder that cannot be loaded.
    """
    return work(partial(_load_all, path, root))


def load_local(locked: LockedSkill, root: Path) -> LocatedSkill:
    """Read a skill that was installed from a folder of this machine anew, from that folder."""
    return _load(root / locked.url, root)


def _load_all(path: Path, root: Path) -> list[LocatedSkill]:
    folders = find_folders(path)
    if not folders:
        raise NotFoundError("SKILL_NOT_FOUND", "there is no SKILL.md", place=Place(str(path)))
    return [_load(folder, root) for folder in folders]
