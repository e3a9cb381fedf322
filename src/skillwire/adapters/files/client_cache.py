"""What a client keeps of origins: cached responses, and ``origins.json`` in the state directory.

A cached response is one file per URL and credential: one line of JSON (URL, headers, time, a hash of the credential),
then the body. A file that cannot be read counts as absent: a cache may be lost and is never trusted.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

from skillwire.adapters.files.atomic import locked, storage_error, storage_errors, write_atomically
from skillwire.errors import DecodeError, SourceLocation
from skillwire.limits import STATE_FILE_BYTES
from skillwire.model.install import CachedResponse, OriginRecord
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from collections.abc import Iterator
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
        """Remove every response fetched with ``credential``; return their number. Raises StorageError (``STORAGE``)."""
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


_VERIFIED: Final = "0.2.0"  # the generation that has digests, and from which there is no going back
_GLANCED_AT: Final = 2_000  # origins that were only looked at: the oldest are forgotten beyond this number

Fields = dict[str, "str | bool | None"]


class FileOriginBook:
    """Fills :class:`skillwire.ports.OriginBook` with one JSON file, read at each use since it is small."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def look_up(self, base: str) -> OriginRecord | None:
        """Return the record of ``base``.

        Raises DecodeError when the file is damaged: ignoring it would skip downgrade checks.
        """
        return self.records().get(base)

    def records(self) -> dict[str, OriginRecord]:
        """Return all records by origin, in alphabetical order. Raises as :meth:`look_up` does."""
        return {base: self._decode(fields) for base, fields in sorted(self._read().items())}

    def withdraw(self, base: str) -> None:
        """Forget that someone agreed to ``base``, and nothing else: a promise of digests outlives a consent."""
        with self._changing() as origins:
            if base in origins:
                origins[base]["accepted"] = False

    def record(self, base: str, record: OriginRecord) -> None:
        """Remember ``record`` for ``base``; what was agreed to or verified before is not forgotten by it."""
        with self._changing() as origins:
            before = origins.get(base, {})
            origins[base] = {
                "first_seen": before.get("first_seen", record.first_seen),
                "accepted": record.accepted or before.get("accepted") is True,
                "generation": _VERIFIED if before.get("generation") == _VERIFIED else record.generation,
            }

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Fields]]:
        """Give what is remembered, to be changed while no other process does; write it afterwards."""
        with locked(self._path.with_suffix(".lock")):
            origins = self._read()
            yield origins
            write_atomically(self._path, json.dumps(_bounded(origins), indent=2, sort_keys=True).encode(), mode=0o600)

    def _decode(self, fields: Fields) -> OriginRecord:
        try:
            generation = fields["generation"]
            text = generation if isinstance(generation, str) else None
            return OriginRecord(str(fields["first_seen"]), fields["accepted"] is True, text)
        except (KeyError, TypeError) as error:
            raise self._damaged() from error

    def _read(self) -> dict[str, Fields]:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise storage_error(error, self._path) from error
        origins = load_json(content, max_bytes=STATE_FILE_BYTES, source=str(self._path))
        if not isinstance(origins, dict):
            raise self._damaged()
        return cast("dict[str, Fields]", origins)

    def _damaged(self) -> DecodeError:
        return DecodeError(
            "STATE_FORM", "the file of remembered origins is damaged", place=SourceLocation(str(self._path))
        )


def _bounded(origins: dict[str, Fields]) -> dict[str, Fields]:
    """Return ``origins`` without the oldest of those that carry neither a consent nor a promise of digests."""
    glanced_at = [
        base
        for base, fields in sorted(origins.items(), key=lambda item: str(item[1].get("first_seen")))
        if fields.get("accepted") is not True and fields.get("generation") != _VERIFIED
    ]
    forgotten = set(glanced_at[: max(0, len(glanced_at) - _GLANCED_AT)])
    return {base: fields for base, fields in origins.items() if base not in forgotten}
