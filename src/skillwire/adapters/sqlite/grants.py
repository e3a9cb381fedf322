"""Grants in SQLite."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from skillwire.model.action import Permissions
from skillwire.model.grant import Grant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.adapters.sqlite.database import Database


class SqliteGrants:
    """Fills :class:`skillwire.ports.GrantStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, grant: Grant) -> None:
        """Keep a grant, in place of an earlier one of the same digest and permissions."""
        columns = "digest, permissions, network, secrets, skill, version, granted_by, granted_at, files"
        with self._database.writing() as connection:
            query = f"INSERT OR REPLACE INTO grants ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  # a constant
            connection.execute(query, _row(grant))

    def remove(self, digest: str) -> int:
        """Take back every grant of this artifact; return how many there were."""
        with self._database.writing() as connection:
            return connection.execute("DELETE FROM grants WHERE digest = ?", (digest,)).rowcount

    def has(self, digest: str, permissions: Permissions) -> bool:
        """Whether the artifact of this digest may run with these permissions."""
        with self._database.reading() as connection:
            query = "SELECT 1 FROM grants WHERE digest = ? AND permissions = ?"
            return connection.execute(query, (digest, permissions.digest)).fetchone() is not None

    def all(self) -> Sequence[Grant]:
        """Return every grant, oldest first."""
        columns = "digest, network, secrets, skill, version, granted_by, granted_at, files"
        with self._database.reading() as connection:
            query = f"SELECT {columns} FROM grants ORDER BY granted_at, rowid"  # noqa: S608  # a constant
            return [_grant(row) for row in connection.execute(query)]


def _row(grant: Grant) -> tuple[Any, ...]:
    network, secrets = (json.dumps(sorted(set(names))) for names in grant.permissions)
    asked = (grant.digest, grant.permissions.digest, network, secrets)
    return (*asked, grant.skill, grant.version, grant.by, grant.at, json.dumps(dict(grant.files)))


def _grant(row: tuple[Any, ...]) -> Grant:
    digest, network, secrets, skill, version, by, at, files = row
    permissions = Permissions(tuple(json.loads(network)), tuple(json.loads(secrets)))
    return Grant(digest, permissions, skill, version, by, at, json.loads(files))
