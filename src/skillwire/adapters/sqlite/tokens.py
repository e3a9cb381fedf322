"""Tokens in SQLite."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from skillwire.model.token import Token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.adapters.sqlite.database import Database

_COLUMNS: Final = "token_id, name, kind, skills, scopes, created, expires, revoked, digest"


class SqliteTokens:
    """Fills :class:`skillwire.ports.TokenStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, token: Token) -> None:
        """Keep a new token."""
        with self._database.writing() as connection:
            connection.execute(f"INSERT INTO tokens ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _row(token))  # noqa: S608  # a constant

    def change(self, token: Token) -> None:
        """Keep ``token`` in place of what was kept under its ID."""
        with self._database.writing() as connection:
            connection.execute(f"REPLACE INTO tokens ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _row(token))  # noqa: S608  # a constant

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


def _row(token: Token) -> tuple[Any, ...]:
    names = (json.dumps(sorted(token.skills)), json.dumps(sorted(token.scopes)))
    return (token.token_id, token.name, token.kind, *names, token.created, token.expires, token.revoked, token.digest)


def _token(row: tuple[Any, ...]) -> Token:
    token_id, name, kind, skills, scopes, created, expires, revoked, digest = row
    names = (frozenset(json.loads(skills)), frozenset(json.loads(scopes)))
    return Token(token_id, name, kind, *names, created, expires, revoked, digest)
