"""Checks of what is installed: the lock, each skill of it, and what a killed process left behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.adapters.files.journal import KEPT, STAGING
from skillwire.adapters.files.skills_folder import FileSkillsFolder
from skillwire.resolver.agents import AGENTS
from skillwire.resolver.checkup import Diagnosis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillwire.adapters.checkup.surroundings import Surroundings
    from skillwire.model.install import LockedSkill


def open_folder(surroundings: Surroundings) -> FileSkillsFolder:
    """Return the installed skills that are meant."""
    lock = surroundings.root / ".agents/skills.lock" if surroundings.for_user else None
    return FileSkillsFolder(surroundings.root, lock)


def check_installed(surroundings: Surroundings) -> Iterator[Diagnosis]:
    """Read the lock, and compare each skill of it with what stands on disk."""
    folder = open_folder(surroundings)
    lock = folder.read_lock()  # raises when it cannot be read
    if not lock.skills:
        yield Diagnosis("ok", f"no skills are installed here; there is no {folder.lock_path}")
        return
    broken = [diagnosis for locked in lock.skills.values() if (diagnosis := _examine(locked, folder))]
    yield Diagnosis(
        "ok", f"{len(lock.skills) - len(broken)} of {len(lock.skills)} skills are as {folder.lock_path} says"
    )
    yield from broken


def _examine(locked: LockedSkill, folder: FileSkillsFolder) -> Diagnosis | None:
    fix = f"skillwire add --frozen {locked.name}"
    if missing := folder.missing_places(locked.placement, locked.name):
        why = "An agent that looks there does not find the skill."
        return Diagnosis("problem", f"{locked.name} is missing in {', '.join(missing)}", why, fix)
    if folder.installed_files(locked.placement, locked.name) != locked.files:
        why = "Its files were edited, removed or added to after installation; skillwire verify names them."
        return Diagnosis("problem", f"{locked.name} is not what the lock says", why, f"{fix} --overwrite")
    return None


def check_leftovers(surroundings: Surroundings) -> Iterator[Diagnosis]:
    """Look for folders that a killed process, or a change that could not be undone, left beside the skills."""
    folders = {agent.home if surroundings.for_user else agent.project for agent in AGENTS.values()}
    found = [
        path
        for folder in sorted(folders)
        for name in (STAGING, KEPT)
        for path in sorted(Path(surroundings.root / folder).glob(f"{name}-*"))
    ]
    for path in found:
        if path.name.startswith(KEPT):
            why = "A change failed and could not be undone; the skills that stood there are kept in it."
            yield Diagnosis("problem", f"{path} holds skills of yours", why, "Move them back, then remove the folder.")
        else:
            why = "A command was killed, or is at work at this moment. The next change removes it."
            yield Diagnosis("warning", f"{path} is left of a change", why, f"rm -r {path}")
    if not found:
        yield Diagnosis("ok", "nothing is left of an interrupted change")
