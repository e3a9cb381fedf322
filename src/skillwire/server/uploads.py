"""From what a publisher sends to a version in the registry: read, checked by the strict rules, stored whole or not.

Every API of the registry publishes through here, so all of them refuse the same, with every finding.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from skillwire import limits
from skillwire.errors import SkillwireError, StorageError, ValidationError
from skillwire.folder.files import SKILL_MD
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.folder.publish import RefusedFolder, prepare_files
from skillwire.protocols.skill_sharing.judge import JUDGES
from skillwire.trust.archive import plan_files, read_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillwire.folder.publish import PreparedSkill
    from skillwire.model.digest import Digest
    from skillwire.model.skill import FileContent
    from skillwire.ports import BlobStore
    from skillwire.registry.packages import Actor, PublishedVersion, Registry


def read_upload(content: bytes, namespace: str, *, name: str = "") -> PreparedSkill:
    """Return the skill in an archive (tar.gz, zip), ready to be published in ``namespace``.

    The files are at its root, or in one folder named as the skill. ``name`` is the one that it has to have. Takes
    milliseconds to seconds, so it belongs into a thread. Trust: the bytes are hostile. Raises ValidationError
    (``SKILL_INVALID``, each finding in ``details``), and as :func:`skillwire.trust.archive.read_archive`.
    """
    plan = read_archive(content, unwraps=True)
    if name and plan.folder not in {"", name}:
        raise ValidationError("NO_SKILL_MD", f"SKILL.md is in a wrapper folder, {plan.folder}, and not in {name}")
    return read_files(plan.files, namespace, name=name or plan.folder)


def read_files(files: Sequence[FileContent], namespace: str, *, name: str = "") -> PreparedSkill:
    """Return the skill made of ``files``, ready to be published in ``namespace``; as :func:`read_upload`."""
    planned = plan_files(files).files
    ordered = tuple(sorted(planned, key=lambda file: (file.path != SKILL_MD, file.path)))
    prepared = prepare_files(name or _name_in(ordered), ordered, namespace, judges=JUDGES)
    if isinstance(prepared, RefusedFolder):
        errors = [finding for finding in prepared.findings if finding.level == "error"]
        first, more = errors[0], f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        findings = [
            {"code": one.code, "level": one.level, "message": one.message, "place": str(one.place), "fix": one.fix}
            for one in prepared.findings
        ]
        message = f"{first.code}: {first.message}{more}"
        raise ValidationError(
            "SKILL_INVALID", message, place=first.place, fix=first.fix, details={"findings": findings}
        )
    return prepared


def _name_in(files: Sequence[FileContent]) -> str:
    """Return the name in ``SKILL.md``; where it cannot be read, one that the rules then refuse with the reason."""
    first = next((file for file in files if file.path == SKILL_MD), None)
    try:
        return parse_skill_md(bytes(first.content)).name if first else SKILL_MD
    except SkillwireError:
        return "skill"


class Publications:
    """Publishes into a registry what was uploaded; ``blobs`` are those that the server sends files from."""

    def __init__(self, registry: Registry, blobs: BlobStore) -> None:
        self.registry = registry
        self._blobs = blobs
        self._reading = asyncio.Semaphore(limits.REGISTRY_READING)

    async def publish(
        self,
        actor: Actor,
        read: Callable[[], PreparedSkill],
        uploaded: Digest,
        *,
        version: str = "",
        dry_run: bool = False,
    ) -> PublishedVersion:
        """Publish what ``read`` returns (in a thread). Raises as :func:`read_upload` and :meth:`Registry.publish`."""
        async with self._reading:
            prepared = await asyncio.to_thread(read)
        result = await self.registry.publish(actor, prepared, uploaded, version=version, dry_run=dry_run)
        if result.how == "created":
            with suppress(StorageError):  # they can be made from its artifact, and are before the catalog lists it
                await asyncio.to_thread(self._write_blobs, prepared)
        return result

    def _write_blobs(self, prepared: PreparedSkill) -> None:
        for content in (*(file.content for file in prepared.files), prepared.artifact):
            self._blobs.put(bytes(content))
