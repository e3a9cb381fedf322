"""The packages of a registry, as the thread that publishes folders reads them.

The bytes that are served are derived: an artifact in the package store has them all, so those of a package are written
when it is published here, and again when they are lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from skillwire.errors import NotFoundError
from skillwire.folder.publish import packed_files
from skillwire.model.packed_skills import pack_skill, read_summary, unpack_skill

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from skillwire.model.skill import Skill
    from skillwire.ports import BlobStore, PackageStore

    T = TypeVar("T")

_PAGE: Final = 1_000


class PackageFeed:
    """Fills :class:`skillwire.adapters.files.published_folders.PackageFeed`; ``wait`` runs a coroutine to its end."""

    def __init__(self, store: PackageStore, blobs: BlobStore, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._store = store
        self._blobs = blobs
        self._wait = wait
        self._cursor = 0

    def changes(self) -> list[tuple[int, bytes | None]]:
        """Return the number and the packed skill of each package that changed; None for no skill."""
        return list(self._wait(self._changes()).items())

    async def _changes(self) -> dict[int, bytes | None]:
        found: dict[int, bytes | None] = {}
        while (page := await self._store.changed(self._cursor, _PAGE)).packages:
            for number, package, packed in page.packages:
                if packed is not None and read_summary(packed).access != package.access:
                    found[number] = pack_skill(unpack_skill(packed)._replace(access=package.access))
                else:
                    found[number] = packed
            self._cursor = page.cursor
        return found

    def write_blobs(self, skills: Iterable[Skill]) -> None:
        """Put the files and the artifact of each skill into the blob store. Raises NotFoundError, StorageError."""
        self._wait(self._write_blobs(skills))

    async def _write_blobs(self, skills: Iterable[Skill]) -> None:
        for skill in skills:
            content = await self._store.artifact(skill.artifact.digest)
            if content is None:
                raise NotFoundError("FILE_NOT_FOUND", f"the artifact of {skill.publisher}/{skill.name} is lost")
            for one in (*packed_files(skill, content), content):
                self._blobs.put(one)
