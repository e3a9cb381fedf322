"""What a client keeps, in memory: the models that files are compared with."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from skillwire.errors import StorageError
from skillwire.model.digest import Digest

if TYPE_CHECKING:
    from pathlib import Path

    from skillwire.model.ref import CachedResponse, OriginRecord


class MemoryBlobs:
    """Fills :class:`skillwire.ports.BlobStore`."""

    def __init__(self) -> None:
        self.contents: dict[Digest, bytes] = {}
        self.parts: dict[Digest, bytearray] = {}
        self.writing: set[Digest] = set()

    def put(self, content: bytes) -> Digest:
        digest = Digest.of(content)
        self.contents[digest] = content
        return digest

    def read(self, digest: Digest) -> bytes | None:
        return self.contents.get(digest)

    def has(self, digest: Digest, size: int) -> bool:
        return digest in self.contents and len(self.contents[digest]) == size

    def path(self, digest: Digest) -> Path | None:  # noqa: ARG002  # there is no file
        return None

    def download(self, digest: Digest) -> MemoryDownload:
        return MemoryDownload(self, digest)


class MemoryDownload:
    """Fills :class:`skillwire.ports.Download`."""

    def __init__(self, blobs: MemoryBlobs, digest: Digest) -> None:
        self._blobs, self._digest = blobs, digest
        self._is_ours = self._is_closed = False
        self._take()

    def _take(self) -> None:
        if self._digest not in self._blobs.writing:
            self._blobs.writing.add(self._digest)
            self._is_ours = True

    @property
    def _part(self) -> bytearray:
        return self._blobs.parts.setdefault(self._digest, bytearray()) if self._is_ours else bytearray()

    @property
    def size(self) -> int:
        return len(self._part)

    def begin(self, position: int) -> bool:
        if not self._is_ours and not self._is_closed:
            self._take()
        if position != self.size:
            self._part.clear()
        return self._is_ours and position == self.size

    def append(self, data: bytes | bytearray) -> None:
        if not self._is_ours:
            raise StorageError("STORAGE", "the download has ended")
        self._part.extend(data)

    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self._part).hexdigest()}"

    def keep(self) -> None:
        if self.digest() == self._digest:
            self._blobs.put(bytes(self._part))
        self._part.clear()
        self.close()

    def discard(self) -> None:
        self._part.clear()
        self._release()

    def close(self) -> None:
        self._is_closed = True
        self._release()

    def _release(self) -> None:
        if self._is_ours:
            self._blobs.writing.discard(self._digest)
            self._is_ours = False


class MemoryResponseCache:
    """Fills :class:`skillwire.ports.ResponseCache`."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str | None], CachedResponse] = {}

    def look_up(self, url: str, credential: str | None) -> CachedResponse | None:
        return self._kept.get((url, credential))

    def keep(self, response: CachedResponse, credential: str | None) -> None:
        self._kept[response.url, credential] = response

    def drop(self, url: str, credential: str | None) -> None:
        self._kept.pop((url, credential), None)


class MemoryOriginBook:
    """Fills :class:`skillwire.ports.OriginBook`."""

    def __init__(self) -> None:
        self._records: dict[str, OriginRecord] = {}

    def look_up(self, base: str) -> OriginRecord | None:
        return self._records.get(base)

    def record(self, base: str, record: OriginRecord) -> None:
        before = self._records.get(base, record)
        has_digests = "0.2.0" in {before.generation, record.generation}
        self._records[base] = record._replace(
            first_seen=before.first_seen,
            accepted=record.accepted or before.accepted,
            generation="0.2.0" if has_digests else record.generation,
        )
