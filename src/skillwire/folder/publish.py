"""From a folder to what is published: the skill as a value, its files, and the artifact that clients download.

:func:`prepare` applies the strict rules. It gives :class:`Prepared`, or :class:`Refused` with every finding, so
that one broken skill is said and the others are published. A skill that is ``SKILL.md`` alone is its own
artifact; every other is packed. Spec: ASD Distribution Guidance; specs §1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillwire.errors import Place, SkillwireError
from skillwire.folder.action import action_of
from skillwire.folder.files import SKILL_MD
from skillwire.folder.findings import Findings
from skillwire.folder.identify import identify
from skillwire.folder.load import examine, examine_files
from skillwire.folder.pack import pack
from skillwire.folder.share import access_of, share
from skillwire.folder.stated_access import read_access
from skillwire.model.access import Access
from skillwire.model.digest import Digest
from skillwire.model.skill import Artifact, Skill, SkillFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.folder.load import Examination, Judge, LoadedFolder
    from skillwire.model.finding import Finding
    from skillwire.model.skill import FileContent, Kind

_MARKDOWN: Final = "text/markdown"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A skill ready to be published.

    ``skill.files`` and ``files`` are in the same order, ``SKILL.md`` first. ``artifact`` is the bytes that
    ``skill.artifact`` describes.
    """

    path: Path
    skill: Skill
    files: tuple[FileContent, ...]
    artifact: bytes
    folder: LoadedFolder

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Warnings and notes."""
        return self.skill.findings


@dataclass(frozen=True, slots=True)
class Refused:
    """A folder that is not published, and everything that was found; at least one finding is an error.

    ``access`` is who may see the skill, as far as the folder tells: whoever goes on publishing an earlier version of
    it opens that no further. Private when it cannot be told.
    """

    path: Path
    findings: tuple[Finding, ...]
    access: Access


def prepare(path: Path, publisher: str, *, judges: Sequence[Judge] = ()) -> Prepared | Refused:
    """Return the skill in the folder ``path``, ready to be published by ``publisher``, or why it is not.

    Args:
        path: a folder with a ``SKILL.md``; see :func:`skillwire.folder.find.find_folders`.
        publisher: the provider's part of identifiers, such as ``example-corp``.
        judges: see :func:`skillwire.folder.load.examine`.

    Trust: the folder may hold anything; nothing that it holds raises.
    """
    prepared = _prepare(examine(path, level="strict", judges=judges), publisher)
    return replace(prepared, access=read_access(path)) if isinstance(prepared, Refused) else prepared


def prepare_files(
    name: str, files: tuple[FileContent, ...], publisher: str, *, judges: Sequence[Judge] = ()
) -> Prepared | Refused:
    """Return the skill ``name`` that ``files`` are, which stand in no folder; as :func:`prepare` does."""
    return _prepare(examine_files(Path(name), files, judges=judges), publisher)


def _prepare(examination: Examination, publisher: str) -> Prepared | Refused:
    path, folder = examination.path, examination.folder
    if folder is None:
        return Refused(path, examination.findings, Access.PRIVATE)
    try:
        return _prepared(folder, publisher)
    except SkillwireError as error:
        findings = Findings("strict")
        findings.extend(examination.findings)
        findings.add_error(error, Place(str(path)))
        return Refused(path, tuple(findings), Access.PRIVATE)


def _prepared(folder: LoadedFolder, publisher: str) -> Prepared:
    files = tuple(
        SkillFile(file.path, len(file.content), Digest.of(bytes(file.content)), file.executable)
        for file in folder.files
    )
    artifact, content = _artifact(folder, files)
    skill_md, manifest = folder.skill_md, folder.manifest
    kind: Kind = manifest.kind or ("action" if manifest.runtime else "instruction")
    skill = Skill(
        publisher=publisher,
        name=folder.name,
        version=folder.version,
        description=folder.description,
        files=files,
        artifact=artifact,
        license=skill_md.license,
        compatibility=skill_md.compatibility,
        allowed_tools=skill_md.allowed_tools,
        metadata=skill_md.metadata or None,
        access=access_of(folder),
        kind=kind,
        scenes=manifest.scenes,
        capabilities=manifest.capabilities,
        identifiers=identify(folder, publisher),
        sharing=share(folder, kind),
        action=action_of(manifest) if kind == "action" else None,
        findings=folder.findings,
        skill_type=manifest.skill_type,
    )
    return Prepared(folder.path, skill, folder.files, content, folder)


def _artifact(folder: LoadedFolder, files: tuple[SkillFile, ...]) -> tuple[Artifact, bytes]:
    """Return what a client downloads: the one file as it is, or the files packed."""
    if len(files) == 1 and files[0].path == SKILL_MD:
        content = bytes(folder.files[0].content)
        return Artifact("skill-md", _MARKDOWN, ".md", len(content), files[0].digest), content
    packed = pack(folder.files)
    digest = Digest.of(packed.content)
    return Artifact("archive", packed.media_type, packed.extension, len(packed.content), digest), packed.content
