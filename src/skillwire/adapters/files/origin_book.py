"""What is remembered of origins, in ``origins.json`` of the state directory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from skillwire.adapters.files.atomic import storage_error, write_atomically
from skillwire.errors import DecodeError, Place
from skillwire.limits import STATE_FILE_BYTES
from skillwire.model.origin_record import OriginRecord
from skillwire.trust.guarded_json import load_json

if TYPE_CHECKING:
    from pathlib import Path


class FileOriginBook:
    """Fills :class:`skillwire.ports.OriginBook` with one JSON file, read at each use since it is small."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def look_up(self, base: str) -> OriginRecord | None:
        """Return what is remembered of ``base``.

        Raises:
            DecodeError: the file is damaged. Forgetting it silently would forget every downgrade check.
        """
        fields = self._read().get(base)
        if fields is None:
            return None
        try:
            generation = fields["generation"]
            text = generation if isinstance(generation, str) else None
            return OriginRecord(str(fields["first_seen"]), fields["accepted"] is True, text)
        except (KeyError, TypeError) as error:
            raise self._damaged() from error

    def record(self, base: str, record: OriginRecord) -> None:
        """Remember ``record`` for ``base``."""
        fields = {
            "first_seen": record.first_seen,
            "accepted": record.accepted,
            "generation": record.generation,
        }
        origins = {**self._read(), base: fields}
        write_atomically(self._path, json.dumps(origins, indent=2, sort_keys=True).encode(), mode=0o600)

    def _read(self) -> dict[str, dict[str, str | bool | None]]:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise storage_error(error, self._path) from error
        origins = load_json(content, max_bytes=STATE_FILE_BYTES, source=str(self._path))
        if not isinstance(origins, dict):
            raise self._damaged()
        return cast("dict[str, dict[str, str | bool | None]]", origins)

    def _damaged(self) -> DecodeError:
        return DecodeError("STATE_FORM", "the file of remembered origins is damaged", place=Place(str(self._path)))
