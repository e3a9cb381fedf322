"""From what a publisher sends to a version in the registry: read, checked by the strict rules, stored whole or not.

Every API of the registry publishes through here, so all of them refuse the same, with every finding. The bytes that
they receive share one bound. Some clients send files one by one, each for a ticket; until they are published together,
they are uploads.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from skillwire import limits
from skillwire.errors import NotFoundError, SkillwireError, StorageError, ValidationError
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.folder.publish import RefusedFolder, prepare_files
from skillwire.model.package import AnnouncedFile, upload_number
from skillwire.model.skill import SKILL_MD, FileContent
from skillwire.protocols.skill_sharing.judge import JUDGES
from skillwire.server.problems import Problem, ProblemError
from skillwire.server.request_bodies import COMPRESSED, Bodies, Bounds
from skillwire.trust.archive import plan_files, read_archive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from skillwire.folder.publish import PreparedSkill
    from skillwire.model.digest import Digest
    from skillwire.ports import AnnouncedFileStore, UploadStore
    from skillwire.registry.packages import PublishedVersion, PublishRight, Registry
    from skillwire.server.request_bodies import SpooledBody

_CROWDED: Final = Problem(503, "NOT_READY", "too many archives are being received at once", {}, {"Retry-After": "1"})
_BOUNDS: Final = Bounds(
    limits.ARCHIVE_BYTES,
    limits.REGISTRY_BODIES_BYTES,
    limits.REGISTRY_BODIES_ADDRESS_BYTES,
    Problem(413, "ARCHIVE_SIZE", f"an archive has at most {limits.ARCHIVE_BYTES:,} bytes"),
    Problem(415, "MEDIA_TYPE", COMPRESSED),
    _CROWDED,
)


def read_upload(
    content: bytes | Sequence[FileContent], namespace: str, *, name: str = "", inside: str = ""
) -> PreparedSkill:
    """Return the skill in an archive (tar.gz, zip), or made of single files, ready to be published in ``namespace``.

    The files are at its root, in one folder named as the skill, or ``inside`` a folder. ``name`` is the one that it has
    to have. Takes milliseconds to seconds, so it belongs into a thread. Trust: the bytes are hostile. Raises
    ValidationError (``SKILL_INVALID``, each finding in ``details``), and as
    :func:`skillwire.trust.archive.read_archive`.
    """
    if isinstance(content, bytes):
        plan = read_archive(content, unwraps=True, inside=inside)
    else:
        plan = plan_files(content, unwraps=True)
    if name and plan.folder not in {"", name}:
        raise ValidationError("NO_SKILL_MD", f"SKILL.md is in a wrapper folder, {plan.folder}, and not in {name}")
    ordered = tuple(sorted(plan.files, key=lambda file: (file.path != SKILL_MD, file.path)))
    prepared = prepare_files(name or plan.folder or _name_in(ordered), ordered, namespace, judges=JUDGES)
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
    """Publishes into a registry what was uploaded; the bytes that the server sends are made when they are needed."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.bodies = Bodies(_BOUNDS)
        self._reading = asyncio.Semaphore(limits.REGISTRY_READING)

    async def read(self, read: Callable[[], PreparedSkill]) -> PreparedSkill:
        """Return what ``read`` returns in a thread, few at a time. Raises as :func:`read_upload`."""
        async with self._reading:
            return await asyncio.to_thread(read)

    async def publish(
        self,
        right: PublishRight,
        read: Callable[[], PreparedSkill],
        uploaded: Digest,
        *,
        version: str = "",
        dry_run: bool = False,
    ) -> PublishedVersion:
        """Publish what ``read`` returns (in a thread). Raises as :func:`read_upload` and :meth:`Registry.publish`."""
        prepared = await self.read(read)
        return await self.registry.publish(right, prepared, uploaded, version=version, dry_run=dry_run)


class UploadedFiles:
    """Files that were announced or received one by one and are not published yet; ``clock`` is seconds since 1970.

    The bytes of each are an upload that belongs to its ticket.
    """

    def __init__(self, announced: AnnouncedFileStore, uploads: UploadStore, clock: Callable[[], float]) -> None:
        self._announced = announced
        self._uploads = uploads
        self._clock = clock

    async def announce(self, account: str, path: str, size: int, digest: Digest) -> str:
        """Return the ticket for a file. Raises ProblemError (413, 503), StorageError."""
        if not 0 <= size <= limits.ARCHIVE_FILE_BYTES:
            raise ProblemError(Problem(413, "LIMIT_SIZE", f"a file has at most {limits.ARCHIVE_FILE_BYTES:,} bytes"))
        now = self._clock()
        await self._remove_bytes(await self._announced.remove_ended(now))
        ends = now + limits.REGISTRY_UPLOADED_SECONDS
        file = AnnouncedFile(secrets.token_urlsafe(24), account, path, size, digest, ends)
        if not await self._announced.announce(file):
            raise ProblemError(_CROWDED)
        return file.ticket

    async def receive(self, account: str, ticket: str, body: SpooledBody) -> None:
        """Keep the bytes of a file. Raises ValidationError (``UPLOAD_MISSING``) for others than were announced."""
        (file,) = await self.find(account, [ticket])
        if file.digest != body.digest:
            fix = "Announce the file with the size and the digest of the bytes that you send."
            raise ValidationError("UPLOAD_MISSING", f"these are not the bytes of {ascii(file.path)[:200]}", fix=fix)
        if file.size:
            upload = await self._uploads.begin(ticket, file.size, file.digest)
            if not upload.offset:
                await self._uploads.append(ticket, upload.number, 0, _piece(body))

    async def find(self, account: str, tickets: Iterable[str]) -> list[AnnouncedFile]:
        """Return the files with these tickets. Raises ValidationError (``UPLOAD_MISSING``)."""
        asked = list(dict.fromkeys(tickets))
        found = {file.ticket: file for file in await self._announced.find(account, asked, self._clock())}
        if len(found) < len(asked):
            raise ValidationError("UPLOAD_MISSING", "no file was announced with this ticket, or too long ago")
        return [found[ticket] for ticket in asked]

    def read(self, file: AnnouncedFile) -> FileContent:
        """Return a file with its bytes, which were received.

        Raises ValidationError (``UPLOAD_MISSING``), ConflictError (``UPLOAD_OFFSET``), StorageError.
        """
        try:
            content = self._uploads.read(file.ticket, upload_number(file.size, file.digest)) if file.size else b""
        except NotFoundError as error:
            message = f"the bytes of {ascii(file.path)[:200]} were not received"
            raise ValidationError("UPLOAD_MISSING", message) from error
        return FileContent(file.path, content)

    async def remove(self, files: Sequence[AnnouncedFile]) -> None:
        """Forget files and their bytes."""
        await self._announced.remove([file.ticket for file in files])
        await self._remove_bytes(files)

    async def _remove_bytes(self, files: Sequence[AnnouncedFile]) -> None:
        for file in files:
            with suppress(NotFoundError, StorageError):  # those that are left expire
                await self._uploads.remove(file.ticket, upload_number(file.size, file.digest))


async def _piece(body: SpooledBody) -> AsyncIterator[bytes]:
    yield await asyncio.to_thread(body.read)
