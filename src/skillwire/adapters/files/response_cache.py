"""The cache of answers: one file for each URL and credential, so that indexes need not be fetched again.

A file holds one line of JSON (URL, headers, time, a hash of the credential) and then the body. What cannot be read
back is treated as absent: a cache may be lost, never trusted.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from skillwire.adapters.files.atomic import storage_errors, write_atomically
from skillwire.model.cached_response import CachedResponse

if TYPE_CHECKING:
    from pathlib import Path

_KEPT_HEADERS: Final = frozenset({"etag", "last-modified", "cache-control", "content-type"})


class FileResponseCache:
    """Fills :class:`skillwire.ports.ResponseCache` with a folder."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def look_up(self, url: str, credential: str | None) -> CachedResponse | None:
        """Return what is kept for ``url`` as seen with ``credential``."""
        try:
            head, _, body = self._path(url, credential).read_bytes().partition(b"\n")
            fields = json.loads(head)
            if fields["url"] == url and fields["size"] == len(body):
                return CachedResponse(
                    url, body, dict(fields["headers"]), float(fields["fetched_at"]), fields["answered_by"]
                )
        except (OSError, ValueError, KeyError, TypeError):
            # Absent, or cut off, or of another version: as good as absent, it is fetched again.
            return None
        return None

    def keep(self, response: CachedResponse, credential: str | None) -> None:
        """Keep ``response``, in place of an earlier one."""
        headers = {name: value for name, value in response.headers.items() if name in _KEPT_HEADERS}
        fields = {
            "url": response.url,
            "size": len(response.body),
            "headers": headers,
            "fetched_at": response.fetched_at,
            "answered_by": response.answered_by,
            "seen_with": _name(credential),
        }
        content = json.dumps(fields).encode() + b"\n" + response.body
        write_atomically(self._path(response.url, credential), content, mode=0o600)

    def forget(self, credential: str) -> int:
        """Remove every answer as seen with ``credential``; return how many there were.

        Raises:
            StorageError: ``STORAGE``.
        """
        count = 0
        for path in self._directory.glob("*/*"):
            with storage_errors(path):
                if _seen_with(path) == _name(credential):
                    path.unlink(missing_ok=True)
                    count += 1
        return count

    def _path(self, url: str, credential: str | None) -> Path:
        # Two users of one machine account may hold different credentials: their answers differ, so must the key.
        key = hashlib.sha256(f"{credential or ''}\n{url}".encode()).hexdigest()
        return self._directory / key[:2] / key[2:]


def _name(credential: str | None) -> str | None:
    return None if credential is None else hashlib.sha256(credential.encode()).hexdigest()


def _seen_with(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            head = json.loads(file.readline())
        return str(head["seen_with"]) if head["seen_with"] else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # gone, cut off, or of another version
        return None


def is_readable(path: Path) -> bool:
    """Whether a file of the cache is whole, so that an answer can be read back from it."""
    head, _, body = path.read_bytes().partition(b"\n")
    try:
        return bool(json.loads(head)["size"] == len(body))
    except (ValueError, KeyError, TypeError):
        return False  # cut off, or of another version
