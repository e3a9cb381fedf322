"""Stores of grants and tokens in memory: the models that the durable ones are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skillwire.model.access import Token
    from skillwire.model.execution import Grant
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


class MemoryTokens:
    """Fills :class:`skillwire.ports.TokenStore`."""

    def __init__(self) -> None:
        self._tokens: dict[str, Token] = {}
        self._sessions: dict[str, float] = {}

    async def add(self, token: Token) -> None:
        self._tokens[token.token_id] = token

    async def revoke(self, token_id: str, at: float) -> None:
        token = self._tokens.get(token_id)
        if token is not None and token.revoked is None:
            self._tokens[token_id] = token._replace(revoked=at)

    async def succeed(self, token_id: str, successor: Token, *, end: float) -> bool:
        token = self._tokens.get(token_id)
        if token is None or token.revoked is not None:
            return False
        self._tokens[token_id] = token._replace(expires=min(end, end if token.expires is None else token.expires))
        await self.add(successor)
        return True

    async def note_use(self, token_id: str, at: float) -> None:
        token = self._tokens[token_id]
        self._tokens[token_id] = token._replace(used=max(token.used or 0, at))

    async def find(self, token_id: str) -> Token | None:
        return self._tokens.get(token_id)

    async def all(self) -> Sequence[Token]:
        return sorted(self._tokens.values(), key=lambda token: (token.created, token.token_id))

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
