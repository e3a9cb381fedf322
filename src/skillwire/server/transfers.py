"""The bytes of packages: how a registry receives and publishes them, and sends and counts them.

Every API of the registry publishes through :class:`Publications`, by the strict rules, so all of them refuse the same,
with every finding; a skill is stored whole or not. The bytes that they receive share one bound. Some clients send files
one by one, each for a ticket; until they are published together, they are :class:`UploadedFiles`.

The blob store holds what the catalog serves. The bytes of other versions, and lost ones, are made again from the
artifact in the package store. A download counts once for each identity and day: an account, or an address. Only a keyed
hash of the identity is stored, in a task beside the response, so counting neither delays nor fails a download.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias

import structlog

from skillwire import limits
from skillwire.errors import (
    NotFoundError,
    SkillwireError,
    SourceLocation,
    StorageError,
    ValidationError,
    one_line,
)
from skillwire.folder.frontmatter import parse_skill_md
from skillwire.folder.pack import zip_files
from skillwire.folder.publish import RefusedFolder, packed_files, prepare_files
from skillwire.model.access import Access
from skillwire.model.digest import Digest
from skillwire.model.package import AnnouncedFile, upload_number
from skillwire.model.skill import SKILL_MD, FileContent, Finding, Skill
from skillwire.protocols.agent_skills.server import BlobResponse, CachePolicy
from skillwire.protocols.skill_sharing.judge import JUDGES
from skillwire.server.problems import Problem, ProblemError
from skillwire.server.request_bodies import COMPRESSED, Bodies, Bounds
from skillwire.server.responses import BlobSender
from skillwire.trust.archive import plan_files, read_archive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from skillwire.folder.publish import PreparedSkill
    from skillwire.model.package import Package, PackageName, PackageVersion
    from skillwire.ports import AnnouncedFileStore, BlobStore, PackageStore, UploadStore
    from skillwire.registry.packages import PublishedVersion, PublishRight, Registry
    from skillwire.registry.tokens import Tokens
    from skillwire.server.request_bodies import SpooledBody
    from skillwire.server.routing import RequestContext

#: What a client sends: an archive, or single files.
UploadContent: TypeAlias = bytes | Sequence[FileContent]
LoadContent: TypeAlias = Callable[[], Awaitable[UploadContent]]
_CROWDED: Final = Problem(503, "NOT_READY", "too many archives are being received at once", {}, {"Retry-After": "1"})
_PACK: Final = "Pack the skill's folder as .tar.gz or .zip, or publish it with skillwire publish."
_BOUNDS: Final = Bounds(
    limits.ARCHIVE_BYTES,
    limits.REGISTRY_BODIES_BYTES,
    limits.REGISTRY_BODIES_ADDRESS_BYTES,
    Problem(413, "ARCHIVE_SIZE", f"an archive has at most {limits.ARCHIVE_BYTES:,} bytes"),
    Problem(415, "MEDIA_TYPE", COMPRESSED, {"fix": "Send the archive as it is."}),
    _CROWDED,
)


def read_upload(content: UploadContent, namespace: str, *, name: str = "", inside: str = "") -> PreparedSkill:
    """Return the skill in an archive (tar.gz, zip), or made of single files, ready to be published in ``namespace``.

    The files are at its root, in one folder named as the skill, or ``inside`` a folder. ``name`` is the one that it has
    to have. Takes milliseconds to seconds, so it belongs into a thread. Trust: the bytes are hostile. Raises
    ValidationError (``SKILL_INVALID``), and as :func:`skillwire.trust.archive.read_archive`; ``details`` have each
    finding.
    """
    try:
        if isinstance(content, bytes):
            plan = read_archive(content, unwraps=True, inside=inside)
        else:
            plan = plan_files(content, unwraps=True)
        if name and plan.folder not in {"", name}:
            raise ValidationError("NO_SKILL_MD", f"SKILL.md is in a wrapper folder, {plan.folder}, and not in {name}")
    except SkillwireError as error:
        raise _with_finding(error) from error
    ordered = tuple(sorted(plan.files, key=lambda file: (file.path != SKILL_MD, file.path)))
    prepared = prepare_files(name or plan.folder or _name_in(ordered), ordered, namespace, judges=JUDGES)
    if isinstance(prepared, RefusedFolder):
        errors = [finding for finding in prepared.findings if finding.level == "error"]
        first, more = errors[0], f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        message, details = f"{first.code}: {first.message}{more}", {"findings": [*map(_finding_row, prepared.findings)]}
        raise ValidationError("SKILL_INVALID", message, place=first.place, fix=first.fix, details=details)
    return prepared


def _with_finding(error: SkillwireError) -> SkillwireError:
    """Return the refusal of an upload as its sender reads it: with its one finding, and the path where one is known."""
    fix = _PACK if error.code == "ARCHIVE_MALFORMED" else error.diagnostics().fix
    place = error.details.get("path", SKILL_MD if error.code == "NO_SKILL_MD" else "")
    finding = Finding(error.code, "error", error.message, SourceLocation(str(place)), fix)
    details = {**error.details, "findings": [_finding_row(finding)]}
    return type(error)(error.code, error.message, fix=fix, details=details)


def _finding_row(finding: Finding) -> dict[str, str]:
    return {**finding._asdict(), "place": str(finding.place)}


def _name_in(files: Sequence[FileContent]) -> str:
    """Return the name in ``SKILL.md``; where it cannot be read, one that the rules then refuse with the reason."""
    first = next((file for file in files if file.path == SKILL_MD), None)
    try:
        return parse_skill_md(bytes(first.content)).name if first else SKILL_MD
    except SkillwireError:
        return "skill"


class Publications:
    """Publishes into a registry what was uploaded; the bytes that the server sends are made when they are needed."""

    def __init__(self, registry: Registry, spool: Callable[[], BinaryIO]) -> None:
        self.registry = registry
        self.bodies = Bodies(_BOUNDS, spool)
        self._reading = asyncio.Semaphore(limits.REGISTRY_READING)

    async def read(
        self, sent: UploadContent | LoadContent, namespace: str, *, name: str = "", inside: str = ""
    ) -> PreparedSkill:
        """Return the skill in what was sent; few are loaded at a time. Raises as :func:`read_upload`."""
        async with self._reading:
            content = await sent() if callable(sent) else sent
            return await asyncio.to_thread(read_upload, content, namespace, name=name, inside=inside)

    async def publish(
        self,
        right: PublishRight,
        sent: UploadContent | LoadContent,
        uploaded: Digest,
        *,
        name: str = "",
        inside: str = "",
        version: str = "",
        dry_run: bool = False,
    ) -> PublishedVersion:
        """Publish the skill in what was sent. Raises as :func:`read_upload` and :meth:`Registry.publish`."""
        prepared = await self.read(sent, right.namespace, name=name, inside=inside)
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
        """Return the ticket for a file.

        Raises ProblemError (413, 503 until earlier files end), ValidationError (``UPLOAD_MISSING``) for an empty file,
        whose bytes need not be sent, with the digest of others, StorageError.
        """
        if not 0 <= size <= limits.ARCHIVE_FILE_BYTES:
            raise ProblemError(Problem(413, "LIMIT_SIZE", f"a file has at most {limits.ARCHIVE_FILE_BYTES:,} bytes"))
        if size == 0 and digest != Digest.of(b""):
            raise _differs(path)
        now = self._clock()
        await self._remove_bytes(await self._announced.remove_ended(now))
        ends = now + limits.REGISTRY_UPLOADED_SECONDS
        file = AnnouncedFile(secrets.token_urlsafe(24), account, path, size, digest, ends)
        if (first_end := await self._announced.announce(file)) is not None:
            wait = {"Retry-After": str(max(1, math.ceil(first_end - now)))}
            most = f"{limits.ARCHIVE_ENTRIES:,} files or {limits.ARCHIVE_TOTAL_BYTES:,} bytes"
            message = f"{account} would have announced more than {most} that are not published"
            raise ProblemError(replace(_CROWDED, message=message, fields=wait))
        return file.ticket

    async def receive(self, account: str, ticket: str, body: SpooledBody) -> None:
        """Keep the bytes of a file.

        Raises ValidationError (``UPLOAD_MISSING``) for others than were announced, ConflictError, StorageError.
        """
        (file,) = await self.find(account, [ticket])
        if file.digest != body.digest:
            raise _differs(file.path)
        if file.size:
            upload = await self._uploads.begin(ticket, file.size, file.digest)
            if upload.offset < upload.size:  # the disk may have been full the first time
                await self._uploads.append(ticket, upload.number, upload.offset, _rest(body, upload.offset))

    async def find(self, account: str, tickets: Iterable[str]) -> list[AnnouncedFile]:
        """Return the files with these tickets. Raises ValidationError (``UPLOAD_MISSING``)."""
        asked = list(dict.fromkeys(tickets))
        found = {file.ticket: file for file in await self._announced.find(account, asked, self._clock())}
        if len(found) < len(asked):
            raise ValidationError("UPLOAD_MISSING", "no file was announced with this ticket, or too long ago")
        return [found[ticket] for ticket in asked]

    async def read(self, file: AnnouncedFile) -> FileContent:
        """Return a file with its bytes, which were received.

        Raises ValidationError (``UPLOAD_MISSING``), ConflictError (``UPLOAD_OFFSET``), StorageError.
        """
        try:
            number = upload_number(file.size, file.digest)
            content = await self._uploads.read(file.ticket, number) if file.size else b""
        except NotFoundError as error:
            message = f"the bytes of {ascii(file.path)[:200]} were not received"
            raise ValidationError("UPLOAD_MISSING", message) from error
        return FileContent(file.path, content)

    async def remove(self, files: Sequence[AnnouncedFile]) -> None:
        """Forget files and their bytes. Raises StorageError."""
        await self._announced.remove([file.ticket for file in files])
        await self._remove_bytes(files)

    async def _remove_bytes(self, files: Sequence[AnnouncedFile]) -> None:
        for file in files:
            with suppress(NotFoundError, StorageError):  # those that are left expire
                await self._uploads.remove(file.ticket, upload_number(file.size, file.digest))


def _differs(path: str) -> ValidationError:
    fix = "Announce the file with the size and the digest of the bytes that you send."
    return ValidationError("UPLOAD_MISSING", f"these are not the bytes of {ascii(path)[:200]}", fix=fix)


async def _rest(body: SpooledBody, offset: int) -> AsyncIterator[bytes]:
    yield (await body.read())[offset:]


_COUNT_PURPOSE: Final = "counted downloads 1"
_HASH_BYTES: Final = 16
_DAY: Final = 86_400


def first_day(now: float) -> str:
    """Return the first of the days whose downloads are shown."""
    return day_at(now - (limits.REGISTRY_DOWNLOAD_DAYS - 1) * _DAY)


def day_at(now: float) -> str:
    """Return a day in UTC, such as ``2026-11-24``."""
    return time.strftime("%Y-%m-%d", time.gmtime(now))


class Downloads:
    """Sends the bytes of versions and counts downloads; ``tokens`` is first called when one is counted."""

    def __init__(
        self, store: PackageStore, blobs: BlobStore, tokens: Callable[[], Tokens], clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._sender = BlobSender(blobs)
        self._tokens = tokens
        self._clock = clock
        self._zips: OrderedDict[tuple[Digest, str], tuple[Digest, int]] = OrderedDict()
        self._zipping = asyncio.Semaphore(limits.REGISTRY_READING)
        self._counted: OrderedDict[bytes, None] = OrderedDict()  # lately, so that repeated ones write nothing
        self._counting: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Wait for the downloads that are being counted."""
        await asyncio.gather(*self._counting)

    async def send_artifact(self, context: RequestContext, package: Package, version: PackageVersion) -> None:
        """Send the artifact of a version that the caller may download, and count it."""
        artifact = version.skill.artifact
        found = BlobResponse(artifact.media_type, _cache_policy(package), artifact.digest, artifact.size)
        await self.send(context, found, version.skill)
        self.count(context, package.name, version.version)

    async def zipped(
        self, package: Package, version: PackageVersion, folder: str = "", *, stores: bool = False
    ) -> BlobResponse:
        """Return the response that sends the files of a version as a .zip, in ``folder`` if one is named.

        Its digest is known until the next start. ``stores`` keeps the bytes, which :meth:`send` makes otherwise. Raises
        StorageError.
        """
        key = version.skill.artifact.digest, folder
        found = self._zips.get(key)
        if found is None:
            async with self._zipping:
                content = await self._store.artifact(version.skill.artifact.digest)
                if content is None:
                    raise StorageError("STORAGE", f"the artifact of {package.name} is lost")
                found = await asyncio.to_thread(self._zip, version.skill, content, folder, stores=stores)
        self._zips[key] = found
        if len(self._zips) > limits.REGISTRY_ZIPS:
            self._zips.popitem(last=False)
        return BlobResponse("application/zip", _cache_policy(package), *found)

    def _zip(self, skill: Skill, content: bytes, folder: str, *, stores: bool) -> tuple[Digest, int]:
        packed = zip_skill(skill, content, folder)
        if stores:
            with suppress(StorageError):  # then it is made again
                self._blobs.put(packed)
        return Digest.of(packed), len(packed)

    async def send(
        self, context: RequestContext, response: BlobResponse, skill: Skill, zipped_in: str | None = None
    ) -> None:
        """Send a file or the artifact of ``skill``, or its .zip ``zipped_in`` a folder. Raises StorageError."""
        content = None
        if not await asyncio.to_thread(self._blobs.has, response.digest, response.size):
            artifact = await self._store.artifact(skill.artifact.digest)
            if artifact is not None:  # otherwise the sender reports the loss
                content = await asyncio.to_thread(self._make, response, skill, artifact, zipped_in)
        await self._sender.send(response, context.scope, context.send, content)

    def _make(self, response: BlobResponse, skill: Skill, artifact: bytes, zipped_in: str | None) -> bytes | None:
        """Make the bytes of a response again, and store them; return them where they are few and no disk takes them."""
        made = _parts(skill, artifact) if zipped_in is None else [zip_skill(skill, artifact, zipped_in)]
        try:
            for one in made:
                self._blobs.put(one)
        except StorageError:
            if response.size > limits.REGISTRY_ROW_BYTES:
                raise
            return next((one for one in made if Digest.of(one) == response.digest), None)
        return None

    async def restore(self, skill: Skill, blobs: Iterable[tuple[Digest, int]]) -> None:
        """Make the bytes of ``skill`` again where one of ``blobs`` (digest and size) is lost. Raises StorageError."""
        if not await asyncio.to_thread(lambda: all(self._blobs.has(*blob) for blob in blobs)):
            content = await self._store.artifact(skill.artifact.digest)
            if content is not None:  # otherwise readers miss them
                await asyncio.to_thread(lambda: [self._blobs.put(one) for one in _parts(skill, content)])

    def count(self, context: RequestContext, name: PackageName, version: str) -> None:
        """Count a download by the caller, unless it was counted today or the request was HEAD."""
        if context.method != "GET" or len(self._counting) >= limits.REGISTRY_COUNTING:
            return
        account = context.principal.account if context.principal else ""
        identity = f"account {account}" if account else context.owner
        task = asyncio.create_task(self._count(identity, name, version, day_at(self._clock())))
        self._counting.add(task)
        task.add_done_callback(self._counting.discard)

    async def _count(self, identity: str, name: PackageName, version: str, day: str) -> None:
        try:
            key = (await asyncio.to_thread(self._tokens)).key_for(_COUNT_PURPOSE)
            counted = hmac.digest(key, f"{day} {identity}".encode(), hashlib.sha256)[:_HASH_BYTES]
            recent = counted + f"{name}@{version}".encode()
            if recent not in self._counted:
                await self._store.count_download(name, version, day, counted)
                self._counted[recent] = None
                if len(self._counted) > limits.REGISTRY_COUNTED:
                    self._counted.popitem(last=False)
        except SkillwireError as error:
            structlog.get_logger("skillwire").warning("a download is not counted", reason=one_line(error))


def _parts(skill: Skill, artifact: bytes) -> Sequence[bytes]:
    return *packed_files(skill, artifact), artifact


def zip_skill(skill: Skill, artifact: bytes, folder: str = "") -> bytes:
    """Return the files in the artifact of a skill as a .zip, in ``folder`` if one is named."""
    prefix = f"{folder}/" if folder else ""
    contents = zip(skill.files, packed_files(skill, artifact), strict=True)
    return zip_files([FileContent(prefix + file.path, data, file.executable) for file, data in contents])


def _cache_policy(package: Package) -> CachePolicy:
    """Return how long the bytes of a version may be kept."""
    return CachePolicy.FOREVER if package.access is Access.PUBLIC else CachePolicy.PRIVATE
