"""Grants and tokens in SQLite."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from skillwire.adapters.sqlite.async_database import Store, reads, writes
from skillwire.model.access import Token
from skillwire.model.execution import Grant
from skillwire.model.skill import Permissions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from sqlite3 import Connection


class SqliteGrants(Store):
    """Fills :class:`skillwire.ports.GrantStore`."""

    @writes
    def add(self, connection: Connection, grant: Grant) -> None:
        columns = "digest, permissions, network, secrets, skill, version, granted_by, granted_at, files"
        query = f"INSERT OR REPLACE INTO grants ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  # a constant
        network, secrets = (json.dumps(sorted(set(names))) for names in grant.permissions)
        asked = (grant.digest, grant.permissions.digest, network, secrets)
        given = (grant.skill, grant.version, grant.by, grant.at, json.dumps(dict(grant.files)))
        connection.execute(query, (*asked, *given))

    @writes
    def remove(self, connection: Connection, digest: str) -> int:
        return connection.execute("DELETE FROM grants WHERE digest = ?", (digest,)).rowcount

    @reads
    def has(self, connection: Connection, digest: str, permissions: Permissions) -> bool:
        query = "SELECT 1 FROM grants WHERE digest = ? AND permissions = ?"
        return connection.execute(query, (digest, permissions.digest)).fetchone() is not None

    @reads
    def all(self, connection: Connection) -> Sequence[Grant]:
        columns = "digest, network, secrets, skill, version, granted_by, granted_at, files"
        query = f"SELECT {columns} FROM grants ORDER BY granted_at, rowid"  # noqa: S608  # a constant
        return [
            Grant(
                digest,
                Permissions(tuple(json.loads(network)), tuple(json.loads(secrets))),
                skill,
                version,
                by,
                at,
                json.loads(files),
            )
            for digest, network, secrets, skill, version, by, at, files in connection.execute(query)
        ]


_ROW_OF_TOKEN: Final = "token_id, name, kind, skills, scopes, created, expires, revoked, digest"  # noqa: S105  # columns


class SqliteTokens(Store):
    """Fills :class:`skillwire.ports.TokenStore`."""

    @writes
    def add(self, connection: Connection, token: Token) -> None:
        _insert_token(connection, token)

    @writes
    def revoke(self, connection: Connection, token_id: str, at: float) -> None:
        query = "UPDATE tokens SET revoked = ? WHERE token_id = ? AND revoked IS NULL"
        connection.execute(query, (at, token_id))

    @writes
    def succeed(self, connection: Connection, token_id: str, successor: Token, *, end: float) -> bool:
        query = "UPDATE tokens SET expires = min(ifnull(expires, ?1), ?1) WHERE token_id = ?2 AND revoked IS NULL"
        is_good = connection.execute(query, (end, token_id)).rowcount == 1
        if is_good:
            _insert_token(connection, successor)
        return is_good

    @reads
    def find(self, connection: Connection, token_id: str) -> Token | None:
        query = f"SELECT {_ROW_OF_TOKEN} FROM tokens WHERE token_id = ?"  # noqa: S608  # a constant
        row = connection.execute(query, (token_id,)).fetchone()
        return None if row is None else _read_token(row)

    @reads
    def all(self, connection: Connection) -> Sequence[Token]:
        query = f"SELECT {_ROW_OF_TOKEN} FROM tokens ORDER BY created, token_id"  # noqa: S608  # a constant
        return [_read_token(row) for row in connection.execute(query)]

    @writes
    def forget(self, connection: Connection, beginning: str, *, before: float) -> int:
        query = "DELETE FROM tokens WHERE kind = 'api_key' AND expires < ?1 AND substr(name, 1, length(?2)) = ?2"
        return connection.execute(query, (before, beginning)).rowcount

    @writes
    def end_session(self, connection: Connection, number: str, ends: float, *, now: float, most: int) -> None:
        connection.execute("INSERT OR REPLACE INTO ended_sessions VALUES (?, ?)", (number, ends))
        kept = "SELECT number FROM ended_sessions WHERE ends > ? ORDER BY ends DESC LIMIT ?"
        connection.execute(f"DELETE FROM ended_sessions WHERE number NOT IN ({kept})", (now, most))  # noqa: S608  # a constant

    @reads
    def is_session_ended(self, connection: Connection, number: str) -> bool:
        query = "SELECT 1 FROM ended_sessions WHERE number = ?"
        return connection.execute(query, (number,)).fetchone() is not None


def _insert_token(connection: Connection, token: Token) -> None:
    statement = f"INSERT INTO tokens ({_ROW_OF_TOKEN}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  # a constant
    names = (json.dumps(sorted(token.skills)), json.dumps(sorted(token.scopes)))
    times = (token.created, token.expires, token.revoked)
    connection.execute(statement, (token.token_id, token.name, token.kind, *names, *times, token.digest))


def _read_token(row: tuple[Any, ...]) -> Token:
    token_id, name, kind, skills, scopes, created, expires, revoked, digest = row
    names = (frozenset(json.loads(skills)), frozenset(json.loads(scopes)))
    return Token(token_id, name, kind, *names, created, expires, revoked, digest)
