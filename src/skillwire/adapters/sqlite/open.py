"""Opening the state directory, the one place that knows which of its files is for what; grants and tokens in SQLite."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Final, Literal

from skillwire import limits
from skillwire.adapters.files.atomic import read_bounded, state_directory, storage_errors, write_atomically
from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sqlite.async_database import AsyncDatabase, Store, reads, writes
from skillwire.adapters.sqlite.database import DATABASE, Database
from skillwire.adapters.sqlite.ledger import SqliteLedger
from skillwire.adapters.sqlite.packages import SqlitePackages
from skillwire.adapters.sqlite.run_blobs import SqliteRunBlobs
from skillwire.errors import SourceLocation, StorageError
from skillwire.executions.grants import Grants
from skillwire.model.access import DeviceLogin, Token
from skillwire.model.execution import Grant, RunSettings
from skillwire.model.skill import Permissions
from skillwire.registry.tokens import Tokens


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


_ROW_OF_TOKEN: Final = "token_id, name, kind, skills, scopes, created, expires, revoked, digest, account, used"  # noqa: S105  # columns


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

    @writes
    def note_use(self, connection: Connection, token_id: str, at: float) -> None:
        connection.execute("UPDATE tokens SET used = max(ifnull(used, 0), ?) WHERE token_id = ?", (at, token_id))

    @reads
    def find(self, connection: Connection, token_id: str) -> Token | None:
        query = f"SELECT {_ROW_OF_TOKEN} FROM tokens WHERE token_id = ?"  # noqa: S608  # a constant
        row = connection.execute(query, (token_id,)).fetchone()
        return None if row is None else _read_token(row)

    @reads
    def all(self, connection: Connection, account: str = "") -> Sequence[Token]:
        where = "WHERE account = ?" if account else ""
        query = f"SELECT {_ROW_OF_TOKEN} FROM tokens {where} ORDER BY created, token_id"  # noqa: S608  # constants
        return [_read_token(row) for row in connection.execute(query, (account,) if account else ())]

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


class SqliteDeviceLogins(Store):
    """Fills :class:`skillwire.ports.DeviceLoginStore`."""

    @writes
    def add(self, connection: Connection, login: DeviceLogin, *, now: float, most: int) -> bool:
        connection.execute("DELETE FROM device_logins WHERE expires < ?", (now - limits.DEVICE_LOGIN_SECONDS,))
        if connection.execute("SELECT count(*) FROM device_logins").fetchone()[0] >= most:
            return False
        values = (*login[:3], json.dumps(login.scopes), *login[4:])
        connection.execute("INSERT INTO device_logins VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        return True

    @reads
    def find(self, connection: Connection, user: bytes) -> DeviceLogin | None:
        return _read_device_login(connection, "user", user)

    @writes
    def decide(self, connection: Connection, login: DeviceLogin) -> bool:
        statement = (
            "UPDATE device_logins SET scopes = ?, decision = ?, account = ?, decided_by = ?, lifetime = ? "
            "WHERE device = ? AND decision = ''"
        )
        values = (json.dumps(login.scopes), *login[8:], login.device)
        return connection.execute(statement, values).rowcount == 1

    @writes
    def poll(self, connection: Connection, device: bytes, now: float) -> DeviceLogin | None:
        login = _read_device_login(connection, "device", device)
        if login is not None and login.decision and not login.is_polled_too_soon(now):
            connection.execute("DELETE FROM device_logins WHERE device = ?", (device,))
        elif login is not None:
            longer = limits.DEVICE_POLL_SECONDS * login.is_polled_too_soon(now)
            statement = "UPDATE device_logins SET polled = ?, interval = interval + ? WHERE device = ?"
            connection.execute(statement, (now, longer, device))
        return login


def _read_device_login(connection: Connection, column: Literal["device", "user"], code: bytes) -> DeviceLogin | None:
    query = f"SELECT * FROM device_logins WHERE {column} = ?"  # noqa: S608  # a constant
    row = connection.execute(query, (code,)).fetchone()
    return None if row is None else DeviceLogin._make([*row[:3], tuple(json.loads(row[3])), *row[4:]])


def _insert_token(connection: Connection, token: Token) -> None:
    statement = f"INSERT INTO tokens ({_ROW_OF_TOKEN}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  # a constant
    names = (json.dumps(sorted(token.skills)), json.dumps(sorted(token.scopes)))
    times = (token.created, token.expires, token.revoked)
    connection.execute(statement, (token.token_id, token.name, token.kind, *names, *times, *token[8:]))


def _read_token(row: tuple[Any, ...]) -> Token:
    token_id, name, kind, skills, scopes, *rest = row
    names = (frozenset(json.loads(skills)), frozenset(json.loads(scopes)))
    return Token(token_id, name, kind, *names, *rest)


SERVER_KEY: Final = "server.key"
_SERVER_KEY_BYTES: Final = 32  # random
OUTPUTS: Final = "outputs"
RUN_BLOBS: Final = "run-blobs"
ARTIFACTS: Final = "artifacts"


def open_database() -> AsyncDatabase:
    """Return the database in the state directory: one object for all of this process; made with its first use."""
    return _database(state_directory() / DATABASE)


@cache
def _database(path: Path) -> AsyncDatabase:
    return AsyncDatabase(Database(path))


def open_tokens() -> Tokens:
    """Return the tokens in the state directory; created if missing. Raises StorageError."""
    return _tokens(state_directory())


@cache
def _tokens(state: Path) -> Tokens:
    return Tokens(SqliteTokens(_database(state / DATABASE)), read_server_key(state / SERVER_KEY), time.time)


def close_databases() -> None:
    """Let go of each database that this process has opened; what is opened next is opened anew."""
    _tokens.cache_clear()
    _database.cache_clear()


def open_packages() -> SqlitePackages:
    """Return the packages of the registry, large artifacts beside the database; made with its first use."""
    return SqlitePackages(open_database(), open_artifacts())


def open_artifacts() -> FileBlobs:
    """Return the artifacts that are too large for a row of the database."""
    return FileBlobs(state_directory() / ARTIFACTS, durable=True)


def open_device_logins() -> SqliteDeviceLogins:
    """Return the logins that programs asked for; the database is made with their first use."""
    return SqliteDeviceLogins(open_database())


def open_server_key() -> bytes:
    """Return this server's key, from which others are derived; created if missing. Raises StorageError."""
    return read_server_key(state_directory() / SERVER_KEY)


