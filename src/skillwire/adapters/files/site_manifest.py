"""The manifest of a static site: what builds have made there.

One line a skill, and one for each file that belongs to no skill; the paths of a skill follow from its line. So the
manifest of 10,000 skills has 10,000 lines where the site has 100,000 files, and comparing two manifests costs
nothing but for the skills that differ. The first line names the layout from which the paths follow.

Trust: a manifest may come from elsewhere together with the site; its paths may lead anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillwire.errors import Place, TrustError
from skillwire.protocols.agent_skills.server import artifact_name, skill_paths
from skillwire.protocols.skill_sharing.paths import descriptor_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from skillwire.model.skill import Skill

MANIFEST: Final = ".skillwire-manifest"
_FIRST_LINE: Final = "skillwire site 1"


def skill_line(skill: Skill, *, described: bool) -> str:
    """Return the line of ``skill``, which may have a descriptor. The paths of its files hold no control characters."""
    kind = "described" if described else "skill"
    return "\t".join((kind, skill.name, artifact_name(skill), *(file.path for file in skill.files)))


def file_line(path: str) -> str:
    """Return the line of a file that belongs to no skill; ``path`` is below the site."""
    return f"file\t{path}"


def line_paths(lines: Iterable[str]) -> Iterator[str]:
    """Yield the paths below the site that ``lines`` stand for."""
    for line in lines:
        kind, *rest = line.split("\t")
        if kind == "file":
            yield rest[0]
        else:
            name, artifact, *files = rest
            for path in skill_paths(name, artifact, files):
                yield path[1:]
            if kind == "described":
                yield descriptor_path(name)[1:]


def read_manifest(site: Path) -> frozenset[str] | None:
    """Return the lines of the manifest of ``site``, or None when there is none.

    Raises:
        TrustError: ``SITE_MANIFEST`` when it is not one that this version understands.
    """
    path = site / MANIFEST
    try:
        first, *lines = path.read_text("utf-8", "replace").split("\n")
    except FileNotFoundError:
        return None
    if first != _FIRST_LINE or not all(map(_is_sound, filter(None, lines))):
        raise TrustError("SITE_MANIFEST", "not a manifest that this version wrote", place=Place(str(path)))
    return frozenset(filter(None, lines))


def write_manifest(site: Path, lines: Iterable[str], stage: Path) -> None:
    """Write the manifest of ``site``: into ``stage`` first, so that a crash leaves no other file in the site."""
    written = stage / MANIFEST
    written.write_bytes("\n".join((_FIRST_LINE, *sorted(lines), "")).encode())
    written.replace(site / MANIFEST)


def _is_sound(line: str) -> bool:
    kind, *rest = line.split("\t")
    return len(rest) == 1 if kind == "file" else kind in {"skill", "described"} and len(rest) > 1 and "." in rest[1]
