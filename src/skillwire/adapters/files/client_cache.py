"""What a client keeps of origins: cached responses, and ``origins.json`` in the state directory.

A cached response is one file per URL and credential: one line of JSON (URL, headers, time, a hash of the credential),
then the body. A file that cannot be read counts as absent: a cache may be lost and is never trusted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from skillwire.adapters.files.atomic import damaged, locked, read_state, storage_errors, write_atomically
from skillwire.model.ref import CachedResponse, OriginRecord

_KEPT_HEADERS: Final = frozenset({"age", "etag", "last-modified", "cache-control", "content-type"})


class FileResponseCache:
    """Fills :class:`skillwire.ports.ResponseCache` with a folder."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def look_up(self, url: str, credential: str | None) -> CachedResponse | None:
        """Return the response stored for ``url`` and ``credential``."""
        try:
            head, _, body = self._path(url, credential).read_bytes().partition(b"\n")
            fields = json.loads(head)
            if fields["url"] == url and fields["size"] == len(body):
                headers, fetched_at = dict(fields["headers"]), float(fields["fetched_at"])
                return CachedResponse(url, body, headers, fetched_at, fields["answered_by"])
        except (OSError, ValueError, KeyError, TypeError):  # absent, cut off or of another version: fetched again
            return None
        return None

    def keep(self, response: CachedResponse, credential: str | None) -> None:
        """Store ``response``, in place of an earlier one."""
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

    def drop(self, url: str, credential: str | None) -> None:
        """Remove the response stored for ``url`` and ``credential``. Raises StorageError (``STORAGE``)."""
        path = self._path(url, credential)
        with storage_errors(path):
            path.unlink(missing_ok=True)

    def forget(self, credential: str) -> int:
        """Remove every response fetched with ``credential``; return their number. Raises StorageError (``STORAGE``)."""
        count = 0
        for path in self._directory.glob("*/*"):
            with storage_errors(path):
                try:
                    with path.open("rb") as file:
                        is_from_it = json.loads(file.readline())["seen_with"] == _name(credential)
                except (FileNotFoundError, ValueError, KeyError, TypeError):  # gone, cut off, or of another version
                    continue
                if is_from_it:
                    path.unlink(missing_ok=True)
                    count += 1
        return count

    def _path(self, url: str, credential: str | None) -> Path:
        # Two users of one machine account may hold different credentials: their answers differ, so must the key.
        key = hashlib.sha256(f"{credential or ''}\n{url}".encode()).hexdigest()
        return self._directory / key[:2] / key[2:]


def _name(credential: str | None) -> str | None:
    return None if credential is None else hashlib.sha256(credential.encode()).hexdigest()


def is_readable(path: Path) -> bool:
    """Whether a file of the cache is complete."""
    head, _, body = path.read_bytes().partition(b"\n")
    try:
        return bool(json.loads(head)["size"] == len(body))
    except (ValueError, KeyError, TypeError):
        return False  # cut off, or of another version


_VERIFIED: Final = "0.2.0"  # the generation that has digests, and from which there is no going back
_GLANCED_AT: Final = 2_000  # origins that were only looked at: the oldest are forgotten beyond this number

Fields = dict[str, "str | bool | None"]


class FileOriginBook:
    """Fills :class:`skillwire.ports.OriginBook` with one JSON file, read at each use since it is small."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def look_up(self, base: str) -> OriginRecord | None:
        """Return the record of ``base``. Raises DecodeError for a damaged file: downgrade checks need it."""
        return self.records().get(base)

    def records(self) -> dict[str, OriginRecord]:
        """Return all records by origin, in alphabetical order. Raises as :meth:`look_up` does."""
        return {base: self._decode(fields) for base, fields in sorted(read_state(self._path).items())}

    def withdraw(self, base: str) -> None:
        """Withdraw the consent to ``base``; its promise of digests stays."""
        with self._changing() as origins:
            if base in origins:
                origins[base]["accepted"] = False

    def record(self, base: str, record: OriginRecord) -> None:
        """Merge ``record`` into that of ``base``; an earlier consent or verification stays."""
        with self._changing() as origins:
            before = origins.get(base, {})
            origins[base] = {
                "first_seen": before.get("first_seen", record.first_seen),
                "accepted": record.accepted or before.get("accepted") is True,
                "generation": _VERIFIED if before.get("generation") == _VERIFIED else record.generation,
            }

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Fields]]:
        """Yield the records under a lock, and write them afterwards."""
        with locked(self._path.with_suffix(".lock")):
            origins = read_state(self._path)
            yield origins
            write_atomically(self._path, json.dumps(_bounded(origins), indent=2, sort_keys=True).encode(), mode=0o600)

    def _decode(self, fields: Fields) -> OriginRecord:
        try:
            generation = fields["generation"]
            text = generation if isinstance(generation, str) else None
            return OriginRecord(str(fields["first_seen"]), fields["accepted"] is True, text)
        except (KeyError, TypeError) as error:
            raise damaged(self._path) from error


def _bounded(origins: dict[str, Fields]) -> dict[str, Fields]:
    """Return ``origins`` without the oldest of those that carry neither a consent nor a promise of digests."""
    glanced_at = [
        base
        for base, fields in sorted(origins.items(), key=lambda item: str(item[1].get("first_seen")))
        if fields.get("accepted") is not True and fields.get("generation") != _VERIFIED
    ]
    forgotten = set(glanced_at[: max(0, len(glanced_at) - _GLANCED_AT)])
    return {base: fields for base, fields in origins.items() if base not in forgotten}
