"""The numbered steps of a schema, each an SQL file that never changes once it was released.

The table ``migrations`` of a database names the steps that were run, with their checksums. A database with a step that
this version does not know was written by a newer one, and is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import NamedTuple

from skillwire.errors import StorageError


class Migration(NamedTuple):
    """One numbered step of the schema."""

    number: int
    name: str
    script: str

    @property
    def checksum(self) -> str:
        """The SHA-256 of its text, in hexadecimal."""
        return hashlib.sha256(self.script.encode()).hexdigest()


def read_migrations(package: str) -> list[Migration]:
    """Return the steps of the schema beside ``package``, in order."""
    folder = resources.files(package) / "migrations"
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return [Migration(int(name[:4]), name, (folder / name).read_text("utf-8")) for name in files]


def pending_migrations(
    migrations: Sequence[Migration], done: Mapping[int, str], error: Callable[[str, str | None], StorageError]
) -> list[Migration]:
    """Return the steps that are not ``done``. Raises ``error`` where a database has others than this version."""
    known = {migration.number: migration for migration in migrations}
    for number, checksum in done.items():
        if number not in known:
            message = f"its schema has step {number}, which this version does not know"
            raise error(message, "Use the version of skillwire that wrote it, or a newer one.")
        if known[number].checksum != checksum:
            message = f"{known[number].name} was run with another text, of a build between releases"
            fix = "With that build: skillwire registry export; with this one, registry import into a new database."
            raise error(message, fix)
    return [migration for migration in migrations if migration.number not in done]
