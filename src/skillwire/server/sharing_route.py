"""Skill Sharing over ASGI: the index, the registry's list, the descriptors.

Indexes and descriptors carry full URLs, so an answer depends on the address under which the client reached us; each
is made when it is first asked for and kept with its audience's other lists. A skill that is hidden is answered as one
that is not there. Spec: SSP §4.

Trust: without a base URL the address is what a stranger writes into ``Host``, and an index of 10,000 skills takes half
a second to make. So lists for addresses that were not seen yet are made only so often.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from skillwire.errors import SkillwireError, UsageError
from skillwire.model.digest import Digest
from skillwire.protocols.agent_skills.media import JSON
from skillwire.protocols.agent_skills.server import Stored
from skillwire.protocols.skill_sharing.errors import encode_error
from skillwire.protocols.skill_sharing.paths import REGISTRY, WELL_KNOWN, descriptor_path
from skillwire.protocols.skill_sharing.server import Sharing, check_type, written_descriptor
from skillwire.server.auth.rate_limit import RateLimit, RateLimiter
from skillwire.server.headers import read_fields
from skillwire.server.problems import Problem, too_many
from skillwire.web.address import site_address

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.types import Message, Scope, Send

    from skillwire.protocols.agent_skills.server import Cache
    from skillwire.protocols.skill_sharing.messages import AuthConfig
    from skillwire.server.audience import Audience
    from skillwire.server.stored import StoredContent

_DESCRIPTOR: Final = ".json"
_PARAMETERS: Final = 16
#: So many skills make a list that takes a while.
_MANY: Final = 200
_NEW_ADDRESSES: Final = RateLimit(30, 30)


@dataclass(frozen=True, slots=True)
class _Made:
    """An answer that is made of ``skills`` when it is wanted, and kept as the indexes of sites are."""

    skills: Collection[str]
    encode: Callable[[], bytes]
    cache: Cache
    media_type: str = JSON


class SharingRoute:
    """Answers ``/.well-known/skill-sharing``, ``/skills`` and ``/skills/NAME.json``.

    Args:
        stored: sends the descriptors that lie in folders.
        provider: who publishes.
        base_url: of the site; as requests say it when empty.
        auth: how callers of skills that are not public authenticate here.
    """

    def __init__(self, stored: StoredContent, provider: str, base_url: str, auth: AuthConfig) -> None:
        self._stored = stored
        self._provider = provider
        self._base_url = base_url
        self._auth = auth
        self._new_addresses = RateLimiter(_NEW_ADDRESSES)

    def owns(self, path: str) -> bool:
        """Whether the path belongs to Skill Sharing."""
        return path in {WELL_KNOWN, REGISTRY} or _skill_of(path) is not None

    async def answer(self, path: str, scope: Scope, send: Send, audience: Audience) -> None:
        """Answer a GET or HEAD."""
        host = read_fields(scope["headers"], b"host").get(b"host", "")
        root = scope.get("root_path", "")
        base_url = site_address(self._base_url, scope["scheme"], host, root, scope.get("server"))
        sharing = Sharing(audience.visible.skills, self._provider, base_url, self._auth)
        try:
            name = _skill_of(path)
            if name is None:
                wanted = check_type(_type_of(scope["query_string"]))
                make = sharing.listing if path == REGISTRY else sharing.index
                made = _Made(audience.visible.skills, lambda: make(wanted), audience.cache)
                await self._send_made(f"{path}?{wanted or ''} {sharing.base_url}", made, audience, scope, send)
            else:
                await self._send_descriptor(name, sharing, audience, scope, send)
        except SkillwireError as error:
            await told(error).send(send, head=scope["method"] == "HEAD")

    async def _send_made(self, key: str, made: _Made, audience: Audience, scope: Scope, send: Send) -> None:
        if not self._base_url and len(made.skills) >= _MANY and not audience.listings.has(key):
            allowance = self._new_addresses.take("", time.monotonic())
            if not allowance.allowed:
                await too_many("too many addresses are asked for; --base-url names the right one", allowance).send(send)
                return
        prepared = await audience.listings.prepare(key, made)
        await prepared.send(scope, _varying(send) if key.startswith(f"{REGISTRY}?") else send)

    async def _send_descriptor(self, name: str, sharing: Sharing, audience: Audience, scope: Scope, send: Send) -> None:
        described = sharing.describe(name)
        if isinstance(described, Digest):
            files = audience.visible.skills[name].files
            size = next(file.size for file in files if file.digest == described)
            await self._stored.send(Stored(JSON, audience.cache, described, size), scope, send)
            return
        made = _Made((), lambda: written_descriptor(described), audience.cache)
        await self._send_made(f"{descriptor_path(name)} {sharing.base_url}", made, audience, scope, send)


def _varying(send: Send) -> Send:
    """Return what sends an answer at an address where browsers get a page instead."""

    async def varying(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                (name, b"Accept, " + value if name == b"vary" else value) for name, value in message["headers"]
            ]
        await send(message)

    return varying


def told(error: SkillwireError) -> Problem:
    """Return the answer that tells an error as Skill Sharing does. Spec: SSP §8.2."""
    status, body = encode_error(error)
    return Problem(400 if isinstance(error, UsageError) else status, error.code, error.message, written=body)


def _skill_of(path: str) -> str | None:
    """Return the name in ``/skills/NAME.json``, or None."""
    if not path.startswith(f"{REGISTRY}/") or not path.endswith(_DESCRIPTOR):
        return None
    name = path[len(REGISTRY) + 1 : -len(_DESCRIPTOR)]
    return None if "/" in name else name


def _type_of(query: bytes) -> str | None:
    """Return the parameter ``type``; other parameters mean nothing here.

    Raises:
        UsageError: ``QUERY`` when it is given twice.
    """
    try:
        pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=_PARAMETERS)
    except ValueError as error:
        raise UsageError("QUERY", f"there are more than {_PARAMETERS} parameters") from error
    types = [value for key, value in pairs if key == "type"]
    if len(types) > 1:
        raise UsageError("QUERY", "type is given twice")
    return types[0] if types else None
