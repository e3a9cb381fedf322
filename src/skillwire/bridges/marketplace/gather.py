"""The skills of a marketplace in a folder, each read leniently and once.

A folder is a marketplace when it has ``.claude-plugin/marketplace.json``; one with ``.claude-plugin/plugin.json``,
``skills/`` or a ``SKILL.md`` is a plugin and counts as a marketplace of one.

Trust: folders and documents are hostile. Paths are checked before use; links may lead to other places of the
marketplace only, and within a skill to that skill only (:mod:`skillwire.folder.files`). The skills are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from skillwire import limits
from skillwire.bridges.marketplace.documents import (
    MARKETPLACE_PATH,
    PLUGIN_PATH,
    SKILLS_FOLDER,
    ExternalPlugin,
    Marketplace,
    Plugin,
    join,
    note,
    read_marketplace,
    read_plugin_skills,
)
from skillwire.errors import SkillwireError, SourceLocation, StorageError, ValidationError
from skillwire.folder.load import CheckedFolder, check_folder
from skillwire.model.skill import SKILL_MD, FileContent, Finding, is_skill_name


class GatheredSkill(NamedTuple):
    """A skill of a marketplace with a name for its own folder; ``place`` is where it was, for people."""

    name: str
    plugin: str
    place: str
    files: tuple[FileContent, ...]


@dataclass(slots=True)
class GatheredSkills:
    """The accepted skills of a marketplace, each once, and findings about the rest."""

    name: str = ""
    plugins: int = 0
    skills: dict[str, GatheredSkill] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def take(self, plugin: Plugin, examination: CheckedFolder, place: str) -> None:
        """Add the skill that was examined, or what is wrong with it."""
        loaded = examination.folder
        if loaded is None:
            self.findings += [finding for finding in examination.findings if finding.level == "error"]
            return
        # A folder is called after the skill wherever it goes, so its own name loses against the frontmatter's.
        name = loaded.skill_md.name if is_skill_name(loaded.skill_md.name) else loaded.name
        other = self.skills.setdefault(name, GatheredSkill(name, plugin.name, place, loaded.files))
        if other.place != place and other.files != loaded.files:
            message = f"{name} of plugin {plugin.name!a} is not taken: {other.place} has the name already"
            self.findings.append(note("SKILL_CONFLICT", message, place))


def gather(root: Path) -> GatheredSkills:
    """Return the skills of the marketplace or plugin in the folder ``root``.

    Raises as :func:`~skillwire.bridges.marketplace.documents.read_marketplace`; ``MARKETPLACE_FORM`` when it is
    neither, StorageError (``STORAGE``).
    """
    document = root / MARKETPLACE_PATH
    if document.is_file():
        marketplace = read_marketplace(_read(document), str(document))
    elif any((root / path).exists() for path in (PLUGIN_PATH, SKILLS_FOLDER, SKILL_MD)):
        marketplace = Marketplace(root.name, (Plugin(root.name, ""),), ())
    else:
        raise ValidationError("MARKETPLACE_FORM", f"there is no {MARKETPLACE_PATH}", place=SourceLocation(str(root)))
    gathered = GatheredSkills(marketplace.name, len(marketplace.plugins), findings=list(marketplace.findings))
    for plugin in marketplace.plugins:
        if isinstance(plugin.source, ExternalPlugin):
            message = f"plugin {plugin.name!a} was not fetched: its source is of kind {plugin.source.kind!a}"
            gathered.findings.append(note("PLUGIN_ELSEWHERE", message, str(document), plugin.source.advice))
        else:
            _gather_plugin(root, plugin, gathered)
    return gathered


def _gather_plugin(root: Path, plugin: Plugin, gathered: GatheredSkills) -> None:
    base = join(str(plugin.source))
    try:
        places = dict.fromkeys(place for listed in _listed(root, base, plugin) for place in _skills_at(root, listed))
    except SkillwireError as error:
        gathered.findings.append(note("PLUGIN_FORM", f"plugin {plugin.name!a}: {error.message}", str(root / base)))
        return
    for place in places:
        if len(gathered.skills) >= limits.MARKETPLACE_SKILLS:
            message = f"more than {limits.MARKETPLACE_SKILLS} skills; the others are not taken"
            gathered.findings.append(note("LIMIT_ENTRIES", message, str(root)))
            return
        gathered.take(plugin, check_folder(root / place, level="lenient"), str(root / place))
    if not places:
        message, fix = f"plugin {plugin.name!a} has no skills", "Nothing, unless it should have some."
        gathered.findings.append(note("PLUGIN_WITHOUT_SKILLS", message, str(root / base), fix))


def _listed(root: Path, base: str, plugin: Plugin) -> Iterator[str]:
    """Yield the folders in which skills of a plugin are, or which are skills."""
    manifest = root / base / PLUGIN_PATH
    has_manifest = manifest.is_file() and _is_within(root, manifest)
    own = read_plugin_skills(_read(manifest), str(manifest)) if has_manifest else ()
    if has_manifest or not plugin.skills:
        default = join(base, SKILLS_FOLDER)
        yield default if (root / default).is_dir() else base
    for folder in (*own, *plugin.skills):
        yield join(base, folder)


def _skills_at(root: Path, folder: str) -> Iterator[str]:
    """Yield ``folder`` when it is a skill, else the skills right below it."""
    if not _is_within(root, root / folder):
        message = f"{folder!a} leads out of the marketplace, or to nothing"
        raise ValidationError("PLUGIN_FORM", message, place=SourceLocation(str(root / folder)))
    if _is_skill(root / folder):
        yield folder
        return
    try:
        below = sorted((root / folder).iterdir())
    except OSError:
        return  # no folder, or not for us: nothing in it could be taken
    for path in below:
        if _is_skill(path) and _is_within(root, path):
            yield join(folder, path.name)


def _is_skill(folder: Path) -> bool:
    return (folder / SKILL_MD).is_file()


def _is_within(root: Path, path: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # nothing there, or a circle of links
        return False


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limits.MARKETPLACE_BYTES + 1)
    except OSError as error:
        raise StorageError(
            "STORAGE", f"{path} cannot be read: {error.strerror}", place=SourceLocation(str(path))
        ) from error
