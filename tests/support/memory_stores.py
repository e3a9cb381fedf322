"""Stores of grants and tokens in memory: the models that the durable ones are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.memory_packages import MemoryPackages

from skillwire import limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.model.access import DeviceLogin, Token
    from skillwire.model.execution import Grant
    from skillwire.model.package import Change, Rights
    from skillwire.model.skill import Permissions


class MemoryGrants:
    """Fills :class:`skillwire.ports.GrantStore`."""

    def __init__(self) -> None:
        self._grants: dict[tuple[str, str], Grant] = {}

    async def add(self, grant: Grant) -> None:
        key = grant.digest, grant.permissions.digest
        self._grants.pop(key, None)
        self._grants[key] = grant

    async def remove(self, digest: str) -> int:
        found = [key for key in self._grants if key[0] == digest]
        for key in found:
            del self._grants[key]
        return len(found)

    async def has(self, digest: str, permissions: Permissions) -> bool:
        return (digest, permissions.digest) in self._grants

    async def all(self) -> Sequence[Grant]:
        return sorted(self._grants.values(), key=lambda grant: grant.at)


class MemoryLeases:
    """Stands for :class:`skillwire.adapters.sql.servers.SqlLeases`."""

    def __init__(self) -> None:
        self._leases: dict[str, tuple[str, int, float]] = {}

    async def lead(self, name: str, server: str, now: float, seconds: float) -> int | None:
        leader, number, ends = self._leases.get(name, (server, 0, 0.0))
        is_over = not now < ends <= now + 2 * seconds
        if leader != server and not is_over:
            return None
        number += is_over or leader != server
        self._leases[name] = server, number, now + seconds
        return number

    async def resign(self, name: str, server: str) -> None:
        if name in self._leases and self._leases[name][0] == server:
            self._leases[name] = (*self._leases[name][:2], 0.0)


class MemoryDeviceLogins:
    """Fills :class:`skillwire.ports.DeviceLoginStore`; ``packages`` has the audit log."""

    def __init__(self, packages: MemoryPackages) -> None:
        self._packages = packages
        self._logins: dict[bytes, DeviceLogin] = {}

    async def add(self, login: DeviceLogin, *, now: float, most: int) -> bool:
        kept = now - limits.DEVICE_LOGIN_SECONDS
        self._logins = {device: one for device, one in self._logins.items() if one.expires >= kept}
        if len(self._logins) >= most:
            return False
        self._logins[login.device] = login
        return True

    async def find(self, user: bytes) -> DeviceLogin | None:
        return next((one for one in self._logins.values() if one.user == user), None)

    async def decide(self, login: DeviceLogin, change: Change) -> bool:
        known = self._logins.get(login.device)
        if known is None or known.decision:
            return False
        self._logins[login.device] = login._replace(polled=known.polled, interval=known.interval)
        await self._packages.record(change)
        return True

    async def poll(self, device: bytes, now: float) -> DeviceLogin | None:
        login = self._logins.get(device)
        if login is not None and login.decision and not login.is_polled_too_soon(now):
            del self._logins[device]
        elif login is not None:
            longer = limits.DEVICE_POLL_SECONDS * login.is_polled_too_soon(now)
            self._logins[device] = login._replace(polled=now, interval=login.interval + longer)
        return login


class MemoryTokens:
    """Fills :class:`skillwire.ports.TokenStore`; ``packages`` has rights, the audit log, and the dictionary."""

    def __init__(self, packages: MemoryPackages | None = None) -> None:
        self._packages = packages or MemoryPackages()
        self._tokens = self._packages.tokens
        self._sessions: dict[str, float] = {}

    async def _record(self, change: Change | None) -> None:
        if change is not None:
            await self._packages.record(change)

    async def add(self, token: Token, *, change: Change | None = None, most: int | None = None) -> bool:
        if change is not None:
            self._packages.check_standing(change)
        valid = [one for one in await self.all(token.account) if one.is_good_at(token.created)]
        if most is not None and len(valid) >= most:
            return False
        self._tokens[token.token_id] = token
        await self._record(change)
        return True

    async def revoke(self, token_id: str, at: float, *, change: Change | None = None) -> None:
        token = self._tokens.get(token_id)
        if token is not None and token.revoked is None:
            self._tokens[token_id] = token._replace(revoked=at)
            await self._record(change)

    async def succeed(self, token_id: str, successor: Token, *, end: float, change: Change | None = None) -> bool:
        token = self._tokens.get(token_id)
        if token is None or token.revoked is not None:
            return False
        self._tokens[token_id] = token._replace(expires=min(end, end if token.expires is None else token.expires))
        await self.add(successor, change=change)
        return True

    async def note_use(self, token_id: str, at: float) -> None:
        token = self._tokens[token_id]
        self._tokens[token_id] = token._replace(used=max(token.used or 0, at))

    async def find(self, token_id: str) -> Token | None:
        return self._tokens.get(token_id)

    async def find_with_rights(self, token_id: str) -> tuple[Token, Rights] | None:
        token = self._tokens.get(token_id)
        return token and (token, await self._packages.rights(token.account))

    async def all(self, account: str = "") -> Sequence[Token]:
        found = [token for token in self._tokens.values() if account in {"", token.account}]
        return sorted(found, key=lambda token: (token.created, token.token_id))

    async def page(self, account: str, after: tuple[float, str], limit: int) -> Sequence[Token]:
        found = [one for one in await self.all(account) if one.account and (one.created, one.token_id) > after]
        return found[:limit]

    async def forget(self, prefix: str, *, before: float) -> int:
        ended = [
            token.token_id
            for token in self._tokens.values()
            if token.kind == "api_key"
            and token.name.startswith(prefix)
            and token.expires is not None
            and token.expires < before
        ]
        for token_id in ended:
            del self._tokens[token_id]
        return len(ended)

    async def end_session(self, number: str, ends: float, *, now: float, most: int) -> None:
        self._sessions[number] = ends
        kept = sorted((ends, number) for number, ends in self._sessions.items() if ends > now)[-most:]
        self._sessions = {number: ends for ends, number in kept}

    async def is_session_ended(self, number: str) -> bool:
        return number in self._sessions
