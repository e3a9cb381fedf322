"""Grants, tokens and the logins of programs, as rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Literal

from skillwire import limits
from skillwire.adapters.sql import AUDIT_TURN, Connection, Store, reads, writes
from skillwire.adapters.sql.package_rows import check_standing, read_rights, record_change
from skillwire.model.access import DeviceLogin, Token
from skillwire.model.execution import Grant
from skillwire.model.package import Change, Rights
from skillwire.model.skill import Permissions


class SqlGrants(Store):
    """Fills :class:`skillwire.ports.GrantStore`."""

    @writes
    async def add(self, connection: Connection, grant: Grant) -> None:
        columns = "digest, permissions, network, secrets, skill, version, granted_by, granted_at, files"
        query = f"INSERT INTO grants ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  # a constant
        network, secrets = (json.dumps(sorted(set(names))) for names in grant.permissions)
        asked = (grant.digest, grant.permissions.digest, network, secrets)
        given = (grant.skill, grant.version, grant.by, grant.at, json.dumps(dict(grant.files)))
        # One in place of an earlier one counts as new.
        await connection.run("DELETE FROM grants WHERE digest = ? AND permissions = ?", asked[:2])
        await connection.run(query, (*asked, *given))

    @writes
    async def remove(self, connection: Connection, digest: str) -> int:
        return await connection.run("DELETE FROM grants WHERE digest = ?", (digest,))

    @reads
    async def has(self, connection: Connection, digest: str, permissions: Permissions) -> bool:
        query = "SELECT 1 FROM grants WHERE digest = ? AND permissions = ?"
        return await connection.row(query, (digest, permissions.digest)) is not None

    @reads
    async def all(self, connection: Connection) -> Sequence[Grant]:
        columns = "digest, network, secrets, skill, version, granted_by, granted_at, files"
        query = f"SELECT {columns} FROM grants ORDER BY granted_at, digest, permissions"  # noqa: S608  # a constant
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
            for digest, network, secrets, skill, version, by, at, files in await connection.rows(query)
        ]


_ROW_OF_TOKEN: Final = "token_id, name, kind, skills, scopes, created, expires, revoked, digest, account, used"  # noqa: S105  # columns


class SqlTokens(Store):
    """Fills :class:`skillwire.ports.TokenStore`."""

    @writes
    async def add(
        self, connection: Connection, token: Token, *, change: Change | None = None, most: int | None = None
    ) -> bool:
        if change is not None:
            await check_standing(connection, change, "")  # of no namespace
        valid = "account = ? AND revoked IS NULL AND (expires IS NULL OR expires > ?)"
        count = f"SELECT count(*) FROM tokens WHERE {valid}"  # noqa: S608  # a constant
        if most is not None and await connection.value(count, (token.account, token.created)) >= most:
            return False
        await _insert_token(connection, token, change)
        return True

    @writes
    async def revoke(self, connection: Connection, token_id: str, at: float, *, change: Change | None = None) -> None:
        query = "UPDATE tokens SET revoked = ? WHERE token_id = ? AND revoked IS NULL"
        if await connection.run(query, (at, token_id)) and change is not None:
            await record_change(connection, change)

    @writes
    async def succeed(
        self, connection: Connection, token_id: str, successor: Token, *, end: float, change: Change | None = None
    ) -> bool:
        sooner = "CASE WHEN expires < ?1 THEN expires ELSE ?1 END"
        query = f"UPDATE tokens SET expires = {sooner} WHERE token_id = ?2 AND revoked IS NULL"  # noqa: S608  # a constant
        is_good = await connection.run(query, (end, token_id)) == 1
        if is_good:
            await _insert_token(connection, successor, change)
        return is_good

    @writes
    async def note_use(self, connection: Connection, token_id: str, at: float) -> None:
        await connection.run(
            "UPDATE tokens SET used = ?1 WHERE token_id = ?2 AND (used IS NULL OR used < ?1)", (at, token_id)
        )

    @reads
    async def find(self, connection: Connection, token_id: str) -> Token | None:
        return await _find_token(connection, token_id)

    @reads
    async def find_with_rights(self, connection: Connection, token_id: str) -> tuple[Token, Rights] | None:
        token = await _find_token(connection, token_id)
        if token is None:
            return None
        return token, await read_rights(connection, token.account) if token.account else Rights(None)

    @reads
    async def all(self, connection: Connection, account: str = "") -> Sequence[Token]:
        where = "WHERE account = ?" if account else ""
        query = f"SELECT {_ROW_OF_TOKEN} FROM tokens {where} ORDER BY created, token_id"  # noqa: S608  # constants
        return [_read_token(row) for row in await connection.rows(query, (account,) if account else ())]

    @reads
    async def page(self, connection: Connection, account: str, after: tuple[float, str], limit: int) -> Sequence[Token]:
        where = f"account {'=' if account else '!='} ? AND (created, token_id) > (?, ?)"
        query = f"SELECT {_ROW_OF_TOKEN} FROM tokens WHERE {where} ORDER BY created, token_id LIMIT ?"  # noqa: S608  # constants
        return [_read_token(row) for row in await connection.rows(query, (account, *after, limit))]

    @writes
    async def forget(self, connection: Connection, beginning: str, *, before: float) -> int:
        query = "DELETE FROM tokens WHERE kind = 'api_key' AND expires < ?1 AND substr(name, 1, length(?2)) = ?2"
        return await connection.run(query, (before, beginning))

    @writes
    async def end_session(self, connection: Connection, number: str, ends: float, *, now: float, most: int) -> None:
        await connection.run(
            "INSERT INTO ended_sessions VALUES (?, ?) ON CONFLICT (number) DO UPDATE SET ends = excluded.ends",
            (number, ends),
        )
        kept = "SELECT number FROM ended_sessions WHERE ends > ? ORDER BY ends DESC LIMIT ?"
        await connection.run(f"DELETE FROM ended_sessions WHERE number NOT IN ({kept})", (now, most))  # noqa: S608  # a constant

    @reads
    async def is_session_ended(self, connection: Connection, number: str) -> bool:
        query = "SELECT 1 FROM ended_sessions WHERE number = ?"
        return await connection.row(query, (number,)) is not None


class SqlDeviceLogins(Store):
    """Fills :class:`skillwire.ports.DeviceLoginStore`."""

    turn = AUDIT_TURN

    @writes
    async def add(self, connection: Connection, login: DeviceLogin, *, now: float, most: int) -> bool:
        await connection.run("DELETE FROM device_logins WHERE expires < ?", (now - limits.DEVICE_LOGIN_SECONDS,))
        if await connection.value("SELECT count(*) FROM device_logins") >= most:
            return False
        values = (*login[:3], json.dumps(login.scopes), *login[4:])
        await connection.run("INSERT INTO device_logins VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        return True

    @reads
    async def find(self, connection: Connection, user: bytes) -> DeviceLogin | None:
        return await _read_device_login(connection, "user", user)

    @writes
    async def decide(self, connection: Connection, login: DeviceLogin, change: Change) -> bool:
        statement = (
            "UPDATE device_logins SET scopes = ?, decision = ?, account = ?, decided_by = ?, lifetime = ? "
            "WHERE device = ? AND decision = ''"
        )
        values = (json.dumps(login.scopes), *login[8:], login.device)
        if await connection.run(statement, values) == 0:
            return False
        await record_change(connection, change)
        return True

    @writes
    async def poll(self, connection: Connection, device: bytes, now: float) -> DeviceLogin | None:
        login = await _read_device_login(connection, "device", device)
        if login is not None and login.decision and not login.is_polled_too_soon(now):
            await connection.run("DELETE FROM device_logins WHERE device = ?", (device,))
        elif login is not None:
            longer = limits.DEVICE_POLL_SECONDS * login.is_polled_too_soon(now)
            statement = 'UPDATE device_logins SET polled = ?, "interval" = "interval" + ? WHERE device = ?'
            await connection.run(statement, (now, longer, device))
        return login


async def _read_device_login(
    connection: Connection, column: Literal["device", "user"], code: bytes
) -> DeviceLogin | None:
    query = f'SELECT * FROM device_logins WHERE "{column}" = ?'  # noqa: S608  # a constant
    row = await connection.row(query, (code,))
    return None if row is None else DeviceLogin._make([*row[:3], tuple(json.loads(row[3])), *row[4:]])


async def _find_token(connection: Connection, token_id: str) -> Token | None:
    query = f"SELECT {_ROW_OF_TOKEN} FROM tokens WHERE token_id = ?"  # noqa: S608  # a constant
    row = await connection.row(query, (token_id,))
    return None if row is None else _read_token(row)


async def _insert_token(connection: Connection, token: Token, change: Change | None) -> None:
    statement = f"INSERT INTO tokens ({_ROW_OF_TOKEN}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  # a constant
    names = (json.dumps(sorted(token.skills)), json.dumps(sorted(token.scopes)))
    times = (token.created, token.expires, token.revoked)
    await connection.run(statement, (token.token_id, token.name, token.kind, *names, *times, *token[8:]))
    if change is not None:
        await record_change(connection, change)


def _read_token(row: tuple[Any, ...]) -> Token:
    token_id, name, kind, skills, scopes, *rest = row
    names = (frozenset(json.loads(skills)), frozenset(json.loads(scopes)))
    return Token(token_id, name, kind, *names, *rest)
