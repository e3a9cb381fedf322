"""Installing what ``skills.lock`` says, byte for byte, without asking an index.

Trust: the lock comes with a project, which may be a stranger's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from skillwire.model.digest import Digest
from skillwire.model.ref import SkillRef
from skillwire.model.url import parse_url
from skillwire.protocols.agent_skills.messages import IndexedFile, IndexEntry
from skillwire.resolver.flow import work
from skillwire.resolver.install import Plan, PlannedSkill, Target, unknown_origins
from skillwire.resolver.local import load_local
from skillwire.resolver.locate import LocatedSkill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.model.install import LockedSkill
    from skillwire.ports import OriginBook, SkillsFolder
    from skillwire.resolver.flow import Flow
    from skillwire.resolver.policy import InstallPolicy


def plan_frozen(
    skills: Sequence[LockedSkill], *, folder: SkillsFolder, policy: InstallPolicy, origins: OriginBook
) -> Flow[Plan]:
    """Plan to install exactly what the lock says, from where it says.

    A lock comes with a project, so its origins need the same consent as those that a user types, and so do the
    origins of artifacts: an index would have vouched for those, and none is asked here.
    """

    def plan() -> Plan:
        planned = tuple(_frozen(locked, folder) for locked in skills)
        remote = [row for row in skills if row.artifact_type != "folder"]
        artifacts = {str(parse_url(row.url).origin) for row in remote if not row.url.startswith(f"{row.origin}/")}
        bases = {row.origin for row in remote} | {
            origin for origin in artifacts if not any(row.origin.startswith(origin) for row in remote)
        }
        return Plan(planned, unknown_origins(bases, policy, origins))

    return (yield from work(plan))


def _frozen(locked: LockedSkill, folder: SkillsFolder) -> PlannedSkill:
    skill = load_local(locked, folder.root) if locked.artifact_type == "folder" else _locate_locked(locked)
    target = Target(locked.placement, locked.agents)
    standing = folder.installed_files(locked.placement, locked.name)
    if standing is None:
        return PlannedSkill(skill, "new", target, frozen=locked)
    if standing != locked.files:
        return PlannedSkill(skill, "conflict", target, "its files are not those of the lock", locked)
    whole = not folder.missing_places(locked.placement, locked.name)
    return PlannedSkill(skill, "unchanged" if whole else "update", target, frozen=locked)


def _locate_locked(locked: LockedSkill) -> LocatedSkill:
    """Return a locked skill as its index entry was."""
    digest = Digest(locked.digest) if locked.digest is not None else None
    files: tuple[IndexedFile, ...] = ()
    if locked.artifact_type == "files":
        base = locked.url.removesuffix("SKILL.md")
        files = tuple(
            IndexedFile(path, base + quote(path), Digest(f"sha256:{hexadecimal}"))
            for path, hexadecimal in locked.files.items()
        )
    entry = IndexEntry(locked.name, "", locked.artifact_type, locked.url, digest, files, locked.version)  # type: ignore[arg-type]  # one of the three, says the lock's codec
    ref = SkillRef(locked.name, locked.origin, "", locked.version, digest, "skills.lock", 0.0)
    return LocatedSkill(ref, entry, locked.index)
