"""Tokens in SQLite."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from skillwire.model.token import Token

if TYPE_CHECKING:
    from collections.abc import Sequence
    from sqlite3 import Connection

    from skillwire.adapters.sqlite.database import Database

_COLUMNS: Final = "token_id, name, kind, skills, scopes, created, expires, revoked, digest"


class SqliteTokens:
    """Fills :class:`skillwire.ports.TokenStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, token: Token) -> None:
        """Keep a new token."""
        with self._database.writing() as connection:
            _insert(connection, token)

    def revoke(self, token_id: str, at: float) -> None:
        """Keep when a token was first taken back."""
        with self._database.writing() as connection:
            query = "UPDATE tokens SET revoked = ? WHERE token_id = ? AND revoked IS NULL"
            connection.execute(query, (at, token_id))

    def succeed(self, token_id: str, successor: Token, *, end: float) -> bool:
        """Keep ``successor`` and let the old token end, unless that was taken back."""
        with self._database.writing() as connection:
            query = "UPDATE tokens SET expires = min(ifnull(expires, ?1), ?1) WHERE token_id = ?2 AND revoked IS NULL"
            is_good = connection.execute(query, (end, token_id)).rowcount == 1
            if is_good:
                _insert(connection, successor)
        return is_good

    def find(self, token_id: str) -> Token | None:
        """Return the token of this ID."""
        with self._database.reading() as connection:
            query = f"SELECT {_COLUMNS} FROM tokens WHERE token_id = ?"  # noqa: S608  # a constant
            row = connection.execute(query, (token_id,)).fetchone()
        return None if row is None else _token(row)

    def all(self) -> Sequence[Token]:
        """Return every token, oldest first."""
        with self._database.reading() as connection:
            query = f"SELECT {_COLUMNS} FROM tokens ORDER BY created, token_id"  # noqa: S608  # a constant
            return [_token(row) for row in connection.execute(query)]

    def forget(self, beginning: str, *, before: float) -> int:
        """Forget API keys that ended long ago."""
        with self._database.writing() as connection:
            query = "DELETE FROM tokens WHERE kind = 'api_key' AND expires < ?1 AND substr(name, 1, length(?2)) = ?2"
            return connection.execute(query, (before, beginning)).rowcount


def _insert(connection: Connection, token: Token) -> None:
    connection.execute(f"INSERT INTO tokens ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _row(token))  # noqa: S608  # a constant


def _row(token: Token) -> tuple[Any, ...]:
    names = (json.dumps(sorted(token.skills)), json.dumps(sorted(token.scopes)))
    return (token.token_id, token.name, token.kind, *names, token.created, token.expires, token.revoked, token.digest)


def _token(row: tuple[Any, ...]) -> Token:
    token_id, name, kind, skills, scopes, created, expires, revoked, digest = row
    names = (frozenset(json.loads(skills)), frozenset(json.loads(scopes)))
    return Token(token_id, name, kind, *names, created, expires, revoked, digest)
