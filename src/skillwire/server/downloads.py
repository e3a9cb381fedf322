"""Downloads of packages: the bytes of any version, and how often they are fetched.

The blob store holds what the catalog serves. The bytes of other versions, and lost ones, are made again from the
artifact in the package store. A download counts once for each identity and day: an account, or an address. Only a keyed
hash of the identity is stored, in a task beside the response, so counting neither delays nor fails a download.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import structlog

from skillwire import limits
from skillwire.errors import SkillwireError, StorageError, one_line
from skillwire.folder.pack import zip_files
from skillwire.folder.publish import packed_files
from skillwire.model.access import Access
from skillwire.model.skill import FileContent, Skill
from skillwire.protocols.agent_skills.server import BlobResponse, CachePolicy
from skillwire.server.responses import BlobSender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skillwire.model.digest import Digest
    from skillwire.model.package import Package, PackageName, PackageVersion
    from skillwire.ports import BlobStore, PackageStore
    from skillwire.registry.tokens import Tokens
    from skillwire.server.context import RequestContext

_PURPOSE: Final = "counted downloads 1"
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
        found = BlobResponse(artifact.media_type, _cache(package), artifact.digest, artifact.size)
        await self.send(context, found, version.skill)
        self.count(context, package.name, version.version)

    async def zipped(self, package: Package, version: PackageVersion, folder: str = "") -> BlobResponse:
        """Return the files of a version as a .zip, in ``folder`` if one is named. Raises StorageError.

        Made of the artifact, and kept among the bytes that are served until the next start.
        """
        key = version.skill.artifact.digest, folder
        found = self._zips.get(key)
        if found is None or not await asyncio.to_thread(self._blobs.has, *found):
            async with self._zipping:
                content = await self._store.artifact(version.skill.artifact.digest)
                if content is None:
                    raise StorageError("STORAGE", f"the artifact of {package.name} is lost")
                found = await asyncio.to_thread(self._zip, version.skill, content, folder)
        self._zips[key] = found
        if len(self._zips) > limits.REGISTRY_ZIPS:
            self._zips.popitem(last=False)
        return BlobResponse("application/zip", _cache(package), *found)

    def _zip(self, skill: Skill, content: bytes, folder: str) -> tuple[Digest, int]:
        prefix = f"{folder}/" if folder else ""
        contents = zip(skill.files, packed_files(skill, content), strict=True)
        packed = zip_files([FileContent(prefix + file.path, data, file.executable) for file, data in contents])
        return self._blobs.put(packed), len(packed)

    async def send(self, context: RequestContext, response: BlobResponse, skill: Skill) -> None:
        """Send a file or the artifact of ``skill``. Raises StorageError."""
        await self.restore(skill, [(response.digest, response.size)])
        await self._sender.send(response, context.scope, context.send)

    async def restore(self, skill: Skill, blobs: Iterable[tuple[Digest, int]]) -> None:
        """Make the bytes of ``skill`` again where one of ``blobs`` (digest and size) is lost. Raises StorageError."""
        if not await asyncio.to_thread(lambda: all(self._blobs.has(*blob) for blob in blobs)):
            content = await self._store.artifact(skill.artifact.digest)
            if content is not None:  # otherwise readers miss them, and the sender reports the loss
                await asyncio.to_thread(self._write, skill, content)

    def _write(self, skill: Skill, content: bytes) -> None:
        for one in (*packed_files(skill, content), content):
            self._blobs.put(one)

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
            key = (await asyncio.to_thread(self._tokens)).key_for(_PURPOSE)
            counted = hmac.digest(key, f"{day} {identity}".encode(), hashlib.sha256)[:_HASH_BYTES]
            recent = counted + f"{name}@{version}".encode()
            if recent not in self._counted:
                await self._store.count_download(name, version, day, counted)
                self._counted[recent] = None
                if len(self._counted) > limits.REGISTRY_COUNTED:
                    self._counted.popitem(last=False)
        except SkillwireError as error:
            structlog.get_logger("skillwire").warning("a download is not counted", reason=one_line(error))


def _cache(package: Package) -> CachePolicy:
    """Return how long the bytes of a version may be kept."""
    return CachePolicy.FOREVER if package.access is Access.PUBLIC else CachePolicy.PRIVATE