def open_grants() -> Grants:
    """Return what was granted on this machine; the database is made with its first use."""
    return Grants(SqliteGrants(open_database()), time.time)


def open_ledger() -> SqliteLedger:
    """Return the executions in the state directory, large outputs beside the database; made with its first use."""
    return SqliteLedger(open_database(), FileBlobs(state_directory() / OUTPUTS, durable=True))


def open_run_blobs(settings: RunSettings) -> SqliteRunBlobs:
    """Return the blobs of runs in the state directory; made with their first use."""
    return SqliteRunBlobs(open_database(), state_directory() / RUN_BLOBS, settings)


def has_database() -> bool:
    """Whether there is a database; a command that only reads creates none."""
    return (state_directory() / DATABASE).exists()


def read_server_key(path: Path) -> bytes:
    """Return the key in ``path``, made if absent. Raises StorageError (``SERVER_KEY``, ``STORAGE``)."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            # Written beside its place and linked there: no process reads half of a key, and the first of several wins.
            new = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
            try:
                write_atomically(new, secrets.token_bytes(_SERVER_KEY_BYTES), mode=0o600, durable=True)
                with contextlib.suppress(FileExistsError):
                    os.link(new, path)
            finally:
                new.unlink(missing_ok=True)
    key = read_bounded(path, _SERVER_KEY_BYTES + 1, owner_only_code="SERVER_KEY") or b""
    if len(key) != _SERVER_KEY_BYTES:
        raise StorageError("SERVER_KEY", f"{len(key)} bytes are no key", place=SourceLocation(str(path)))
    return key
