"""One skill, many names: the identifier of a skill in each protocol, and two skills that would share one.

Each identifier is what the folder says, or has a documented default (specs §0). They are held side by side and
never derived back from each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from skillwire.errors import Place
from skillwire.folder.findings import Findings
from skillwire.model.skill import Identifiers

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from skillwire.folder.load import LoadedFolder
    from skillwire.model.finding import Finding

_PROTOCOLS: Final = {
    "name": "Agent Skills Discovery",
    "skill_sharing": "Skill Sharing",
    "skill_discovery": "Skill Discovery",
    "skills_rpc": "Skills Protocol",
}


class Named(NamedTuple):
    """A skill with its names, for comparing: the folder it comes from, its name and the other identifiers."""

    path: Path
    name: str
    identifiers: Identifiers


def identify(folder: LoadedFolder, publisher: str) -> Identifiers:
    """Return the identifiers that ``publisher``'s skill in ``folder`` has. Spec: specs §0."""
    manifest = folder.manifest
    descriptor_id = (folder.descriptor or {}).get("id")
    namespace = manifest.namespace or publisher.lower().replace("-", ".")
    dotted = manifest.name or f"{namespace}.{folder.name.replace('-', '.')}"
    return Identifiers(
        skill_sharing=manifest.sharing_id or descriptor_id or f"{publisher}/{folder.name}",
        skill_discovery=manifest.discovery_id or folder.name,
        skills_rpc=dotted,
        namespace=namespace if dotted.startswith(f"{namespace}.") else "",
    )


def find_collisions(skills: Iterable[Named]) -> list[Finding]:
    """Return a finding for each identifier that two skills share; each names both files.

    Two skills of one name collide in every protocol, which is said once.
    """
    findings = Findings("strict")
    taken: dict[tuple[str, str], Named] = {}
    for skill in skills:
        identifiers = {field: getattr(skill.identifiers, field, skill.name) for field in _PROTOCOLS}
        for field, identifier in identifiers.items():
            first = taken.setdefault((field, identifier), skill)
            if first is not skill:
                message = f"{_PROTOCOLS[field]} has one {identifier!r}: {first.path} and {skill.path}"
                findings.add("IDENTIFIER_COLLISION", message, Place(f"{skill.path}/SKILL.md"))
                break
    return findings
